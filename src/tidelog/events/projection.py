"""Projections: read models in SQLite that follow the events, each event once.

The positions in the topic are in the same database, and are changed in the same transaction as the rows."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, ClassVar

from tidelog.events.aggregate import handlers_of
from tidelog.events.cache import StoredCommit
from tidelog.events.store import EventStore, recorded_of
from tidelog.events.types import Recorded

POSITIONS = "tidelog_positions"


class Projection:
    """Base of projections: `setup` makes the tables, methods marked with `applies` get the database and a `Recorded`.

    class Balances(Projection):
        def setup(self, db):
            db.execute("CREATE TABLE balances (account TEXT PRIMARY KEY, cents INTEGER)")

        @applies(Deposited)
        def deposited(self, db, recorded): ..."""

    _handlers: ClassVar[dict[type, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._handlers = handlers_of(cls)

    def setup(self, db: sqlite3.Connection) -> None:
        """Makes the tables of a new database."""

    def deleted(self, db: sqlite3.Connection, aggregate_id: str) -> None:
        """An aggregate was deleted."""

    # Following the topic

    def catch_up(self, store: EventStore, path: str) -> None:
        """Applies what the topic has now."""
        ends = store.ends()
        with closing(self.open(path, store)) as db:
            self._follow(db, store, lambda: self._reached(db, ends))

    def run(self, store: EventStore, path: str, wanted: Callable[[], bool] = lambda: True) -> None:
        """Applies what the topic has and what comes, until `wanted` says no."""
        with closing(self.open(path, store)) as db:
            self._follow(db, store, lambda: not wanted())

    def rebuild(self, store: EventStore, path: str) -> None:
        """Makes the read model anew beside the old one, and then takes its place: readers that open the file see the old
        one or the new one, both whole."""
        new = f"{path}.new"
        for name in (new, f"{new}-wal", f"{new}-shm"):
            if os.path.exists(name):
                os.remove(name)
        self.catch_up(store, new)
        with closing(sqlite3.connect(new)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.execute("PRAGMA journal_mode=DELETE")
        for name in (f"{path}-wal", f"{path}-shm"):
            if os.path.exists(name):
                os.remove(name)
        os.replace(new, path)

    def open(self, path: str, store: EventStore) -> sqlite3.Connection:
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("BEGIN IMMEDIATE")
        try:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (POSITIONS,)).fetchall():
                db.execute(f"CREATE TABLE {POSITIONS} (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL)")
                db.executemany(
                    f"INSERT INTO {POSITIONS} VALUES (?, 0)", [(index,) for index in range(store.partitions)]
                )
                self.setup(db)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            db.close()
            raise
        return db

    def _follow(self, db: sqlite3.Connection, store: EventStore, is_over: Callable[[], bool]) -> None:
        if is_over():
            return
        positions = dict(db.execute(f"SELECT partition, next FROM {POSITIONS}").fetchall())
        for commits in store.read(positions):
            self.apply(db, commits)
            if is_over():
                return

    @staticmethod
    def _reached(db: sqlite3.Connection, ends: dict[int, int]) -> bool:
        positions = dict(db.execute(f"SELECT partition, next FROM {POSITIONS}").fetchall())
        return all(positions.get(partition, 0) >= end for partition, end in ends.items())

    def apply(self, db: sqlite3.Connection, commits: Iterable[StoredCommit]) -> None:
        """These commits and the positions behind them, in one transaction; what was applied before is left out."""
        db.execute("BEGIN IMMEDIATE")
        try:
            for commit in commits:
                (following,) = db.execute(
                    f"SELECT next FROM {POSITIONS} WHERE partition = ?", (commit.partition,)
                ).fetchone()
                if commit.offset < following:
                    continue
                if commit.value is None:
                    self.deleted(db, commit.key.decode(errors="replace"))
                for recorded in recorded_of(commit):
                    self._apply(db, recorded)
                db.execute(
                    f"UPDATE {POSITIONS} SET next = ? WHERE partition = ?",
                    (commit.offset + 1, commit.partition),
                )
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def _apply(self, db: sqlite3.Connection, recorded: Recorded) -> None:
        name = self._handlers.get(type(recorded.event))
        if name is not None:
            getattr(self, name)(db, recorded)
