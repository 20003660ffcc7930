"""Makes the copy of one sealed segment: its bytes in whole, checked batches, and its side file.

Reads in threads of the log's disk.  A batch that rotted ends the copy with CorruptMessage: what is bad here may be whole
in another replica, and must not become the only copy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from tidelog._speed.log.batch import BatchCheck, header_at, walk
from tidelog._speed.log.crc32c import crc32c
from tidelog._speed.log.index_interval import SEGMENT_OFFSETS_MAX
from tidelog.errors import CorruptMessage, TidelogError
from tidelog.storage.disk import Disk, File
from tidelog.storage.producer_state import snapshots
from tidelog.storage.segments.segment_files import SegmentFiles
from tidelog.storage.segments.txn_index import Aborted
from tidelog.storage.tiers.side_file import Chunk, SideFile, epochs_below

CHUNK_BYTES = 1 << 20


class SealedSource(NamedTuple):
    """A sealed segment as it was when its copy began."""

    disk: Disk
    folder: str
    files: SegmentFiles
    start: int
    """The first offset to copy: an earlier leader may have copied the records before it."""
    end: int
    position: int
    size: int
    max_timestamp: int
    aborted: Sequence[Aborted]
    epochs: Sequence[tuple[int, int]]

    @property
    def last_epoch(self) -> int:
        below = [epoch for epoch, start in self.epochs if start < self.end]
        return below[-1] if below else -1


class SegmentCopy:
    def __init__(self, source: SealedSource) -> None:
        self._source = source
        self._chunks: list[Chunk] = []
        self.problem: TidelogError | OSError | None = None
        """Why the copy ended before its end."""

    async def pieces(self) -> AsyncIterator[bytes]:
        source, disk = self._source, self._source.disk
        file = await disk.run(source.files.open)
        check = BatchCheck(source.start, source.start + SEGMENT_OFFSETS_MAX, b"")
        while check.position < source.size:
            try:
                piece = await disk.run(lambda: self._next(file, check))
            except (TidelogError, OSError) as problem:
                self.problem = problem  # what reads the pieces makes another error of it
                raise
            yield piece

    def _next(self, file: File, check: BatchCheck) -> bytes:
        """In a thread."""
        done, left = check.position, self._source.size - check.position
        position = self._source.position + done
        data = file.read(min(CHUNK_BYTES, left), position)
        first = header_at(data)
        if first is not None and first.size > len(data):
            data = file.read(min(first.size, left), position)
        size = check.feed(data)
        if not size:
            raise CorruptMessage(f"{file.path} has no whole batch at position {position}")
        data = data[:size]
        headers = walk(data)
        newest = max(header.max_timestamp for header in headers)
        self._chunks.append(Chunk(done, size, headers[0].base_offset, newest, crc32c(data)))
        return data

    async def side_file(self) -> SideFile:
        """After all pieces."""
        source = self._source
        path = snapshots.path_of(source.folder, source.end)
        producers = await source.disk.run(lambda: _read_if_there(source.disk, path))
        epochs = epochs_below(source.epochs, source.end)
        return SideFile(tuple(self._chunks), tuple(source.aborted), epochs, producers)


def _read_if_there(disk: Disk, path: str) -> bytes:
    return disk.read_file(path) if disk.exists(path) else b""
