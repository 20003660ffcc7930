"""The log as its partition sees it: append, read, roll, cut, close, open."""

from __future__ import annotations

import errno
from random import Random

import pytest

from tests.unit.storage.making import (
    FOLDER,
    NOW_MS,
    append,
    batch,
    content,
    fill,
    make_volume,
    offsets,
    open_log,
    read_all,
)
from tidelog._speed.log.batch import walk
from tidelog.config import TopicConfig
from tidelog.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from tidelog.testing import VirtualDisk

SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=200)


def test_a_new_log_is_empty_and_starts_at_zero() -> None:
    log = open_log(make_volume())
    assert (log.start, log.end, log.next, log.size) == (0, 0, 0, 0)
    assert log.reader.read(0, 1000, 0) is None


def test_what_was_appended_is_read_back_from_any_offset() -> None:
    log = open_log(make_volume(), SMALL)
    for _ in range(50):
        append(log, batch(log.next, count=3))
    assert log.end == 150
    for offset in range(150):
        assert offsets(log, offset) == list(range(offset, 150))


def test_a_read_starts_with_the_batch_that_holds_the_offset() -> None:
    log = open_log(make_volume())
    append(log, batch(0, count=5))
    append(log, batch(5, count=5))
    assert walk(content(log.reader.read(7, 1000, log.end)))[0].base_offset == 5


@pytest.mark.parametrize("config", [SMALL, TopicConfig()], ids=["many segments", "one segment"])
def test_a_read_stops_before_the_batch_that_holds_the_end_bound(config: TopicConfig) -> None:
    log = open_log(make_volume(), config)
    for _ in range(40):
        append(log, batch(log.next, count=2))
    for end in range(81):
        found = walk(content(log.reader.read(0, 1 << 20, end)))
        assert all(header.last_offset < end for header in found)
    assert log.reader.read(4, 1000, 4) is None
    assert log.reader.read(4, 1000, 5) is None


def test_offsets_outside_the_log_are_refused() -> None:
    log = open_log(make_volume(), start=10)
    append(log, batch(10))
    for offset in (9, 12):
        with pytest.raises(OffsetOutOfRange):
            log.reader.read(offset, 1000, log.end)
    assert log.reader.read(11, 1000, log.end) is None


def test_the_first_batch_comes_whole_however_small_the_bound() -> None:
    log = open_log(make_volume())
    data = batch(0, value=bytes(5000))
    append(log, data)
    append(log, batch(1))
    assert content(log.reader.read(0, 10, log.end)) == data
    assert log.reader.read(0, 10, log.end, whole_batch=False) is None
    assert content(log.reader.read(0, len(data) + 5, log.end))[: len(data)] == data


def test_reads_are_the_same_after_a_clean_stop() -> None:
    volume = make_volume()
    log = open_log(volume, SMALL)
    fill(log, 60)
    before = read_all(log)
    log.close()
    log = open_log(volume, SMALL)
    assert (log.start, log.end) == (0, 60)
    assert read_all(log) == before
    fill(log, 5)
    assert offsets(log) == list(range(65))


def test_a_segment_is_rolled_before_it_outgrows_its_size() -> None:
    volume = make_volume()
    log = open_log(volume, SMALL)
    fill(log, 60)
    sizes = [
        volume.disk.size(f"{FOLDER}/{name}") for name in volume.disk.list(FOLDER) if name.endswith(".log")
    ]
    assert len(sizes) > 3
    assert max(sizes) <= 1000


def test_a_segment_is_rolled_by_the_age_of_its_first_batch() -> None:
    log = open_log(make_volume(), TopicConfig(segment_ms=1000))
    append(log, batch(0, timestamp=NOW_MS))
    append(log, batch(1, timestamp=NOW_MS + 1000))
    assert len(log.segments) == 1
    append(log, batch(2, timestamp=NOW_MS + 1001))
    assert [segment.base for segment in log.segments] == [0, 2]


