"""Times to live, bounded lengths, deliveries without limit, and where dead letters go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from tests.unit.queues.queue_cluster import QUEUE, QueueCluster, positions, values
from tidelog import errors
from tidelog._speed.log.records import Record
from tidelog.groups.share.dead_letters import DeadLetter
from tidelog.groups.share.in_flight import LetterReason
from tidelog.queues.message import QueueDepth, QueueMessage
from tidelog.record.builder import build_batch
from tidelog.record.codecs import Codec
from tidelog.types import TopicPartition
from tidelog.wire.messages import produce

pytestmark = pytest.mark.simulated

GRAVEYARD = "graveyard"


def lasting(value: bytes, ttl_ms: int) -> QueueMessage:
    return QueueMessage(value, headers=(("tidelog.ttl.ms", b"%d" % ttl_ms),))


async def letters(cluster: QueueCluster, count: int) -> list[tuple[bytes | None, str]]:
    """(value, reason) of the dead letters, when there are so many."""
    session = cluster.session(name=GRAVEYARD)
    arrived = []
    async with asyncio.timeout(120):
        while len(arrived) < count:
            arrived += await session.acquire(100, wait_ms=60_000)
    reasons = [dict(letter.headers)["tidelog.dead.letter.reason"] or b"" for letter in arrived]
    return list(zip(values(arrived), [reason.decode() for reason in reasons], strict=True))


async def with_graveyard(random: Random, **settings: str) -> QueueCluster:
    cluster = await QueueCluster(random).start(**settings)
    await cluster.make(GRAVEYARD)
    await cluster.configure(share_dead_letter_topic=GRAVEYARD)
    return cluster


async def test_a_record_that_has_expired_is_not_delivered(random: Random) -> None:
    cluster = await QueueCluster(random).start(queue_ttl_ms="10000")
    await cluster.publish(b"a")
    await asyncio.sleep(6)
    await cluster.publish(b"b")
    await asyncio.sleep(5)
    assert values(await cluster.session().acquire(10)) == [b"b"]


async def test_a_record_brings_its_own_time_to_live_and_the_shorter_one_counts(random: Random) -> None:
    cluster = await QueueCluster(random).start(queue_ttl_ms="20000")
    queues = cluster.queues()
    await asyncio.gather(
        *(queues.publish(QUEUE, lasting(b"%d" % ttl, ttl)) for ttl in (5_000, 1_000_000, 9_000)),
        queues.publish(QUEUE, QueueMessage(b"x", headers=(("tidelog.ttl.ms", b"soon"),))),
    )
    await asyncio.sleep(10)
    session = cluster.session()
    taken = await session.acquire(10)
    assert values(taken) == [b"1000000", b"x"]
    await asyncio.sleep(11)
    await session.release(positions(taken))
    assert await session.acquire(10) == []


async def test_expired_records_become_dead_letters_though_nobody_reads(random: Random) -> None:
    cluster = await with_graveyard(random, queue_ttl_ms="10000")
    await cluster.publish(b"a", b"b")
    assert await cluster.queues().depth(QUEUE, QUEUE) == QueueDepth(2, 0)
    assert await letters(cluster, 2) == [(b"a", "expired"), (b"b", "expired")]
    assert await cluster.queues().depth(QUEUE, QUEUE) == QueueDepth(0, 0)


async def test_expired_records_become_dead_letters_after_a_crash(random: Random) -> None:
    cluster = await with_graveyard(random)
    await cluster.queues().publish(QUEUE, lasting(b"a", 30_000))
    await cluster.crash()
    assert await letters(cluster, 1) == [(b"a", "expired")]


async def test_a_retry_by_time_to_live_and_dead_letters_comes_back(random: Random) -> None:
    """Two queues that are each other's dead letter topic: what is rejected waits in the other one."""
    cluster = await QueueCluster(random).start()
    await cluster.make("later", queue_ttl_ms="30000")
    await cluster.configure(share_dead_letter_topic="later")
    await cluster.configure("later", share_dead_letter_topic=QUEUE)
    await cluster.publish(b"a")
    session = cluster.session()
    await session.reject(positions(await session.acquire(1)))
    assert await session.acquire(1, wait_ms=29_000) == []
    assert values(await session.acquire(1, wait_ms=2_000)) == [b"a"]


@pytest.mark.parametrize("letters_kept", [False, True])
async def test_the_oldest_records_are_dropped_from_a_queue_that_is_too_long(
    random: Random, letters_kept: bool
) -> None:
    bounds = {"queue_max_records": "3"}
    cluster = await (
        with_graveyard(random, **bounds) if letters_kept else QueueCluster(random).start(**bounds)
    )
    await cluster.publish(*b"a b c d e".split())
    session = cluster.session()
    taken = await session.acquire(2)
    assert values(taken) == [b"c", b"d"]
    await cluster.publish(*b"f g".split())  # what is acquired does not count
    await session.release(positions(taken))
    assert values(await cluster.session().acquire(10)) == [b"e", b"f", b"g"]
    if letters_kept:
        reason = "queue length limit reached"
        assert await letters(cluster, 4) == [(value, reason) for value in b"a b c d".split()]


