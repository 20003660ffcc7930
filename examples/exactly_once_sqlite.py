"""Results and offsets in one SQLite transaction: every record counts once, whatever crashes.

    python examples/exactly_once_sqlite.py orders counts.db

Counts the records of a topic by key.  The count and the offset behind the record are stored together, or not at
all; after a crash the consumer begins where the last transaction has ended.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tidelog import Consumer, Record, TopicPartition

TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT NOT NULL, "partition" INTEGER NOT NULL, "offset" INTEGER NOT NULL,
    PRIMARY KEY (topic, "partition")
);
CREATE TABLE IF NOT EXISTS counts (key BLOB PRIMARY KEY, count INTEGER NOT NULL);
"""
SAVE = """
INSERT INTO offsets VALUES (?, ?, ?)
ON CONFLICT (topic, "partition") DO UPDATE SET "offset" = excluded."offset"
"""
ADVANCE = SAVE + 'WHERE offsets."offset" <= ?'
COUNT = "INSERT INTO counts VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET count = count + 1"


class Overtaken(Exception):
    """Another consumer has stored this record already: the group has moved on without us."""


class SQLiteOffsets:
    """An `OffsetStore`; `transaction` stores a record's results and its offset together."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.executescript(TABLES)

    def load(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        rows = self.database.execute('SELECT topic, "partition", "offset" FROM offsets')
        known = {TopicPartition(topic, index): offset for topic, index, offset in rows}
        return {one: known[one] for one in partitions if one in known}

    def save(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.database.executemany(SAVE, [(*where, offset) for where, offset in offsets.items()])

    @contextmanager
    def transaction(self, record: Record) -> Iterator[sqlite3.Connection]:
        """What is written in the block is stored with the offset behind `record`, or neither is."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            place = (record.topic, record.partition, record.offset + 1)
            # The offset may only move on from this record, or from before it: a consumer that was thought dead
            # and comes back must not count what its successor has counted.
            if self.database.execute(ADVANCE, (*place, record.offset)).rowcount == 0:
                raise Overtaken(f"{record.topic}-{record.partition} at offset {record.offset}")
            yield self.database
            self.database.execute("COMMIT")
        except BaseException:
            self.database.execute("ROLLBACK")
            raise


def count_keys(topic: str, path: str, **options: Any) -> None:
    store = SQLiteOffsets(path)
    with Consumer(
        topic,
        group_id="counter",
        offset_store=store,
        auto_offset_reset="earliest",
        **options,
    ) as consumer:
        for record in consumer:
            with store.transaction(record) as database:
                database.execute(COUNT, (record.key or b"",))  # some have no key


if __name__ == "__main__":
    count_keys(sys.argv[1], sys.argv[2])
