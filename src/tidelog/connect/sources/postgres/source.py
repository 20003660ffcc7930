"""PostgreSQL's tables as topics: a snapshot of the rows, then every change in the order of its commit.

Records are Debezium's: envelopes with before and after in topics `PREFIX.schema.table`, keys, and tombstones behind deletes;
settings have Debezium's names.  The position is the end of the last commit in the write-ahead log, and within a transaction
the number of its changes.  The slot is told what is committed to the topics, so that the server keeps what is not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidelog.connect.connector import ConnectError, Position, Positions, Source, SourceBatch
from tidelog.connect.records import ConnectRecord
from tidelog.connect.settings import ConnectorConfig, connect_settings
from tidelog.connect.sources.postgres.catalog import PostgresCatalog, TableFilter, TableName
from tidelog.connect.sources.postgres.column_types import ColumnTypes
from tidelog.connect.sources.postgres.envelope import TableColumn, TableRecords, Where
from tidelog.connect.sources.postgres.pgoutput import (
    Begin,
    Change,
    Commit,
    LogicalMessage,
    PgOutputDecoder,
    ReplicatedTable,
)
from tidelog.connect.sources.postgres.replication import ReplicationStream, lsn_number
from tidelog.connect.sources.postgres.snapshot import TableSnapshot
from tidelog.connect.state.store import position_key
from tidelog.errors import InvalidConfig

ROWS_MAX = 2_000


class PostgresSource(Source):
    SETTINGS = connect_settings("""
topic.prefix STRING null built
  Begins the names of the topics: PREFIX.schema.table.
database.hostname STRING null built
  Host of the server.
database.port INT 5432 1..65535 built
  Port of the server.
database.user STRING null built
  A user that may replicate, and read the tables.
database.password PASSWORD null built
  The password of the user, as a reference: ${env:NAME} or ${file:PATH:KEY}.
database.dbname STRING null built
  The database.
database.sslmode STRING prefer disable|allow|prefer|require|verify-ca|verify-full built
  Whether the connection is encrypted and the server's certificate checked, as in libpq.
database.sslrootcert STRING null built
  A file with the authorities of the server's certificate.
plugin.name STRING pgoutput pgoutput built
  The logical decoding plugin of the server.
slot.name STRING debezium built
  The replication slot, which is created if it is missing: one for each connector.
slot.drop.on.stop BOOLEAN false built
  Drop the slot when the task ends in order; changes after that are not read.
publication.name STRING dbz_publication built
  The publication with the tables.
publication.autocreate.mode STRING filtered filtered|all_tables|disabled built
  Create and change the publication for the tables that are read (filtered), for all tables, or not at all.
table.include.list LIST "" built
  Regular expressions for schema.table of the tables to read; empty: all.
table.exclude.list LIST "" built
  Regular expressions for schema.table of tables to leave out.
schema.include.list LIST "" built
  Regular expressions for the schemas whose tables are read.
snapshot.mode STRING initial initial|initial_only|no_data|never built
  Read the rows that are there first (initial), only these (initial_only), or only changes (no_data, never).
snapshot.fetch.size INT 2000 1.. built
  How many rows are read in one go.
tombstones.on.delete BOOLEAN true built
  Write a record without a value behind each delete, so that compaction removes the key.
skipped.operations LIST t c|u|d|t|none built
  Changes to leave out: inserts (c), updates (u), deletes (d), truncations (t).
decimal.handling.mode STRING precise precise|double|string built
  How numeric values are written.
heartbeat.interval.ms INT 10000 100.. built
  How often the position moves on, and with it the slot, while only other tables change.
heartbeat.action.query STRING null built
  A statement that is executed with each heartbeat.