def test_batches_without_a_time_are_rolled_by_the_age_of_the_segment() -> None:
    volume = make_volume()
    log = open_log(volume, TopicConfig(segment_ms=1000))
    append(log, batch(0, timestamp=-1))
    append(log, batch(1, timestamp=-1))
    assert len(log.segments) == 1
    volume.clock.ms += 1001  # type: ignore[attr-defined]
    append(log, batch(2, timestamp=-1))
    assert [segment.base for segment in log.segments] == [0, 2]


def test_a_segment_is_rolled_when_its_index_is_full() -> None:
    log = open_log(make_volume(), TopicConfig(segment_index_bytes=60, index_interval_bytes=1))
    fill(log, 40)
    assert len(log.segments) > 5
    assert offsets(log) == list(range(40))


def test_offsets_too_far_from_the_base_start_a_segment() -> None:
    log = open_log(make_volume())
    append(log, batch(0))
    append(log, batch((1 << 31) - 1))
    append(log, batch(1 << 31))
    assert [segment.base for segment in log.segments] == [0, 1 << 31]
    assert offsets(log) == [0, (1 << 31) - 1, 1 << 31]


def test_truncation_drops_the_batch_that_reaches_the_offset() -> None:
    log = open_log(make_volume(), SMALL)
    for _ in range(30):
        append(log, batch(log.next, count=3))
    log.truncate_to(31)
    assert log.end == log.next == 31
    assert offsets(log) == list(range(30))
    append(log, batch(31))
    assert offsets(log) == [*range(30), 31]


def test_a_log_restarts_at_an_offset_with_nothing_in_it() -> None:
    volume = make_volume()
    log = open_log(volume, SMALL)
    fill(log, 30)
    log.restart_at(1000)
    assert (log.start, log.end) == (1000, 1000)
    fill(log, 3)
    log.close()
    assert offsets(open_log(volume, SMALL)) == [1000, 1001, 1002]


def test_a_full_disk_fails_the_append_and_loses_nothing() -> None:
    disk = VirtualDisk(Random(1))
    log = open_log(make_volume(disk))
    fill(log, 10)
    disk.limit_free(30)
    with pytest.raises(KafkaStorageError, match="full"):
        append(log, batch(10))
    assert (log.end, log.next) == (10, 10)
    disk.limit_free(None)
    append(log, batch(10, value=b"again"))
    assert [record.value for record in read_all(log)] == [b"value"] * 10 + [b"again"]
    log.close()
    assert disk.size(f"{FOLDER}/{0:020d}.log") == log.size


def test_a_failing_disk_takes_the_directory_offline() -> None:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume)
    fill(log, 1)
    disk.fail("write", "*.log", errno.EIO)
    with pytest.raises(KafkaStorageError, match="offline"):
        append(log, batch(1))
    with pytest.raises(KafkaStorageError, match="offline"):
        append(log, batch(1))
    assert volume.problem is not None


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = open_log(make_volume(), SMALL)
    with pytest.raises(RecordListTooLarge, match=r"segment\.bytes, which is 1000"):
        append(log, batch(0, value=bytes(1000)))
    append(log, b"".join(batch(n) for n in range(30)))  # many batches at once may be more than a segment's
    assert offsets(log) == list(range(30))


def test_a_roll_that_finds_the_disk_full_changes_nothing() -> None:
    disk = VirtualDisk(Random(1))
    log = open_log(make_volume(disk), SMALL)
    fill(log, 3)
    disk.fail("open", "*.snapshot", errno.ENOSPC)
    with pytest.raises(KafkaStorageError, match="full"):
        log.roller.roll()
    assert [segment.base for segment in log.segments] == [0]
    fill(log, 2)
    log.roller.roll()
    fill(log, 2)
    assert offsets(log) == list(range(7))


def test_reads_of_a_failing_disk_take_the_directory_offline() -> None:
    disk = VirtualDisk(Random(1))
    volume = make_volume(disk)
    log = open_log(volume, SMALL)
    fill(log, 60)
    disk.fail("read", "*.log", errno.EIO)
    with pytest.raises(KafkaStorageError, match="offline"):
        log.reader.read(1, 10, 60)
    with pytest.raises(KafkaStorageError, match="offline"):
        log.offset_for_time(0)
    assert volume.problem is not None
