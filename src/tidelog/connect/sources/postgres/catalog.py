"""What the source asks of PostgreSQL's catalogs: tables, keys, types; publications and slots, which it also makes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.connect.connector import ConnectError, Unavailable
from tidelog.connect.postgres_errors import problem_of
from tidelog.connect.settings import ConnectorConfig
from tidelog.connect.sources.postgres.column_types import TypeFacts
from tidelog.connect.sources.postgres.replication import lsn_number
from tidelog.errors import InvalidConfig

SESSION = (
    "-c datestyle=ISO -c timezone=UTC -c intervalstyle=postgres -c extra_float_digits=3 -c bytea_output=hex "
    "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.table)}"


class TableFilter:
    """Which tables are read: regular expressions for `schema.table`, as in Debezium."""

    def __init__(self, config: ConnectorConfig) -> None:
        self._include = self._patterns(config, "table.include.list")
        self._exclude = self._patterns(config, "table.exclude.list")
        self._schemas = self._patterns(config, "schema.include.list")
        if self._include and self._exclude:
            raise InvalidConfig("give either table.include.list or table.exclude.list")

    @staticmethod
    def _patterns(config: ConnectorConfig, name: str) -> list[re.Pattern[str]]:
        try:
            return [re.compile(text) for text in config.words(name)]
        except re.error as problem:
            raise InvalidConfig(f"{name} is no list of regular expressions: {problem}") from None

    @property
    def everything(self) -> bool:
        return not (self._include or self._exclude or self._schemas)

    def takes(self, name: TableName) -> bool:
        if self._schemas and not any(pattern.fullmatch(name.schema) for pattern in self._schemas):
            return False
        if self._include:
            return any(pattern.fullmatch(str(name)) for pattern in self._include)
        return not any(pattern.fullmatch(str(name)) for pattern in self._exclude)


class PostgresCatalog:
    def __init__(self, config: ConnectorConfig) -> None:
        self._arguments: dict[str, Any] = {
            "host": config.text("database.hostname"),
            "port": config.number("database.port"),
            "user": config.text("database.user"),
            "password": config.text_or_none("database.password"),
            "dbname": config.text("database.dbname"),
            "sslmode": config.text("database.sslmode"),
            "sslrootcert": config.text_or_none("database.sslrootcert"),
            "connect_timeout": 10,
            "options": SESSION,
            "application_name": "tidelog-connect",
            "keepalives_idle": 30,
            "tcp_user_timeout": 60_000,
        }
        self.where = f"PostgreSQL at {self._arguments['host']}:{self._arguments['port']}"
        self._connection: Any = None

    def open(self, **more: Any) -> Any:
        import psycopg

        try:
            return psycopg.connect(**self._arguments, **more, autocommit=True)
        except Exception as problem:
            raise problem_of(self.where, problem) from None

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        if self._connection is None:
            self._connection = self.open()
        try:
            cursor = self._connection.execute(statement, values or None)
            return list(cursor.fetchall()) if cursor.description else []
        except Exception as problem:
            raise problem_of(self.where, problem) from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def check(self) -> None:
        """Raises for a server that cannot replicate logically."""
        wal_level = self.query("SHOW wal_level")[0][0]
        if wal_level != "logical":
            raise ConnectError(
                f"{self.where} has wal_level={wal_level}: set wal_level=logical in postgresql.conf and restart the server"
            )

    def tables(self, wanted: TableFilter) -> list[TableName]:
        rows = self.query(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' "
            "AND left(n.nspname, 3) <> 'pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2"
        )
        return [name for name in (TableName(*row) for row in rows) if wanted.takes(name)]

    def key_columns(self, oid: int) -> list[str]:
        """The columns of the primary key, in the key's order."""
        rows = self.query(
            "SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, place) "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
            "WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.place",
            (oid,),
        )
        return [row[0] for row in rows]

    def columns(self, oid: int) -> dict[str, tuple[int, int, bool]]:
        """Type, modifier, and whether the column may be null."""
        rows = self.query(
            "SELECT attname, atttypid, atttypmod, NOT attnotnull FROM pg_attribute WHERE attrelid = %s AND attnum > 0 "
            "AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
            (oid,),
        )
        return {name: (int(type_oid), modifier, nullable) for name, type_oid, modifier, nullable in rows}

    def oid(self, name: TableName) -> int | None:
        rows = self.query("SELECT to_regclass(%s)::oid", (name.quoted,))
        return None if rows[0][0] is None else int(rows[0][0])

    def types(self) -> dict[int, TypeFacts]:
        rows = self.query(
            "SELECT t.oid, t.typname, t.typcategory, t.typelem, ARRAY(SELECT e.enumlabel FROM pg_enum e "
            "WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder) FROM pg_type t WHERE t.typcategory IN ('A', 'E')"
        )
        return {
            int(oid): TypeFacts(name, _text(category), int(element), tuple(labels))
            for oid, name, category, element, labels in rows
        }

    def slot_position(self, slot: str) -> int | None:
        """Up to where the slot's reader has confirmed; None if there is no such slot."""
        rows = self.query(
            "SELECT confirmed_flush_lsn::text, wal_status FROM pg_replication_slots WHERE slot_name = %s",
            (slot,),
        )
        if not rows:
            return None
        position, status = rows[0]
        if status == "lost" or position is None:
            raise ConnectError(
                f"the replication slot {slot} has lost changes, because the server removed them (max_slot_wal_keep_size): "
                f"drop it with SELECT pg_drop_replication_slot('{slot}'), delete the offsets of this connector, and it "
                "makes a new snapshot"
            )
        return lsn_number(position)

    def drop_slot(self, slot: str) -> None:
        try:
            self.query("SELECT pg_drop_replication_slot(%s)", (slot,))
        except ConnectError as problem:
            if "is active" in str(problem):
                raise Unavailable(f"the replication slot {slot} is in use by another connection") from None
            raise

    def ensure_publication(self, name: str, mode: str, wanted: TableFilter) -> None:
        """`mode`: filtered, all_tables or disabled, as in Debezium."""
        rows = self.query("SELECT puballtables FROM pg_publication WHERE pubname = %s", (name,))
        if mode == "disabled":
            if not rows:
                raise ConnectError(
                    f"there is no publication {name}: CREATE PUBLICATION {quoted(name)} FOR TABLE ..., or set "
                    "publication.autocreate.mode=filtered"
                )
            return
        if mode == "all_tables":
            if not rows:
                self.query(f"CREATE PUBLICATION {quoted(name)} FOR ALL TABLES")
            return
        tables = self.tables(wanted)
        if not tables:
            raise ConnectError(f"{self.where}: no table matches table.include.list")
        shown = ", ".join(table.quoted for table in tables)
        if not rows:
            self.query(f"CREATE PUBLICATION {quoted(name)} FOR TABLE {shown}")
        elif not rows[0][0]:
            published = self.query(
                "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (name,)
            )
            if {TableName(*row) for row in published} != set(tables):
                self.query(f"ALTER PUBLICATION {quoted(name)} SET TABLE {shown}")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
