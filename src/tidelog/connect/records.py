"""A record between a connector and its topic: key and value as Python objects, with the schemas that Connect's JSON
converter writes beside them.  Pure."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class ConnectSchema:
    """A schema of Kafka Connect.  `type`: int8 to int64, float32, float64, boolean, string, bytes, array, map, struct.

    ConnectSchema("struct", fields={"id": ConnectSchema("int64"), "name": ConnectSchema("string", optional=True)})
    """

    type: str
    optional: bool = False
    name: str | None = None
    version: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, ConnectSchema] = field(default_factory=dict)
    items: ConnectSchema | None = None
    keys: ConnectSchema | None = None

    def __hash__(self) -> int:
        return id(self)

    def json(self) -> dict[str, Any]:
        """As Connect's JSON converter writes the schema."""
        out: dict[str, Any] = {"type": self.type}
        if self.type == "struct":
            out["fields"] = [{**schema.json(), "field": name} for name, schema in self.fields.items()]
        if self.type == "array" and self.items is not None:
            out["items"] = self.items.json()
        if self.type == "map" and self.keys is not None and self.items is not None:
            out["keys"], out["values"] = self.keys.json(), self.items.json()
        out["optional"] = self.optional
        if self.name is not None:
            out["name"] = self.name
        if self.version is not None:
            out["version"] = self.version
        if self.parameters:
            out["parameters"] = dict(self.parameters)
        return out

    @functools.cached_property
    def text(self) -> str:
        return json.dumps(self.json(), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def of_json(cls, given: Any) -> ConnectSchema:
        """The other way; raises `ValueError` for what is no schema."""
        if not isinstance(given, dict) or not isinstance(given.get("type"), str):
            raise ValueError("a schema is an object with a type")
        fields = {str(member.get("field")): cls.of_json(member) for member in given.get("fields", ())}
        values = given.get("items", given.get("values"))
        return cls(
            given["type"],
            bool(given.get("optional", False)),
            given.get("name"),
            given.get("version"),
            given.get("parameters") or {},
            fields,
            None if values is None else cls.of_json(values),
            None if given.get("keys") is None else cls.of_json(given["keys"]),
        )


@dataclass(slots=True)
class ConnectRecord:
    """`topic` and `partition`: where a source writes the record (None: the partitioner decides), or where a sink's record
    comes from, with its `offset`.  `timestamp` is in milliseconds."""

    topic: str
    key: Any = None
    value: Any = None
    key_schema: ConnectSchema | None = None
    value_schema: ConnectSchema | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None
    offset: int = -1
