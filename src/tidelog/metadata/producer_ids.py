"""Numbers for idempotent producers, unique in the cluster: brokers take blocks of them from the store.

A block that a broker has not used up when it stops is lost, which is fine: there are 2^63."""

from __future__ import annotations

import asyncio

from tidelog.metadata.records import PRODUCER_IDS
from tidelog.metadata.store import ABSENT, Compare, MetadataStore, Put

BLOCK = 1000
SKIPPED = (
    1 << 40
)  # more than a cluster hands out between a backup and its restoration, and a small part of 2^63


class ProducerIds:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._taking = asyncio.Lock()

    async def next(self) -> int:
        """Never the same twice, whoever asks and whatever crashes."""
        if self._next == self._end:
            async with self._taking:
                if self._next == self._end:
                    await self._take_block()
        self._next += 1
        return self._next - 1

    async def _take_block(self) -> None:
        while True:
            entry = await self._store.get(PRODUCER_IDS)
            start = 0 if entry is None else int(entry.value)
            revision = ABSENT if entry is None else entry.revision
            put = Put(PRODUCER_IDS, b"%d" % (start + BLOCK))
            if await self._store.txn([Compare(PRODUCER_IDS, revision)], [put]) is not None:
                self._next, self._end = start, start + BLOCK
                return


async def skip_producer_ids(store: MetadataStore) -> None:
    """After the store was restored from a backup: nobody knows which ids were handed out since the backup, so none of the
    next ones is given."""
    while True:
        entry = await store.get(PRODUCER_IDS)
        start = 0 if entry is None else int(entry.value)
        revision = ABSENT if entry is None else entry.revision
        put = Put(PRODUCER_IDS, b"%d" % (start + SKIPPED))
        if await store.txn([Compare(PRODUCER_IDS, revision)], [put]) is not None:
            return
