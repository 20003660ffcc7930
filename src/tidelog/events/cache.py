"""Commits of a topic in SQLite, by aggregate: a copy that any process can make anew from the topic.

The topic is what counts.  The copy only saves reading all of it to load one aggregate, and it may be behind: the broker
refuses what was decided on old knowledge."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

TABLES = """
CREATE TABLE IF NOT EXISTS topic (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS commits (
    partition INTEGER, offset INTEGER, key BLOB, timestamp_ms INTEGER, value BLOB, PRIMARY KEY (partition, offset)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS commits_by_key ON commits (key, offset);
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next INTEGER);
"""


class StoredCommit(NamedTuple):
    """`value`: None if the aggregate was deleted."""

    partition: int
    offset: int
    key: bytes
    timestamp_ms: int
    value: bytes | None


class CommitCache:
    def __init__(self, path: str, topic_id: str) -> None:
        """`topic_id`: a copy of another topic, or of an earlier one with the same name, is thrown away."""
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(TABLES)
        with self._change():
            if self._db.execute("SELECT id FROM topic").fetchall() != [(topic_id,)]:
                for table in ("topic", "commits", "positions"):
                    self._db.execute(f"DELETE FROM {table}")
                self._db.execute("INSERT INTO topic VALUES (?)", (topic_id,))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def next(self, partition: int) -> int:
        """The offset from which the copy of the partition goes on."""
        with self._lock:
            row = self._db.execute("SELECT next FROM positions WHERE partition = ?", (partition,)).fetchone()
        return 0 if row is None else int(row[0])

    def add(self, partition: int, commits: Iterable[StoredCommit], following: int) -> None:
        """The commits before offset `following`; what is there already is not added again."""
        with self._change():
            for commit in commits:
                if commit.value is None:
                    self._db.execute("DELETE FROM commits WHERE key = ?", (commit.key,))
                else:
                    self._db.execute("INSERT OR REPLACE INTO commits VALUES (?, ?, ?, ?, ?)", commit)
            self._db.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (partition, following))

    def commits(self, key: bytes, until_ms: int | None = None) -> list[StoredCommit]:
        """The commits of one aggregate, in their order."""
        until = (1 << 62) if until_ms is None else until_ms
        with self._lock:
            rows = self._db.execute(
                "SELECT partition, offset, key, timestamp_ms, value FROM commits WHERE key = ? AND timestamp_ms <= ? "
                "ORDER BY offset",
                (key, until),
            ).fetchall()
        return [StoredCommit(*row) for row in rows]

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
