"""The wait for an append to be committed."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.storage.making import HandClock, batch
from tests.unit.storage.test_log_dirs import CONFIG, ORDERS, TOPIC_ID, slow_disks, started
from tidelog import errors
from tidelog.metadata.image.image import Image, PartitionImage, TopicImage
from tidelog.metadata.image.sharded_map import ShardedMap
from tidelog.replication.commit_status import committed_within
from tidelog.replication.copy_pacer import CopyPacer
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.replication.throttle import NO_LIMIT
from tidelog.types import NodeId, Offset

pytestmark = pytest.mark.simulated

LEADER, FOLLOWER = NodeId(1), NodeId(2)


async def led(random: Random) -> tuple[Partitions, HostedPartition]:
    """A partition that this broker leads, with one follower in sync."""
    replicas = (LEADER, FOLLOWER)
    topic = TopicImage(ORDERS.topic, TOPIC_ID, (PartitionImage(0, replicas, LEADER, 0, replicas, 0, 0),), 0)
    image = Image(topics=ShardedMap([(topic.name, topic)]), names=ShardedMap([(topic.id, topic.name)]))
    dirs = await started(slow_disks(random))
    partitions = Partitions(LEADER, dirs, image, lambda _: CONFIG, CopyPacer(HandClock(), lambda: NO_LIMIT))
    await partitions.start()
    return partitions, partitions.led_here(*ORDERS)


async def test_the_wait_ends_when_the_follower_has_the_batch(random: Random) -> None:
    partitions, partition = await led(random)
    appended = partition.append_own(bytearray(batch(0)))
    wait = asyncio.ensure_future(committed_within(partition, appended, 1_000))
    await asyncio.sleep(0.5)
    assert not wait.done()
    partition.follower_fetched(FOLLOWER, Offset(1), 0)
    await wait
    await committed_within(partition, appended, 1_000)
    await partitions.stop()


async def test_a_follower_that_does_not_fetch_costs_the_time_out(random: Random) -> None:
    partitions, partition = await led(random)
    appended = partition.append_own(bytearray(batch(0)))
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(
        errors.RequestTimedOut, match=f"{ORDERS}: the batch is not on all in-sync replicas yet"
    ):
        await committed_within(partition, appended, 1_000)
    assert loop.time() - began == pytest.approx(1)
    await partitions.stop()
