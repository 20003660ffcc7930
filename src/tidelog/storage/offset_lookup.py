"""Offsets by time: the first record at or after a moment, and the newest record of a log.

Compressed batches may expand to much.  A search that is given `opened` does not open them itself: it raises
`MustDecompress`, and `look_up` has a thread open the batch before it searches again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog._speed.log.batch import Header
from tidelog._speed.log.records import first_at
from tidelog.record.reader import read_batches
from tidelog.storage.segments import time_index_check
from tidelog.storage.segments.segment import Segment

OPENED_MAX = 100
"""Batches that one search has opened.  A header may promise a record that is not there; after so many the next header
is believed, so that a search ends."""
_ANY_TIME = -(1 << 63)

Place = tuple[int, int]  # base offset and leader epoch of a batch
Known = dict[Place, tuple[int, int] | None]
"""For each batch that was opened: offset and timestamp of the first record that matches."""


class TimedOffset(NamedTuple):
    offset: int
    timestamp: int
    epoch: int
    """The leader epoch of the batch it is in."""


class MustDecompress(Exception):
    """A compressed batch has to be opened first."""

    def __init__(self, place: Place, batch: bytes | memoryview, timestamp: int, start: int) -> None:
        super().__init__(place)
        self.place = place
        self.batch = batch
        self.timestamp = timestamp
        self.start = start


async def look_up(search: Callable[[Known], TimedOffset | None]) -> TimedOffset | None:
    """The result of `search`, with compressed batches decompressed on a thread.  The log may change meanwhile, so the
    search starts over each time."""
    opened: Known = {}
    while True:
        try:
            return search(opened)
        except MustDecompress as unopened:
            opened[unopened.place] = await asyncio.to_thread(
                first_record, unopened.batch, unopened.timestamp, unopened.start
            )


def offset_for_time(
    segments: Iterable[Segment], timestamp: int, start: int, opened: Known | None = None
) -> TimedOffset | None:
    """The first record from `start` on that is not older than `timestamp`."""
    for segment in segments:
        if segment.end <= start or segment.newest()[0] < timestamp:
            continue
        indexed, floor = segment.time_index.floor(timestamp)
        if not time_index_check.fits(segment, indexed, floor):
            segment.rebuild_indexes()
            _, floor = segment.time_index.floor(timestamp)
        from_offset = max(start, floor)
        for position, header in segment.headers(segment.locate(from_offset)[0]):
            if header.max_timestamp >= timestamp:
                timed_offset = _first(segment, position, header, timestamp, start, opened)
                if timed_offset is not None:
                    return timed_offset
    return None


def max_timestamp(segments: Iterable[Segment], opened: Known | None = None) -> TimedOffset | None:
    """The first record that has the largest timestamp of all."""
    newest = max(segments, key=lambda segment: segment.newest()[0])
    timestamp, offset = newest.newest()
    if timestamp < 0:
        return None
    position, _ = newest.locate(offset)
    return _first(newest, position, newest.header(position), timestamp, 0, opened)


def _first(
    segment: Segment, position: int, header: Header, timestamp: int, start: int, opened: Known | None
) -> TimedOffset | None:
    place = header.base_offset, header.leader_epoch
    if opened is None or not header.compression:
        offset_and_time = first_record(segment.file.read(header.size, position), timestamp, start)
    elif place in opened:
        offset_and_time = opened[place]
    elif len(opened) >= OPENED_MAX:
        offset_and_time = max(header.base_offset, start), header.max_timestamp
    else:
        raise MustDecompress(place, segment.file.read(header.size, position), timestamp, start)
    return None if offset_and_time is None else TimedOffset(*offset_and_time, header.leader_epoch)


def first_record(batch: bytes | memoryview, timestamp: int, start: int) -> tuple[int, int] | None:
    """Offset and timestamp of the batch's first record from `start` on that is not older than `timestamp`."""
    for each in read_batches(batch):
        header = each.header
        if header.log_append_time and header.max_timestamp < timestamp:
            return None
        delta_and_time = first_at(
            each.section(),
            header.count,
            header.base_timestamp,
            _ANY_TIME if header.log_append_time else timestamp,
            start - header.base_offset,
        )
        if delta_and_time is not None:
            delta, time = delta_and_time
            return header.base_offset + delta, header.max_timestamp if header.log_append_time else time
    return None
