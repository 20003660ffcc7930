"""The schema format JSON Schema, drafts 4 to 2020-12.  Pure: no reference is fetched from a network."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs

from tidelog.registry.difference import Difference
from tidelog.registry.json.compatibility import differences
from tidelog.registry.json.node import Document, SchemaNode
from tidelog.registry.refusal import invalid_schema
from tidelog.registry.schema import Resolved, Schema

# Keywords whose values have no order: sorting them does not change the meaning.
_SETS = frozenset(("required", "type", "enum"))
_MAPS = frozenset(("properties", "patternProperties", "definitions", "$defs", "dependentRequired"))


class ParsedJsonSchema:
    type = "JSON"

    def __init__(self, root: Any, document: Document) -> None:
        self._root = root
        self._document = document
        self._means = [
            _dump(root),
            *(f"{name}={_dump(other.root)}" for name, other in document.others.items()),
        ]

    @property
    def name(self) -> str | None:
        title = self._root.get("title") if isinstance(self._root, dict) else None
        return title if isinstance(title, str) else None

    def canonical(self) -> str:
        return _dump(self._root)

    def normal(self) -> str:
        return _dump(_sorted(self._root))

    def formatted(self, how: str) -> str:
        return self.canonical()

    def differences(self, written: ParsedJsonSchema, lenient: bool = False) -> list[Difference]:
        if self._means == written._means:
            return []
        reader, writer = SchemaNode(self._root, self._document), SchemaNode(written._root, written._document)
        return differences(reader, writer, lenient)


def parse_json_schema(schema: Schema, references: Resolved) -> ParsedJsonSchema:
    others = {name: _loads(reference.text) for name, reference in references.items()}
    root = _loads(schema.text)
    if not isinstance(root, dict | bool):
        raise invalid_schema("a JSON schema is an object, or true or false")
    _check(root, others)
    documents: dict[str, Document] = {}
    for name, other in others.items():
        documents[name] = Document(other, documents)
    return ParsedJsonSchema(root, Document(root, documents))


def _check(root: Any, others: dict[str, Any]) -> None:
    """Validates the schema against its meta-schema, with all schemas that it refers to."""

    def retrieve(uri: str) -> Any:
        for name, other in others.items():
            if uri == name or uri.endswith("/" + name):
                return other
        raise ValueError(f"no reference has the name {uri}")

    try:
        registry = jsonschema_rs.Registry(
            list(others.items()), draft=jsonschema_rs.Draft7, retriever=retrieve
        )
        if isinstance(root, dict) and "$schema" not in root:
            jsonschema_rs.Draft7Validator(root, registry=registry, retriever=retrieve)
        else:
            jsonschema_rs.validator_for(root, registry=registry, retriever=retrieve)
    except (ValueError, jsonschema_rs.ReferencingError) as problem:
        raise invalid_schema(_words(problem)) from None


def _words(problem: Exception) -> str:
    where = "".join(f"/{step}" for step in getattr(problem, "instance_path", None) or [])
    message = getattr(problem, "message", None) or str(problem)
    return f"{str(message).splitlines()[0]}" + (f" at #{where}" if where else "")


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise invalid_schema(f"it is not JSON: {problem}") from None


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _sorted(value: Any, keyword: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key], "" if keyword in _MAPS else key) for key in sorted(value)}
    if isinstance(value, list):
        inner = [_sorted(item) for item in value]
        return sorted(inner, key=_dump) if keyword in _SETS else inner
    return value
