"""Appends that wait for the disk: group commit, order, and what happens when the disk fails."""

from __future__ import annotations

import asyncio
import errno
from random import Random
from typing import Any

import pytest

from tests.unit.storage.making import FOLDER, NAME, append, batch, make_volume, offsets, open_log
from tidelog._speed.log.batch import header_at
from tidelog.config import TopicConfig
from tidelog.errors import KafkaStorageError
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.log import Log
from tidelog.storage.recovery import Recovery
from tidelog.testing import VirtualDisk
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

SYNCED = TopicConfig(flush_messages=1)
SMALL = TopicConfig(flush_messages=1, segment_bytes=300)


class CountingDisk(VirtualDisk):
    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.runs = 0
        self.run_delay_s_max = 0.01

    async def run(self, work: Any) -> Any:
        self.runs += 1
        return await super().run(work)


def send(log: Log, count: int = 1, value: bytes = b"value") -> asyncio.Future[None]:
    sent = append(log, batch(log.next, count, value=value))
    assert isinstance(sent, asyncio.Future)
    return sent


def synced_log(random: Random, config: TopicConfig = SYNCED) -> tuple[CountingDisk, Volume, Log]:
    disk = CountingDisk(random)
    volume = make_volume(disk)
    return disk, volume, open_log(volume, config)


async def test_the_end_moves_when_the_bytes_are_on_disk(random: Random) -> None:
    disk, _, log = synced_log(random)
    done = send(log, 3)
    assert (log.next, log.end) == (3, 0)
    assert log.reader.read(0, 1000, 3) is None
    assert log.appender.durable is done
    await done
    assert (log.next, log.end, log.recovery_point) == (3, 3, 3)
    assert log.appender.durable is None
    disk.crash(random)
    assert disk.read_file(f"{FOLDER}/{0:020d}.log") == batch(0, 3)


async def test_what_comes_while_one_group_is_under_way_is_one_group(random: Random) -> None:
    _, volume, log = synced_log(random)
    other = Log.open(volume, "/data/orders-1", TopicPartition("orders", 1), SYNCED)
    first = send(log)
    await asyncio.sleep(0)
    rest = [send(each) for _ in range(50) for each in (log, other)]
    await asyncio.gather(first, *rest)
    assert volume.flusher.groups == 2
    assert (log.end, other.end) == (51, 50)


@pytest.mark.parametrize("seed", range(8))
async def test_names_are_made_durable_by_the_append_that_succeeds(random: Random, seed: int) -> None:
    disk, _, log = synced_log(random)
    disk.limit_free(10)
    with pytest.raises(KafkaStorageError):
        await send(log)
    disk.limit_free(None)
    await send(log)
    disk.crash(random)
    assert disk.read_file(f"{FOLDER}/{0:020d}.log") == batch(0, 1)


async def test_appends_are_done_in_the_order_they_came(random: Random) -> None:
    _, _, log = synced_log(random, SMALL)
    order: list[int] = []
    for n in range(40):
        send(log).add_done_callback(lambda _, n=n: order.append(n))  # type: ignore[misc]
        if n % 7 == 0:
            await asyncio.sleep(0.003)
    await log.flush()
    await asyncio.sleep(0)
    assert order == list(range(40))
    assert len(log.segments) > 5
    assert offsets(log) == list(range(40))


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_full_disk_gives_the_offsets_back(random: Random, operation: Any) -> None:
    disk, volume, log = synced_log(random, SMALL)
    await send(log)
    disk.fail(operation, "*.log", errno.ENOSPC)
    failing = send(log)
    await asyncio.sleep(0)
    later = [send(log) for _ in range(8)]
    assert log.next == 10
    for each in (failing, *later):
        with pytest.raises(KafkaStorageError, match="full"):
            await each
    assert (log.next, log.end, volume.problem) == (1, 1, None)
    assert len(log.segments) == 1
    await send(log, value=b"again")
    assert offsets(log) == [0, 1]
    log.close()
    assert disk.size(f"{FOLDER}/{0:020d}.log") == log.size


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_failing_disk_takes_the_directory_offline(random: Random, operation: Any) -> None:
    disk, volume, log = synced_log(random)
    await send(log)
    disk.fail(operation, "*.log", errno.EIO)
    with pytest.raises(KafkaStorageError, match="offline"):
        await send(log)
    assert volume.problem is not None
    with pytest.raises(KafkaStorageError, match="offline"):
        send(log)
    with pytest.raises(KafkaStorageError, match="offline"):
        log.reader.read(0, 1000, 1)


