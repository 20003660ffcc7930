"""The metadata store of a cluster of one: a SQLite file.

A transaction is synced to disk before it is answered.  All SQLite calls run in the one thread of the executor that is
passed in, since a sync on the event loop would stall every producer; on the simulator's loop they run inline.  A lease
lasts as long as the process at most: keys that a dead process left behind are deleted when the store is opened."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from tidelog import errors
from tidelog.clock import Clock
from tidelog.metadata.sqlite.disk_reserve import DiskReserve
from tidelog.metadata.store import (
    ABSENT,
    Changes,
    Compare,
    Delete,
    KeyChange,
    LeaseEnded,
    Operation,
    Put,
    Snapshot,
    StoredEntry,
    check_size,
)
from tidelog.metadata.watch_history import WatchHistory

T = TypeVar("T")

OPERATIONS_MAX = 100_000
BYTES_MAX = 64 << 20
CHANGES_KEPT_MAX = 20_000
SCHEMA = 1
STALLED_PART = 10  # a timer that is late by this part of a lease shows that the loop was stalled

_NO_LEASE = 0
_ALL_LEASES = -1

_CREATE = """
    CREATE TABLE entries (
        key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, lease INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE latest (revision INTEGER NOT NULL);
    INSERT INTO latest VALUES (0);
    CREATE INDEX leased ON entries (lease) WHERE lease != 0;
"""


def connect(path: str) -> sqlite3.Connection:
    """Opens the file; ":memory:" gives a store that lasts as long as the connection, which the simulator keeps across
    restarts."""
    try:
        # Only the store's own thread uses the connection, one call at a time.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if schema == 0:
            connection.executescript(f"BEGIN; {_CREATE} PRAGMA user_version = {SCHEMA}; COMMIT;")
    except sqlite3.Error as problem:
        in_use = " (is another broker running on it?)" if "locked" in str(problem) else ""
        raise errors.KafkaStorageError(
            f"Cannot open the metadata store {path}: {problem}{in_use}"
        ) from problem
    if schema > SCHEMA:
        connection.close()
        raise errors.KafkaStorageError(
            f"The metadata store {path} was written by a newer Tidelog (schema {schema}): use that version."
        )
    return connection


class SqliteStore:
    operations_max = OPERATIONS_MAX
    bytes_max = BYTES_MAX

    def __init__(
        self, connection: sqlite3.Connection, executor: Executor, clock: Clock, reserve: DiskReserve | None
    ) -> None:
        """Use `open` or `over`."""
        self._connection = connection
        self._executor = executor
        self._clock = clock
        self._reserve = reserve  # None: another owner closes the connection
        self._history = WatchHistory(self._revision(), CHANGES_KEPT_MAX)
        self._leases: dict[int, SqliteLease] = {}
        self._last_lease = 0
        self._closed = False

    @staticmethod
    async def open(path: str, executor: Executor, clock: Clock) -> SqliteStore:
        """The store in the file `path`, which is created if it does not exist."""
        loop = asyncio.get_running_loop()
        connection = await loop.run_in_executor(executor, connect, path)
        reserve = DiskReserve(f"{path}.reserve")
        # The start may have to write more than the store does: the space is reserved again once there is plenty.
        reserve.give_all()
        return await SqliteStore._opened(connection, executor, clock, reserve)

    @staticmethod
    async def over(connection: sqlite3.Connection, executor: Executor, clock: Clock) -> SqliteStore:
        """The store on a connection that another owner closes."""
        return await SqliteStore._opened(connection, executor, clock, None)

    @staticmethod
    async def _opened(
        connection: sqlite3.Connection, executor: Executor, clock: Clock, reserve: DiskReserve | None
    ) -> SqliteStore:
        def prepare() -> SqliteStore:
            store = SqliteStore(connection, executor, clock, reserve)
            _, left_behind = store._commit((), (), ended_lease=_ALL_LEASES)
            if left_behind is not None:
                store._history.happened(left_behind)
            return store

        return await asyncio.get_running_loop().run_in_executor(executor, _guarded, prepare)

    async def get(self, key: str) -> StoredEntry | None:
        return await self._run(lambda: self._find(key))

    async def range(self, prefix: str) -> Snapshot:
        return await self._run(lambda: self._select(prefix))

    async def txn(self, compare: Sequence[Compare], then: Sequence[Operation]) -> int | None:
        assert len(compare) <= OPERATIONS_MAX and len(then) <= OPERATIONS_MAX
        check_size(compare, then, BYTES_MAX)
        for operation in then:
            if isinstance(operation, Put) and operation.lease and operation.lease not in self._leases:
                raise LeaseEnded(f"lease {operation.lease} of {operation.key!r} has ended")
        return await self._change(lambda: self._commit(compare, then))

    def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Changes, None]:
        return self._history.watch(prefix, from_revision)

    async def lease(self, ttl_ms: int) -> SqliteLease:
        self._last_lease += 1
        lease = SqliteLease(self, self._last_lease, ttl_ms, self._clock)
        self._leases[lease.id] = lease
        return lease

    async def close(self) -> None:
        """Ends the leases and the watches."""
        if self._closed:
            return
        for lease in list(self._leases.values()):
            await lease.end()
        self._closed = True
        self._history.close()
        if self._reserve is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._connection.close)

    async def lease_ended(self, lease: SqliteLease) -> None:
        """Deletes the keys bound to the lease, in one revision."""
        if self._leases.pop(lease.id, None) is not None:
            await self._change(lambda: self._commit((), (), ended_lease=lease.id))

    # On the event loop: work for the thread, and its results.

    async def _run(self, work: Callable[[], T]) -> T:
        # Shielded: work in the thread continues even if its caller is cancelled.
        return await asyncio.shield(self._start(work))

    async def _change(self, work: Callable[[], tuple[int | None, Changes | None]]) -> int | None:
        under_way = self._start(work)
        # Not after the await: watches would miss the change of a caller that was cancelled.
        under_way.add_done_callback(self._changed)
        revision, _ = await asyncio.shield(under_way)
        return revision

    def _start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if self._closed:
            raise errors.KafkaStorageError("The metadata store is closed.")
        return asyncio.get_running_loop().run_in_executor(self._executor, _guarded, work)

    def _changed(self, done: asyncio.Future[tuple[int | None, Changes | None]]) -> None:
        if done.cancelled() or done.exception() is not None:
            return
        _, changes = done.result()
        if changes is not None:
            self._history.happened(changes)

    # In the thread.

    def _revision(self) -> int:
        (revision,) = self._connection.execute("SELECT revision FROM latest").fetchone()
        return int(revision)

    def _find(self, key: str) -> StoredEntry | None:
        query = "SELECT key, value, revision FROM entries WHERE key = ?"
        row = self._connection.execute(query, (key,)).fetchone()
        return None if row is None else StoredEntry(*row)

    def _select(self, prefix: str) -> Snapshot:
        query = "SELECT key, value, revision FROM entries WHERE key >= ? AND key < ? ORDER BY key"
        rows = self._connection.execute(query, (prefix, prefix + "\U0010ffff"))
        return Snapshot(self._revision(), [StoredEntry(*row) for row in rows])

    def _commit(
        self, compare: Sequence[Compare], then: Sequence[Operation], ended_lease: int = _NO_LEASE
    ) -> tuple[int | None, Changes | None]:
        """Returns (revision or None, the changes); also deletes the keys bound to `ended_lease`."""
        while True:
            try:
                done = self._try_to_commit(compare, then, ended_lease)
            except sqlite3.OperationalError as problem:
                full = problem.sqlite_errorcode == sqlite3.SQLITE_FULL
                if not full or self._reserve is None or not self._reserve.give():
                    raise
            else:
                if self._reserve is not None:
                    self._reserve.take()
                return done

    def _try_to_commit(
        self, compare: Sequence[Compare], then: Sequence[Operation], ended_lease: int
    ) -> tuple[int | None, Changes | None]:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            revision = self._revision()
            if not self._holds(compare):
                execute("ROLLBACK")
                return None, None
            changes = self._apply(then, revision + 1, ended_lease)
            if changes:
                revision += 1
                execute("UPDATE latest SET revision = ?", (revision,))
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise
        return revision, Changes(revision, tuple(changes)) if changes else None

    def _holds(self, compare: Sequence[Compare]) -> bool:
        for key, revision in compare:
            entry = self._find(key)
            if (ABSENT if entry is None else entry.revision) != revision:
                return False
        return True

    def _apply(self, then: Sequence[Operation], revision: int, ended_lease: int) -> list[KeyChange]:
        execute = self._connection.execute
        puts: list[tuple[str, bytes, int, int]] = []
        gone: list[str] = []
        for operation in then:
            if isinstance(operation, Put):
                puts.append((operation.key, operation.value, revision, operation.lease))
            elif isinstance(operation, Delete):
                gone.append(operation.key)
            else:
                gone += [entry.key for entry in self._select(operation.prefix).entries]
        if ended_lease:
            query = "SELECT key FROM entries WHERE lease != 0 AND ? IN (lease, -1)"
            gone += [key for (key,) in execute(query, (ended_lease,))]
        self._connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", puts)
        gone = [key for key in gone if execute("DELETE FROM entries WHERE key = ?", (key,)).rowcount]
        return [KeyChange(key, value) for key, value, _, _ in puts] + [KeyChange(key, None) for key in gone]


def _guarded(work: Callable[[], T]) -> T:
    try:
        return work()
    except sqlite3.Error as problem:
        raise errors.KafkaStorageError(f"The metadata store has failed: {problem}") from problem


class SqliteLease:
    def __init__(self, store: SqliteStore, lease_id: int, ttl_ms: int, clock: Clock) -> None:
        self.id = lease_id
        self.ttl_ms = ttl_ms
        self._store = store
        self._clock = clock
        self._ends_ms = clock.monotonic_ms() + ttl_ms
        self.ended = False
        self._ending: asyncio.Task[None] | None = None
        self._check_in(ttl_ms)

    async def keep_alive(self) -> bool:
        if not self.ended:
            self._ends_ms = self._clock.monotonic_ms() + self.ttl_ms
        return not self.ended

    async def end(self) -> None:
        if not self.ended:
            self.ended = True
            self._timer.cancel()
            await self._store.lease_ended(self)

    def _check_in(self, wait_ms: int) -> None:
        self._due_ms = self._clock.monotonic_ms() + wait_ms
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._check)

    def _check(self) -> None:
        now_ms = self._clock.monotonic_ms()
        left_ms = self._ends_ms - now_ms
        if left_ms <= 0 and now_ms - self._due_ms > self.ttl_ms // STALLED_PART:
            # The loop was stalled, and with it the task that renews the lease: now that task can run.
            left_ms = self.ttl_ms // 2
        if left_ms > 0:
            self._check_in(left_ms)
        else:
            self._ending = asyncio.get_running_loop().create_task(self.end())
