"""Released records rest before they are delivered again."""

from __future__ import annotations

from random import Random

import pytest

from tests.unit.queues.queue_cluster import QueueCluster, positions, values
from tidelog.queues.message import QueueDepth, QueueMessage

pytestmark = pytest.mark.simulated


async def backing_off(random: Random, **settings: str) -> QueueCluster:
    cluster = await QueueCluster(random).start()
    await cluster.configure(
        share_delivery_count_limit="-1",
        share_retry_backoff_ms="1000",
        share_retry_backoff_max_ms="4000",
        **settings,
    )
    return cluster


async def test_a_record_rests_twice_as_long_after_each_delivery(random: Random) -> None:
    cluster = await backing_off(random)
    await cluster.publish(b"a")
    session = cluster.session()
    for rest_ms in (0, 1_000, 2_000, 4_000, 4_000):
        if rest_ms:
            assert await session.acquire(1, wait_ms=rest_ms - 50) == []
        taken = await session.acquire(1, wait_ms=100)
        assert values(taken) == [b"a"]
        await session.release(positions(taken))


async def test_others_are_delivered_while_a_record_rests(random: Random) -> None:
    cluster = await backing_off(random)
    await cluster.publish(b"a", b"b")
    session = cluster.session()
    await session.release(positions(await session.acquire(1)))
    assert values(await session.acquire(10)) == [b"b"]
    assert await cluster.queues().depth("jobs", "jobs") == QueueDepth(ready=1, acquired=1)
    assert values(await session.acquire(10, wait_ms=1_100)) == [b"a"]


async def test_the_records_of_a_key_rest_together(random: Random) -> None:
    cluster = await backing_off(random, share_order="key")
    queues = cluster.queues()
    for value, key in ((b"a1", b"a"), (b"a2", b"a"), (b"b1", b"b")):
        await queues.publish("jobs", QueueMessage(value, key))
    session = cluster.session()
    await session.release(positions(await session.acquire(1)))
    assert values(await session.acquire(10)) == [b"b1"]
    assert values(await session.acquire(10, wait_ms=1_100)) == [b"a1", b"a2"]


async def test_a_crash_ends_the_rest_and_loses_nothing(random: Random) -> None:
    cluster = await backing_off(random)
    await cluster.publish(b"a")
    session = cluster.session()
    await session.release(positions(await session.acquire(1)))
    await cluster.crash()
    (again,) = await cluster.session().acquire(1, wait_ms=5_000)
    assert again.deliveries == 2
