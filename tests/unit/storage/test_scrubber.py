"""Reading a directory in the background: what is found, at which pace, and where it goes on after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tests.unit.storage.making import batch, fill, offsets
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage
from tidelog.storage.dirs.log_dir import LogDir
from tidelog.storage.disk import SystemDisk
from tidelog.storage.files import OpenFiles
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.integrity.scrubber import Scrubber, ScrubPace
from tidelog.storage.log import Log
from tidelog.testing import VirtualClock, VirtualDisk
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

CONFIG = TopicConfig(segment_bytes=2000, index_interval_bytes=200)
NAME = TopicPartition("orders", 0)
OTHER = TopicPartition("payments", 3)
SIZE = len(batch(0))
HOUR_MS = 3_600_000
PACE = ScrubPace(HOUR_MS, 1_000_000)


def configs(topic: str) -> TopicConfig:
    return CONFIG


async def started(disk: VirtualDisk, random: Random) -> LogDir:
    home = LogDir("/data", disk, VirtualClock(), random, OpenFiles(64))
    await home.start("cluster", 1, configs)
    home.began()
    return home


async def with_log(disk: VirtualDisk, random: Random, count: int = 100) -> tuple[LogDir, Log]:
    home = await started(disk, random)
    log = home.create(NAME, UUID(int=1), CONFIG)
    fill(log, count)
    await log.flush()
    return home, log


def scrubber_of(home: LogDir, pace: ScrubPace = PACE) -> Scrubber:
    return Scrubber(home, configs, lambda: pace)


async def test_a_round_reads_everything_that_is_on_disk_and_finds_nothing_in_a_log_that_is_whole(
    random: Random,
) -> None:
    home, log = await with_log(VirtualDisk(random), random)
    scrubber = scrubber_of(home)
    fill(log, 3)  # not synced yet
    await scrubber.scrub()
    assert scrubber.counters.bytes_read == 100 * SIZE
    assert scrubber.counters.segments == len(log.segments)
    assert log.damaged == () and scrubber.counters.round_done_ms > 0


@pytest.mark.parametrize("at", [8, 16, 18, 22, 26, 60, 62])
@pytest.mark.parametrize("open_now", [True, False])
async def test_damage_in_any_field_is_found_remembered_and_read_around(
    random: Random, at: int, open_now: bool
) -> None:
    disk = VirtualDisk(random)
    home, log = await with_log(disk, random)
    number = len(log.segments) // 2
    base, path = log.segments[number].base, log.segments[number].path
    if not open_now:
        await home.stop()
        home = await started(disk, random)
        assert home.logs == {}
    disk.rot(path, 2 * SIZE + at)
    await scrubber_of(home).scrub()
    log = home.open(NAME, CONFIG)
    assert log.damaged == (BadRange(base + 2, base + 3, base, 2 * SIZE, SIZE),)
    assert list(home.volume.damaged) == [NAME]
    with pytest.raises(CorruptMessage):
        log.reader.read(base + 2, 1000, log.end)
    assert offsets(log, base + 3) == list(range(base + 3, 100))
    await home.stop()
    again = await started(disk, random)
    assert again.to_open == {NAME} and again.open(NAME, CONFIG).damaged == log.damaged


async def test_an_index_that_points_between_batches_is_built_anew(random: Random) -> None:
    disk = VirtualDisk(random)
    home, log = await with_log(disk, random)
    segment = log.segments[2]
    path = segment.path.replace(".log", ".index")
    segment.release_all()
    disk.rot(path, 7, bytes([disk.read_file(path)[7] ^ 1]))
    scrubber = scrubber_of(home)
    await scrubber.scrub()
    assert scrubber.counters.indexes_rebuilt == 1 and log.damaged == ()
    await scrubber.scrub()
    assert scrubber.counters.indexes_rebuilt == 1


async def test_it_keeps_its_pace_and_begins_once_in_a_period(random: Random) -> None:
    home, _ = await with_log(VirtualDisk(random), random)
    scrubber = scrubber_of(home, ScrubPace(HOUR_MS, 10 * SIZE))
    task = asyncio.ensure_future(scrubber.run())
    await asyncio.sleep(60 + 5)
    assert 40 * SIZE <= scrubber.counters.bytes_read <= 70 * SIZE
    await asyncio.sleep(10)
    assert scrubber.counters.bytes_read == 100 * SIZE
    await asyncio.sleep(3500)
    assert scrubber.counters.bytes_read == 100 * SIZE
    await asyncio.sleep(120)
    assert scrubber.counters.bytes_read == 200 * SIZE
    task.cancel()


async def test_a_round_that_was_stopped_goes_on_when_the_pace_is_raised_again(random: Random) -> None:
    home, _ = await with_log(VirtualDisk(random), random)
    pace = ScrubPace(HOUR_MS, 10 * SIZE)
    scrubber = Scrubber(home, configs, lambda: pace)
    task = asyncio.ensure_future(scrubber.run())
    await asyncio.sleep(60 + 3)
    pace = ScrubPace(HOUR_MS, 0)
    await asyncio.sleep(60)
    read = scrubber.counters.bytes_read
    await asyncio.sleep(600)
    assert 0 < scrubber.counters.bytes_read == read < 100 * SIZE
    pace = ScrubPace(HOUR_MS, 100 * SIZE)
    await asyncio.sleep(3)
    assert scrubber.counters.bytes_read == 100 * SIZE
    task.cancel()


async def test_a_pause_ends_sooner_when_the_pace_is_raised_meanwhile(random: Random) -> None:
    home, _ = await with_log(VirtualDisk(random), random)
    pace = ScrubPace(HOUR_MS, 1)
    scrubber = Scrubber(home, configs, lambda: pace)
    task = asyncio.ensure_future(scrubber.run())
    await asyncio.sleep(60 + 5)
    pace = ScrubPace(HOUR_MS, 100 * SIZE)
    await asyncio.sleep(5)
    assert scrubber.counters.bytes_read == 100 * SIZE
    task.cancel()


async def test_it_tells_while_a_round_takes_longer_than_its_period(
    random: Random, caplog: pytest.LogCaptureFixture
) -> None:
    home, _ = await with_log(VirtualDisk(random), random)
    scrubber = scrubber_of(home, ScrubPace(50_000, SIZE))
    task = asyncio.ensure_future(scrubber.run())
    await asyncio.sleep(50 + 40)
    assert not scrubber.is_overdue and caplog.messages == []
    await asyncio.sleep(40)
    assert scrubber.is_overdue and scrubber.counters.round_done_ms == 0
    assert len(caplog.messages) == 1 and "tidelog.scrub.bytes.per.second" in caplog.text
    task.cancel()


async def test_a_restart_goes_on_where_it_was(random: Random) -> None:
    disk = VirtualDisk(random)
    home, _ = await with_log(disk, random)
    fill(home.create(OTHER, UUID(int=2), CONFIG), 50)
    scrubber = scrubber_of(home, ScrubPace(HOUR_MS, SIZE))
    task = asyncio.ensure_future(scrubber.run())
    await asyncio.sleep(60 + 75)
    task.cancel()
    read = scrubber.counters.bytes_read
    assert 60 * SIZE < read < 90 * SIZE
    await home.stop()
    again = scrubber_of(await started(disk, random), ScrubPace(HOUR_MS, 100 * SIZE))
    task = asyncio.ensure_future(again.run())
    await asyncio.sleep(120)
    task.cancel()
    # What was read since the checkpoint was saved is read again.
    assert 150 * SIZE - read <= again.counters.bytes_read < 150 * SIZE - read + 60 * SIZE
    assert again.counters.round_done_ms > 0


async def test_what_a_reader_could_not_make_sense_of_is_checked_at_once(random: Random) -> None:
    disk = VirtualDisk(random)
    home, log = await with_log(disk, random)
    task = asyncio.ensure_future(scrubber_of(home).run())
    disk.rot(log.segments[1].path, 8, b"\xff\xff\xff\xff")
    with pytest.raises(CorruptMessage):
        log.reader.read(log.segments[1].base, 1000, log.end)
    await asyncio.sleep(2)
    assert [bad.start for bad in log.damaged] == [log.segments[1].base]
    task.cancel()


async def test_a_log_that_is_cut_or_deleted_meanwhile_is_not_damaged(random: Random) -> None:
    disk = VirtualDisk(random)
    home, log = await with_log(disk, random)
    task = asyncio.ensure_future(scrubber_of(home, ScrubPace(HOUR_MS, 100)).scrub())
    await asyncio.sleep(20)
    log.truncate_to(30)
    fill(log, 40)
    await asyncio.sleep(200)
    home.delete(NAME)
    await task
    assert log.damaged == () and home.volume.damaged == {}


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 1_000_000])
def test_a_file_is_read_past_the_cache_at_any_position(tmp_path: Path, size: int) -> None:
    data = Random(1).randbytes(size)
    (tmp_path / "file").write_bytes(data)
    file = SystemDisk().open_direct(str(tmp_path / "file"))
    assert file.size() == size
    for position, count in ((0, size), (0, 2 * size), (size // 2, 100), (size - 1, 1), (size, 10)):
        assert file.read(count, position) == data[position : position + count]