async def test_one_logs_full_disk_is_not_anothers(random: Random) -> None:
    disk, volume, log = synced_log(random)
    other = Log.open(volume, "/data/orders-1", TopicPartition("orders", 1), SYNCED)
    disk.fail("write", f"{FOLDER}/*.log", errno.ENOSPC)
    failing, fine = send(log), send(other)
    with pytest.raises(KafkaStorageError):
        await failing
    await fine
    assert (log.end, other.end) == (0, 1)


async def test_producers_forget_what_was_not_written(random: Random) -> None:
    disk, _, log = synced_log(random)
    for n in range(8):
        data = batch(log.next, producer=(7, 0, n))
        header = header_at(data)
        assert header is not None
        if n == 6:
            disk.fail("write", "*.log", errno.ENOSPC)
        done = append(log, data)
        log.producers.appended(header, header.base_offset)
        if n < 6:
            await done  # type: ignore[misc]
    with pytest.raises(KafkaStorageError):
        await done  # type: ignore[misc]
    known = log.producers.get(7)
    assert known is not None
    assert known.next_sequence == 6


@pytest.mark.parametrize("seed", range(1, 60, 2))
async def test_what_was_told_survives_a_power_loss_in_the_middle_of_anything(
    random: Random, seed: int
) -> None:
    """Names of new segments, epochs and bytes alike."""
    disk, _, log = synced_log(random, SMALL)
    told = 0

    async def sending() -> None:
        nonlocal told
        for _ in range(8):
            await send(log)
            told = log.end

    disk.crash_after(seed)  # and so many operations
    await asyncio.wait([asyncio.ensure_future(sending())], timeout=60)
    disk.crash(random)
    disk.make_folder(FOLDER)
    report = Recovery(make_volume(disk), FOLDER, SMALL, power_lost=True).run(0, 0)
    assert report.end >= told
    assert not report.damaged


async def test_the_append_that_crosses_the_number_of_messages_waits(random: Random) -> None:
    _, _, log = synced_log(random, TopicConfig(flush_messages=10))
    for n in range(9):
        assert append(log, batch(n)) is None
    assert (log.end, log.recovery_point) == (9, 0)
    done = send(log)
    assert log.end == 10
    await done
    assert log.recovery_point == 10
    assert append(log, batch(10)) is None


async def test_a_log_is_synced_some_time_after_its_first_append(random: Random) -> None:
    disk, volume, log = synced_log(random, TopicConfig(flush_ms=500))
    other = Log.open(volume, "/data/orders-1", TopicPartition("orders", 1), TopicConfig(flush_ms=200))
    for n in range(5):
        assert append(log, batch(n)) is None
    assert append(other, batch(0)) is None
    await asyncio.sleep(0.3)
    assert (log.recovery_point, other.recovery_point) == (0, 1)
    await asyncio.sleep(0.3)
    assert log.recovery_point == 5
    runs = disk.runs
    await asyncio.sleep(5)
    assert disk.runs == runs
    volume.flusher.stop()


async def test_settings_can_change_while_appends_are_under_way(random: Random) -> None:
    _, _, log = synced_log(random)
    first = send(log)
    log.reconfigure(TopicConfig())
    second = send(log)
    await asyncio.gather(first, second)
    assert append(log, batch(2)) is None
    log.reconfigure(SYNCED)
    await send(log)
    assert offsets(log) == [0, 1, 2, 3]


async def test_a_deleted_log_tells_who_waits(random: Random) -> None:
    disk, volume, log = synced_log(random)
    under_way = send(log)
    await asyncio.sleep(0)
    waiting = send(log)
    log.abandon()
    disk.rename(FOLDER, "/data/gone")
    with pytest.raises(KafkaStorageError, match="deleted"):
        await waiting
    await asyncio.wait([under_way])
    await volume.flusher.drained()
    assert volume.problem is None
    assert under_way.exception() is None or "deleted" in str(under_way.exception())


async def test_sealed_segments_are_synced_apart_and_move_the_recovery_point(random: Random) -> None:
    _, volume, log = synced_log(random, TopicConfig(segment_bytes=300))
    for n in range(20):
        assert append(log, batch(n)) is None
    assert log.recovery_point == 0
    (rolled,) = volume.rolled
    await rolled.sync_sealed()
    assert log.recovery_point == log.segments.last.base
    assert log.name == NAME
