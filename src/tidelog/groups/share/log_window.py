"""A part of the log as a share group reads it: spans of offsets, and the bytes of the batches that were acquired.

Control batches, aborted transactions (for groups with isolation level read_committed) and gaps that compaction left are
empty spans, which no member acquires.  Whatever is in a span has passed its checksum: a member rejects what it
cannot read, and the group would never get it from a whole replica.  Pure: bytes in, spans and bytes out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from tidelog._speed.log.batch import Header, crc_ok, walk
from tidelog.groups.share.partition import AcquiredRange, OffsetSpan


class AbortedRange(NamedTuple):
    """An aborted transaction: its producer, and its first and last offset."""

    producer_id: int
    first: int
    last: int


class LogWindow(NamedTuple):
    """A read of the log: spans without gaps between them, and the batches that they came from."""

    data: memoryview
    headers: Sequence[Header]
    spans: Sequence[OffsetSpan]
    damaged: int | None = None
    """The bytes of this offset are not those that were written; nothing from it on is in the window."""

    def records(self, acquired: Iterable[AcquiredRange]) -> bytes:
        """The whole batches that hold an acquired record, as they are in the log."""
        parts = []
        wanted = list(acquired)
        at = 0
        for header in self.headers:
            while at < len(wanted) and wanted[at].last < header.base_offset:
                at += 1
            if at < len(wanted) and wanted[at].first <= header.last_offset:
                parts.append(self.data[header.position : header.position + header.size])
        return b"".join(parts)


class SpanReader(Protocol):
    """Tells the records of a batch apart."""

    def spans(self, data: memoryview, header: Header, first: int) -> list[OffsetSpan]: ...


def window(
    data: bytes, first: int, aborted: Collection[AbortedRange] = (), reader: SpanReader | None = None
) -> LogWindow:
    """`data` begins with the batch that holds `first`, or with the next batch."""
    view = memoryview(data)
    headers: list[Header] = []
    spans: list[OffsetSpan] = []
    at = first
    walked = walk(data)
    # A read has at least one whole batch.
    damaged = first if data and not walked else None
    for header in walked:
        if not crc_ok(view, header.position):
            damaged = at
            break
        if header.last_offset < first:
            continue
        headers.append(header)
        if header.base_offset > at:
            spans.append(OffsetSpan(at, header.base_offset - 1, empty=True))
        empty = header.control or _aborted(header, aborted)
        begin = max(at, header.base_offset)
        if reader is None or empty:
            spans.append(OffsetSpan(begin, header.last_offset, empty))
        else:
            spans += reader.spans(view, header, begin)
        at = header.last_offset + 1
    return LogWindow(view, headers, spans, damaged)


def _aborted(header: Header, aborted: Collection[AbortedRange]) -> bool:
    return header.transactional and any(
        transaction.producer_id == header.producer_id
        and transaction.first <= header.base_offset <= transaction.last
        for transaction in aborted
    )
