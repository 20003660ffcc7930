"""Producer ids, unique in the cluster: brokers take blocks of ids from the metadata store.

The rest of a block is lost when its broker stops, which does no harm: there are 2^63 ids."""

from __future__ import annotations

import asyncio
from random import Random

from tidelog.metadata.records import PRODUCER_IDS
from tidelog.metadata.store import ABSENT, Compare, MetadataStore, Put

BLOCK = 1000


SKIPPED = 1 << 32  # ids that may have been handed out since a backup was made
SKIPS_MAX = 1 << 24


async def skip_ids(store: MetadataStore, random: Random) -> None:
    """After the store was restored from a backup: ids that it gave out after the backup are not given out again.  A producer
    with an id that logs know would have its first records taken for repeats of another's.  How many are skipped is chance:
    the same backup may be restored once more, and what was given out in between must not be, either."""
    await _take(store, SKIPPED * random.randint(1, SKIPS_MAX))


async def _take(store: MetadataStore, count: int) -> int:
    """Takes `count` ids that no other broker gets, and returns the first of them."""
    while True:
        entry = await store.get(PRODUCER_IDS)
        start = 0 if entry is None else int(entry.value)
        revision = ABSENT if entry is None else entry.revision
        put = Put(PRODUCER_IDS, b"%d" % (start + count))
        if await store.txn([Compare(PRODUCER_IDS, revision)], [put]) is not None:
            return start


class ProducerIdAllocator:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._taking = asyncio.Lock()

    async def next(self) -> int:
        """The next id.  No id is returned twice in the cluster, even after a crash."""
        if self._next == self._end:
            async with self._taking:
                if self._next == self._end:
                    await self._take_block()
        self._next += 1
        return self._next - 1

    async def _take_block(self) -> None:
        start = await _take(self._store, BLOCK)
        self._next, self._end = start, start + BLOCK
