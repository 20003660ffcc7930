"""Bytes that rotted on a queue's disk before anything noticed: they are not handed out, and their log is checked."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.queues.queue_cluster import QUEUE, QueueCluster, positions, values
from tidelog import errors
from tidelog.groups.share.partition import AcquiredRange
from tidelog.queues.delayed_records import DELAYED_TOPIC
from tidelog.queues.message import QueueMessage, deliveries
from tidelog.record.builder import BatchBuilder
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

DELAY_MS = 20_000
NO_SCRUBS = {"tidelog_scrub_period_ms": str(1 << 40)}


def rot(cluster: QueueCluster, node: int, name: TopicPartition, value: bytes) -> None:
    """Changes the last byte of the record's value."""
    disk = cluster.cluster.machines[node].disk
    path = f"/data/{name}/{0:020d}.log"
    content = disk.files(f"/data/{name}")[path]
    assert content.count(value) == 1
    position = content.index(value) + len(value) - 1
    disk.rot(path, position, bytes([content[position] ^ 0x10]))


def is_damaged(cluster: QueueCluster, node: int, name: TopicPartition) -> bool:
    return bool(dict(cluster.cluster.replicas(name))[node].log.damaged)


async def test_a_rotten_delayed_message_is_not_delivered_and_delays_no_other(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    queues, session = cluster.queues(), cluster.session()
    due_ms = queues._shares.clock.now_ms() + DELAY_MS
    index, _ = await queues.publish_later(QUEUE, QueueMessage(b"rotten"), due_ms)
    await queues.publish_later(QUEUE, QueueMessage(b"whole"), due_ms)
    name = TopicPartition(DELAYED_TOPIC, index)
    await asyncio.sleep(1)
    rot(cluster, 1, name, b"rotten")
    assert values(await session.acquire(10, wait_ms=60_000)) == [b"whole"]
    assert await session.acquire(10, wait_ms=60_000) == []
    assert is_damaged(cluster, 1, name)
    await queues.publish_later(QUEUE, QueueMessage(b"later"), queues._shares.clock.now_ms() + DELAY_MS)
    assert values(await session.acquire(10, wait_ms=60_000)) == [b"later"]


async def test_a_delayed_message_that_rotted_on_its_leader_comes_from_another_replica(random: Random) -> None:
    cluster = await QueueCluster(random, 3).start()
    queues, session = cluster.queues(), cluster.session()
    due_ms = queues._shares.clock.now_ms() + DELAY_MS
    index, _ = await queues.publish_later(QUEUE, QueueMessage(b"rotten"), due_ms)
    name = TopicPartition(DELAYED_TOPIC, index)
    await asyncio.sleep(1)
    rot(cluster, cluster.leader(*name), name, b"rotten")
    assert values(await session.acquire(10, wait_ms=120_000)) == [b"rotten"]
    assert await session.acquire(10, wait_ms=60_000) == []


async def test_rotten_records_are_not_browsed_and_their_log_is_checked(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    for value in (b"first", b"second", b"third"):
        await cluster.publish(value)
    rot(cluster, 1, TopicPartition(QUEUE, 0), b"second")
    assert [record.value for record in await cluster.queues().browse(QUEUE, QUEUE)] == [b"first"]
    with pytest.raises(errors.CorruptMessage, match="offset 1"):
        await cluster.queues().browse(QUEUE, QUEUE, offset=1)
    await asyncio.sleep(5)
    assert is_damaged(cluster, 1, TopicPartition(QUEUE, 0))


async def test_a_rotten_record_is_no_dead_letter_and_its_log_is_checked(random: Random) -> None:
    cluster = await QueueCluster(random).start()
    await cluster.configure(share_dead_letter_topic="letters")
    await cluster.publish(b"rotten")
    session = cluster.session()
    taken = await session.acquire(1)
    rot(cluster, 1, TopicPartition(QUEUE, 0), b"rotten")
    rejected = session.reject(positions(taken))
    await asyncio.sleep(5)
    assert is_damaged(cluster, 1, TopicPartition(QUEUE, 0))
    letters = dict(cluster.cluster.replicas(TopicPartition("letters", 0)))
    assert all(part.log.end == 0 for part in letters.values())
    rejected.cancel()


def test_a_batch_that_was_damaged_on_its_way_is_not_delivered() -> None:
    builder = BatchBuilder()
    builder.add(None, b"value", 1, ())
    data = bytearray(builder.build())
    acquired = [AcquiredRange(0, 0, 1)]
    assert values(deliveries(0, bytes(data), acquired, check_crc=True)) == [b"value"]
    data[-2] ^= 1
    with pytest.raises(errors.CorruptMessage):
        deliveries(0, bytes(data), acquired, check_crc=True)
