"""A replica that follows moves to another folder of its broker, and follows on meanwhile."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.storage.making import HandClock, batch, offsets
from tests.unit.storage.test_log_dirs import CONFIG, ORDERS, PATHS, TOPIC_ID, slow_disks, started
from tidelog import errors
from tidelog.metadata.image import Image, PartitionImage, TopicImage
from tidelog.metadata.sharded_map import ShardedMap
from tidelog.replication.pace import Pace
from tidelog.replication.partitions import Partitions
from tidelog.replication.throttle import NO_LIMIT
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.testing import VirtualDisk
from tidelog.types import NodeId, Offset, TopicPartition

pytestmark = pytest.mark.simulated

HERE, THERE = NodeId(1), NodeId(2)


async def following(disks: list[VirtualDisk]) -> tuple[Partitions, LogDirs]:
    known = PartitionImage(0, (THERE, HERE), THERE, 0, (THERE, HERE), 0, 0)
    topic = TopicImage(ORDERS.topic, TOPIC_ID, (known,), 0)
    image = Image(topics=ShardedMap([(topic.name, topic)]), names=ShardedMap([(topic.id, topic.name)]))
    pace = Pace(HandClock(), lambda: NO_LIMIT)
    dirs = await started(disks)
    partitions = Partitions(HERE, dirs, image, lambda _: CONFIG, pace)
    await partitions.start()
    return partitions, dirs


@pytest.mark.parametrize("cut", [False, True])
async def test_a_replica_that_follows_moves_while_it_follows(random: Random, cut: bool) -> None:
    partitions, dirs = await following(slow_disks(random))
    replica = partitions.held_here(*ORDERS)
    first = replica.log.folder
    while replica.log.next < 60:
        replica.replicate(memoryview(batch(replica.log.next)))
    partitions.move(ORDERS, "/b")
    while dirs.moves[ORDERS].lag > 10:
        await asyncio.sleep(0.001)
    if cut:
        replica.truncate_to(Offset(30))
    for _ in range(40):
        replica.replicate(memoryview(batch(replica.log.next, epoch=1)))
    while replica.log.folder == first:
        await asyncio.sleep(0.001)
    end = replica.log.end
    replica.replicate(memoryview(batch(end, epoch=1)))
    assert replica.log.folder == f"/b/{ORDERS.topic}-0"
    assert offsets(replica.log) == list(range(end + 1))
    assert list(replica.log.epochs) == [(0, 0), (1, 30 if cut else 60)]
    await partitions.stop()


async def test_what_this_broker_does_not_hold_does_not_move(random: Random) -> None:
    partitions, _ = await following([VirtualDisk(random) for _ in PATHS])
    with pytest.raises(errors.UnknownTopicOrPartition):
        partitions.move(TopicPartition(ORDERS.topic, 1), "/b")
    with pytest.raises(errors.LogDirNotFound):
        partitions.move(ORDERS, "/nowhere")
