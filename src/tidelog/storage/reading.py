"""What a read gives, and where its bytes are: which segment, from where, up to where.  Used by `log`, which knows the
bounds.

A reader for an answer gets a slice of a file, bytes in memory, or word that the records are not here yet: what keeps
segments elsewhere, or encrypts them, has its place behind these three."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog._speed.log.batch import Header
from tidelog.errors import CorruptMessage
from tidelog.storage.disk import File
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.segments.ordered import Segments
from tidelog.storage.segments.segment import Segment


class Slice(NamedTuple):
    """Bytes of a file, from the start of a batch; holding it keeps the file readable."""

    file: File
    position: int
    size: int

    def send(self, socket: Any, done: int) -> int:
        """Bytes moved to a non-blocking socket, of those that are not `done` yet."""
        return self.file.send(socket, self.position + done, self.size - done)

    def read(self) -> bytes:
        return self.file.read(self.size, self.position)


class RecordBytes(NamedTuple):
    """Whole batches in memory; `end` is past their last record."""

    data: bytes
    end: int

    @property
    def size(self) -> int:
        return len(self.data)

    def send(self, socket: Any, done: int) -> int:
        """As that of a slice."""
        sent: int = socket.send(memoryview(self.data)[done:])
        return sent

    def read(self) -> bytes:
        return self.data


class NotHereYet(NamedTuple):
    """Records that are on their way: worth another read when `ready` is done."""

    ready: asyncio.Future[None]


Records = Slice | RecordBytes


def cut_slice(
    segment: Segment, position: int, header: Header | None, limit: int, bytes_max: int, whole_batch: bool
) -> Slice | None:
    """From `position` to `limit`, within `bytes_max`; `header` is the first batch's if it is known
    already."""
    size = limit - position
    if size <= 0:
        return None
    if size > bytes_max:
        first = (segment.header(position) if header is None else header).size
        if first <= bytes_max:
            size = bytes_max
        elif whole_batch:
            size = first
        else:
            return None
    return Slice(segment.file, position, size)


def read_anywhere(
    segments: Segments,
    bad_ranges: Sequence[BadRange],
    offset: int,
    bytes_max: int,
    end: int,
    whole_batch: bool,
) -> Slice | None:
    """From any segment, around bad ranges, and over the gaps that compaction leaves."""
    for bad in bad_ranges:
        if bad.start <= offset < bad.end:
            raise CorruptMessage(
                f"{segments.first.folder} is damaged from offset {bad.start} to {bad.end}: "
                f"read on from {bad.end}, or restore these records from another copy"
            )
    for number in range(segments.holding(offset), len(segments)):
        segment = segments[number]
        if segment.base >= end:
            return None
        position, header = segment.locate(offset)
        if position < segment.size:
            limit = _limit(segment, offset, end)
            return cut_slice(segment, position, header, limit, bytes_max, whole_batch)
    return None


def _limit(segment: Segment, offset: int, end: int) -> int:
    limit = segment.size
    for bad in segment.bad:
        if bad.start >= offset:
            limit = min(limit, bad.position)
        if bad.start <= end < bad.end:
            return limit
    return limit if end >= segment.end else min(limit, segment.locate(end)[0])


def end_of(segments: Segments, part: Records, offset: int, bound: int) -> int:
    """Past the last record of what was read from `offset` on, with the bound `bound`.  For those who count, so
    nothing is raised: `offset` when it cannot be told."""
    if isinstance(part, RecordBytes):
        return part.end
    segment = segments.last
    try:
        if part.file is segment._file:
            return segment.end_at(part.position + part.size, offset, bound)
        for number in range(segments.holding(offset), len(segments)):
            if part.file is segments[number]._file:
                return segments[number].end_at(part.position + part.size, offset, bound)
    except (OSError, CorruptMessage):
        pass
    return offset
