"""Manifests: what they hold, and which segments go."""

from __future__ import annotations

import pytest

from tidelog.storage.tiers import manifest as manifests
from tidelog.storage.tiers.manifest import ColdSegment, Manifest, NotNeighbours, decode, diverged, expired

EMPTY = Manifest("orders", "5f5e", 3)


def segment(start: int, end: int, *, size: int = 100, time: int = 0, epoch: int = 0) -> ColdSegment:
    name = manifests.segment_name(start, end, epoch, "ab")
    return ColdSegment(start, end, name, size, time, 10, 0, epoch)


def holding(*segments: ColdSegment) -> Manifest:
    manifest = EMPTY
    for each in segments:
        manifest = manifest.with_copied(each)
    return manifest


def test_a_manifest_reads_as_it_was_written() -> None:
    manifest = holding(segment(0, 10), segment(10, 25)).without_first(1).without_diverged(1).following(7, 9)
    assert decode(manifest.encode()) == manifest
    assert (manifest.number, manifest.leader_epoch, manifest.log_start) == (1, 7, 9)
    assert len(manifest.deleting) == len(manifest.diverged) == 1


@pytest.mark.parametrize("data", [b"", b"[]", b'{"format":2}', b'{"format":1}', EMPTY.encode()[:-1]])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(manifests.CorruptManifest):
        decode(data)


def test_copies_are_neighbours() -> None:
    manifest = holding(segment(5, 10))
    assert (manifest.start, manifest.end) == (5, 10)
    with pytest.raises(NotNeighbours):
        manifest.with_copied(segment(11, 12))
    with pytest.raises(NotNeighbours):
        manifest.with_copied(segment(5, 10))


def test_an_offset_falls_in_one_segment_or_none() -> None:
    manifest = holding(segment(5, 10), segment(10, 25))
    assert [manifest.holding(offset) for offset in (4, 5, 9, 10, 24, 25)] == [None, 0, 0, 1, 1, None]


def test_the_log_start_of_a_manifest_never_goes_back() -> None:
    assert EMPTY.following(1, 20).following(2, 10).log_start == 20


def test_a_segment_is_known_until_its_objects_are_deleted() -> None:
    manifest = holding(segment(0, 10), segment(10, 20)).without_first(1)
    (gone,) = manifest.deleting
    assert gone in manifest.names
    assert gone not in manifest.without_deleted([gone]).names


def gone(*segments: ColdSegment, ms: int = -1, size: int = -1, local: int = 0, start: int = 0) -> int:
    return expired(segments, local, now_ms=1000, retention_ms=ms, retention_bytes=size, start=start)


def test_segments_expire_by_time_by_size_and_by_deleted_records() -> None:
    segments = segment(0, 10, time=100), segment(10, 20, time=500), segment(20, 30, time=900)
    assert gone(*segments) == 0
    assert [gone(*segments, ms=ms) for ms in (899, 900, 500, 499, 99)] == [1, 0, 1, 2, 3]
    assert [gone(*segments, size=size) for size in (300, 299, 200, 199, 0)] == [0, 0, 1, 1, 3]
    assert gone(*segments, size=300, local=100) == 1
    assert [gone(*segments, start=start) for start in (9, 10, 29, 30)] == [0, 1, 2, 3]


def test_records_that_the_leader_has_not_are_told_apart() -> None:
    segments = segment(0, 10, epoch=1), segment(10, 20, epoch=1), segment(20, 30, epoch=2)
    assert diverged(segments, 40, lambda offset: 1 if offset < 20 else 2) == 0
    assert diverged(segments, 25, lambda offset: 1 if offset < 20 else 2) == 1
    assert diverged(segments, 40, lambda offset: 1 if offset < 15 else 3) == 2
    assert diverged(segments, 40, lambda offset: -1) == 0, "what is not known discards nothing"


def test_the_leader_epoch_is_in_the_names_of_objects() -> None:
    name = manifests.segment_name(1, 2, 77, "ff")
    assert manifests.epoch_of_name(name) == 77
    assert manifests.epoch_of_name("notes.txt") is None
    assert manifests.manifest_number(manifests.manifest_name("folder", 12)) == 12
    assert manifests.manifest_number("folder/manifests/12.json") is None
