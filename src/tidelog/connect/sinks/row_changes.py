"""What a record means for a table: which table, a row to write or to delete, and under which key.  Pure.

The settings have the names and the meaning of Confluent's JDBC sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.connect.connector import RecordRefused
from tidelog.connect.records import ConnectRecord, ConnectSchema
from tidelog.connect.settings import ConnectorConfig
from tidelog.connect.sinks.logical_values import UNAVAILABLE
from tidelog.errors import InvalidConfig

COORDINATES = ("__connect_topic", "__connect_partition", "__connect_offset")


@dataclass(slots=True)
class RowChange:
    table: str
    key: dict[str, Any]
    row: dict[str, Any] | None
    """All columns, those of the key too; None deletes the row."""
    record: ConnectRecord
    schemas: Mapping[str, ConnectSchema] = field(default_factory=dict)


class RowRules:
    def __init__(self, config: ConnectorConfig) -> None:
        self.mode = config.text("pk.mode")
        self.fields = config.words("pk.fields")
        self.deletes = config.flag("delete.enabled")
        self._table = config.text("table.name.format")
        self._only = set(config.words("fields.whitelist"))
        if config.text("insert.mode") != "insert" and self.mode == "none":
            raise InvalidConfig(
                "insert.mode=upsert and update need the key of a row: set pk.mode to record_key, record_value or kafka"
            )
        if self.deletes and self.mode != "record_key":
            raise InvalidConfig(
                "delete.enabled needs pk.mode=record_key: a tombstone has nothing but its key"
            )
        if self.mode == "kafka" and self.fields and len(self.fields) != 3:
            raise InvalidConfig("pk.fields of pk.mode=kafka are three names: for topic, partition and offset")

    def change(self, record: ConnectRecord) -> RowChange | None:
        """None: a tombstone that means nothing here."""
        table = self._table.replace("${topic}", record.topic)
        if record.value is None:
            if not self.deletes:
                if self.mode == "record_key":
                    raise RecordRefused(
                        "the record has no value, and delete.enabled is false: set it to true, or drop tombstones",
                        record,
                    )
                return None
            return RowChange(table, self._key(record), None, record)
        if not isinstance(record.value, dict):
            raise RecordRefused(
                f"a row needs a value with fields, and this one is a {type(record.value).__name__}", record
            )
        key = self._key(record)
        schemas: dict[str, ConnectSchema] = {}
        for schema in (record.key_schema, record.value_schema):
            if schema is not None:
                schemas.update(schema.fields)
        if len(key) == 1 and record.key_schema is not None and not record.key_schema.fields:
            schemas[next(iter(key))] = record.key_schema
        row = {
            name: value
            for name, value in record.value.items()
            if (not self._only or name in self._only) and value != UNAVAILABLE
        }
        return RowChange(table, key, {**row, **key}, record, schemas)

    def _key(self, record: ConnectRecord) -> dict[str, Any]:
        if self.mode == "none":
            return {}
        if self.mode == "kafka":
            names = self.fields or COORDINATES
            return dict(zip(names, (record.topic, record.partition, record.offset), strict=True))
        source = record.key if self.mode == "record_key" else record.value
        if isinstance(source, dict):
            names = self.fields or tuple(source)
            missing = [name for name in names if name not in source]
            if missing:
                raise RecordRefused(f"the key has no field {missing[0]!r}, which pk.fields names", record)
            return {name: source[name] for name in names}
        if self.mode == "record_key" and source is not None and len(self.fields) == 1:
            return {self.fields[0]: source}
        raise RecordRefused(
            f"pk.mode={self.mode} finds no key: the record's is {source!r}.  A key without fields needs one name in "
            "pk.fields",
            record,
        )


def runs(changes: Iterable[RowChange]) -> list[list[RowChange]]:
    """Changes that follow one another and can be one statement: the same table, columns and kind."""
    groups: list[list[RowChange]] = []
    shape: object = None
    for change in changes:
        new = (change.table, tuple(change.key), None if change.row is None else tuple(change.row))
        if new != shape:
            groups.append([])
            shape = new
        groups[-1].append(change)
    return groups
