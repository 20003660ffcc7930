"""The databases of the JDBC sink: how each is reached, quotes names, upserts, and which of its errors mean what."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from tidelog.connect.connector import ConnectError, Unavailable
from tidelog.connect.postgres_errors import RowProblem, problem_of
from tidelog.connect.records import ConnectSchema
from tidelog.connect.settings import ConnectorConfig
from tidelog.connect.sinks.logical_values import array_literal, native
from tidelog.errors import InvalidConfig


class Database(Protocol):
    mark: str
    """The placeholder of a parameter."""
    offsets_ddl: str

    def connect(self) -> Any: ...
    def begin(self, connection: Any) -> None: ...
    def columns(self, cursor: Any, table: str) -> dict[str, bool] | None:
        """Its columns, and which are of the primary key; None if there is no such table."""
        ...

    def quote(self, name: str) -> str: ...
    def upsert(self, table: str, columns: Sequence[str], key: Sequence[str]) -> str: ...
    def type_of(self, schema: ConnectSchema | None, value: Any, in_key: bool) -> str: ...
    def value(self, schema: ConnectSchema | None, value: Any) -> Any: ...
    def problem(self, problem: Exception) -> Exception:
        """`Unavailable`, `RowProblem`, or a `ConnectError` for what a person has to mend."""
        ...


def _quoted(name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def _on_conflict(quote: Any, mark: str, table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    others = [name for name in columns if name not in key]
    sets = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in others)
    return (
        f"INSERT INTO {quote(table)} ({', '.join(map(quote, columns))}) VALUES ({', '.join([mark] * len(columns))}) "
        f"ON CONFLICT ({', '.join(map(quote, key))}) DO " + (f"UPDATE SET {sets}" if others else "NOTHING")
    )


class SqliteDatabase:
    mark = "?"
    offsets_ddl = (
        'CREATE TABLE IF NOT EXISTS {table} (connector TEXT, topic TEXT, "partition" INTEGER, next_offset INTEGER NOT NULL, '
        'PRIMARY KEY (connector, topic, "partition"))'
    )

    def __init__(self, path: str) -> None:
        self._path = path

    def connect(self) -> Any:
        return sqlite3.connect(self._path, timeout=10, isolation_level=None)

    def begin(self, connection: Any) -> None:
        connection.execute("BEGIN IMMEDIATE")

    def columns(self, cursor: Any, table: str) -> dict[str, bool] | None:
        rows = cursor.execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
        return {row[1]: row[5] > 0 for row in rows} or None

    def quote(self, name: str) -> str:
        return _quoted(name)

    def upsert(self, table: str, columns: Sequence[str], key: Sequence[str]) -> str:
        return _on_conflict(_quoted, self.mark, table, columns, key)

    def type_of(self, schema: ConnectSchema | None, value: Any, in_key: bool) -> str:
        kind = _kind(schema, value)
        if schema is not None and schema.name is not None and kind != "boolean":
            return "TEXT"  # dates and numbers of any precision, as text
        return {"int": "INTEGER", "boolean": "INTEGER", "float": "REAL", "bytes": "BLOB"}.get(kind, "TEXT")

    def value(self, schema: ConnectSchema | None, value: Any) -> Any:
        value = native(schema, value)
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value

    def problem(self, problem: Exception) -> Exception:
        text = f"{self._path}: {problem}"
        if isinstance(problem, sqlite3.OperationalError):
            code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
            if code in (
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED,
                sqlite3.SQLITE_FULL,
                sqlite3.SQLITE_IOERR,
            ):
                return Unavailable(text)
            return ConnectError(text)
        if isinstance(
            problem, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.InterfaceError | OverflowError
        ):
            return RowProblem(str(problem))
        if isinstance(problem, sqlite3.ProgrammingError) and "binding" in str(problem).lower():
            return RowProblem(str(problem))
        return ConnectError(text)


class PostgresDatabase:
    mark = "%s"
    offsets_ddl = (
        'CREATE TABLE IF NOT EXISTS {table} (connector text, topic text, "partition" integer, next_offset bigint NOT NULL, '
        'PRIMARY KEY (connector, topic, "partition"))'
    )

    def __init__(self, config: ConnectorConfig, url: str) -> None:
        from tidelog.extras import need

        need("psycopg", "PostgreSQL connectors")
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query))
        self._arguments: dict[str, Any] = {
            "host": parts.hostname or "127.0.0.1",
            "port": parts.port or 5432,
            "dbname": parts.path.strip("/") or "postgres",
            "user": config.text_or_none("connection.user") or given.pop("user", parts.username),
            "password": config.text_or_none("connection.password") or parts.password,
            "connect_timeout": 10,
            **given,
        }

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(**self._arguments, autocommit=True)

    def begin(self, connection: Any) -> None:
        connection.execute("BEGIN")

    def columns(self, cursor: Any, table: str) -> dict[str, bool] | None:
        cursor.execute("SELECT to_regclass(%s)::oid", (_quoted(table),))
        oid = cursor.fetchone()[0]
        if oid is None:
            return None
        cursor.execute(
            "SELECT a.attname, EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary "
            "AND a.attnum = ANY (i.indkey)) FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 "
            "AND NOT a.attisdropped",
            (oid,),
        )
        return dict(cursor.fetchall())

    def quote(self, name: str) -> str:
        return _quoted(name).replace("%", "%%")

    def upsert(self, table: str, columns: Sequence[str], key: Sequence[str]) -> str:
        return _on_conflict(self.quote, self.mark, table, columns, key)

    def type_of(self, schema: ConnectSchema | None, value: Any, in_key: bool) -> str:
        named = _POSTGRES_NAMED.get(schema.name or "") if schema is not None else None
        if named is not None:
            return named
        if schema is not None and schema.type == "array":
            return f"{self.type_of(schema.items, None, False)}[]"
        types = {
            "int": "bigint",
            "boolean": "boolean",
            "float": "double precision",
            "bytes": "bytea",
            "json": "jsonb",
        }
        return types.get(_kind(schema, value), "text")

    def value(self, schema: ConnectSchema | None, value: Any) -> Any:
        if isinstance(value, list) and schema is not None and schema.type == "array":
            return array_literal(schema, value)
        value = native(schema, value)
        if isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False)
        # PostgreSQL reads the text as the column's type, whatever that is.
        if isinstance(value, bool | bytes) or value is None:
            return value
        return str(value)

    def problem(self, problem: Exception) -> Exception:
        return problem_of(f"PostgreSQL at {self._arguments['host']}:{self._arguments['port']}", problem)


_POSTGRES_NAMED = {
    "io.debezium.time.ZonedTimestamp": "timestamptz",
    "io.debezium.data.Json": "jsonb",
    "io.debezium.data.Uuid": "uuid",
    "io.debezium.data.Bits": "bit varying",
    "io.debezium.data.VariableScaleDecimal": "numeric",
    "io.debezium.time.Date": "date",
    "io.debezium.time.MicroDuration": "interval",
    "io.debezium.time.MicroTime": "time",
    "io.debezium.time.MicroTimestamp": "timestamp",
    "io.debezium.time.ZonedTime": "timetz",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Decimal": "numeric",
    "org.apache.kafka.connect.data.Timestamp": "timestamp",
}


def _kind(schema: ConnectSchema | None, value: Any) -> str:
    if schema is not None:
        if schema.type in ("struct", "array", "map"):
            return "json"
        for kind in ("int", "float"):
            if schema.type.startswith(kind):
                return kind
        return schema.type
    for kind, types in (("boolean", bool), ("int", int), ("float", float), ("bytes", bytes)):
        if isinstance(value, types):
            return kind
    return "json" if isinstance(value, dict | list) else "string"


def database_of(config: ConnectorConfig) -> Database:
    url = config.text("connection.url").removeprefix("jdbc:")
    if url.startswith("sqlite:"):
        return SqliteDatabase(url.removeprefix("sqlite:").removeprefix("//"))
    if url.startswith(("postgresql://", "postgres://")):
        return PostgresDatabase(config, url)
    raise InvalidConfig(
        f"connection.url cannot be {url.split('@')[-1]!r}: use jdbc:sqlite:/path/to/file or "
        "jdbc:postgresql://host:5432/database"
    )
