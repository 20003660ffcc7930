"""Rows of a database: inserts, updates or upserts values by their key, and deletes by tombstones.

Rows and offsets are in one transaction of the database, so that each record has its effect exactly once: `begins` of a
batch must be what the database has stored, otherwise another task has written meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidelog.connect.connector import ConnectError, Outdated, RecordRefused, Sink, SinkBatch
from tidelog.connect.postgres_errors import RowProblem
from tidelog.connect.settings import ConnectorConfig, connect_settings
from tidelog.connect.sinks.databases import database_of
from tidelog.connect.sinks.row_changes import RowChange, RowRules, runs
from tidelog.types import TopicPartition


class JdbcSink(Sink):
    TRANSACTIONAL = True
    SETTINGS = connect_settings("""
connection.url STRING null built
  The database: jdbc:sqlite:/path/to/file or jdbc:postgresql://host:5432/database.
connection.user STRING null built
  The user of the database.
connection.password PASSWORD null built
  The password of the user, as a reference: ${env:NAME} or ${file:PATH:KEY}.
insert.mode STRING upsert insert|upsert|update built
  What a value does to the table.
pk.mode STRING record_key none|kafka|record_key|record_value built
  Where the primary key of a row comes from; kafka: topic, partition and offset.
pk.fields LIST "" built
  The names of the fields of the key; for a key without fields, the name of its column.
delete.enabled BOOLEAN false built
  A record without a value deletes the row of its key.
table.name.format STRING ${topic} built
  The table; ${topic} stands for the name of the topic.
fields.whitelist LIST "" built
  The fields of the value to write; empty: all.
auto.create BOOLEAN false built
  Create a table that is missing.
auto.evolve BOOLEAN false built
  Add columns that are missing.
offsets.table STRING tidelog_connect_offsets built
  The table for the offsets of this connector.
