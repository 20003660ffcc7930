from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from tests.unit.metadata.cluster import EXECUTOR
from tidelog.clock import SystemClock
from tidelog.metadata.producer_ids import BLOCK, ProducerIdAllocator, skip_ids
from tidelog.metadata.records import PRODUCER_IDS
from tidelog.metadata.sqlite.store import SqliteStore, connect
from tidelog.metadata.store import Put
from tidelog.testing import VirtualClock


async def test_no_id_is_given_twice_across_brokers_blocks_and_restarts() -> None:
    connection = connect(":memory:")
    seen: list[int] = []
    with ThreadPoolExecutor(1) as executor:
        for _ in range(3):
            # The store's own thread, so that brokers who take a block at the same time do meet.
            store = await SqliteStore.over(connection, executor, SystemClock())
            brokers = [ProducerIdAllocator(store), ProducerIdAllocator(store)]
            requests = [broker.next() for broker in brokers for _ in range(BLOCK + 10)]
            seen += await asyncio.gather(*requests)
        entry = await store.get(PRODUCER_IDS)
    assert len(set(seen)) == len(seen) == 6 * (BLOCK + 10)
    assert min(seen) == 0
    assert entry is not None and int(entry.value) == 12 * BLOCK  # two blocks each: none was taken in vain


@pytest.mark.simulated
async def test_a_block_lasts_for_a_thousand_without_another_write() -> None:
    store = await SqliteStore.over(connect(":memory:"), EXECUTOR, VirtualClock())
    ids = ProducerIdAllocator(store)
    assert [await ids.next() for _ in range(BLOCK)] == list(range(BLOCK))
    assert (await store.range("")).revision == 1
    assert await ids.next() == BLOCK
    assert (await store.range("")).revision == 2


@pytest.mark.simulated
async def test_ids_given_out_after_a_backup_are_not_given_again_when_it_is_restored(random: Random) -> None:
    store = await SqliteStore.over(connect(":memory:"), EXECUTOR, VirtualClock())
    used = [await ProducerIdAllocator(store).next() for _ in range(3)]
    backup = await store.get(PRODUCER_IDS)
    used += [await ProducerIdAllocator(store).next() for _ in range(3)]
    assert backup is not None
    await store.txn((), [Put(PRODUCER_IDS, backup.value)])
    await skip_ids(store, random)
    assert await ProducerIdAllocator(store).next() > max(used)
