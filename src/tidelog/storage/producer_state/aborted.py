"""Which aborted transactions a reader has to know of.  Their entries lie with their markers, so the indexes are searched
from the segment of the first record on, until no later one can have any.  Used by `reader`."""

from __future__ import annotations

from tidelog.storage.fetched_log import Slice
from tidelog.storage.segments.segments import Segments
from tidelog.storage.segments.txn_index import Aborted


def between(segments: Segments, start: int, end: int) -> list[Aborted]:
    """The aborted transactions that have records from `start` to below `end`."""
    aborted: list[Aborted] = []
    for segment in segments.above(segments.holding(start) - 1):
        more, complete = segment.indexes.transactions.between(start, end)
        aborted += more
        if complete:
            break
    return aborted


def in_slice(segments: Segments, part: Slice, start: int, end: int) -> list[Aborted]:
    """The aborted transactions with records in a slice that was read from `start` on, with the bound `end`; a few more
    where the index does not tell exactly where the slice ends."""
    if not any(len(segment.indexes.transactions) for segment in segments.above(segments.holding(start) - 1)):
        return []
    return between(segments, start, min(end, _end_of(segments, part, start, end)))


def _end_of(segments: Segments, part: Slice, start: int, end: int) -> int:
    for number in range(segments.holding(start), len(segments)):
        segment = segments[number]
        if segment.file is part.file:
            behind = segment.index.behind(part.position + part.size)
            following = segments[number + 1].base if number + 1 < len(segments) else end
            return following if behind is None else behind
    return end
