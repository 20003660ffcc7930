"""Avro schemas, changes of them, and values that fit them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
NAMES = ["a", "b", "c", "d"]
SYMBOLS = ["X", "Y", "Z"]
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 2,
    "float": 1.5,
    "double": 2.5,
    "bytes": "b",
    "string": "s",
}


class _Count:
    """Named types need names; the same place gets the same one in a schema and in its changed copy."""

    def __init__(self) -> None:
        self.last = 0

    def next(self, kind: str) -> str:
        self.last += 1
        return f"{kind}{self.last}"


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    return draw(_types(_Count(), 3))


def _types(count: _Count, depth: int) -> st.SearchStrategy[Any]:
    plain = st.sampled_from(PRIMITIVES)
    if depth == 0:
        return plain
    return st.one_of(
        plain,
        _records(count, depth),
        _enums(count),
        _fixed(count),
        st.builds(lambda items: {"type": "array", "items": items}, _types(count, depth - 1)),
        st.builds(lambda values: {"type": "map", "values": values}, _types(count, depth - 1)),
        _unions(count, depth),
    )


@st.composite
def _records(draw: st.DrawFn, count: _Count, depth: int) -> Any:
    name = count.next("R")
    fields = []
    for field in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
        type_ = draw(_types(count, depth - 1))
        field_schema: dict[str, Any] = {"name": field, "type": type_}
        if isinstance(type_, str) and draw(st.booleans()):
            field_schema["default"] = DEFAULTS[type_]
        fields.append(field_schema)
    return {"type": "record", "name": f"ns.{name}", "fields": fields}


@st.composite
def _enums(draw: st.DrawFn, count: _Count) -> Any:
    symbols = draw(st.lists(st.sampled_from(SYMBOLS), unique=True, min_size=1))
    made: dict[str, Any] = {"type": "enum", "name": f"ns.{count.next('E')}", "symbols": symbols}
    if draw(st.booleans()):
        made["default"] = symbols[0]
    return made


@st.composite
def _fixed(draw: st.DrawFn, count: _Count) -> Any:
    return {"type": "fixed", "name": f"ns.{count.next('F')}", "size": draw(st.integers(1, 2))}


@st.composite
def _unions(draw: st.DrawFn, count: _Count, depth: int) -> Any:
    branches: list[Any] = []
    seen = set()
    for branch in draw(st.lists(_types(count, depth - 1), min_size=1, max_size=3)):
        kind = branch["type"] if isinstance(branch, dict) else branch
        if isinstance(branch, list) or (kind in seen and kind not in ("record", "enum", "fixed")):
            continue
        seen.add(kind)
        branches.append(branch)
    return branches or ["null"]


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """The schema with a few changes of the kind that people make."""
    made = copy.deepcopy(schema)
    for _ in range(draw(st.integers(0, 3))):
        made = _change(draw, made)
    return made


def _change(draw: st.DrawFn, schema: Any) -> Any:
    if isinstance(schema, str):
        return draw(st.sampled_from([schema, *PRIMITIVES]))
    if isinstance(schema, list):
        choice = draw(st.integers(0, 2))
        if choice == 0 and len(schema) > 1:
            return schema[1:]
        if choice == 1:
            missing = [one for one in PRIMITIVES if one not in schema]
            return [*schema, draw(st.sampled_from(missing))] if missing else schema
        at = draw(st.integers(0, len(schema) - 1))
        inner = _change(draw, schema[at])
        others = [one for other, one in enumerate(schema) if other != at]
        if isinstance(inner, list) or inner in others:
            return schema
        return [*schema[:at], inner, *schema[at + 1 :]]
    return _change_complex(draw, schema)


def _change_complex(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    kind = schema["type"]
    if kind == "array":
        return {**schema, "items": _change(draw, schema["items"])}
    if kind == "map":
        return {**schema, "values": _change(draw, schema["values"])}
    if kind == "fixed":
        return {**schema, "size": draw(st.integers(1, 2))}
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from(SYMBOLS), unique=True, min_size=1))
        made = {key: value for key, value in schema.items() if key != "default"}
        made["symbols"] = symbols
        return {**made, "default": symbols[-1]} if draw(st.booleans()) else made
    fields = list(schema["fields"])
    choice = draw(st.integers(0, 3))
    free = [name for name in NAMES if name not in [field["name"] for field in fields]]
    if choice == 0 and fields:
        fields.pop(draw(st.integers(0, len(fields) - 1)))
    elif choice == 1 and free:
        type_ = draw(st.sampled_from(PRIMITIVES))
        field_schema: dict[str, Any] = {"name": free[0], "type": type_}
        if draw(st.booleans()):
            field_schema["default"] = DEFAULTS[type_]
        fields.insert(draw(st.integers(0, len(fields))), field_schema)
    elif choice == 2 and fields and free:
        at = draw(st.integers(0, len(fields) - 1))
        fields[at] = {**fields[at], "name": free[0], "aliases": [fields[at]["name"]]}
    elif fields:
        at = draw(st.integers(0, len(fields) - 1))
        field = {key: value for key, value in fields[at].items() if key != "default"}
        fields[at] = {**field, "type": _change(draw, field["type"])}
    return {**schema, "fields": fields}


def values(schema: Any) -> st.SearchStrategy[Any]:
    """What fastavro writes with the schema."""
    if isinstance(schema, list):
        return st.one_of(*(values(one).map(lambda value, one=one: _tagged(one, value)) for one in schema))
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=2)
    if kind == "map":
        return st.dictionaries(st.sampled_from(NAMES), values(schema["values"]), max_size=2)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(1 << 31), (1 << 31) - 1),
        "long": st.integers(-(1 << 63), (1 << 63) - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        # Read as a string, bytes must be UTF-8: Avro promises nothing else.
        "bytes": st.text(max_size=3).map(str.encode),
        "string": st.text(max_size=3),
    }[kind]


def _tagged(schema: Any, value: Any) -> Any:
    """So that fastavro writes this branch of a union."""
    if isinstance(schema, dict) and schema["type"] in ("record", "enum", "fixed"):
        return (schema["name"], value)
    return (schema if isinstance(schema, str) else schema["type"], value)
