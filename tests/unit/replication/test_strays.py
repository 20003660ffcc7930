"""Logs that the metadata does not know are parked, not deleted, and come back with their topic."""

from __future__ import annotations

import logging
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from tests.unit.storage.making import HandClock, append, batch, fill, offsets
from tests.unit.storage.test_log_dirs import CONFIG, ORDERS, TOPIC_ID, started
from tidelog.metadata.changes import Update
from tidelog.metadata.image import Image, PartitionImage, TopicImage
from tidelog.metadata.sharded_map import ShardedMap
from tidelog.replication.pace import Pace
from tidelog.replication.partitions import Partitions
from tidelog.replication.throttle import NO_LIMIT
from tidelog.storage import checkpoints
from tidelog.storage.background import Background, Intervals
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.testing import VirtualDisk
from tidelog.types import NodeId

pytestmark = pytest.mark.simulated

HERE, THERE = NodeId(1), NodeId(2)
OTHER_ID = UUID(int=78)


def image(topic_id: UUID | None = TOPIC_ID, replicas: tuple[NodeId, ...] = (HERE,)) -> Image:
    """Of a cluster with the topic, or without any."""
    if topic_id is None:
        return Image()
    partition = PartitionImage(0, replicas, replicas[0], 0, replicas, 0, 0)
    topic = TopicImage(ORDERS.topic, topic_id, (partition,), 0)
    return Image(topics=ShardedMap([(topic.name, topic)]), names=ShardedMap([(topic.id, topic.name)]))


async def broker(disk: VirtualDisk, known: Image) -> tuple[Partitions, LogDirs]:
    dirs = await started([disk])
    partitions = Partitions(HERE, dirs, known, lambda _: CONFIG, Pace(HandClock(), lambda: NO_LIMIT))
    await partitions.start()
    return partitions, dirs


async def a_log_of_an_earlier_run(disk: VirtualDisk, count: int = 5) -> None:
    _, dirs = await broker(disk, image())
    fill(dirs.open(ORDERS), count)
    await dirs.open(ORDERS).flush()
    dirs.open(ORDERS).advance_start(2 if count else 0)
    await dirs.stop()


def strays(disk: VirtualDisk) -> list[str]:
    return [name for name in disk.list("/a") if name.endswith("-stray")]


@pytest.mark.parametrize("known", [image(None), image(OTHER_ID), image(TOPIC_ID, (THERE,))])
async def test_a_log_that_the_metadata_does_not_know_is_parked(
    random: Random, known: Image, caplog: pytest.LogCaptureFixture
) -> None:
    disk = VirtualDisk(random)
    await a_log_of_an_earlier_run(disk)
    partitions, dirs = await broker(disk, known)
    (name,) = strays(disk)
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert any(f"/a/{name}" in message and "remove" in message for message in warnings)
    if OTHER_ID in known.names:
        assert partitions.held_here(*ORDERS).log.end == 0
    else:
        assert ORDERS not in dirs
    await dirs.stop()
    disk.crash(random)
    await broker(disk, known)
    assert strays(disk) == [name]
    assert disk.size(f"/a/{name}/{0:020d}.log") == 5 * len(batch(0))


@pytest.mark.parametrize("running", [False, True])
async def test_a_stray_comes_back_with_its_topic(random: Random, running: bool) -> None:
    disk = VirtualDisk(random)
    await a_log_of_an_earlier_run(disk)
    partitions, dirs = await broker(disk, image(None))
    if running:
        update = Update(image(None), image(), (ORDERS.topic,), (), False, False)
        await partitions.apply(update)
    else:
        await dirs.stop()
        disk.crash(random)
        partitions, dirs = await broker(disk, image())
    log = partitions.held_here(*ORDERS).log
    assert (log.start, offsets(log)) == (2, [2, 3, 4])
    assert strays(disk) == []


async def test_a_topic_that_is_deleted_while_the_broker_runs_is_deleted(random: Random) -> None:
    disk = VirtualDisk(random)
    await a_log_of_an_earlier_run(disk)
    partitions, _ = await broker(disk, image())
    await partitions.apply(Update(image(), image(None), (ORDERS.topic,), (), False, False))
    disk.crash(random)
    await broker(disk, image(None))
    assert strays(disk) == []
    assert not disk.exists("/a/orders-0")


@pytest.mark.parametrize("harm", ["missing", "empty", "garbage"])
@pytest.mark.parametrize("count", [0, 5])
async def test_records_of_which_nobody_knows_the_topic_are_not_shown(
    random: Random, harm: str, count: int
) -> None:
    disk = VirtualDisk(random)
    await a_log_of_an_earlier_run(disk, count)
    path = f"/a/orders-0/{checkpoints.PARTITION_METADATA}"
    if harm == "missing":
        disk.remove(path)
    else:
        disk.open(path).truncate(0)
        disk.open(path).write(b"\0" * 40 if harm == "garbage" else b"", 0)
    partitions, dirs = await broker(disk, image(OTHER_ID))
    assert partitions.held_here(*ORDERS).log.end == 0
    assert len(strays(disk)) == (count > 0)
    await dirs.stop()
    partitions, dirs = await broker(disk, image(OTHER_ID))
    assert dirs.home(ORDERS).topic_id(ORDERS) == OTHER_ID


@pytest.mark.parametrize("synced_by", ["housekeeping", "append", "flush"])
@pytest.mark.parametrize("seed", range(8))
async def test_the_topic_of_a_log_is_on_disk_with_its_first_sync(
    random: Random, seed: int, synced_by: str
) -> None:
    disk = VirtualDisk(random)
    _, dirs = await broker(disk, image())
    log = dirs.open(ORDERS)
    if synced_by == "append":
        log.reconfigure(replace(CONFIG, flush_messages=1))
    pending = append(log, batch(0))
    if synced_by == "append":
        await pending  # type: ignore[misc]
    elif synced_by == "flush":
        await log.flush()
    else:
        await Background(dirs, HandClock(), Intervals(), lambda _: None).tick()
    disk.crash(random)
    _, dirs = await broker(disk, image())
    assert dirs.home(ORDERS).topic_id(ORDERS) == TOPIC_ID
    assert strays(disk) == []
