"""What a segment knows of itself, found out from its batches: after a stop, after a crash, when an index cannot be right.

A scan passes batches in their order; what the segment says (`size`, `end`, timestamps, indexes) holds for the batches that
were passed, and no more.  Used by `segment`, `loading` and `recovery`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog._speed.log.batch import Header
from tidelog.errors import CorruptMessage

if TYPE_CHECKING:
    from tidelog.storage.segments.segment import Segment


def load(segment: Segment, position: int | None = None) -> None:
    """What the segment that is appended to must know besides names and sizes: its end, its timestamps.
    Walks only what the indexes do not cover, or all from `position`."""
    times = segment.time_index
    segment.max_timestamp = times.last_timestamp
    segment.max_timestamp_offset = times.last_offset
    segment.end = segment.base
    segment.first_timestamp = -1
    start = ended = segment.index.last_position if position is None else position
    for at, header in segment.headers(start):
        ended = at + header.size
        if header.base_offset < segment.end:
            raise CorruptMessage(
                f"{segment.path} has offset {header.base_offset} where {segment.end} is next"
            )
        if at == 0:
            segment.first_timestamp = header.max_timestamp
        segment.end = header.last_offset + 1
        if header.max_timestamp > segment.max_timestamp:
            segment.max_timestamp = header.max_timestamp
            segment.max_timestamp_offset = header.last_offset
    if start:
        segment.first_timestamp = next(segment.headers(0))[1].max_timestamp
    bad_ends = [bad.position + bad.size for bad in segment.bad if bad.position < segment.size]
    if max([ended, *bad_ends]) != segment.size:
        raise CorruptMessage(f"{segment.path} ends in the middle of a batch")
    segment.interval.since = segment.size - segment.index.last_position


def restart(segment: Segment, position: int) -> None:
    """For a scan: everything from `position` on is to be found out again."""
    if position == 0:
        segment.indexes.empty()
    segment.size = position
    segment.index_full = False
    # One index may have lost more than the other.
    load(segment, segment.index.floor(segment.time_index.last_offset)[1])


def scanned(segment: Segment, position: int, header: Header, behind_bad: bool = False) -> None:
    """The batch at `position` is whole, and follows what was scanned before."""
    if header.max_timestamp > segment.max_timestamp:
        segment.max_timestamp, segment.max_timestamp_offset = header.max_timestamp, header.last_offset
    # A search never walks over a bad range: the first batch behind one has an entry of its own.
    if segment.interval.due or behind_bad:
        segment.index.append(header.base_offset, position)
        if not segment.time_index.full:
            segment.time_index.append(segment.max_timestamp, segment.max_timestamp_offset)
        segment.interval.indexed()
    segment.interval.passed(header.size)
    segment.size = position + header.size
    segment.end = header.last_offset + 1


def rebuild_indexes(segment: Segment) -> None:
    """From the batches below `size`, which must be whole outside of bad ranges."""
    size, end = segment.size, segment.end
    behind_bad = {bad.position + bad.size for bad in segment.bad}
    segment.indexes.empty()
    restart(segment, 0)
    try:
        for position, header in segment.headers(0, size):
            scanned(segment, position, header, position in behind_bad)
        segment.time_index.append(segment.max_timestamp, segment.max_timestamp_offset)
    finally:
        # A header that rotted, and is not known yet, ends the indexes and not the segment.
        segment.size, segment.end = size, max(end, segment.end)


def trim_indexes(segment: Segment) -> None:
    """Opens both, which builds them anew where they are missing or cannot be right."""
    segment.index.trim()
    segment.time_index.trim()


def newest_entry_fits(segment: Segment) -> bool:
    """Whether the last entry of the time index is what its batch says."""
    entry = segment.time_index
    for _, header in segment.headers(segment.index.floor(entry.last_offset)[1]):
        if header.last_offset >= entry.last_offset:
            return entry.count == 0 or header.max_timestamp == entry.last_timestamp
    return entry.count == 0
