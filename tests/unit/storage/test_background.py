"""Housekeeping, tick by tick."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from tests.unit.storage.making import NOW_MS, HandClock, fill
from tidelog.config import TopicConfig
from tidelog.storage import checkpoints
from tidelog.storage.background import IDLE_FILES_MS, OPENED_PER_TICK, Background, Intervals
from tidelog.storage.dirs.log_dir import LogDir
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.files import OpenFiles
from tidelog.testing import VirtualDisk
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

TOPIC_ID = UUID(int=77)
CONFIG = TopicConfig(segment_bytes=300, retention_ms=10_000, file_delete_delay_ms=2_000)


class Broker:
    """Directories, a clock and their housekeeping."""

    def __init__(self, disk: VirtualDisk, config: TopicConfig = CONFIG) -> None:
        self.clock = HandClock()
        self.files = OpenFiles(256)
        self.home = LogDir("/data", disk, self.clock, Random(1), self.files)
        self.config = config
        self.dirs = LogDirs([self.home], lambda topic: self.config)
        self.committed: dict[TopicPartition, int] = {}
        self.background = Background(self.dirs, self.clock, Intervals(), self.committed.get)

    async def start(self) -> Broker:
        await self.dirs.start("cluster", 1)
        return self

    async def pass_ms(self, ms: int) -> None:
        self.clock.ms += ms
        await self.background.tick()


def name(n: int) -> TopicPartition:
    return TopicPartition("t", n)


async def test_old_segments_go_and_then_their_files(random: Random) -> None:
    disk = VirtualDisk(random)
    broker = await Broker(disk).start()
    log = broker.dirs.create(name(0), TOPIC_ID)
    fill(log, 20)
    broker.committed[name(0)] = 20
    await broker.pass_ms(40_000)
    assert (log.start, log.size) == (20, 0)
    assert sum(each.endswith(".deleted") for each in disk.list(log.folder)) > 3
    await broker.pass_ms(2_000)
    assert not any(each.endswith(".deleted") for each in disk.list(log.folder))


@pytest.mark.parametrize(("first_ms", "due_ms"), [(15_000, 15_000), (90_000, 90_000), (900_000, 300_000)])
async def test_retention_is_first_looked_at_after_a_while(random: Random, first_ms: int, due_ms: int) -> None:
    broker = await Broker(VirtualDisk(random)).start()
    intervals = Intervals(first_ms=first_ms)
    broker.background = Background(broker.dirs, broker.clock, intervals, broker.committed.get)
    log = broker.dirs.create(name(0), TOPIC_ID)
    fill(log, 20)
    broker.committed[name(0)] = 20
    await broker.pass_ms(due_ms - 1)
    assert log.start == 0
    await broker.pass_ms(1)
    assert log.start == 20


async def test_nothing_goes_that_is_not_committed(random: Random) -> None:
    broker = await Broker(VirtualDisk(random)).start()
    log = broker.dirs.create(name(0), TOPIC_ID)
    fill(log, 20)
    broker.committed[name(0)] = 9
    await broker.pass_ms(40_000)
    assert 0 < log.start <= 9


async def test_logs_nobody_opens_are_looked_at_a_few_at_a_time_and_closed_again(random: Random) -> None:
    disk = VirtualDisk(random)
    broker = await Broker(disk).start()
    for n in range(50):
        fill(broker.dirs.create(name(n), TOPIC_ID), 2 if n else 20)
    for n in range(50):
        broker.home.committed.offsets[name(n)] = 20
    await broker.dirs.stop()
    broker = await Broker(disk).start()
    await broker.pass_ms(35_000)
    opened = []
    for _ in range(5):
        await broker.pass_ms(1_000)
        opened.append(len(broker.home.logs))
    # What retention changed stays open for its sync at the stop; the others are closed again.
    assert opened[0] <= OPENED_PER_TICK
    assert all(log.start == log.end for log in broker.home.logs.values())
    assert len(broker.files) < 200
    operations = disk.operations
    await broker.pass_ms(1_000)
    assert disk.operations == operations


async def test_logs_that_cannot_be_too_old_yet_rest(random: Random) -> None:
    disk = VirtualDisk(random)
    broker = await Broker(disk).start()
    for n in range(5):
        fill(broker.dirs.create(name(n), TOPIC_ID), 2, timestamp=NOW_MS + 10_000_000)
    await broker.dirs.stop()
    broker = await Broker(disk).start()
    await broker.pass_ms(35_000)
    await broker.pass_ms(1_000)
    assert broker.home.logs == {}
    assert broker.background._to_open == []
    await broker.pass_ms(300_000)
    assert broker.background._to_open == []
    broker.config = TopicConfig(segment_bytes=300, retention_ms=1)
    await broker.pass_ms(300_000)
    assert len(broker.background._to_open) == 5


async def test_checkpoints_are_written_now_and_then(random: Random) -> None:
    disk = VirtualDisk(random)
    broker = await Broker(disk).start()
    log = broker.dirs.create(name(0), TOPIC_ID)
    fill(log, 20, timestamp=NOW_MS + 10_000_000)
    broker.committed[name(0)] = 15
    log.advance_start(3)
    await broker.pass_ms(5_000)
    assert b"\nt 0 15\n" in disk.read_file(f"/data/{checkpoints.COMMITTED}")
    await broker.pass_ms(60_000)
    sealed = log.segments.last.base
    assert sealed > 0
    assert b"\nt 0 %d\n" % sealed in disk.read_file(f"/data/{checkpoints.RECOVERY_POINTS}")
    assert b"\nt 0 3\n" in disk.read_file(f"/data/{checkpoints.LOG_STARTS}")


async def test_deleted_partitions_leave_the_disk(random: Random) -> None:
    disk = VirtualDisk(random)
    broker = await Broker(disk).start()
    fill(broker.dirs.create(name(0), TOPIC_ID), 20)
    broker.dirs.delete(name(0))
    await broker.pass_ms(1_000)
    assert any("-delete" in each for each in disk.list("/data"))
    await broker.pass_ms(1_000)
    assert not any(each.startswith("t-0") for each in disk.list("/data"))


async def test_many_partitions_are_deleted_with_one_sync(
    random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic of thousands went for many seconds in which nobody was answered."""
    disk, synced, removed = VirtualDisk(random), [], []
    broker = await Broker(disk).start()
    for one in range(50):
        broker.dirs.create(name(one), TOPIC_ID)
    sync, remove = disk.sync_folder, disk.remove_folder
    monkeypatch.setattr(disk, "sync_folder", lambda path: (synced.append(path), sync(path)))
    monkeypatch.setattr(disk, "remove_folder", lambda path: (removed.append(len(synced)), remove(path)))
    for one in range(50):
        broker.dirs.delete(name(one))
    broker.dirs.deleted()
    broker.dirs.deleted()
    assert synced == ["/data"]
    await broker.pass_ms(2_000)
    assert not any("t-" in each for each in disk.list("/data"))
    assert removed == [1] * 50, "names are durable before bytes go"


async def test_producers_expire_and_idle_files_are_closed(random: Random) -> None:
    from tests.unit.storage.test_producers import header

    broker = await Broker(VirtualDisk(random)).start()
    log = broker.dirs.create(name(0), TOPIC_ID)
    fill(log, 2, timestamp=NOW_MS + 10_000_000)
    log.producers.appended(header(0), 0)
    await broker.pass_ms(IDLE_FILES_MS)
    await broker.pass_ms(IDLE_FILES_MS)
    assert len(broker.files) == 0
    await broker.pass_ms(90_000_000)
    assert len(log.producers) == 0


async def test_a_full_disk_is_no_reason_to_stop(random: Random) -> None:
    disk = VirtualDisk(random)
    broker = await Broker(disk).start()
    log = broker.dirs.create(name(0), TOPIC_ID)
    fill(log, 20, timestamp=NOW_MS + 10_000_000)
    broker.committed[name(0)] = 15
    disk.limit_free(0)
    await broker.pass_ms(60_000)
    assert broker.home.problem is None
    disk.limit_free(None)
    await broker.pass_ms(60_000)
    assert disk.exists(f"/data/{checkpoints.RECOVERY_POINTS}")
