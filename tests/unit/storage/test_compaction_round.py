"""One round of compaction over segment files."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.storage.compaction_files import (
    INDEX,
    LOG,
    NOW_MS,
    TIME_INDEX,
    batch,
    cleaned_data,
    cleaned_records,
    compact,
    job_for,
    records_in,
    values,
    write_segments,
)
from tidelog._speed.log.batch import walk
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.record import Codec, EndMarker, Marker, build_marker, read_batches
from tidelog.storage.compaction.job import Aborted, CompactionJob, LastRecord
from tidelog.storage.compaction.rules import SegmentToRewrite
from tidelog.storage.disk import SystemDisk

CODECS = list(Codec)


@pytest.fixture
def disk() -> SystemDisk:
    return SystemDisk()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "orders-0")


@pytest.mark.parametrize("codec", CODECS)
def test_the_last_record_of_every_key_stays_at_its_offset(
    disk: SystemDisk, folder: str, codec: Codec
) -> None:
    first = batch(0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), codec=codec) + batch(
        3, (b"c", b"1"), codec=codec
    )
    second = batch(4, (b"b", b"2"), (b"d", b"1"), codec=codec)
    sources = write_segments(disk, folder, {0: first, 4: second})
    rewritten, progress = compact(disk, job_for(folder, sources, 6))
    found = cleaned_records(disk, folder, rewritten)
    assert values(found) == {2: (b"a", b"2"), 3: (b"c", b"1"), 4: (b"b", b"2"), 5: (b"d", b"1")}
    assert [record.timestamp for record in found] == [NOW_MS - 1000 + n for n in (2, 3, 4, 5)]
    assert found[0].headers == (("n", b"2"),)
    assert [group.bases for group in rewritten] == [[0, 4]], "both fit into one segment"
    assert (progress.end, progress.keys, progress.records_read, progress.records_kept) == (6, 4, 6, 4)
    assert progress.bytes_written == rewritten[0].size == len(cleaned_data(disk, folder, 0))


@pytest.mark.parametrize("codec", CODECS)
def test_a_thinned_batch_keeps_its_header_but_for_what_must_change(
    disk: SystemDisk, folder: str, codec: Codec
) -> None:
    data = batch(
        10,
        (b"a", b"1"),
        (b"b", b"1"),
        (b"c", b"1"),
        codec=codec,
        producer_id=7,
        producer_epoch=2,
        base_sequence=5,
    ) + batch(13, (b"a", b"2"), (b"c", b"2"), codec=codec)
    rewritten, _ = compact(disk, job_for(folder, write_segments(disk, folder, {10: data}), 15))
    before = walk(data)[0]
    after, untouched = walk(cleaned_data(disk, folder, 10))
    for field in (
        "base_offset",
        "last_offset",
        "leader_epoch",
        "producer_id",
        "producer_epoch",
        "last_sequence",
    ):
        assert getattr(after, field) == getattr(before, field)
    assert (after.count, after.compression, after.delete_horizon) == (1, codec, False)
    assert after.max_timestamp == NOW_MS - 1000 + 11
    assert cleaned_data(disk, folder, 10)[untouched.position :] == data[before.size :]
    assert rewritten[0].max_timestamp == NOW_MS - 1000 + 14 and rewritten[0].max_timestamp_offset == 14


def test_keys_of_the_clean_stretch_are_not_noted_but_superseded_ones_go(
    disk: SystemDisk, folder: str
) -> None:
    sources = write_segments(
        disk, folder, {0: batch(0, (b"a", b"1"), (b"b", b"1")), 2: batch(2, (b"a", b"2"), (b"c", b"1"))}
    )
    rewritten, progress = compact(disk, job_for(folder, sources, 4, first_dirty=2))
    assert progress.keys == 2
    assert values(cleaned_records(disk, folder, rewritten)) == {
        1: (b"b", b"1"),
        2: (b"a", b"2"),
        3: (b"c", b"1"),
    }


def test_a_tombstone_gets_a_horizon_first_and_goes_when_it_has_passed(disk: SystemDisk, folder: str) -> None:
    data = (
        batch(0, (b"a", b"1"), (b"b", b"1")) + batch(2, (b"a", None), (b"c", b"1")) + batch(4, (b"d", b"1"))
    )
    first = job_for(folder, write_segments(disk, folder, {0: data}), 5)
    compact(disk, first)
    once = cleaned_data(disk, folder, 0)
    assert values(records_in(once)) == {1: (b"b", b"1"), 2: (b"a", None), 3: (b"c", b"1"), 4: (b"d", b"1")}
    marked = next(header for header in walk(once) if header.base_offset == 2)
    assert marked.delete_horizon and marked.base_timestamp == NOW_MS + 60_000
    assert [record.timestamp for record in records_in(once)] == [NOW_MS - 1000 + n for n in (1, 2, 3, 4)]

    def again(now_ms: int) -> bytes:
        sources = write_segments(disk, folder + f"-{now_ms}", {0: once})
        compact(disk, job_for(folder + f"-{now_ms}", sources, 5, first_dirty=5, now_ms=now_ms))
        return cleaned_data(disk, folder + f"-{now_ms}", 0)

    assert again(NOW_MS + 59_999) == once, "nothing is rewritten that need not be"
    assert values(records_in(again(NOW_MS + 60_000))) == {1: (b"b", b"1"), 3: (b"c", b"1"), 4: (b"d", b"1")}


def test_a_superseded_tombstone_goes_at_once(disk: SystemDisk, folder: str) -> None:
    data = batch(0, (b"a", None)) + batch(1, (b"a", b"2"))
    rewritten, _ = compact(disk, job_for(folder, write_segments(disk, folder, {0: data}), 2))
    assert values(cleaned_records(disk, folder, rewritten)) == {1: (b"a", b"2")}
    assert not any(header.delete_horizon for header in walk(cleaned_data(disk, folder, 0)))


def test_records_without_a_key_go_and_are_counted(disk: SystemDisk, folder: str) -> None:
    data = batch(0, (None, b"1"), (b"a", b"1")) + batch(2, (None, b"2")) + batch(3, (b"b", b"1"))
    rewritten, progress = compact(disk, job_for(folder, write_segments(disk, folder, {0: data}), 4))
    assert values(cleaned_records(disk, folder, rewritten)) == {1: (b"a", b"1"), 3: (b"b", b"1")}
    assert progress.records_without_key == 2


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_batch_stays_only_for_a_producers_last_sequence_and_for_the_end(
    disk: SystemDisk, folder: str, codec: Codec
) -> None:
    producer = {"producer_id": 7, "producer_epoch": 1}
    data = (
        batch(0, (b"a", b"1"), codec=codec, base_sequence=0, **producer)
        + batch(1, (b"a", b"2"), codec=codec, base_sequence=1, **producer)
        + batch(2, (b"a", b"3"), codec=codec)
        + batch(3, (b"a", b"4"), codec=codec)
        + batch(4, (None, b"5"), codec=codec)
    )
    job = job_for(
        folder,
        write_segments(disk, folder, {0: data}),
        5,
        producers={7: LastRecord(1, 1), 8: LastRecord(0, 0)},
    )
    compact(disk, job)
    headers = walk(cleaned_data(disk, folder, 0))
    assert [(header.base_offset, header.count) for header in headers] == [(1, 0), (3, 1), (4, 0)]
    assert (headers[0].producer_id, headers[0].base_sequence, headers[0].last_sequence) == (7, 1, 1)
    assert headers[0].size == 61 and headers[0].compression == 0
    assert len(list(read_batches(cleaned_data(disk, folder, 0)))) == 3
    # The producer has written elsewhere since: its empty batch goes in the next round.
    sources = write_segments(disk, folder + "-2", {0: cleaned_data(disk, folder, 0)})
    compact(disk, job_for(folder + "-2", sources, 5, producers={7: LastRecord(90, 1)}))
    assert [header.base_offset for header in walk(cleaned_data(disk, folder + "-2", 0))] == [3, 4]


def test_a_full_map_ends_the_round_where_it_got_to(disk: SystemDisk, folder: str) -> None:
    pairs = [(b"key-%d" % (n % 800), b"%d" % n) for n in range(2_000)]
    segments = {base: batch(base, *pairs[base : base + 100]) for base in range(0, 2_000, 100)}
    sources = write_segments(disk, folder, segments)
    small = job_for(folder, sources, 2_000, memory_bytes=24 * 300)
    rewritten, progress = compact(disk, small)
    assert 100 < progress.keys < 300 and progress.end == progress.keys
    assert [base for group in rewritten for base in group.bases] == [b for b in segments if b < progress.end]
    # Round after round, each from where the last one ended, all of it becomes clean.
    while progress.end < 2_000:
        for group in rewritten:
            data = cleaned_data(disk, folder, group.bases[0])
            for base in group.bases:
                del segments[base]
            segments[group.bases[0]] = data
        segments = dict(sorted(segments.items()))
        folder += "x"
        sources = write_segments(disk, folder, segments)
        rewritten, progress = compact(
            disk, replace(small, folder=folder, sources=sources, first_dirty=progress.end)
        )
    expected = {n: pairs[n] for n in range(1_200, 2_000)}
    assert values(cleaned_records(disk, folder, rewritten)) == expected


def test_one_huge_batch_of_new_keys_does_not_stop_progress(disk: SystemDisk, folder: str) -> None:
    data = batch(0, *[(b"key-%d" % n, b"v") for n in range(1_000)], (b"key-0", b"last"))
    sources = write_segments(disk, folder, {0: data})
    rewritten, progress = compact(disk, job_for(folder, sources, 1_001, memory_bytes=24 * 100))
    assert 0 < progress.end < 1_001
    assert len(cleaned_records(disk, folder, rewritten)) == 1_001


def test_large_batches_and_tombstones_that_grow_fit(disk: SystemDisk, folder: str) -> None:
    large = batch(0, (b"large", b"x" * 3_000_000))
    many = batch(1, *[(b"%d" % n, None) for n in range(200_000)])
    sources = write_segments(disk, folder, {0: large + many})
    job = job_for(folder, sources, 200_001, memory_bytes=64 << 20, delete_retention_ms=2**40)
    rewritten, _ = compact(disk, job)
    assert rewritten[0].size > len(large + many), "a delete horizon makes timestamps longer"
    assert len(cleaned_records(disk, folder, rewritten)) == 200_001


def test_groups_respect_the_size_of_a_segment(disk: SystemDisk, folder: str) -> None:
    segments = {n: batch(n, (b"%d" % n, b"x" * 1_000)) for n in range(6)}
    size = len(segments[0])
    sources = write_segments(disk, folder, segments)
    rewritten, _ = compact(disk, job_for(folder, sources, 6, segment_bytes=2 * size + 10))
    assert [group.bases for group in rewritten] == [[0, 1], [2, 3], [4, 5]]


def test_indexes_lead_to_batches_and_times(disk: SystemDisk, folder: str) -> None:
    data = b"".join(batch(n, (b"%d" % n, b"x" * 500)) for n in range(100))
    sources = write_segments(disk, folder, {0: data})
    rewritten, _ = compact(disk, job_for(folder, sources, 100, index_interval_bytes=2_000))
    log = cleaned_data(disk, folder, 0)
    starts = {header.position: header for header in walk(log)}
    entries = list(struct.iter_unpack(">ii", cleaned_data(disk, folder, 0, INDEX)))
    assert 10 < len(entries) < 40
    assert all(starts[position].base_offset == offset for offset, position in entries)
    times = list(struct.iter_unpack(">qi", cleaned_data(disk, folder, 0, TIME_INDEX)))
    assert all(time == NOW_MS - 1000 + offset for time, offset in times)
    assert times[-1] == (rewritten[0].max_timestamp, rewritten[0].max_timestamp_offset) == (NOW_MS - 901, 99)


def test_nothing_left_makes_an_empty_segment(disk: SystemDisk, folder: str) -> None:
    sources = write_segments(disk, folder, {0: batch(0, (b"a", b"1")), 1: batch(1, (b"a", b"2"))})
    rewritten, _ = compact(disk, job_for(folder, sources, 2, segment_bytes=10))
    assert [(group.bases, group.size) for group in rewritten] == [([0], 0), ([1], sources[1].size)]
    assert [cleaned_data(disk, folder, 0, kind) for kind in (LOG, INDEX, TIME_INDEX)] == [b"", b"", b""]


def test_markers_stay_and_aborted_data_neither_stays_nor_supersedes(disk: SystemDisk, folder: str) -> None:
    transaction = {"producer_id": 7, "producer_epoch": 0, "transactional": True}

    def marker(base: int, kind: Marker) -> bytes:
        return build_marker(
            EndMarker(kind, 0),
            producer_id=7,
            producer_epoch=0,
            timestamp=NOW_MS,
            base_offset=base,
            leader_epoch=3,
        )

    data = (
        batch(0, (b"a", b"committed"), base_sequence=0, **transaction)
        + marker(1, Marker.COMMIT)
        + batch(2, (b"a", b"aborted"), base_sequence=1, **transaction)
        + batch(3, (b"b", b"aborted"), codec=Codec.LZ4, base_sequence=2, **transaction)
        + marker(4, Marker.ABORT)
        + batch(5, (b"c", b"1"))
    )
    sources = write_segments(disk, folder, {0: data})
    job = job_for(folder, sources, 6, aborted=[Aborted(7, 2, 4)], producers={7: LastRecord(3, 0)})
    rewritten, _ = compact(disk, job)
    assert values(cleaned_records(disk, folder, rewritten)) == {0: (b"a", b"committed"), 5: (b"c", b"1")}
    headers = walk(cleaned_data(disk, folder, 0))
    assert [(h.base_offset, h.count, h.control) for h in headers] == [
        (0, 1, False),
        (1, 1, True),
        (3, 0, False),
        (4, 1, True),
        (5, 1, False),
    ]
    assert cleaned_data(disk, folder, 0)[headers[1].position :][: headers[1].size] == marker(1, Marker.COMMIT)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_damage_fails_the_round_and_leaves_no_files(disk: SystemDisk, folder: str, codec: Codec) -> None:
    good = batch(0, (b"a", b"1"), codec=codec)
    bad = bytearray(batch(1, (b"a", b"2"), (b"b", b"2"), codec=codec))
    bad[-2] ^= 0xFF
    sources = write_segments(disk, folder, {0: good + bad})
    with pytest.raises(CorruptMessage, match="offset 1"):
        compact(disk, job_for(folder, sources, 3))
    # Noted already, damaged when it is read again.
    with pytest.raises(CorruptMessage, match="offset 1"):
        compact(disk, job_for(folder, sources, 3, first_dirty=3))
    assert disk.list(folder) == ["00000000000000000000.log"]


def test_a_cut_segment_and_records_that_are_none_are_damage(disk: SystemDisk, folder: str) -> None:
    data = batch(0, (b"a", b"1"), (b"b", b"1"))
    with pytest.raises(CorruptMessage, match="position 0"):
        compact(disk, job_for(folder, write_segments(disk, folder, {0: data[:-1]}), 2))
    from tidelog._speed.log.writer import replace_records
    from tidelog.record import compress

    for codec in (Codec.NONE, Codec.GZIP):
        wrong = replace_records(data, compress(codec, b"\x10" + bytes(20)), codec)
        with pytest.raises((CorruptMessage, InvalidRecord)):
            compact(disk, job_for(folder, write_segments(disk, folder, {0: wrong}), 2))


def test_a_job_survives_its_way_to_another_process(folder: str) -> None:
    import json

    job = job_for(
        folder, [SegmentToRewrite(0, 1, 2, 3)], 5, producers={7: LastRecord(1, 2)}, aborted=[Aborted(1, 2, 3)]
    )
    assert CompactionJob.from_plain(json.loads(json.dumps(job.as_plain()))) == job
