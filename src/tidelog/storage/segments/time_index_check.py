"""Whether a segment's time index can be believed.  After a clean stop nothing is scanned, and what an index does not
know is silently left out of every answer: so what it says is held against the log before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import CorruptMessage

if TYPE_CHECKING:
    from tidelog.storage.segments.segment import Segment


def fits(segment: Segment, timestamp: int, offset: int) -> bool:
    """Whether an entry is one: the batch with `offset` has that as its largest timestamp."""
    if timestamp < 0 or not segment.base <= offset < segment.end:
        return timestamp < 0
    try:
        position, header = segment.locate(offset)
        header = header or segment.header(position)
    except CorruptMessage:
        return True  # of a damaged log it cannot be told
    return header.base_offset <= offset <= header.last_offset and header.max_timestamp == timestamp


def complete(segment: Segment) -> bool:
    """Whether the last entry is one, and the last batch not newer: else the index is cut, or another segment's."""
    newest, offset = segment.time_index.last_timestamp, segment.time_index.last_offset
    if not fits(segment, newest, offset):
        return False
    try:
        return all(
            header.max_timestamp <= newest for _, header in segment.headers(segment.index.last_position)
        )
    except CorruptMessage:
        return True
