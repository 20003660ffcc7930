"""Publish, acquire, settle and browse: on the leader's broker, and through one that does not lead."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.queues.queue_cluster import QUEUE, QueueCluster, positions, values
from tidelog import errors
from tidelog.queues.message import QueueDepth, QueueMessage
from tidelog.queues.publishing import PENDING_BYTES_MAX

pytestmark = pytest.mark.simulated

SIZES = pytest.mark.parametrize("size", [1, 3], ids=["leader", "elsewhere"])


async def started(random: Random, size: int, **settings: str) -> tuple[QueueCluster, int]:
    """And the broker that tests talk to."""
    cluster = await QueueCluster(random, size).start(**settings)
    return cluster, cluster.leader() if size == 1 else cluster.elsewhere()


@SIZES
async def test_what_is_published_is_delivered_once_in_order_with_all_its_parts(
    random: Random, size: int
) -> None:
    cluster, node = await started(random, size)
    queues = cluster.queues(node)
    message = QueueMessage(b"first", b"key", (("colour", b"red"), ("none", None)), 1234)
    (first, second) = await asyncio.gather(
        queues.publish(QUEUE, message), queues.publish(QUEUE, QueueMessage(None))
    )
    assert (first, second) == ((0, 0), (0, 1))
    session = cluster.session(node)
    (one, two) = await session.acquire(10)
    assert one == (0, 0, 1, 1234, b"key", b"first", (("colour", b"red"), ("none", None)))
    assert two.value is None and not two.redelivered
    assert await session.acquire(10) == []
    await session.acknowledge([one.position, two.position])
    await session.close()
    assert await cluster.session(node).acquire(10) == []


@SIZES
async def test_released_records_come_back_first_and_count_their_deliveries(random: Random, size: int) -> None:
    cluster, node = await started(random, size)
    await cluster.publish(b"a", b"b", b"c", b"d", node=node)
    session = cluster.session(node)
    taken = await session.acquire(3)
    assert values(taken) == [b"a", b"b", b"c"]
    await session.acknowledge([taken[1].position])
    await session.release([taken[0].position, taken[2].position])
    again = await cluster.session(node).acquire(10)
    assert [(delivery.value, delivery.deliveries) for delivery in again] == [(b"a", 2), (b"c", 2), (b"d", 1)]


@SIZES
async def test_a_session_that_closes_gives_back_what_it_holds(random: Random, size: int) -> None:
    cluster, node = await started(random, size)
    await cluster.publish(b"a", b"b", node=node)
    first, second = cluster.session(node), cluster.session(node)
    assert values(await first.acquire(10)) == [b"a", b"b"]
    waiting = asyncio.ensure_future(second.acquire(10, wait_ms=60_000))
    await asyncio.sleep(1)
    assert not waiting.done()
    await first.close()
    assert values(await waiting) == [b"a", b"b"]


@SIZES
async def test_a_session_keeps_its_locks_for_as_long_as_it_is_open(random: Random, size: int) -> None:
    cluster, node = await started(random, size)
    await cluster.publish(b"a", node=node)
    session, other = cluster.session(node), cluster.session(node)
    taken = await session.acquire(1)
    assert await other.acquire(1, wait_ms=600_000) == []
    await session.acknowledge(positions(taken))


@SIZES
async def test_an_acquire_that_waits_delays_no_acknowledgement(random: Random, size: int) -> None:
    cluster, node = await started(random, size)
    await cluster.publish(b"a", node=node)
    session = cluster.session(node)
    taken = await session.acquire(1)
    waiting = asyncio.ensure_future(session.acquire(1, wait_ms=60_000))
    await asyncio.sleep(1)
    async with asyncio.timeout(1):
        await session.acknowledge(positions(taken))
    await cluster.publish(b"b", node=node)
    assert values(await waiting) == [b"b"]


@SIZES
async def test_an_acquire_that_is_given_up_loses_no_record(random: Random, size: int) -> None:
    cluster, node = await started(random, size)
    session = cluster.session(node)
    waiting = asyncio.ensure_future(session.acquire(5, wait_ms=60_000))
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await cluster.publish(b"a", b"b", b"c", node=node)
    found = await session.acquire(2, wait_ms=5_000)
    while len(found) < 3:
        found += await session.acquire(2, wait_ms=5_000)
    assert sorted(value or b"" for value in values(found)) == [b"a", b"b", b"c"]


@SIZES
async def test_settling_what_is_not_held_is_refused(random: Random, size: int) -> None:
    cluster, node = await started(random, size)
    await cluster.publish(b"a", node=node)
    holder, other = cluster.session(node), cluster.session(node)
    taken = await holder.acquire(1)
    with pytest.raises(errors.InvalidRecordState):
        await other.acknowledge(positions(taken))
    assert await other.acquire(1) == []
    with pytest.raises(errors.InvalidRecordState):
        await other.acknowledge(positions(taken))
    await holder.acknowledge(positions(taken))


@SIZES
async def test_a_crash_keeps_acknowledgements_and_delivers_the_rest_again(random: Random, size: int) -> None:
    cluster, node = await started(random, size)
    await cluster.publish(b"a", b"b", b"c", node=node)
    session = cluster.session(node)
    taken = await session.acquire(3)
    await session.acknowledge([taken[0].position, taken[2].position])
    await cluster.crash(None if size == 1 else cluster.leader())
    session = cluster.session(node) if size == 1 else session
    assert values(await session.acquire(3, wait_ms=60_000)) == [b"b"]


async def test_a_session_of_partitions_with_several_leaders_gets_the_records_of_all(random: Random) -> None:
    cluster = await QueueCluster(random, 3).start(partitions=3)
    assert len({cluster.leader(index=index) for index in range(3)}) > 1
    queues = cluster.queues(1)
    session = queues.session(QUEUE, QUEUE)
    waiting = asyncio.ensure_future(session.acquire(10, wait_ms=60_000))
    await asyncio.sleep(1)
    await asyncio.gather(*(queues.publish(QUEUE, QueueMessage(b"%d" % index), index) for index in range(3)))
    found = await waiting
    while len(found) < 3:
        found += await session.acquire(10, wait_ms=5_000)
    assert {(delivery.partition, delivery.value) for delivery in found} == {(0, b"0"), (1, b"1"), (2, b"2")}
    await session.acknowledge(positions(found))
    await session.close()
    assert await queues.session(QUEUE, QUEUE).acquire(10) == []


async def test_a_rejected_record_is_gone(random: Random) -> None:
    cluster, node = await started(random, 1)
    await cluster.publish(b"a", b"b", node=node)
    session = cluster.session(node)
    taken = await session.acquire(1)
    await session.reject(positions(taken))
    assert values(await session.acquire(10)) == [b"b"]


async def test_browsing_acquires_nothing_and_shows_what_is_unfinished(random: Random) -> None:
    cluster, node = await started(random, 1)
    await cluster.publish(b"a", b"b", b"c", b"d", node=node)
    session = cluster.session(node)
    taken = await session.acquire(3)
    await session.acknowledge([taken[1].position])
    await session.release([taken[2].position])
    browsed = await cluster.queues(node).browse(QUEUE, QUEUE)
    assert [(record.value, record.deliveries, record.acquired) for record in browsed] == [
        (b"a", 1, True),
        (b"c", 1, False),
        (b"d", 0, False),
    ]
    assert [record.value for record in await cluster.queues(node).browse(QUEUE, QUEUE, offset=3)] == [b"d"]
    assert await cluster.queues(node).depth(QUEUE, QUEUE) == QueueDepth(ready=2, acquired=1)


async def test_a_purge_leaves_what_is_acquired(random: Random) -> None:
    cluster, node = await started(random, 1)
    await cluster.publish(*[b"%d" % number for number in range(50)], node=node)
    session = cluster.session(node)
    taken = await session.acquire(1)
    assert await cluster.queues(node).purge(QUEUE, QUEUE) == 49
    assert await cluster.queues(node).depth(QUEUE, QUEUE) == QueueDepth(ready=0, acquired=1)
    await session.release(positions(taken))
    assert values(await cluster.session(node).acquire(10)) == [b"0"]


async def test_only_the_leader_can_be_browsed_and_any_broker_knows_the_depth(random: Random) -> None:
    cluster, node = await started(random, 3)
    await cluster.publish(b"a", b"b", node=node)
    session = cluster.session(node)
    await session.acknowledge(positions(await session.acquire(1)))
    with pytest.raises(errors.NotLeaderOrFollower):
        await cluster.queues(node).browse(QUEUE, QUEUE)
    assert (await cluster.queues(node).depth(QUEUE, QUEUE)).ready == 1


async def test_a_queue_that_was_deleted_is_told_to_its_consumers(random: Random) -> None:
    cluster, node = await started(random, 1)
    session = cluster.session(node)
    waiting = asyncio.ensure_future(session.acquire(1, wait_ms=60_000))
    await asyncio.sleep(1)
    await cluster.cluster.brokers[node]._controller.delete_topics([QUEUE])
    with pytest.raises(errors.UnknownTopicOrPartition):
        await waiting
    with pytest.raises(errors.UnknownTopicOrPartition):
        cluster.session(node)
    with pytest.raises(errors.UnknownTopicOrPartition):
        await cluster.publish(b"a", node=node)


async def test_a_message_that_is_too_large_is_refused_and_its_neighbours_are_not(random: Random) -> None:
    cluster, node = await started(random, 1, max_message_bytes="5000")
    queues = cluster.queues(node)
    waits = [queues.publish(QUEUE, QueueMessage(size * b"x")) for size in (10, 9_000, 2_000, 2_000, 2_000)]
    results = await asyncio.gather(*waits, return_exceptions=True)
    assert isinstance(results[1], errors.RecordListTooLarge | errors.MessageTooLarge)
    assert [len(value or b"") for value in values(await cluster.session(node).acquire(10))] == [
        10,
        2_000,
        2_000,
        2_000,
    ]


async def test_publishing_without_end_is_refused_before_memory_is_full(random: Random) -> None:
    cluster, node = await started(random, 1)
    queues = cluster.queues(node)
    megabyte = QueueMessage(bytes(900_000))
    waits = [queues.publish(QUEUE, megabyte) for _ in range(100)]
    assert queues.pending_bytes <= PENDING_BYTES_MAX
    results = await asyncio.gather(*waits, return_exceptions=True)
    refused = [result for result in results if isinstance(result, errors.ThrottlingQuotaExceeded)]
    assert 20 < len(refused) < 40
    assert queues.pending_bytes == 0
    await queues.publish(QUEUE, megabyte)
