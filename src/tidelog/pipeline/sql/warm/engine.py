"""Executes SQL where it is quickest: here, what needs no Spark; otherwise in the process that keeps Spark warm.

Streams and tables are in the catalog's file, which both read; queries and changed settings are in that process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.pipeline.sql import statements
from tidelog.pipeline.sql.catalog import Catalog
from tidelog.pipeline.sql.engine import Engine, Result
from tidelog.pipeline.sql.schemas import has_schema_properties
from tidelog.pipeline.sql.statements import Statement, placed_statements
from tidelog.pipeline.sql.warm.client import WarmSpark


class WarmEngine:
    """`local`: an engine whose Spark is never started; `connect`: to the warm process, when a statement first needs it."""

    def __init__(self, local: Engine, connect: Callable[[], WarmSpark]) -> None:
        self._local, self._connect = local, connect
        self._remote: WarmSpark | None = None
        self._cancelled = False

    @property
    def catalog(self) -> Catalog:
        return self._local.catalog

    def topics(self) -> list[str]:
        return self._local.topics()

    def results(self, text: str) -> Iterator[Result]:
        """Executes statement by statement, each when its result is requested; no statement follows after `cancel`."""
        self._cancelled = False
        for alone, statement in placed_statements(text):
            if self._cancelled:
                return
            result = self._executed_here(statement)
            if result is not None:
                yield result
                continue
            if self._remote is None:
                self._remote = self._connect()
            yield from self._remote.results(alone)
            self.catalog.reload()

    def _executed_here(self, statement: Statement) -> Result | None:
        local = self._local
        match statement:
            case statements.Select():
                return local.without_spark(statement)
            case statements.Show(subject) if subject != "queries":
                return local.execute(statement)
            case statements.Describe():
                return local.execute(statement)
            case statements.Set():
                local.use_spark()
                return None
            case _ if self._remote is not None:
                return None  # Queries of this command may be concerned, and they run there.
            case statements.Show() | statements.Alter() | statements.Drop() | statements.Terminate():
                return local.execute(statement)
            case statements.Create(query=None) if not has_schema_properties(statement.properties):
                return local.execute(statement)
        return None

    def wait(self) -> None:
        """Waits until the continuous queries have ended."""
        if self._remote is not None:
            self._remote.wait()

    def cancel(self) -> None:
        self._cancelled = True
        self._local.cancel()
        if self._remote is not None:
            self._remote.cancel()

    def stop(self) -> None:
        if self._remote is not None:
            self._remote.close()
