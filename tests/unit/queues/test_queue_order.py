"""Who gets which record first: order by key, priorities, a single active consumer."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.queues.queue_cluster import QUEUE, QueueCluster, positions, values
from tidelog import errors
from tidelog.queues.message import Delivery, QueueMessage

pytestmark = pytest.mark.simulated


async def keyed(random: Random, *texts: str) -> QueueCluster:
    """A queue that is delivered by key, with records whose keys are the texts' first letters."""
    cluster = await QueueCluster(random).start()
    await cluster.configure(share_order="key")
    await publish(cluster, *texts)
    return cluster


async def publish(cluster: QueueCluster, *texts: str) -> None:
    queues = cluster.queues()
    messages = [QueueMessage(text.encode(), None if text[0] == "-" else text[:1].encode()) for text in texts]
    await asyncio.gather(*(queues.publish(QUEUE, message) for message in messages))


def texts(deliveries: list[Delivery]) -> list[str]:
    return [(value or b"").decode() for value in values(deliveries)]


async def test_the_records_of_a_key_go_to_one_consumer_at_a_time_in_order(random: Random) -> None:
    cluster = await keyed(random, "a1", "a2", "b1", "a3", "c1", "-1")
    ann, ben = cluster.session(), cluster.session()
    first = await ann.acquire(1)
    assert texts(first) == ["a1"]
    assert texts(await ben.acquire(10)) == ["b1", "c1", "-1"]
    await publish(cluster, "b2", "a4")
    assert texts(await ann.acquire(1)) == ["a2"]
    waiting = asyncio.ensure_future(cluster.session().acquire(10, wait_ms=60_000))
    await asyncio.sleep(1)
    assert not waiting.done()
    await ann.close()
    assert texts(await waiting) == ["a1", "a2", "a3", "a4"]


async def test_an_acknowledged_key_is_free_for_the_next_consumer(random: Random) -> None:
    cluster = await keyed(random, "a1", "a2", "a3")
    ann, ben = cluster.session(), cluster.session()
    first = await ann.acquire(1)
    assert await ben.acquire(10) == []
    await ann.acknowledge(positions(first))
    assert texts(await ben.acquire(1)) == ["a2"]
    assert await ann.acquire(10) == []


async def test_a_released_record_calls_back_later_ones_of_its_key(random: Random) -> None:
    cluster = await keyed(random, "a1", "b1", "a2", "a3")
    ann, ben = cluster.session(), cluster.session()
    held = await ann.acquire(3)
    assert texts(held) == ["a1", "b1", "a2"]
    await ann.release([held[0].position])
    again = await ben.acquire(10)
    assert [(delivery.value, delivery.deliveries) for delivery in again] == [
        (b"a1", 2),
        (b"a2", 1),
        (b"a3", 1),
    ]
    with pytest.raises(errors.InvalidRecordState):
        await ann.acknowledge([held[2].position])
    await ann.acknowledge([held[1].position])


async def test_order_by_key_outlives_a_crash(random: Random) -> None:
    cluster = await keyed(random, "a1", "a2", "b1", "a3")
    held = await cluster.session().acquire(4)
    session = cluster.session()
    assert len(held) == 4
    await cluster.crash()
    ann, ben = cluster.session(), cluster.session()
    assert texts(await ann.acquire(1, wait_ms=60_000)) == ["a1"]
    assert texts(await ben.acquire(10)) == ["b1"]
    assert texts(await ann.acquire(10)) == ["a2", "a3"]
    await session.close()


async def test_a_long_backlog_of_one_key_does_not_hide_the_others(random: Random) -> None:
    cluster = await keyed(random, *[f"a{number}" for number in range(500)], "b1")
    ann, ben = cluster.session(), cluster.session()
    assert texts(await ann.acquire(1)) == ["a0"]
    assert texts(await ben.acquire(1)) == ["b1"]


async def prioritized(random: Random, size: int = 1) -> QueueCluster:
    return await QueueCluster(random, size).start(partitions=3, queue_priorities="true")


@pytest.mark.parametrize("size", [1, 3])
async def test_urgent_records_come_first_however_many_others_wait(random: Random, size: int) -> None:
    cluster = await prioritized(random, size)
    assert len({cluster.leader(index=index) for index in range(3)}) == 1
    node = cluster.leader() if size == 1 else cluster.elsewhere()
    queues = cluster.queues(node)
    published = [queues.publish(QUEUE, QueueMessage(b"low"), 0) for _ in range(300)]
    await asyncio.gather(*published, queues.publish(QUEUE, QueueMessage(b"mid"), 1))
    session = cluster.session(node)
    assert values(await session.acquire(3)) == [b"mid", b"low", b"low"]
    await queues.publish(QUEUE, QueueMessage(b"high"), 2)
    await queues.publish(QUEUE, QueueMessage(b"mid"), 1)
    assert values(await session.acquire(3)) == [b"high", b"mid", b"low"]
    assert (await queues.depth(QUEUE, QUEUE)).ready >= 297


async def test_a_released_urgent_record_comes_before_others(random: Random) -> None:
    cluster = await prioritized(random)
    queues = cluster.queues()
    await asyncio.gather(
        queues.publish(QUEUE, QueueMessage(b"low"), 0), queues.publish(QUEUE, QueueMessage(b"high"), 2)
    )
    session = cluster.session()
    urgent = await session.acquire(1)
    await session.release(positions(urgent))
    assert values(await session.acquire(2)) == [b"high", b"low"]


@pytest.mark.parametrize("size", [1, 3])
async def test_a_single_active_consumer_gets_everything_until_it_is_gone(random: Random, size: int) -> None:
    cluster = await QueueCluster(random, size).start()
    await cluster.configure(share_single_active_consumer="true")
    node = cluster.leader() if size == 1 else cluster.elsewhere()
    first, second, third = cluster.session(node), cluster.session(), cluster.session(node)
    assert await first.acquire(1) == []
    waits = []
    for session in (second, third):
        waits.append(asyncio.ensure_future(session.acquire(10, wait_ms=600_000)))
        await asyncio.sleep(0.1)
    await cluster.publish(b"a", b"b", b"c")
    assert values(await first.acquire(1, wait_ms=1_000)) == [b"a"]
    await asyncio.sleep(1)
    assert not any(wait.done() for wait in waits)
    await first.close()
    await asyncio.sleep(1)
    assert values(await waits[0]) == [b"a", b"b", b"c"]
    assert not waits[1].done()
    waits[1].cancel()
