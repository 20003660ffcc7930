"""The rows that are there at the start, table after table in the order of their keys, without locks.

An uninterrupted snapshot sees the tables as they were when the slot was created.  A snapshot that goes on after an
interruption sees newer rows; the changes since the slot was created follow, so that each row ends as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.connect.postgres_errors import problem_of
from tidelog.connect.sources.postgres.catalog import PostgresCatalog, TableName, quoted


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    name: TableName
    oid: int
    columns: list[str]
    rows: list[list[bytes | None]]
    progress: dict[str, Any]
    """What is read, with these rows."""


class TableSnapshot:
    def __init__(
        self,
        catalog: PostgresCatalog,
        tables: Sequence[TableName],
        progress: Mapping[str, Any],
        exported: str | None,
        fetch_size: int,
    ) -> None:
        """`progress`: of an earlier run; `exported`: the name of the snapshot that the slot was created with."""
        self._catalog = catalog
        self._fetch_size = fetch_size
        self._done = [str(name) for name in progress.get("done", ())]
        self._resumed: Mapping[str, Any] = progress
        self._left = [name for name in tables if str(name) not in self._done]
        self._table: tuple[TableName, int, list[str], list[int]] | None = None
        self._connection = catalog.open()
        try:
            self._execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if exported is not None:
                self._execute(f"SET TRANSACTION SNAPSHOT '{exported}'")
            self._execute("SELECT 1")
        except BaseException:
            self._connection.close()
            raise

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        try:
            return self._connection.execute(statement, values or None)
        except Exception as problem:
            raise problem_of(self._catalog.where, problem) from None

    def next_rows(self) -> SnapshotRows | None:
        """None: everything is read."""
        if self._table is None:
            if not self._left:
                return None
            self._table = self._begin_table(self._left[0])
        name, oid, columns, key = self._table
        result = self._execute(f"FETCH {self._fetch_size} FROM tidelog_snapshot").pgresult
        rows = [
            [result.get_value(row, column) for column in range(len(columns))] for row in range(result.ntuples)
        ]
        if len(rows) < self._fetch_size:
            self._execute("CLOSE tidelog_snapshot")
            self._left.pop(0)
            self._done.append(str(name))
            self._table = None
            return SnapshotRows(name, oid, columns, rows, {"done": list(self._done)})
        progress: dict[str, Any] = {"done": list(self._done), "table": str(name)}
        if key:
            last = rows[-1]
            progress["key"] = [(last[index] or b"").decode() for index in key]
        return SnapshotRows(name, oid, columns, rows, progress)

    def _begin_table(self, name: TableName) -> tuple[TableName, int, list[str], list[int]]:
        oid = self._catalog.oid(name)
        if oid is None:  # dropped since
            self._execute("DECLARE tidelog_snapshot CURSOR FOR SELECT WHERE false")
            return name, 0, [], []
        columns = list(self._catalog.columns(oid))
        key = [column for column in self._catalog.key_columns(oid) if column in columns]
        shown = ", ".join(map(quoted, columns))
        keys = ", ".join(map(quoted, key))
        statement = f"DECLARE tidelog_snapshot CURSOR FOR SELECT {shown} FROM {name.quoted}"
        values: list[str] = []
        if key and self._resumed.get("table") == str(name) and "key" in self._resumed:
            # A cursor takes no parameters from the protocol, so the values are literals.
            from psycopg import sql

            values = [sql.Literal(text).as_string(self._connection) for text in self._resumed["key"]]
            statement += f" WHERE ({keys}) > ({', '.join(values)})"
        if key:
            statement += f" ORDER BY {keys}"
        self._execute(statement)
        return name, oid, columns, [columns.index(column) for column in key]

    def close(self) -> None:
        self._connection.close()
