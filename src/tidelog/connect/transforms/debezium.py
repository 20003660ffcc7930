"""Debezium's transforms: the row out of an envelope, and the events of an outbox table.  Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidelog.connect.records import ConnectRecord, ConnectSchema
from tidelog.connect.transforms.headers import with_header
from tidelog.connect.transforms.options import Transform, TransformOptions
from tidelog.errors import InvalidConfig


def _is_envelope(value: Any) -> bool:
    return isinstance(value, dict) and {"op", "before", "after", "source"} <= value.keys()


def extract_new_record_state(options: TransformOptions) -> Transform:
    mode = options.choice(
        "delete.tombstone.handling.mode",
        ("drop", "tombstone", "rewrite", "rewrite-with-tombstone"),
        "tombstone",
    )
    added = [_added(word) for word in options.words("add.fields", "")]
    prefix = options.text("add.fields.prefix", "__")

    def transform(record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return record if mode == "rewrite-with-tombstone" else None
        if not _is_envelope(record.value):
            return record
        if record.value["op"] == "t":
            return None
        deleted = record.value["after"] is None
        if deleted and mode == "drop":
            return None
        if deleted and mode == "tombstone":
            return replace(record, value=None, value_schema=None)
        row = dict(record.value["before" if deleted else "after"])
        schema = None if record.value_schema is None else record.value_schema.fields["after"]
        fields = {} if schema is None else dict(schema.fields)
        for name, path in added:
            row[prefix + name], fields[prefix + name] = _look_up(record, path)
        if mode.startswith("rewrite"):
            row["__deleted"], fields["__deleted"] = str(deleted).lower(), ConnectSchema("string")
        if schema is not None:
            schema = replace(schema, fields=fields, optional=False)
        return replace(record, value=row, value_schema=schema)

    return transform


def _added(word: str) -> tuple[str, list[str]]:
    """`op`, `source.lsn` or `source.lsn:name`."""
    path, _, name = word.partition(":")
    return name or path.replace(".", "_"), path.split(".")


def _look_up(record: ConnectRecord, path: list[str]) -> tuple[Any, ConnectSchema]:
    value, schema = record.value, record.value_schema
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
        schema = None if schema is None else schema.fields.get(name)
    return value, replace(schema, optional=True) if schema is not None else ConnectSchema(
        "string", optional=True
    )


def event_router(options: TransformOptions) -> Transform:
    """An insert into the outbox table becomes an event: its topic is that of the aggregate, its key the aggregate's id."""
    id_field = options.text("table.field.event.id", "id")
    key_field = options.text("table.field.event.key", "aggregateid")
    payload_field = options.text("table.field.event.payload", "payload")
    route_field = options.text("route.by.field", "aggregatetype")
    topic_format = options.text("route.topic.replacement", "outbox.event.${routedByValue}")
    placements = [_placement(word) for word in options.words("table.fields.additional.placement", "")]

    def transform(record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None or not _is_envelope(record.value):
            return None
        if record.value["op"] not in ("c", "r"):
            return None  # rows of an outbox are inserted, and deleted when they are old
        row = record.value["after"]
        missing = [name for name in (id_field, key_field, payload_field, route_field) if name not in row]
        if missing:
            raise KeyError(f"the outbox table has no column {missing[0]}")
        topic = topic_format.replace("${routedByValue}", str(row[route_field]))
        schema = record.value_schema
        payload = None if schema is None else schema.fields["after"].fields.get(payload_field)
        event = ConnectRecord(topic, row[key_field], row[payload_field], ConnectSchema("string"), payload)
        event = with_header(event, "id", str(row[id_field]))
        for name, place, alias in placements:
            if place == "header":
                event = with_header(event, alias, "" if row.get(name) is None else str(row[name]))
        return event

    return transform


def _placement(word: str) -> tuple[str, str, str]:
    name, _, rest = word.partition(":")
    place, _, alias = rest.partition(":")
    if place != "header":
        raise InvalidConfig(
            f"table.fields.additional.placement is a list of column:header[:name], not {word!r}"
        )
    return name, place, alias or name
