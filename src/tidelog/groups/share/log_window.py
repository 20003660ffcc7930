"""The log as a share group reads it: which offsets have records for consumers, and the bytes of those that were given.

Control batches, aborted transactions (for groups that read committed records only) and what compaction left out are
empty spans: nobody is given them.  Pure: bytes in, spans and bytes out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from tidelog._speed.batch import Header, walk
from tidelog.groups.share.partition import AcquiredRange, OffsetSpan


class AbortedRange(NamedTuple):
    """A transaction's producer, and from its first to its last offset."""

    producer_id: int
    first: int
    last: int


class LogWindow(NamedTuple):
    """What was read from `first` on: spans without gaps between them, and the batches they came from."""

    data: memoryview
    headers: Sequence[Header]
    spans: Sequence[OffsetSpan]

    def records(self, acquired: Iterable[AcquiredRange]) -> bytes:
        """The batches that something was acquired of, whole, as they are in the log."""
        parts = []
        wanted = list(acquired)
        at = 0
        for header in self.headers:
            while at < len(wanted) and wanted[at].last < header.base_offset:
                at += 1
            if at < len(wanted) and wanted[at].first <= header.last_offset:
                parts.append(self.data[header.position : header.position + header.size])
        return b"".join(parts)


def window(data: bytes, first: int, aborted: Collection[AbortedRange] = ()) -> LogWindow:
    """`data` begins with the batch that holds `first`, or with the next one there is."""
    headers = [header for header in walk(data) if header.last_offset >= first]
    spans: list[OffsetSpan] = []
    at = first
    for header in headers:
        if header.base_offset > at:
            spans.append(OffsetSpan(at, header.base_offset - 1, empty=True))
        empty = header.control or _aborted(header, aborted)
        spans.append(OffsetSpan(max(at, header.base_offset), header.last_offset, empty))
        at = header.last_offset + 1
    return LogWindow(memoryview(data), headers, spans)


def _aborted(header: Header, aborted: Collection[AbortedRange]) -> bool:
    return header.transactional and any(
        one.producer_id == header.producer_id and one.first <= header.base_offset <= one.last
        for one in aborted
    )
