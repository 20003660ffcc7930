"""Where a metadata store of each kind runs: its loop, its time, and how to open it again after a crash."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from tidelog import testing
from tidelog.clock import Clock, SystemClock
from tidelog.metadata.sqlite_store import SqliteStore, connect
from tidelog.metadata.store import MetadataStore
from tidelog.testing import VirtualClock


class World(Protocol):
    def run(self, scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None: ...

    async def open(self) -> MetadataStore:
        """The store as a process sees it that starts now; the one opened before is gone without a word."""
        ...


class SimulatedSqlite:
    """In memory, on virtual time, as the simulated broker uses it."""

    def __init__(self) -> None:
        self._connection = connect(":memory:")
        self._executor = ThreadPoolExecutor(1)

    def run(self, scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        testing.run(lambda _: scenario(self))

    async def open(self) -> SqliteStore:
        return await SqliteStore.over(self._connection, self._executor, VirtualClock())


class ThreadedSqlite:
    """In a file, with the real thread and the real clock."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "metadata.sqlite")
        self._executor = ThreadPoolExecutor(1)
        self._clock: Clock = SystemClock()
        self._connection: sqlite3.Connection | None = None

    def run(self, scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        try:
            asyncio.run(asyncio.wait_for(scenario(self), 60))
        finally:
            self._executor.shutdown()
            if self._connection is not None:
                self._connection.close()

    async def open(self) -> SqliteStore:
        if self._connection is not None:
            self._connection.close()
        self._connection = connect(self._path)
        return await SqliteStore.over(self._connection, self._executor, self._clock)