""")
    REQUIRED = frozenset(("topic.prefix", "database.hostname", "database.user", "database.dbname"))

    @classmethod
    def check(cls, config: ConnectorConfig) -> None:
        TableFilter(config)
        slot = config.text("slot.name")
        if not slot.replace("_", "").isalnum() or slot != slot.lower() or len(slot) > 63:
            raise InvalidConfig("slot.name has small letters, digits and underscores only, at most 63")

    def __init__(self, config: ConnectorConfig, task: Mapping[str, str]) -> None:
        super().__init__(config, task)
        self._prefix = config.text("topic.prefix")
        self._slot = config.text("slot.name")
        self._catalog = PostgresCatalog(config)
        self._wanted = TableFilter(config)
        self._skipped = set(config.words("skipped.operations"))
        self._stream: ReplicationStream | None = None
        self._snapshot: TableSnapshot | None = None
        self._decoder = PgOutputDecoder()
        self._tables: dict[int, TableRecords | None] = {}
        self._types: ColumnTypes | None = None
        self._lsn = 0
        """The end of the last transaction that was read in full."""
        self._begin: Begin | None = None
        self._events = 0
        """Changes of the open transaction that were read."""
        self._to_skip: tuple[int, int] | None = None
        """A transaction, and how many of its changes are written already."""
        self._position_at = 0.0
        self._written_lsn = 0
        self._only_snapshot = config.text("snapshot.mode") == "initial_only"

    # Beginning

    def open(self, positions: Positions) -> None:
        stored = positions.get(position_key(self._partition))
        self._catalog.check()
        self._catalog.ensure_publication(
            self.config.text("publication.name"),
            self.config.text("publication.autocreate.mode"),
            self._wanted,
        )
        slot_lsn = self._catalog.slot_position(self._slot)
        mode = self.config.text("snapshot.mode")
        if stored is None:
            if mode in ("never", "no_data"):
                self._lsn = slot_lsn if slot_lsn is not None else self._create_slot()
            else:
                self._begin_snapshot(slot_lsn)
            return
        self._lsn = self._written_lsn = int(stored["lsn"])
        if slot_lsn is None:
            raise ConnectError(
                f"the replication slot {self._slot} is gone, and with it the changes since {stored['lsn']}: delete the "
                "offsets of this connector, and it makes a new snapshot"
            )
        if slot_lsn > self._lsn:
            raise ConnectError(
                f"the replication slot {self._slot} is ahead of what this connector has written, because another reader "
                "uses it: give each connector a slot.name of its own"
            )
        if "snapshot" in stored:
            self._snapshot = TableSnapshot(
                self._catalog, self._snapshot_tables(), stored["snapshot"], None, self._fetch_size
            )
        elif "xid" in stored:
            self._to_skip = (int(stored["xid"]), int(stored["events"]))

    @property
    def _partition(self) -> dict[str, Any]:
        return {"server": self._prefix}

    @property
    def _fetch_size(self) -> int:
        return self.config.number("snapshot.fetch.size")

    def _snapshot_tables(self) -> list[TableName]:
        return self._catalog.tables(self._wanted)

    def _create_slot(self) -> int:
        rows = self._catalog.query(
            "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (self._slot,)
        )
        return lsn_number(rows[0][0])

    def _begin_snapshot(self, slot_lsn: int | None) -> None:
        """The rows are read as they were when the slot was created, so that no change is missed and none comes twice."""
        if slot_lsn is not None:
            self._catalog.drop_slot(self._slot)  # nothing was written with it
        exporting = self._catalog.open(replication="database")
        try:
            command = f'CREATE_REPLICATION_SLOT "{self._slot}" LOGICAL pgoutput EXPORT_SNAPSHOT'
            result = exporting.pgconn.exec_(command.encode())
            if result.ntuples != 1:
                message = result.error_message.decode("utf-8", "replace").strip()
                raise ConnectError(
                    f"{self._catalog.where}: the slot {self._slot} cannot be created: {message}"
                )
            self._lsn = lsn_number(result.get_value(0, 1).decode())
            name = result.get_value(0, 2).decode()
            self._snapshot = TableSnapshot(self._catalog, self._snapshot_tables(), {}, name, self._fetch_size)
        finally:
            exporting.close()

    # Reading

    def read(self, wait_ms: int) -> SourceBatch | None:
        if self._snapshot is not None:
            return self._read_snapshot(self._snapshot)
        if self._only_snapshot:
            time.sleep(wait_ms / 1000)
            return None
        return self._read_stream(wait_ms)

    def _read_snapshot(self, snapshot: TableSnapshot) -> SourceBatch:
        chunk = snapshot.next_rows()
        if chunk is None:
            snapshot.close()
            self._snapshot = None
            return SourceBatch([], [self._position()])
        records: list[ConnectRecord] = []
        if chunk.rows:
            table = self._records_of_table(chunk.name, chunk.oid, chunk.columns)
            now_us = time.time_ns() // 1000
            where = Where(self._lsn, None, now_us, "true")
            records = [table.snapshot(row, where) for row in chunk.rows]
        position = {"lsn": self._lsn, "snapshot": chunk.progress}
        return SourceBatch(records, [(self._partition, position)])

    def _records_of_table(self, name: TableName, oid: int, columns: Sequence[str]) -> TableRecords:
        facts = self._catalog.columns(oid)
        types = self._types_now([facts[column][0] for column in columns])
        described = [
            TableColumn(column, types.of(facts[column][0], facts[column][1]), facts[column][2])
            for column in columns
        ]
        return self._table(name, described, self._catalog.key_columns(oid))

    def _table(self, name: TableName, columns: Sequence[TableColumn], key: Sequence[str]) -> TableRecords:
        return TableRecords(
            self._prefix,
            self.config.text("database.dbname"),
            name.schema,
            name.table,
            columns,
            key,
            tombstones=self.config.flag("tombstones.on.delete"),
        )

    def _types_now(self, oids: Sequence[int]) -> ColumnTypes:
        """Types may have been created since."""
        if self._types is None or any(oid >= 16_384 and oid not in self._types.facts for oid in oids):
            self._types = ColumnTypes(self._catalog.types(), self.config.text("decimal.handling.mode"))
        return self._types

    def _read_stream(self, wait_ms: int) -> SourceBatch | None:
        stream = self._stream or self._start_stream()
        records: list[ConnectRecord] = []
        message = stream.receive(wait_ms)
        while message is not None:
            if message.data:
                for each in self._decoder.decode(message.data):
                    records.extend(self._take(each, message.lsn))
            elif self._begin is None and message.lsn > self._lsn:
                self._lsn = message.lsn  # everything before is sent: nothing there was for us
            if len(records) >= ROWS_MAX:
                break
            message = stream.receive(0)
        now = time.monotonic()
        due = now - self._position_at >= self.config.number("heartbeat.interval.ms") / 1000
        if not records and not (due and self._lsn > self._written_lsn):
            if due:
                self._heartbeat(now)
            return None
        if due:
            self._heartbeat(now)
        return SourceBatch(records, [self._position()])

    def _heartbeat(self, now: float) -> None:
        self._position_at = now
        statement = self.config.text_or_none("heartbeat.action.query")
        if statement is not None:
            self._catalog.query(statement)

    def _start_stream(self) -> ReplicationStream:
        connection = self._catalog.open(replication="database")
        self._decoder = PgOutputDecoder()
        self._stream = ReplicationStream(
            connection, self._slot, self.config.text("publication.name"), self._lsn
        )
        self._position_at = time.monotonic()
        return self._stream

    def _take(self, message: Any, lsn: int) -> Iterator[ConnectRecord]:
        match message:
            case Begin():
                self._begin, self._events = message, 0
                if self._to_skip is not None and self._to_skip[0] != message.xid:
                    self._to_skip = None
            case Commit():
                self._lsn, self._begin, self._to_skip = message.end_lsn, None, None
            case ReplicatedTable():
                self._tables.pop(message.oid, None)
            case Change() | LogicalMessage() if self._begin is not None:
                self._events += 1
                if self._to_skip is not None and self._events <= self._to_skip[1]:
                    return
                if isinstance(message, Change) and message.op not in self._skipped:
                    yield from self._changes(message, lsn, self._begin)

    def _changes(self, change: Change, lsn: int, begin: Begin) -> Iterator[ConnectRecord]:
        relation = change.relation
        if relation.oid not in self._tables:
            self._tables[relation.oid] = self._records_of_relation(relation)
        table = self._tables[relation.oid]
        if table is not None:
            where = Where(lsn, begin.xid, begin.time_us, "false", self._lsn)
            yield from table.change(change, where)

    def _records_of_relation(self, relation: ReplicatedTable) -> TableRecords | None:
        """None: a table that is published and not wanted here."""
        name = TableName(relation.schema, relation.table)
        if not self._wanted.takes(name):
            return None
        facts = self._catalog.columns(relation.oid)
        types = self._types_now([column.type_oid for column in relation.columns])
        columns = [
            TableColumn(
                column.name,
                types.of(column.type_oid, column.modifier),
                facts.get(column.name, (0, 0, True))[2],
            )
            for column in relation.columns
        ]
        key = self._catalog.key_columns(relation.oid)
        if not key and relation.identity in ("d", "i"):
            key = [column.name for column in relation.columns if column.in_identity]
        names = {column.name for column in relation.columns}
        return self._table(name, columns, [name for name in key if name in names])

    def _position(self) -> Position:
        self._position_at = time.monotonic()
        offset: dict[str, Any] = {"lsn": self._lsn}
        if self._begin is not None and self._events:
            offset.update(xid=self._begin.xid, events=self._events)
        return self._partition, offset

    # Ends

    def committed(self, positions: Sequence[Position]) -> None:
        for _, offset in positions:
            if offset is not None:
                self._written_lsn = int(offset["lsn"])
                if self._stream is not None and "snapshot" not in offset:
                    self._stream.flushed(self._written_lsn)

    def close(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
        if self._stream is not None:
            self._stream.close()
        try:
            if self.config.flag("slot.drop.on.stop") and self._stream is not None:
                self._catalog.drop_slot(self._slot)
        finally:
            self._catalog.close()
