"""The schema format Avro: parsing, canonical text, comparison.  Pure."""

from __future__ import annotations

import json
from typing import Any

from tidelog.registry.avro import text
from tidelog.registry.avro.compatibility import differences
from tidelog.registry.avro.types import AvroType, Names, parse
from tidelog.registry.difference import Difference
from tidelog.registry.refusal import invalid_schema
from tidelog.registry.schema import Resolved, Schema


class ParsedAvroSchema:
    type = "AVRO"

    def __init__(self, root: AvroType, names: Names, others: frozenset[str]) -> None:
        self._root = root
        self._names = names  # keeps types alive: comparisons identify them by `id`
        self._others = others

    @property
    def name(self) -> str | None:
        return self._root.name or None

    def canonical(self) -> str:
        return text.canonical(self._root, self._others)

    def normal(self) -> str:
        return text.normal(self._root, self._others)

    def formatted(self, how: str) -> str:
        if how == "resolved":
            return text.canonical(self._root)
        return self.canonical()

    def differences(self, written: ParsedAvroSchema) -> list[Difference]:
        """The differences that keep this schema from reading records written with the other one."""
        return differences(self._root, written._root)


def parse_avro(schema: Schema, references: Resolved) -> ParsedAvroSchema:
    names: Names = {}
    for reference in references.values():
        parse(_loads(reference.text), names)
    others = frozenset(names)
    return ParsedAvroSchema(parse(_loads(schema.text), names), names, others)


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise invalid_schema("it is nested too deeply") from None
    except ValueError as problem:
        bare = text.strip()
        if bare and all(letter.isalnum() or letter in "._" for letter in bare):
            return bare  # the name of a primitive type without quotes, which Java's parser accepts
        raise invalid_schema(f"it is not JSON: {problem}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
