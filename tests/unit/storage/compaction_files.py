"""Segments on a disk for compaction to work on, and what it made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tidelog.record import BatchBuilder, Codec, Record, read_batches
from tidelog.storage.compaction.cleaned import cleaned_suffix
from tidelog.storage.compaction.compactor import Compactor
from tidelog.storage.compaction.job import CompactionJob, CompactionProgress, Rewritten
from tidelog.storage.compaction.rules import SegmentToRewrite
from tidelog.storage.disk import Disk
from tidelog.storage.segments.segment_files import INDEX, LOG, TIME_INDEX, stem

NOW_MS = 1_700_000_000_000
TOKEN = "round1"


def batch(
    base: int, *pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE, **header: Any
) -> bytes:
    """Records with consecutive offsets and timestamps."""
    builder = BatchBuilder()
    for place, (key, value) in enumerate(pairs):
        builder.add(key, value, NOW_MS - 1_000 + base + place, [("n", b"%d" % (base + place))])
    return builder.build(codec=codec, base_offset=base, leader_epoch=3, **header)


def write_segments(disk: Disk, folder: str, segments: dict[int, bytes]) -> list[SegmentToRewrite]:
    disk.make_folder(folder)
    sources = []
    for base, data in segments.items():
        disk.open(stem(folder, base) + LOG, create=True).write(data, 0)
        sources.append(SegmentToRewrite(base, len(data), 0, 0))
    return sources


def job_for(folder: str, sources: list[SegmentToRewrite], bound: int, **changes: Any) -> CompactionJob:
    job = CompactionJob(
        folder=folder,
        token=TOKEN,
        sources=sources,
        first_dirty=sources[0].base if sources else 0,
        bound=bound,
        now_ms=NOW_MS,
        delete_retention_ms=60_000,
        segment_bytes=1 << 20,
        segment_index_bytes=1 << 16,
        index_interval_bytes=4096,
        memory_bytes=1 << 20,
        seed=bytes(range(16)).hex(),
    )
    return replace(job, **changes)


def compact(disk: Disk, job: CompactionJob) -> tuple[list[Rewritten], CompactionProgress]:
    compactor = Compactor(disk, job)
    return list(compactor.run()), compactor.progress


def cleaned_data(disk: Disk, folder: str, base: int, kind: str = LOG) -> bytes:
    return disk.read_file(stem(folder, base) + kind + cleaned_suffix(TOKEN))


def records_in(data: bytes) -> list[Record]:
    """Of data batches; every CRC is checked."""
    return [record for each in read_batches(data) if not each.header.control for record in each.records()]


def cleaned_records(disk: Disk, folder: str, rewritten: Sequence[Rewritten]) -> list[Record]:
    return [
        record for group in rewritten for record in records_in(cleaned_data(disk, folder, group.bases[0]))
    ]


def values(records: Sequence[Record]) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {record.offset: (record.key, record.value) for record in records}


__all__ = [
    "INDEX",
    "LOG",
    "NOW_MS",
    "TIME_INDEX",
    "TOKEN",
    "batch",
    "cleaned_data",
    "cleaned_records",
    "compact",
    "job_for",
    "records_in",
    "values",
    "write_segments",
]
