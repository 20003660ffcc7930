"""Messages that nobody sees before their time."""

from __future__ import annotations

import asyncio
import itertools
from random import Random

import pytest

from tests.unit.queues.queue_cluster import QUEUE, QueueCluster, positions, values
from tidelog import errors
from tidelog.queues.delayed_records import DELAYED_TOPIC
from tidelog.queues.message import QueueMessage
from tidelog.queues.service import Queues
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

SIZES = pytest.mark.parametrize("size", [1, 3])
EXACT_MS = 100


async def later(queues: Queues, value: bytes, delay_ms: int) -> tuple[int, int]:
    due_ms = queues._shares.clock.now_ms() + delay_ms
    return await queues.publish_later(QUEUE, QueueMessage(value, b"key", (("colour", b"red"),)), due_ms)


def keeper(cluster: QueueCluster, index: int) -> int:
    return cluster.leader(DELAYED_TOPIC, index)


@SIZES
async def test_a_delayed_message_comes_at_its_time_with_all_its_parts(random: Random, size: int) -> None:
    cluster = await QueueCluster(random, size).start()
    queues = cluster.queues()
    session = cluster.session()
    now_ms = queues._shares.clock.now_ms
    due = {value: now_ms() + delay_ms for value, delay_ms in ((b"slow", 30_000), (b"fast", 5_000))}
    for value, due_ms in due.items():
        message = QueueMessage(value, b"key", (("colour", b"red"),))
        await queues.publish_later(QUEUE, message, due_ms)
    await cluster.publish(b"now")
    arrived = []
    while len(arrived) < 3:
        arrived += [(delivery, now_ms()) for delivery in await session.acquire(10, wait_ms=60_000)]
    assert values([delivery for delivery, _ in arrived]) == [b"now", b"fast", b"slow"]
    for delivery, at_ms in arrived[1:]:
        due_ms = due[delivery.value or b""]
        assert due_ms <= at_ms <= due_ms + EXACT_MS
        assert (delivery.key, *delivery.headers) == (
            b"key",
            ("colour", b"red"),
            ("tidelog.due.ms", b"%d" % due_ms),
        )


@pytest.mark.parametrize("reads", [False, True])
async def test_a_record_that_any_producer_sent_with_a_due_time_comes_at_its_time(
    random: Random, reads: bool
) -> None:
    cluster = await QueueCluster(random).start(queue_groups=f"{QUEUE},audit")
    queues = cluster.queues()
    session, audit = cluster.session(), queues.session(QUEUE, "audit")
    now_ms = queues._shares.clock.now_ms
    due_ms = now_ms() + 120_000
    delayed = QueueMessage(b"later", headers=(("tidelog.due.ms", b"%d" % due_ms),))
    await asyncio.gather(queues.publish(QUEUE, delayed), queues.publish(QUEUE, QueueMessage(b"now")))
    if reads:
        assert values(await session.acquire(10)) == [b"now"]
        assert values(await audit.acquire(10)) == [b"now"]
    await asyncio.sleep(10)
    await cluster.crash()
    queues = cluster.queues()
    now_ms = queues._shares.clock.now_ms
    session, audit = cluster.session(), queues.session(QUEUE, "audit")
    for reader in (session, audit):
        assert values(await reader.acquire(10, wait_ms=5_000)) == [b"now"]
    for reader in (session, audit):
        assert values(await reader.acquire(10, wait_ms=180_000)) == [b"later"]
        assert due_ms <= now_ms() <= due_ms + EXACT_MS
        assert await reader.acquire(10) == []


async def test_a_queue_may_delay_all_its_records(random: Random) -> None:
    cluster = await QueueCluster(random).start(queue_delay_ms="20000")
    session = cluster.session()
    await cluster.publish(b"a", b"b")
    assert await session.acquire(10, wait_ms=19_000) == []
    taken = await session.acquire(10, wait_ms=2_000)
    assert values(taken) == [b"a", b"b"]
    await session.acknowledge(positions(taken))
    assert await session.acquire(10, wait_ms=60_000) == []


