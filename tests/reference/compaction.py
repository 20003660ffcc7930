"""Which records of a batch survive compaction, in plain Python over decoded records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.reference.records import PlainRecord


class PlainBatch(NamedTuple):
    base_offset: int
    last_delta: int
    base_timestamp: int
    horizon: bool
    """`base_timestamp` is the delete horizon."""
    records: list[PlainRecord]

    def offset(self, record: PlainRecord) -> int:
        return self.base_offset + record.offset_delta

    def timestamp(self, record: PlainRecord) -> int:
        return self.base_timestamp + record.timestamp_delta


def last_offsets(batches: list[PlainBatch], start: int) -> dict[bytes, int]:
    found = {}
    for batch in batches:
        for record in batch.records:
            if record.key is not None and batch.offset(record) >= start:
                found[record.key] = batch.offset(record)
    return found


def sift(
    batch: PlainBatch, last: Mapping[bytes, int], end: int, now_ms: int, retention_ms: int
) -> PlainBatch:
    """The batch with the records that stay; it may have none left."""

    def stays(record: PlainRecord) -> bool:
        offset = batch.offset(record)
        if offset >= end:
            return True
        if record.key is None or last.get(record.key, -1) > offset:
            return False
        return record.value is not None or not batch.horizon or now_ms < batch.base_timestamp

    kept = [record for record in batch.records if stays(record)]
    if batch.horizon or all(record.value is not None for record in kept):
        return batch._replace(records=kept)
    base = now_ms + retention_ms
    moved = [record._replace(timestamp_delta=batch.timestamp(record) - base) for record in kept]
    return batch._replace(base_timestamp=base, horizon=True, records=moved)
