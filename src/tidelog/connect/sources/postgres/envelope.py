"""Rows and changes as Debezium's records: topic, key, envelope, tombstone.  Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tidelog
from tidelog.connect.connector import ConnectError
from tidelog.connect.records import ConnectRecord, ConnectSchema
from tidelog.connect.sources.postgres.column_types import ColumnType, NotRepresented
from tidelog.connect.sources.postgres.pgoutput import UNCHANGED, Cell, Change

UNAVAILABLE = "__debezium_unavailable_value"

SOURCE = ConnectSchema(
    "struct",
    name="io.debezium.connector.postgresql.Source",
    version=1,
    fields={
        "version": ConnectSchema("string"),
        "connector": ConnectSchema("string"),
        "name": ConnectSchema("string"),
        "ts_ms": ConnectSchema("int64"),
        "snapshot": ConnectSchema("string", optional=True),
        "db": ConnectSchema("string"),
        "sequence": ConnectSchema("string", optional=True),
        "ts_us": ConnectSchema("int64", optional=True),
        "ts_ns": ConnectSchema("int64", optional=True),
        "schema": ConnectSchema("string"),
        "table": ConnectSchema("string"),
        "txId": ConnectSchema("int64", optional=True),
        "lsn": ConnectSchema("int64", optional=True),
        "xmin": ConnectSchema("int64", optional=True),
    },
)
_TIMES = {name: ConnectSchema("int64", optional=True) for name in ("ts_ms", "ts_us", "ts_ns")}
TRANSACTION = ConnectSchema(
    "struct",
    optional=True,
    name="event.block",
    version=1,
    fields={
        "id": ConnectSchema("string"),
        "total_order": ConnectSchema("int64"),
        "data_collection_order": ConnectSchema("int64"),
    },
)


@dataclass(frozen=True, slots=True)
class Where:
    """Where in the stream a change is."""

    lsn: int
    xid: int | None
    time_us: int
    snapshot: str
    committed_lsn: int | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    type: ColumnType
    nullable: bool


class TableRecords:
    """Makes the records of one table, as its columns are now."""

    def __init__(
        self,
        prefix: str,
        database: str,
        schema: str,
        table: str,
        columns: Sequence[TableColumn],
        key: Sequence[str],
        *,
        tombstones: bool = True,
    ) -> None:
        self.topic = f"{prefix}.{schema}.{table}"
        self._columns = columns
        self._key = [index for index, column in enumerate(columns) if column.name in key]
        self._tombstones = tombstones
        self._source = {
            "version": tidelog.__version__,
            "connector": "postgresql",
            "name": prefix,
            "db": database,
            "schema": schema,
            "table": table,
        }
        fields = {column.name: replace(column.type.schema, optional=column.nullable) for column in columns}
        row = ConnectSchema("struct", optional=True, name=f"{self.topic}.Value", fields=fields)
        self.key_schema = None
        if self._key:
            keys = {columns[index].name: columns[index].type.schema for index in self._key}
            self.key_schema = ConnectSchema("struct", name=f"{self.topic}.Key", fields=keys)
        self.value_schema = ConnectSchema(
            "struct",
            name=f"{self.topic}.Envelope",
            version=2,
            fields={
                "before": row,
                "after": row,
                "source": SOURCE,
                "transaction": TRANSACTION,
                "op": ConnectSchema("string"),
                **_TIMES,
            },
        )

    def row(self, cells: Sequence[Cell]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for column, cell in zip(self._columns, cells, strict=True):
            if cell is None:
                out[column.name] = None
            elif cell is UNCHANGED:
                out[column.name] = UNAVAILABLE
            else:
                assert isinstance(cell, bytes)
                try:
                    out[column.name] = column.type.read(cell.decode())
                except NotRepresented as problem:
                    raise ConnectError(f"{self.topic}, column {column.name}: {problem}") from None
        return out

    def key(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        if not self._key:
            return None
        return {self._columns[index].name: row[self._columns[index].name] for index in self._key}

    def snapshot(self, cells: Sequence[Cell], where: Where) -> ConnectRecord:
        row = self.row(cells)
        return self._record(self.key(row), "r", None, row, where)

    def change(self, change: Change, where: Where) -> Iterator[ConnectRecord]:
        if change.op == "t":
            yield self._record(None, "t", None, None, where)
            return
        before = None if change.before is None else self.row(change.before)
        after = None if change.after is None else self.row(change.after)
        if change.op == "d":
            assert before is not None
            yield from self._deleted(self.key(before), before, where)
            return
        assert after is not None
        key = self.key(after)
        if before is not None and change.op == "u" and self.key(before) != key:
            # The row has another key now: for a reader of the topic the old one is gone.
            yield from self._deleted(self.key(before), before, where)
            yield self._record(key, "c", None, after, where)
            return
        yield self._record(key, change.op, before if change.relation.identity == "f" else None, after, where)

    def _deleted(self, key: Any, before: Any, where: Where) -> Iterator[ConnectRecord]:
        yield self._record(key, "d", before, None, where)
        if self._tombstones and key is not None:
            yield ConnectRecord(self.topic, key, None, self.key_schema)

    def _record(self, key: Any, op: str, before: Any, after: Any, where: Where) -> ConnectRecord:
        now_ns = time.time_ns()
        source = {
            **self._source,
            "ts_ms": where.time_us // 1000,
            "snapshot": where.snapshot,
            "sequence": f'["{where.committed_lsn}","{where.lsn}"]'
            if where.committed_lsn is not None
            else None,
            "ts_us": where.time_us,
            "ts_ns": where.time_us * 1000,
            "txId": where.xid,
            "lsn": where.lsn,
            "xmin": None,
        }
        value = {
            "before": before,
            "after": after,
            "source": source,
            "transaction": None,
            "op": op,
            "ts_ms": now_ns // 1_000_000,
            "ts_us": now_ns // 1000,
            "ts_ns": now_ns,
        }
        return ConnectRecord(
            self.topic, key, value, None if key is None else self.key_schema, self.value_schema
        )
