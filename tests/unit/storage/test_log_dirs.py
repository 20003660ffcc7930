"""Several data directories: placing, finding and moving partitions."""

from __future__ import annotations

import asyncio
import errno
from random import Random
from uuid import UUID

import pytest

from tests.unit.storage.making import HandClock, append, batch, fill, offsets
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage, KafkaStorageError, LogDirNotFound, UnknownTopicOrPartition
from tidelog.storage.dirs.log_dir import LogDir
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.files import OpenFiles
from tidelog.testing import VirtualDisk, run
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

CONFIG = TopicConfig(segment_bytes=1000, index_interval_bytes=200)
TOPIC_ID = UUID(int=77)
ORDERS = TopicPartition("orders", 0)
PATHS = ("/a", "/b", "/c")


def make_dirs(disks: list[VirtualDisk], config: TopicConfig = CONFIG) -> LogDirs:
    files, clock = OpenFiles(64), HandClock()
    homes = [LogDir(path, disk, clock, Random(1), files) for path, disk in zip(PATHS, disks, strict=False)]
    return LogDirs(homes, lambda topic: config)


async def started(disks: list[VirtualDisk], config: TopicConfig = CONFIG) -> LogDirs:
    dirs = make_dirs(disks, config)
    await dirs.start("cluster", 1)
    return dirs


def slow_disks(random: Random) -> list[VirtualDisk]:
    disks = [VirtualDisk(random) for _ in PATHS]
    for disk in disks:
        disk.run_delay_s_max = 0.01
    return disks


async def test_partitions_are_spread_evenly_and_found_again(random: Random) -> None:
    disks = [VirtualDisk(random) for _ in PATHS]
    dirs = await started(disks)
    for n in range(9):
        dirs.create(TopicPartition("t", n), TOPIC_ID)
    assert [len(each.names) for each in dirs.dirs] == [3, 3, 3]
    homes = {name: dirs.home(name).path for name in dirs}
    await dirs.stop()
    dirs = await started(disks)
    assert {name: dirs.home(name).path for name in dirs} == homes
    with pytest.raises(UnknownTopicOrPartition):
        dirs.open(TopicPartition("t", 9))


async def test_what_an_earlier_topic_left_does_not_come_back(random: Random) -> None:
    disk = VirtualDisk(random)
    dirs = await started([disk])
    fill(dirs.create(ORDERS, TOPIC_ID), 5)
    assert dirs.create(ORDERS, TOPIC_ID).end == 5
    await dirs.stop()
    dirs = await started([disk])
    assert dirs.create(ORDERS, UUID(int=5)).end == 0
    await dirs.stop()
    dirs = await started([disk])
    assert dirs.create(ORDERS, UUID(int=5)).end == 0


@pytest.mark.parametrize("parked", [False, True])
async def test_a_doubt_whose_log_it_is_ends_with_the_log(random: Random, parked: bool) -> None:
    """Or the next topic of this name would have a replica that nobody opens."""
    dirs = await started([VirtualDisk(random)])
    dirs.create(ORDERS, TOPIC_ID)
    dirs.unidentified.add(ORDERS)
    if parked:
        dirs.clear_away(ORDERS, "its topic is not certain")
    else:
        dirs.delete(ORDERS)
    dirs.deleted()
    dirs.create(ORDERS, UUID(int=78))
    assert not dirs.unidentified


async def test_a_broken_directory_is_passed_over(random: Random) -> None:
    disks = [VirtualDisk(random) for _ in PATHS]
    disks[0].fail("open", "*", errno.EIO, times=100)
    dirs = await started(disks)
    assert [each.path for each in dirs.online()] == ["/b", "/c"]
    assert dirs.home(dirs.create(ORDERS, TOPIC_ID).name).path == "/b"
    for disk in disks[1:]:
        disk.fail("open", "*", errno.EIO, times=100)
    with pytest.raises(KafkaStorageError, match="no data directory"):
        await started(disks)


