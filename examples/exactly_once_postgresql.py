"""Results and offsets in one PostgreSQL transaction, with asyncio: every record counts once, whatever crashes.

    pip install asyncpg
    python examples/exactly_once_postgresql.py orders postgresql://localhost/test

The asyncio twin of `exactly_once_sqlite.py`: counts the records of a topic by key.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tidelog.aio import Consumer, Record, TopicPartition

TABLES = """
CREATE TABLE IF NOT EXISTS offsets (
    topic text NOT NULL, "partition" integer NOT NULL, "offset" bigint NOT NULL,
    PRIMARY KEY (topic, "partition")
);
CREATE TABLE IF NOT EXISTS counts (key bytea PRIMARY KEY, count bigint NOT NULL);
"""
SAVE = """
INSERT INTO offsets VALUES ($1, $2, $3)
ON CONFLICT (topic, "partition") DO UPDATE SET "offset" = excluded."offset"
"""
ADVANCE = SAVE + 'WHERE offsets."offset" <= $4 RETURNING 1'
COUNT = "INSERT INTO counts VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET count = counts.count + 1"


class Overtaken(Exception):
    """Another consumer has stored this record already: the group has moved on without us."""


class PostgreSQLOffsets:
    """An `OffsetStore`; `transaction` stores a record's results and its offset together."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def load(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        rows = await self._pool.fetch('SELECT topic, "partition", "offset" FROM offsets')
        known = {TopicPartition(topic, index): offset for topic, index, offset in rows}
        return {one: known[one] for one in partitions if one in known}

    async def save(self, offsets: Mapping[TopicPartition, int]) -> None:
        await self._pool.executemany(SAVE, [(*where, offset) for where, offset in offsets.items()])

    @asynccontextmanager
    async def transaction(self, record: Record) -> AsyncIterator[Any]:
        """What is written in the block is stored with the offset behind `record`, or neither is."""
        async with self._pool.acquire() as connection, connection.transaction():
            place = (record.topic, record.partition, record.offset + 1)
            if await connection.fetchval(ADVANCE, *place, record.offset) is None:
                raise Overtaken(f"{record.topic}-{record.partition} at offset {record.offset}")
            yield connection


async def count_keys(topic: str, url: str, **options: Any) -> None:
    import asyncpg

    async with asyncpg.create_pool(url) as pool:
        await pool.execute(TABLES)
        store = PostgreSQLOffsets(pool)
        async with Consumer(
            topic,
            group_id="counter",
            offset_store=store,
            auto_offset_reset="earliest",
            **options,
        ) as consumer:
            async for record in consumer:
                async with store.transaction(record) as connection:
                    await connection.execute(COUNT, record.key or b"")  # some have no key


if __name__ == "__main__":
    asyncio.run(count_keys(sys.argv[1], sys.argv[2]))