""")
    REQUIRED = frozenset(("connection.url",))

    @classmethod
    def check(cls, config: ConnectorConfig) -> None:
        RowRules(config)
        database_of(config)

    def __init__(self, config: ConnectorConfig, name: str) -> None:
        super().__init__(config, name)
        self._database = database_of(config)
        self._rules = RowRules(config)
        self._insert = config.text("insert.mode")
        self._create, self._evolve = config.flag("auto.create"), config.flag("auto.evolve")
        self._offsets = config.text("offsets.table")
        self._connection: Any = None
        self._columns: dict[str, dict[str, bool]] = {}

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except ConnectError:
            raise
        except Exception as problem:
            raise self._database.problem(problem) from problem

    def open(self) -> None:
        with self._named_errors():
            self._connection = self._database.connect()
            table = self._database.quote(self._offsets)
            self._connection.execute(self._database.offsets_ddl.format(table=table))

    def offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        mark, table = self._database.mark, self._database.quote(self._offsets)
        with self._named_errors():
            rows = self._connection.execute(
                f'SELECT topic, "partition", next_offset FROM {table} WHERE connector = {mark}', (self.name,)
            ).fetchall()
        stored = {TopicPartition(topic, partition): offset for topic, partition, offset in rows}
        return {partition: stored[partition] for partition in partitions if partition in stored}

    def write(self, batch: SinkBatch) -> None:
        changes = [change for record in batch.records if (change := self._rules.change(record)) is not None]
        with self._named_errors():
            self._database.begin(self._connection)
            try:
                cursor = self._connection.cursor()
                self._advance(cursor, batch)
                for group in runs(changes):
                    self._apply(cursor, group)
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(Exception):
                    self._connection.execute("ROLLBACK")
                self._columns.clear()  # tables of this transaction may be gone
                raise

    def _advance(self, cursor: Any, batch: SinkBatch) -> None:
        """Moves the offsets on.  The rows of the offsets are locked from here to the end of the transaction."""
        mark, table = self._database.mark, self._database.quote(self._offsets)
        for partition, end in batch.ends.items():
            begin = batch.begins.get(partition, -1)
            of_partition = (self.name, partition.topic, partition.partition)
            if begin < 0:
                cursor.execute(
                    f"INSERT INTO {table} VALUES ({mark}, {mark}, {mark}, {mark}) ON CONFLICT DO NOTHING",
                    (*of_partition, end),
                )
            else:
                cursor.execute(
                    f"UPDATE {table} SET next_offset = {mark} WHERE connector = {mark} AND topic = {mark} "
                    f'AND "partition" = {mark} AND next_offset = {mark}',
                    (end, *of_partition, begin),
                )
            if cursor.rowcount != 1:
                raise Outdated(
                    f"another task of {self.name} has written records of {partition.topic}-{partition.partition}"
                )

    def _apply(self, cursor: Any, group: list[RowChange]) -> None:
        change = group[0]
        self._prepare(cursor, change)
        statement, names = self._statement(change)
        rows = [tuple(self._value(each, name) for name in names) for each in group]
        cursor.execute("SAVEPOINT rows_of_a_batch")
        try:
            cursor.executemany(statement, rows)
        except Exception as problem:
            if not isinstance(self._database.problem(problem), RowProblem):
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT rows_of_a_batch")
            self._find_bad(cursor, statement, group, rows)
        cursor.execute("RELEASE SAVEPOINT rows_of_a_batch")

    def _value(self, change: RowChange, name: str) -> Any:
        cells = change.key if change.row is None else change.row
        return self._database.value(change.schemas.get(name), cells[name])

    def _find_bad(self, cursor: Any, statement: str, group: list[RowChange], rows: list[Any]) -> None:
        for change, row in zip(group, rows, strict=True):
            try:
                cursor.execute(statement, row)
            except Exception as problem:
                reason = self._database.problem(problem)
                if isinstance(reason, RowProblem):
                    raise RecordRefused(f"table {change.table}: {reason}", change.record) from problem
                raise

    def _statement(self, change: RowChange) -> tuple[str, list[str]]:
        quote, mark = self._database.quote, self._database.mark
        table, key = quote(change.table), list(change.key)
        where = " AND ".join(f"{quote(name)} = {mark}" for name in key)
        if change.row is None:
            return f"DELETE FROM {table} WHERE {where}", key
        columns = list(change.row)
        if self._insert == "update":
            others = [name for name in columns if name not in change.key]
            sets = ", ".join(f"{quote(name)} = {mark}" for name in others)
            return f"UPDATE {table} SET {sets} WHERE {where}", others + key
        if self._insert == "upsert":
            return self._database.upsert(change.table, columns, key), columns
        names = ", ".join(map(quote, columns))
        return f"INSERT INTO {table} ({names}) VALUES ({', '.join([mark] * len(columns))})", columns

    def _prepare(self, cursor: Any, change: RowChange) -> None:
        """Sees to it that table and columns are there."""
        columns = self._columns.get(change.table)
        wanted = change.key if change.row is None else change.row
        if columns is not None and wanted.keys() <= columns.keys():
            return
        columns = self._database.columns(cursor, change.table)
        if columns is None:
            if not self._create:
                raise ConnectError(f"table {change.table} does not exist: create it, or set auto.create=true")
            self._create_table(cursor, change)
        else:
            missing = [name for name in wanted if name not in columns]
            if missing and not self._evolve:
                raise ConnectError(
                    f"table {change.table} has no column {missing[0]!r}: add it, set auto.evolve=true, or name the fields "
                    "to write in fields.whitelist"
                )
            for name in missing:
                column = self._column(change, name)
                cursor.execute(f"ALTER TABLE {self._database.quote(change.table)} ADD COLUMN {column}")
        self._columns[change.table] = self._database.columns(cursor, change.table) or {}

    def _create_table(self, cursor: Any, change: RowChange) -> None:
        lines = [self._column(change, name) for name in (change.row or change.key)]
        if change.key:
            lines.append(f"PRIMARY KEY ({', '.join(map(self._database.quote, change.key))})")
        cursor.execute(f"CREATE TABLE {self._database.quote(change.table)} ({', '.join(lines)})")

    def _column(self, change: RowChange, name: str) -> str:
        value = (change.row or change.key).get(name)
        kind = self._database.type_of(change.schemas.get(name), value, name in change.key)
        return f"{self._database.quote(name)} {kind}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
