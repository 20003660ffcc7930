"""Transforms of fields, of the key or of the value: `ExtractField$Value`, `ReplaceField$Key` and so on.  Pure.

A record without a value (a tombstone) passes unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tidelog.connect.records import ConnectRecord, ConnectSchema
from tidelog.connect.transforms.options import Transform, TransformOptions
from tidelog.errors import InvalidConfig

Change = Callable[[Any, ConnectSchema | None, ConnectRecord], tuple[Any, ConnectSchema | None]]


def _on(side: str, change: Change) -> Transform:
    def of_key(record: ConnectRecord) -> ConnectRecord:
        if record.key is None:
            return record
        key, schema = change(record.key, record.key_schema, record)
        return replace(record, key=key, key_schema=schema)

    def of_value(record: ConnectRecord) -> ConnectRecord:
        if record.value is None:
            return record
        value, schema = change(record.value, record.value_schema, record)
        return replace(record, value=value, value_schema=schema)

    return of_key if side == "Key" else of_value


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"Only Struct objects supported, found: {type(value).__name__}")
    return value


def _with_fields(
    schema: ConnectSchema | None, fields: Iterable[tuple[str, ConnectSchema]]
) -> ConnectSchema | None:
    return None if schema is None else replace(schema, fields=dict(fields))


def _items(schema: ConnectSchema | None) -> Iterable[tuple[str, ConnectSchema]]:
    return () if schema is None else schema.fields.items()


def extract_field(options: TransformOptions) -> Change:
    name = options.text("field")

    def change(
        value: Any, schema: ConnectSchema | None, _: ConnectRecord
    ) -> tuple[Any, ConnectSchema | None]:
        fields = _fields(value)
        if name not in fields:
            raise KeyError(f"Unknown field: {name}")
        return fields[name], None if schema is None else schema.fields.get(name)

    return change


def hoist_field(options: TransformOptions) -> Change:
    name = options.text("field")

    def change(
        value: Any, schema: ConnectSchema | None, _: ConnectRecord
    ) -> tuple[Any, ConnectSchema | None]:
        return {name: value}, None if schema is None else ConnectSchema("struct", fields={name: schema})

    return change


def replace_field(options: TransformOptions) -> Change:
    include = options.words("include", "")
    exclude = set(options.words("exclude", ""))
    renames = dict(_pairs(options, "renames"))

    def name_of(name: str) -> str | None:
        if name in exclude or (include and name not in include):
            return None
        return renames.get(name, name)

    def change(
        value: Any, schema: ConnectSchema | None, _: ConnectRecord
    ) -> tuple[Any, ConnectSchema | None]:
        kept = {new: each for name, each in _fields(value).items() if (new := name_of(name)) is not None}
        fields = [(new, each) for name, each in _items(schema) if (new := name_of(name)) is not None]
        return kept, _with_fields(schema, fields)

    return change


def _pairs(options: TransformOptions, name: str) -> Iterable[tuple[str, str]]:
    for word in options.words(name, ""):
        old, colon, new = word.partition(":")
        if not colon or not old or not new:
            raise InvalidConfig(f"{name} is a list of old:new, not {word!r}")
        yield old, new


def insert_field(options: TransformOptions) -> Change:
    sources: dict[str, tuple[Callable[[ConnectRecord], Any], ConnectSchema]] = {
        "topic.field": (lambda record: record.topic, ConnectSchema("string")),
        "partition.field": (lambda record: record.partition, ConnectSchema("int32", optional=True)),
        "offset.field": (lambda record: record.offset, ConnectSchema("int64")),
        "timestamp.field": (lambda record: record.timestamp, ConnectSchema("int64", optional=True)),
    }
    inserts = [
        (name.rstrip("!?"), *source)
        for setting, source in sources.items()
        if (name := options.text(setting, ""))
    ]
    static, text = options.text("static.field", "").rstrip("!?"), options.text("static.value", "")
    if static:
        inserts.append((static, lambda record: text, ConnectSchema("string")))
    if not inserts:
        raise InvalidConfig(
            "InsertField needs topic.field, partition.field, offset.field, timestamp.field or static.field"
        )

    def change(
        value: Any, schema: ConnectSchema | None, record: ConnectRecord
    ) -> tuple[Any, ConnectSchema | None]:
        added = {name: source(record) for name, source, _ in inserts}
        fields = [*_items(schema), *((name, kind) for name, _, kind in inserts)]
        return {**_fields(value), **added}, _with_fields(schema, fields)

    return change


def mask_field(options: TransformOptions) -> Change:
    names, replacement = options.words("fields"), options.text("replacement", "")

    def mask(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, bool):
            return False
        return replacement or type(value)()

    def change(
        value: Any, schema: ConnectSchema | None, _: ConnectRecord
    ) -> tuple[Any, ConnectSchema | None]:
        fields = _fields(value)
        return {**fields, **{name: mask(fields[name]) for name in names if name in fields}}, schema

    return change


_CASTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), int),
    **dict.fromkeys(("float32", "float64"), float),
    "boolean": lambda value: value.lower() == "true" if isinstance(value, str) else bool(value),
    "string": lambda value: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
}


def cast(options: TransformOptions) -> Change:
    whole, kinds = "", {}
    for word in options.words("spec"):
        name, colon, kind = word.rpartition(":")
        if kind not in _CASTS:
            raise InvalidConfig(f"spec cannot have the type {kind!r}: use {', '.join(_CASTS)}")
        if colon:
            kinds[name] = kind
        else:
            whole = kind

    def change(
        value: Any, schema: ConnectSchema | None, _: ConnectRecord
    ) -> tuple[Any, ConnectSchema | None]:
        if whole:
            return _CASTS[whole](value), None if schema is None else ConnectSchema(
                whole, optional=schema.optional
            )
        out = dict(_fields(value))
        for name, kind in kinds.items():
            if out.get(name) is not None:
                out[name] = _CASTS[kind](out[name])
        fields = [
            (name, ConnectSchema(kinds[name], optional=each.optional) if name in kinds else each)
            for name, each in _items(schema)
        ]
        return out, _with_fields(schema, fields)

    return change


def flatten(options: TransformOptions) -> Change:
    delimiter = options.text("delimiter", ".")

    def flat(prefix: str, value: dict[str, Any], out: dict[str, Any]) -> dict[str, Any]:
        for name, each in value.items():
            if isinstance(each, dict):
                flat(f"{prefix}{name}{delimiter}", each, out)
            else:
                out[prefix + name] = each
        return out

    def flat_schema(
        prefix: str, schema: ConnectSchema, optional: bool
    ) -> Iterable[tuple[str, ConnectSchema]]:
        for name, each in schema.fields.items():
            if each.type == "struct":
                yield from flat_schema(f"{prefix}{name}{delimiter}", each, optional or each.optional)
            else:
                yield prefix + name, replace(each, optional=each.optional or optional)

    def change(
        value: Any, schema: ConnectSchema | None, _: ConnectRecord
    ) -> tuple[Any, ConnectSchema | None]:
        fields = () if schema is None else flat_schema("", schema, False)
        return flat("", _fields(value), {}), _with_fields(schema, fields)

    return change


def value_to_key(options: TransformOptions) -> Transform:
    names = options.words("fields")

    def transform(record: ConnectRecord) -> ConnectRecord:
        if record.value is None:
            return record
        value = _fields(record.value)
        missing = [name for name in names if name not in value]
        if missing:
            raise KeyError(f"Field does not exist: {missing[0]}")
        schema = record.value_schema
        kept = (
            None
            if schema is None
            else ConnectSchema("struct", fields={name: schema.fields[name] for name in names})
        )
        return replace(record, key={name: value[name] for name in names}, key_schema=kept)

    return transform


_SIDED: dict[str, Callable[[TransformOptions], Change]] = {
    "Cast": cast,
    "ExtractField": extract_field,
    "Flatten": flatten,
    "HoistField": hoist_field,
    "InsertField": insert_field,
    "MaskField": mask_field,
    "ReplaceField": replace_field,
}


def _maker(make: Callable[[TransformOptions], Change], side: str) -> Callable[[TransformOptions], Transform]:
    return lambda options: _on(side, make(options))


MAKERS: dict[str, Callable[[TransformOptions], Transform]] = {
    **{f"{name}${side}": _maker(make, side) for name, make in _SIDED.items() for side in ("Key", "Value")},
    "ValueToKey": value_to_key,
}
