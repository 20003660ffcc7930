"""A schema as it is registered: format, text, references, metadata and rules.

Two schemas with equal fields are the same schema, and have the same id within a context.  Pure."""

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
    """`name` is the name in the schema's text: a type's full name, an imported file, or a URI."""

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
            "references": [reference.body() for reference in self.references],
            "metadata": self.metadata,
            "ruleSet": self.rule_set,
            "type": self.type,
        }
        described = json.dumps(about, sort_keys=True)
        return md5(
            f"{described}\0{self.text}".encode("utf-8", "surrogatepass"), usedforsecurity=False
        ).digest()

    @property
    def optional_fields(self) -> dict[str, Any]:
        """The fields of the schema's JSON that stand there only if they differ from the default."""
        fields: dict[str, Any] = {}
        if self.type != AVRO:
            fields["schemaType"] = self.type
        if self.references:
            fields["references"] = [reference.body() for reference in self.references]
        if self.metadata is not None:
            fields["metadata"] = self.metadata
        if self.rule_set is not None:
            fields["ruleSet"] = self.rule_set
        return fields

    @property
    def guid(self) -> str:
        return str(UUID(bytes=self.fingerprint))

    @property
    def bare(self) -> tuple[str, str, tuple[Reference, ...]]:
        """The schema without metadata and rules."""
        return self.type, self.text, self.references


class Parsed(Protocol):
    """A parsed schema.  Two parsed schemas of one format can be compared."""

    type: str

    @property
    def name(self) -> str | None:
        """The name of the record or message; RecordNameStrategy and TopicRecordNameStrategy build the subject from it."""
        ...

    def canonical(self) -> str: ...

    def normal(self) -> str: ...

    def formatted(self, how: str) -> str: ...

    def differences(self, written: Any) -> list[Difference]: ...


Resolved = Mapping[str, Schema]
"""All schemas that a schema refers to, directly or not, by reference name; each comes after those that it refers to."""
