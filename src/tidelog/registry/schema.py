"""A schema as it is registered: its format, its text, what it refers to, and what is said about it.

Two of them are the same when all of this is the same; then they have the same id within a context.  Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import md5
from typing import Any, Protocol
from uuid import UUID

from tidelog.registry.difference import Difference

AVRO = "AVRO"
TYPES = ("JSON", "PROTOBUF", "AVRO")


@dataclass(frozen=True)
class Reference:
    """`name` is what the schema calls it: a type's full name, a file to import, a URI."""

    name: str
    subject: str
    version: int

    def body(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True)
class Schema:
    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)

    @cached_property
    def fingerprint(self) -> bytes:
        about = {
            "references": [one.body() for one in self.references],
            "metadata": self.metadata,
            "ruleSet": self.rule_set,
            "type": self.type,
        }
        told = json.dumps(about, sort_keys=True)
        return md5(f"{told}\0{self.text}".encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()

    @property
    def guid(self) -> str:
        return str(UUID(bytes=self.fingerprint))

    @property
    def bare(self) -> tuple[str, str, tuple[Reference, ...]]:
        """Without what is said about it."""
        return self.type, self.text, self.references


class Parsed(Protocol):
    """A schema that was understood.  Those of one format can be compared."""

    type: str

    @property
    def name(self) -> str | None:
        """Of the record or message; what the subject is called by strategies that go by it."""
        ...

    def canonical(self) -> str: ...

    def normal(self) -> str: ...

    def formatted(self, how: str) -> str: ...

    def differences(self, written: Any) -> list[Difference]: ...


Resolved = Mapping[str, Schema]
"""By the name that the schema uses, those it refers to before those that refer to them, all the way down."""