@SIZES
async def test_delays_outlive_the_broker_that_keeps_them(random: Random, size: int) -> None:
    cluster = await QueueCluster(random, size).start()
    queues = cluster.queues()
    (index, _) = await later(queues, b"a", 20_000)
    for number in range(5):
        await later(queues, b"%d" % number, 40_000 + number)
    cluster.cluster.kill(keeper(cluster, index))
    await asyncio.sleep(30)
    for node in cluster.cluster.machines:
        if node not in cluster.cluster.brokers:
            await cluster.cluster.restart(node)
    session = cluster.session()
    arrived = []
    while len(arrived) < 6:
        arrived += values(await session.acquire(10, wait_ms=120_000))
    assert arrived == [b"a", b"0", b"1", b"2", b"3", b"4"]
    assert await session.acquire(10, wait_ms=60_000) == []


async def test_what_was_delivered_is_not_delivered_again_after_a_crash(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    await later(cluster.queues(), b"a", 1_000)
    session = cluster.session()
    await session.acknowledge(positions(await session.acquire(1, wait_ms=5_000)))
    await asyncio.sleep(1)
    await cluster.crash()
    assert await cluster.session().acquire(1, wait_ms=60_000) == []


async def test_waiting_messages_are_listed_and_cancelled(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    queues = cluster.queues()
    assert await queues.delays.waiting(QUEUE, 10) == []
    second = await later(queues, b"b", 20_000)
    first = await later(queues, b"a", 10_000)
    await asyncio.sleep(1)
    listed = await queues.delays.waiting(QUEUE, 10)
    assert [(position, message.message.value) for position, message in listed] == [
        (first, b"a"),
        (second, b"b"),
    ]
    assert len(await queues.delays.waiting(QUEUE, 1)) == 1
    await queues.delays.cancel(first)
    await asyncio.sleep(1)
    assert len(await queues.delays.waiting(QUEUE, 10)) == 1
    assert values(await cluster.session().acquire(10, wait_ms=60_000)) == [b"b"]
    await queues.delays.cancel(second)  # it is too late, which harms nobody


async def test_many_delayed_messages_are_all_delivered_in_the_order_of_their_times(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    queues = cluster.queues()
    delays = [random.randint(5_000, 60_000) for _ in range(1_500)]
    await asyncio.gather(*(later(queues, b"%d" % delay_ms, delay_ms) for delay_ms in delays))
    session = cluster.session()
    arrived: list[int] = []
    while len(arrived) < len(delays):
        taken = await session.acquire(500, wait_ms=60_000)
        await session.acknowledge(positions(taken))
        arrived += [int(value or b"") for value in values(taken)]
    assert sorted(arrived) == sorted(delays)
    assert all(later_ms >= before_ms - EXACT_MS for before_ms, later_ms in itertools.pairwise(arrived))
    await asyncio.sleep(5)
    partition = cluster.cluster.brokers[1]._partitions.held
    logs = [partition[TopicPartition(DELAYED_TOPIC, index)].log for index in range(8)]
    assert all(log.start == log.next or log.start == 0 == log.next for log in logs if log.next)


async def test_a_delay_for_a_topic_that_is_deleted_meanwhile_harms_no_other(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    await cluster.make("gone")
    queues = cluster.queues()
    due_ms = queues._shares.clock.now_ms() + 5_000
    await queues.publish_later("gone", QueueMessage(b"x"), due_ms)
    await later(queues, b"a", 6_000)
    await cluster.cluster.brokers[1]._controller.delete_topics(["gone"])
    assert values(await cluster.session().acquire(1, wait_ms=60_000)) == [b"a"]


async def test_delays_that_make_no_sense_are_refused(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    queues = cluster.queues()
    with pytest.raises(errors.InvalidRequest):
        await later(queues, b"a", 0)
    with pytest.raises(errors.UnknownTopicOrPartition):
        await queues.publish_later("nowhere", QueueMessage(b"a"), queues._shares.clock.now_ms() + 1_000)
