"""Which batches get index entries: appends, a scan and compaction agree with the reference, whatever the sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.append import batches_with_entries
from tests.unit.storage.making import FOLDER, append, batch, make_volume, open_log
from tidelog._speed.log.batch import walk
from tidelog.config import TopicConfig
from tidelog.storage.compaction.cleaned import CleanedSegment, cleaned_suffix
from tidelog.storage.segments.index import OffsetIndex
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.segment_files import INDEX, SegmentFiles

INDEX_BYTES = 1 << 20
RUNS = st.lists(st.lists(st.sampled_from([1, 60, 200, 700]), min_size=1, max_size=6), min_size=1, max_size=12)
INTERVALS = st.sampled_from([0, 1, 130, 500, 4_096])


def entries(index: OffsetIndex) -> list[int]:
    return [index._entry(number)[0] for number in range(index.count)]


def runs_of_batches(runs: list[list[int]]) -> list[bytes]:
    """Each batch has one record, so the offset of a batch is its number."""
    offset, made = 0, []
    for run in runs:
        data = b""
        for size in run:
            data += batch(offset, value=bytes(size))
            offset += 1
        made.append(data)
    return made


@given(runs=RUNS, interval=INTERVALS)
def test_appends_and_a_scan_index_what_the_reference_does(runs: list[list[int]], interval: int) -> None:
    log = open_log(make_volume(), TopicConfig(index_interval_bytes=interval))
    data = runs_of_batches(runs)
    for run in data:
        append(log, run)
    expected = batches_with_entries([header.size for header in walk(b"".join(data))], interval)
    segment: Segment = log.segments.last
    assert entries(segment.index) == expected
    segment.rebuild_indexes()
    assert entries(segment.index) == expected


@given(runs=RUNS, interval=INTERVALS)
def test_compaction_indexes_what_the_reference_does(runs: list[list[int]], interval: int) -> None:
    volume = make_volume()
    volume.disk.make_folder(FOLDER)
    cleaned = CleanedSegment(volume.disk, FOLDER, 0, "token", interval, INDEX_BYTES)
    data = runs_of_batches(runs)
    for run in data:
        cleaned.add(run)
    cleaned.finish()
    path = SegmentFiles(volume.disk, FOLDER, 0, cleaned_suffix("token")).path(INDEX)
    index = OffsetIndex(volume.disk, volume.files, path, 0, INDEX_BYTES)
    assert entries(index) == batches_with_entries([header.size for header in walk(b"".join(data))], interval)


@pytest.mark.parametrize(
    ("sizes", "numbers"), [([100], []), ([101, 1, 1], [1]), ([50, 51, 1, 101, 1], [2, 4])]
)
def test_an_entry_follows_more_bytes_than_the_interval(sizes: list[int], numbers: list[int]) -> None:
    assert batches_with_entries(sizes, 100) == numbers
