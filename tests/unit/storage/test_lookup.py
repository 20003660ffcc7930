"""Offsets by time."""

from __future__ import annotations

import struct
from functools import partial

import pytest

from tests.unit.storage.making import NOW_MS, append, batch, make_volume, open_log
from tidelog._speed.log.crc32c import crc32c
from tidelog._speed.log.records import Record
from tidelog.config import TopicConfig
from tidelog.record.builder import build_batch
from tidelog.record.codecs import Codec
from tidelog.storage.lookup import OPENED_MAX, Unopened, look_up

CONFIG = TopicConfig(segment_bytes=600, index_interval_bytes=100)


def test_the_first_record_at_or_after_a_time_is_found() -> None:
    log = open_log(make_volume(), CONFIG)
    for n in range(50):
        append(log, batch(log.next, count=2, timestamp=NOW_MS + 10 * n, epoch=n // 20))
    for n in range(50):
        assert log.offset_for_time(NOW_MS + 10 * n) == (2 * n, NOW_MS + 10 * n, n // 20)
        assert log.offset_for_time(NOW_MS + 10 * n + 1) == (2 * n + 1, NOW_MS + 10 * n + 1, n // 20)
    assert log.offset_for_time(NOW_MS + 10_000) is None
    assert log.offset_for_time(0) == (0, NOW_MS, 0)


def test_times_that_do_not_ascend_are_found_all_the_same() -> None:
    log = open_log(make_volume(), CONFIG)
    times = [NOW_MS + (n * 37) % 101 for n in range(100)]
    for time in times:
        append(log, batch(log.next, timestamp=time))
    for wanted in range(NOW_MS - 1, NOW_MS + 102):
        first = next((n for n, time in enumerate(times) if time >= wanted), None)
        found = log.offset_for_time(wanted)
        assert (None if found is None else found.offset) == first


def test_deleted_records_are_not_found() -> None:
    log = open_log(make_volume(), CONFIG)
    for n in range(20):
        append(log, batch(log.next, count=2, timestamp=NOW_MS + 10 * n))
    log.advance_start(7)
    assert log.offset_for_time(0) == (7, NOW_MS + 31, 0)


def test_records_inside_a_compressed_batch_are_found() -> None:
    log = open_log(make_volume(), CONFIG)
    records = [Record(n, NOW_MS + 100 * n, None, b"v", ()) for n in range(5)]
    append(log, build_batch(records, codec=Codec.GZIP, leader_epoch=4))
    assert log.offset_for_time(NOW_MS + 250) == (3, NOW_MS + 300, 4)


def test_the_newest_record_is_the_first_with_the_largest_time() -> None:
    log = open_log(make_volume(), CONFIG)
    assert log.max_timestamp() is None
    for n in (5, 3, 9, 9, 1):
        append(log, batch(log.next, count=2, timestamp=NOW_MS + n))
    assert log.max_timestamp() == (5, NOW_MS + 10, 0)
    append(log, batch(log.next, timestamp=-1))
    assert log.max_timestamp() == (5, NOW_MS + 10, 0)


async def test_a_search_opens_compressed_batches_elsewhere_and_believes_headers_in_the_end() -> None:
    log = open_log(make_volume(), CONFIG)
    count = OPENED_MAX + 5
    for _ in range(count):
        # Its header promises a record that is not there.
        made = bytearray(build_batch([Record(0, NOW_MS, None, b"v", ())], codec=Codec.GZIP, leader_epoch=0))
        struct.pack_into(">q", made, 35, NOW_MS + 1_000)
        struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
        struct.pack_into(">q", made, 0, log.next)
        append(log, made)
    append(log, batch(log.next, timestamp=NOW_MS + 500))
    with pytest.raises(Unopened):
        log.offset_for_time(NOW_MS, {})
    found = await look_up(partial(log.offset_for_time, NOW_MS))
    assert found == (0, NOW_MS, 0)
    assert await look_up(log.max_timestamp) is None
    assert log.offset_for_time(NOW_MS + 500) == (count, NOW_MS + 500, 0)
    found = await look_up(partial(log.offset_for_time, NOW_MS + 500))
    assert found == (OPENED_MAX, NOW_MS + 1_000, 0)
