"""Offsets by time: the first record at or after a moment, and the newest record of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog._speed.batch import Header
from tidelog._speed.records import Record
from tidelog.record.reader import read_batches
from tidelog.storage import times
from tidelog.storage.segment import Segment


class TimedOffset(NamedTuple):
    offset: int
    timestamp: int
    epoch: int
    """The leader epoch of the batch it is in."""


def offset_for_time(segments: Iterable[Segment], timestamp: int, start: int) -> TimedOffset | None:
    """The first record from `start` on that is not older than `timestamp`."""
    for segment in segments:
        if segment.end <= start or segment.newest()[0] < timestamp:
            continue
        known, floor = segment.time_index.floor(timestamp)
        if not times.fits(segment, known, floor):
            segment.rebuild_indexes()
            _, floor = segment.time_index.floor(timestamp)
        from_offset = max(start, floor)
        for position, header in segment.headers(segment.locate(from_offset)[0]):
            if header.max_timestamp >= timestamp:
                found = _first(
                    segment, position, header, lambda r: r.timestamp >= timestamp and r.offset >= start
                )
                if found is not None:
                    return found
    return None


def max_timestamp(segments: Iterable[Segment]) -> TimedOffset | None:
    """The first record that has the largest timestamp of all."""
    newest = max(segments, key=lambda segment: segment.newest()[0])
    timestamp, offset = newest.newest()
    if timestamp < 0:
        return None
    position, _ = newest.locate(offset)
    return _first(newest, position, newest.header(position), lambda record: record.timestamp >= timestamp)


def _first(
    segment: Segment, position: int, header: Header, wanted: Callable[[Record], bool]
) -> TimedOffset | None:
    for batch in read_batches(segment.file.read(header.size, position)):
        for record in batch.records():
            if wanted(record):
                return TimedOffset(record.offset, record.timestamp, header.leader_epoch)
    return None