async def test_a_queue_that_is_bounded_in_bytes_drops_the_oldest_records(random: Random) -> None:
    cluster = await QueueCluster(random).start(queue_max_bytes="4000")
    for number in range(10):
        await cluster.publish(b"%d" % number + bytes(900))
    taken = await cluster.session().acquire(10)
    assert [value[:1] for value in values(taken) if value] == [b"6", b"7", b"8", b"9"]


async def test_a_queue_that_is_full_refuses_new_records_until_there_is_room(random: Random) -> None:
    cluster = await QueueCluster(random).start(queue_max_records="3", queue_overflow="reject-publish")
    queues = cluster.queues()
    waits = [queues.publish(QUEUE, QueueMessage(value)) for value in b"a b c d e".split()]
    results = await asyncio.gather(*waits, return_exceptions=True)
    assert [isinstance(result, errors.PolicyViolation) for result in results] == [False] * 3 + [True] * 2
    session = cluster.session()
    taken = await session.acquire(1)
    await cluster.publish(b"f")
    assert values(taken + await session.acquire(10)) == [b"a", b"b", b"c", b"f"]


async def test_a_full_queue_refuses_kafka_producers_too(random: Random) -> None:
    cluster = await QueueCluster(random).start(queue_max_bytes="100", queue_overflow="reject-publish")
    with pytest.raises(errors.PolicyViolation):
        await cluster.publish(bytes(101))
    leader = await cluster.cluster.connect(1, "producer")
    batch = build_batch([Record(0, 0, None, bytes(range(200)))], codec=Codec.GZIP)
    part = produce.PartitionProduceData(0, batch)
    request = produce.ProduceRequest(
        acks=-1, topic_data=[produce.TopicProduceData(QUEUE, partition_data=[part])]
    )
    answer = await leader.ask(request, produce.ProduceResponse, version=12)
    assert answer.responses[0].partition_responses[0].error_code == errors.PolicyViolation.code
    batch = build_batch([Record(0, 0, None, b"small")])
    request.topic_data[0].partition_data[0].records = batch
    answer = await leader.ask(request, produce.ProduceResponse, version=12)
    assert answer.responses[0].partition_responses[0].error_code == errors.NONE


async def test_records_are_gone_when_all_groups_of_the_queue_have_finished_them(random: Random) -> None:
    cluster = await QueueCluster(random, 3).start(queue_groups=f"{QUEUE},audit", queue_delete_consumed="true")
    queues = cluster.queues()
    await cluster.publish(*b"a b c d".split())
    workers, auditors = cluster.session(), queues.session(QUEUE, "audit")
    taken = await workers.acquire(4)
    await workers.acknowledge([taken[at].position for at in (0, 1, 3)])
    await asyncio.sleep(3)
    assert (
        values(await queues.session(QUEUE, "later").acquire(1)) == []
    )  # as all groups, it starts at the end
    log = cluster.cluster.brokers[cluster.leader()]._partitions.led_here(QUEUE, 0).log
    assert log.start == 0
    audited = await auditors.acquire(4)
    await auditors.acknowledge(positions(audited))
    await asyncio.sleep(3)
    assert log.start == 2  # the third record is held
    await workers.acknowledge([taken[2].position])
    await asyncio.sleep(3)
    assert log.start == 4
    follower = cluster.cluster.brokers[cluster.elsewhere()]._partitions.held[TopicPartition(QUEUE, 0)]
    assert follower.log.start == 4


async def test_deliveries_without_limit_are_counted(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    await cluster.configure(share_delivery_count_limit="-1")
    await cluster.publish(b"a", b"b")
    session = cluster.session()
    for number in range(1, 31):
        taken = await session.acquire(10)
        assert [(delivery.value, delivery.deliveries) for delivery in taken] == [
            (b"a", number),
            (b"b", number),
        ]
        await session.release(positions(taken))


async def test_a_door_routes_dead_letters_and_is_asked_again_after_an_error(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    routed: list[DeadLetter] = []
    failures = [errors.LeaderNotAvailable("not now")]

    async def route(letters: Sequence[DeadLetter]) -> None:
        if failures:
            raise failures.pop()
        routed.extend(letters)

    cluster.queues().route_dead_letters(lambda topic, group: route if topic == QUEUE == group else None)
    await cluster.publish(b"a", b"b")
    session = cluster.session()
    taken = await session.acquire(2)
    await session.acknowledge([taken[0].position])
    await session.reject([taken[1].position])
    await asyncio.sleep(5)
    assert [(letter.record.value, letter.reason, letter.deliveries) for letter in routed] == [
        (b"b", LetterReason.REJECTED, 1)
    ]
    assert await cluster.queues().depth(QUEUE, QUEUE) == QueueDepth(0, 0)
