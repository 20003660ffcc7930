"""Avro schemas as text: the canonical form, which is stored, and the normal form, which is equal for equivalent schemas.
Pure."""

from __future__ import annotations

import json
from typing import Any

from tidelog.registry.avro.types import MISSING, PRIMITIVES, AvroField, AvroType


def canonical(type_: AvroType, declared: frozenset[str] = frozenset()) -> str:
    """The schema without needless spaces, with attributes in a fixed order; other attributes of the author stay.  Types in
    `declared` belong to other schemas: they are named, not repeated."""
    return _dump(_Writer(set(declared), False).type(type_, ""))


def normal(type_: AvroType, declared: frozenset[str] = frozenset()) -> str:
    """As `canonical`, with unordered parts sorted."""
    return _dump(_Writer(set(declared), True).type(type_, ""))


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Writer:
    def __init__(self, written: set[str], sort: bool) -> None:
        self._written = written
        self._sort = sort

    def type(self, type_: AvroType, namespace: str) -> Any:
        if type_.kind == "union":
            return [self.type(branch, namespace) for branch in type_.branches]
        if type_.kind in PRIMITIVES:
            return {"type": type_.kind, **self._extra(type_.extra)} if type_.extra else type_.kind
        if type_.kind == "array":
            return {
                "type": "array",
                "items": self.type(type_.of_items, namespace),
                **self._extra(type_.extra),
            }
        if type_.kind == "map":
            return {
                "type": "map",
                "values": self.type(type_.of_items, namespace),
                **self._extra(type_.extra),
            }
        return self._named(type_, namespace)

    def _named(self, type_: AvroType, namespace: str) -> Any:
        space, _, name = type_.name.rpartition(".")
        if type_.name in self._written:
            return name if space == namespace else type_.name
        self._written.add(type_.name)
        out: dict[str, Any] = {"type": type_.kind, "name": name}
        if space != namespace:
            out["namespace"] = space
        if type_.doc is not None:
            out["doc"] = type_.doc
        if type_.kind == "fixed":
            out["size"] = type_.size
        elif type_.kind == "enum":
            out["symbols"] = type_.symbols
            if type_.default is not None:
                out["default"] = type_.default
        else:
            out["fields"] = [self._field(field, space) for field in type_.fields]
        if type_.aliases:
            out["aliases"] = [_within(alias, space) for alias in self._sorted(type_.aliases)]
        out.update(self._extra(type_.extra))
        return out

    def _field(self, field: AvroField, namespace: str) -> dict[str, Any]:
        out: dict[str, Any] = {"name": field.name, "type": self.type(field.type, namespace)}
        if field.doc is not None:
            out["doc"] = field.doc
        if field.default is not MISSING:
            out["default"] = self._value(field.default)
        if field.order != "ascending":
            out["order"] = field.order
        if field.aliases:
            out["aliases"] = list(self._sorted(field.aliases))
        out.update(self._extra(field.extra))
        return out

    def _extra(self, extra: Any) -> dict[str, Any]:
        return {key: self._value(extra[key]) for key in self._sorted(tuple(extra))}

    def _value(self, value: Any) -> Any:
        if not self._sort:
            return value
        if isinstance(value, dict):
            return {key: self._value(value[key]) for key in sorted(value)}
        if isinstance(value, list):
            return [self._value(item) for item in value]
        return value

    def _sorted(self, names: tuple[str, ...]) -> list[str]:
        return sorted(names) if self._sort else list(names)


def _within(alias: str, space: str) -> str:
    head, _, name = alias.rpartition(".")
    return name if head == space else alias
