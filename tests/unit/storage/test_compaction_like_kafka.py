"""The same log compacted by Apache Kafka and by us: the same batches with the same records are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.storage.compaction_files import cleaned_data, compact, job_for, write_segments
from tidelog.record import read_batches
from tidelog.storage.compaction.job import LastRecord
from tidelog.storage.disk import SystemDisk

DATA = Path(__file__).parents[2] / "data" / "compaction"


def segments(folder: str) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in sorted((DATA / folder).glob("*.log"))}


def facts(data: bytes) -> list[tuple[Any, ...]]:
    """All but CRCs and base timestamps: those of delete horizons depend on when the round took place."""
    return [
        (
            (header.base_offset, header.last_offset, header.leader_epoch, header.attributes, header.count),
            (header.producer_id, header.producer_epoch, header.base_sequence, header.max_timestamp),
            batch.records(),
        )
        for batch in read_batches(data)
        for header in (batch.header,)
    ]


def test_a_round_leaves_what_kafkas_cleaner_leaves(tmp_path: Path) -> None:
    before, after = segments("before"), segments("after")
    producers = {
        batch.header.producer_id: LastRecord(batch.header.last_offset, batch.header.producer_epoch)
        for data in before.values()
        for batch in read_batches(data)
        if batch.header.producer_id >= 0
    }
    *sealed, active = before
    disk = SystemDisk()
    sources = write_segments(disk, str(tmp_path), {base: before[base] for base in sealed})
    job = job_for(str(tmp_path), sources, active, segment_bytes=4_000, producers=producers)
    rewritten, progress = compact(disk, job)
    assert [group.bases for group in rewritten] == [[base] for base in after]
    for base, expected in after.items():
        assert facts(cleaned_data(disk, str(tmp_path), base)) == facts(expected)
    assert progress.records_kept == progress.keys == 90
    assert len(producers) == 2
