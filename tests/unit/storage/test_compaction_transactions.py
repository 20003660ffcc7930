"""Compaction of logs with transactions: what was aborted goes, markers stay as long as somebody may need them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.storage.compaction_files import (
    NOW_MS,
    batch,
    cleaned_data,
    compact,
    job_for,
    records_in,
    values,
    write_segments,
)
from tidelog._speed.log.batch import walk
from tidelog.record import EndMarker, Marker, build_marker, read_batches
from tidelog.record.builder import read_marker
from tidelog.storage.compaction.job import Aborted, CompactionJob, LastRecord
from tidelog.storage.disk import SystemDisk
from tidelog.storage.segments.segment_files import TXN_INDEX
from tidelog.storage.segments.txn_index import decode

RETENTION_MS = 60_000


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "t-0")


@pytest.fixture
def disk() -> SystemDisk:
    return SystemDisk()


def marker(base: int, kind: Marker, producer_id: int = 7, epoch: int = 0) -> bytes:
    return build_marker(
        EndMarker(kind, 4),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp=NOW_MS - 500,
        base_offset=base,
        leader_epoch=3,
    )


def data(base: int, key: bytes, value: bytes, producer_id: int = 7) -> bytes:
    return batch(
        base, (key, value), producer_id=producer_id, producer_epoch=0, base_sequence=base, transactional=True
    )


def markers_in(found: bytes) -> dict[int, tuple[Marker, int, bool]]:
    """(kind, timestamp, whether it has a delete horizon) by offset."""
    read = {}
    for each in read_batches(found):
        for record in each.records():
            if each.header.control:
                end = read_marker(record)
                assert end is not None and end.coordinator_epoch == 4
                read[record.offset] = (end.marker, record.timestamp, bool(each.header.attributes & 0x40))
    return read


def again(
    disk: SystemDisk, folder: str, found: bytes, job: CompactionJob, later_ms: int
) -> tuple[bytes, CompactionJob]:
    """The next round, over what the last one made."""
    (source,) = write_segments(disk, folder, {0: found})
    job = replace(job, sources=[source], now_ms=job.now_ms + later_ms)
    compact(disk, job)
    return cleaned_data(disk, folder, 0), job


def test_aborted_data_goes_at_once_and_its_marker_and_index_entry_stay_with_it_for_one_round(
    disk: SystemDisk, folder: str
) -> None:
    log = data(0, b"a", b"bad") + marker(1, Marker.ABORT) + batch(2, (b"a", b"good"))
    aborted = [Aborted(7, 0, 1, 2)]
    job = job_for(folder, write_segments(disk, folder, {0: log}), 9, aborted=aborted)
    compact(disk, job)
    found = cleaned_data(disk, folder, 0)
    assert values(records_in(found)) == {2: (b"a", b"good")}
    assert markers_in(found) == {1: (Marker.ABORT, NOW_MS - 500, False)}
    assert list(decode(cleaned_data(disk, folder, 0, TXN_INDEX))) == aborted

    found, job = again(disk, folder, found, job, 1_000)
    assert markers_in(found) == {1: (Marker.ABORT, NOW_MS - 500, True)}
    assert cleaned_data(disk, folder, 0, TXN_INDEX) == b""
    found, job = again(disk, folder, found, job, RETENTION_MS - 1)
    assert list(markers_in(found)) == [1]
    found, job = again(disk, folder, found, job, 1)
    assert markers_in(found) == {}


def test_a_commit_marker_stays_while_a_record_of_its_transaction_does(disk: SystemDisk, folder: str) -> None:
    log = data(0, b"a", b"1") + data(1, b"b", b"1") + marker(2, Marker.COMMIT) + batch(3, (b"a", b"2"))
    job = job_for(folder, write_segments(disk, folder, {0: log}), 9)
    compact(disk, job)
    found = cleaned_data(disk, folder, 0)
    assert values(records_in(found)) == {1: (b"b", b"1"), 3: (b"a", b"2")}
    for later_ms in (1_000, RETENTION_MS, RETENTION_MS):
        found, job = again(disk, folder, found, job, later_ms)
        assert markers_in(found) == {2: (Marker.COMMIT, NOW_MS - 500, False)}


def test_the_marker_that_has_its_producers_epoch_stays(disk: SystemDisk, folder: str) -> None:
    log = marker(0, Marker.COMMIT, epoch=5) + marker(1, Marker.COMMIT, producer_id=8, epoch=5)
    producers = {7: LastRecord(-1, 5), 8: LastRecord(-1, 6)}
    job = job_for(folder, write_segments(disk, folder, {0: log}), 9, producers=producers)
    compact(disk, job)
    found = cleaned_data(disk, folder, 0)
    found, job = again(disk, folder, found, job, RETENTION_MS)
    assert list(markers_in(found)) == [0]


def test_interleaved_producers_lose_only_what_they_aborted(disk: SystemDisk, folder: str) -> None:
    log = (
        data(0, b"a", b"7", 7)
        + data(1, b"a", b"8", 8)
        + data(2, b"b", b"7", 7)
        + marker(3, Marker.ABORT, 8)
        + marker(4, Marker.COMMIT, 7)
        + data(5, b"b", b"8", 8)
        + marker(6, Marker.COMMIT, 8)
    )
    job = job_for(folder, write_segments(disk, folder, {0: log}), 9, aborted=[Aborted(8, 1, 3, 0)])
    compact(disk, job)
    found = cleaned_data(disk, folder, 0)
    assert values(records_in(found)) == {0: (b"a", b"7"), 5: (b"b", b"8")}
    assert list(markers_in(found)) == [3, 4, 6]
    assert all(header.last_offset_delta == 0 for header in walk(found))