async def test_a_partition_moves_while_it_is_written(random: Random) -> None:
    disks = slow_disks(random)
    dirs = await started(disks)
    log = dirs.create(ORDERS, TOPIC_ID)
    for n in range(60):
        append(log, batch(log.next, 2, epoch=n // 25, producer=(7, 0, 2 * n)))
        log.producers.appended(*_last(log))
    log.advance_start(5)
    move = dirs.move(ORDERS, "/b")
    assert move is not None
    assert (move.lag, dirs.move(ORDERS, "/b")) == (120, move)
    copying = asyncio.ensure_future(move.copy())
    for _ in range(30):
        await asyncio.sleep(0.001)
        append(log, batch(log.next, epoch=2))
    await copying
    append(log, batch(log.next, epoch=2))
    moved = dirs.finish_move(ORDERS)
    assert dirs.open(ORDERS) is moved
    assert dirs.home(ORDERS).path == "/b"
    assert (moved.start, moved.end) == (5, 151)
    assert offsets(moved) == list(range(5, 151))
    assert list(moved.epochs) == [(0, 5), (1, 50), (2, 100)]
    known = moved.producers.get(7)
    assert known is not None
    assert known.last_sequence == 119
    append(moved, batch(151, epoch=2))
    assert dirs.home(ORDERS).topic_id(ORDERS) == TOPIC_ID
    await dirs.stop()
    dirs = await started(disks)
    assert dirs.home(ORDERS).path == "/b"
    assert offsets(dirs.open(ORDERS)) == list(range(5, 152))


@pytest.mark.parametrize("at", [8, 64])
async def test_bytes_that_rotted_do_not_move(random: Random, at: int) -> None:
    disks = slow_disks(random)
    dirs = await started(disks)
    log = dirs.create(ORDERS, TOPIC_ID)
    fill(log, 20)
    disks[0].rot(log.segments.first.path, 4 * len(batch(0)) + at, b"\x7f")
    move = dirs.move(ORDERS, "/b")
    assert move is not None
    with pytest.raises(CorruptMessage):
        await move.copy()
    assert list(log.volume.suspects) == [ORDERS]


@pytest.mark.parametrize("again", [False, True])
async def test_a_log_that_is_cut_while_it_moves_has_nothing_of_what_was_cut(
    random: Random, again: bool
) -> None:
    """As one of a follower may be; and it grows past its old end with other records before the move is done."""
    disks = slow_disks(random)
    dirs = await started(disks)
    log = dirs.create(ORDERS, TOPIC_ID)
    fill(log, 40)
    move = dirs.move(ORDERS, "/b")
    assert move is not None
    copying = asyncio.ensure_future(move.copy())
    if again:
        await copying
    else:
        while move.lag > 10:
            await asyncio.sleep(0.001)
    log.restart_at(15) if again else log.truncate_to(15)
    while log.next < 60:
        append(log, batch(log.next, 3, epoch=1))
    if again:
        assert move.cut
        copying = asyncio.ensure_future(move.copy())
    await copying
    moved = dirs.finish_move(ORDERS)
    assert list(moved.epochs) == ([(1, 15)] if again else [(0, 0), (1, 15)])
    assert (moved.start, moved.end) == (15 if again else 0, 60)
    assert offsets(moved) == list(range(moved.start, 60))


def _last(log):  # type: ignore[no-untyped-def]
    from tidelog._speed.log.batch import walk

    found = log.reader.read(log.end - 1, 1, log.end)
    header = walk(found.file.read(found.size, found.position))[0]
    return header, header.base_offset


async def crash_in_a_move(random: Random, operations: int, power: bool) -> bool:
    """The disk dies after so many operations of the move; true if the move had ended before."""
    disk = VirtualDisk(random)
    dirs = await started([disk, disk])
    fill(dirs.create(ORDERS, TOPIC_ID), 30)
    await dirs.open(ORDERS).flush()
    disk.crash_after(operations, power)

    async def move_all() -> None:
        move = dirs.move(ORDERS, "/b")
        assert move is not None
        await move.copy()
        dirs.finish_move(ORDERS)

    moving = asyncio.ensure_future(move_all())
    await asyncio.wait([moving], timeout=60)
    if power:
        disk.crash(random)
    else:
        disk.kill()
    dirs = await started([disk, disk])
    assert list(dirs) == [ORDERS]
    assert offsets(dirs.open(ORDERS)) == list(range(30))
    assert sum(ORDERS in each.names for each in dirs.dirs) == 1
    return moving.done() and moving.exception() is None


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_during_a_move_leaves_the_partition_in_one_place(power: bool) -> None:
    operations, ended = 0, False
    while not ended:
        operations += 3
        ended = run(lambda random, count=operations: crash_in_a_move(random, count, power), seed=operations)
    assert operations > 20


@pytest.mark.parametrize("seed", range(8))
async def test_a_move_that_is_done_survives_a_power_loss(random: Random, seed: int) -> None:
    disks = [VirtualDisk(random) for _ in PATHS]
    dirs = await started(disks)
    fill(dirs.create(ORDERS, TOPIC_ID), 30)
    move = dirs.move(ORDERS, "/b")
    assert move is not None
    await move.copy()
    dirs.finish_move(ORDERS)
    for disk in disks:
        disk.crash(random)
    dirs = await started(disks)
    assert dirs.home(ORDERS).path == "/b"
    assert offsets(dirs.open(ORDERS)) == list(range(30))


async def test_a_move_can_be_given_up(random: Random) -> None:
    disks = [VirtualDisk(random) for _ in PATHS]
    dirs = await started(disks)
    fill(dirs.create(ORDERS, TOPIC_ID), 5)
    dirs.move(ORDERS, "/b")
    assert dirs.move(ORDERS, "/a") is None
    assert dirs.moves == {}
    assert len(dirs.at("/b").take_due()) == 1
    with pytest.raises(LogDirNotFound, match="/a, /b, /c"):
        dirs.move(ORDERS, "/nowhere")


async def test_a_partition_that_is_not_here_yet_is_made_where_it_was_wanted(random: Random) -> None:
    dirs = await started([VirtualDisk(random) for _ in PATHS])
    assert dirs.move(ORDERS, "/c") is None
    dirs.create(ORDERS, TOPIC_ID)
    assert dirs.home(ORDERS).path == "/c"


async def test_a_move_ends_while_its_sealed_segments_are_synced(random: Random) -> None:
    disks = slow_disks(random)
    dirs = await started(disks)
    log = dirs.create(ORDERS, TOPIC_ID)
    fill(log, 40)
    target = next(each for each in dirs.dirs if each is not dirs.home(ORDERS))
    move = dirs.move(ORDERS, target.path)
    assert move is not None
    await move.copy()
    target.volume.rolled.clear()
    fill(log, 40)
    disks[dirs.dirs.index(target)].run_delay_s_max = 10
    copying = asyncio.ensure_future(move.copy())
    while not target.volume.rolled:
        await asyncio.sleep(0.001)
    (copy,) = target.volume.rolled
    housekeeping = asyncio.ensure_future(copy.sync_sealed())
    await asyncio.sleep(0)
    copying.cancel()
    dirs.finish_move(ORDERS)
    await housekeeping
    assert target.problem is None
    assert len(offsets(dirs.open(ORDERS))) == 80


@pytest.mark.parametrize("seed", range(10))
async def test_segments_that_came_after_the_copy_survive_a_power_loss(random: Random, seed: int) -> None:
    disks = [VirtualDisk(random) for _ in PATHS]
    dirs = await started(disks)
    log = dirs.create(ORDERS, TOPIC_ID)
    fill(log, 40)
    target = next(each for each in dirs.dirs if each is not dirs.home(ORDERS))
    move = dirs.move(ORDERS, target.path)
    assert move is not None
    await move.copy()
    fill(log, 40)
    await log.flush()
    assert dirs.finish_move(ORDERS).recovery_point == 80
    for disk in disks:
        disk.crash(random)
    dirs = await started(disks)
    assert offsets(dirs.open(ORDERS)) == list(range(80))


async def test_a_full_disk_costs_a_move_and_no_directory(random: Random) -> None:
    disks = [VirtualDisk(random) for _ in PATHS]
    dirs = await started(disks)
    log = dirs.create(ORDERS, TOPIC_ID)
    fill(log, 40)
    target = next(each for each in dirs.dirs if each is not dirs.home(ORDERS))
    move = dirs.move(ORDERS, target.path)
    assert move is not None
    await move.copy()
    disks[dirs.dirs.index(target)].limit_free(0)
    with pytest.raises(KafkaStorageError, match="full"):
        dirs.finish_move(ORDERS)
    dirs.cancel_move(ORDERS)
    assert len(dirs.online()) == 3
    assert target.take_due()
    assert offsets(dirs.open(ORDERS)) == list(range(40))
