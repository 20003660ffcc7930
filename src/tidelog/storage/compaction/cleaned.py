"""A segment as compaction writes it, under names that nothing else uses until it is swapped in.

Every file of a round carries the round's token: a worker that outlives its broker cannot write into the files of the
next one.  The names end in `.cleaned`, which is what a start removes.
"""

from __future__ import annotations

from struct import Struct

from tidelog._speed.log.batch import walk
from tidelog._speed.log.index_interval import IndexInterval
from tidelog.storage.disk import Disk
from tidelog.storage.segments.segment_files import INDEX, TIME_INDEX, TXN_INDEX, SegmentFiles
from tidelog.storage.segments.swapping import CLEANED
from tidelog.storage.segments.txn_index import Aborted

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
# A long write-back at the end would hold up the broker's own syncs: it goes out in parts.
_SYNC_BYTES = 16 << 20


def cleaned_suffix(token: str) -> str:
    """The suffix after the usual name of a segment's file."""
    return f".{token}{CLEANED}"


class CleanedSegment:
    """Batches in ascending offsets, their indexes, then `finish`.  Blocks."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        base: int,
        token: str,
        interval_bytes: int,
        index_bytes_max: int,
        transactions: bool = False,
    ) -> None:
        """`transactions`: the segments it replaces may have an index of aborted ones, so it needs one, empty or not."""
        self.base = base
        self.size = 0
        self.max_timestamp = -1
        self.max_timestamp_offset = base
        self._files = SegmentFiles(disk, folder, base, cleaned_suffix(token))
        self._aborted = bytearray() if transactions else None
        self._file = self._files.create()
        self._interval = IndexInterval(interval_bytes)
        self._offset_entries_max = index_bytes_max // _OFFSET_ENTRY.size
        self._time_entries_max = index_bytes_max // _TIME_ENTRY.size - 1
        self._offsets = bytearray()
        self._times = bytearray()
        self._last_indexed_timestamp = -1
        self._since_sync = 0

    def add(self, data: bytes | memoryview) -> None:
        """Whole batches."""
        self._file.write(data, self.size)
        for header in walk(data):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
            if self._interval.due:
                self._index(header.base_offset, self.size + header.position)
            self._interval.passed(header.size)
        self.size += len(data)
        self._since_sync += len(data)
        if self._since_sync >= _SYNC_BYTES:
            self._file.sync()
            self._since_sync = 0

    def _index(self, offset: int, position: int) -> None:
        if len(self._offsets) < self._offset_entries_max * _OFFSET_ENTRY.size:
            self._offsets += _OFFSET_ENTRY.pack(offset - self.base, position)
        if len(self._times) < self._time_entries_max * _TIME_ENTRY.size:
            self._index_time()
        self._interval.indexed()

    def _index_time(self) -> None:
        if self.max_timestamp > self._last_indexed_timestamp:
            self._times += _TIME_ENTRY.pack(self.max_timestamp, self.max_timestamp_offset - self.base)
            self._last_indexed_timestamp = self.max_timestamp

    def add_aborted(self, aborted: Aborted) -> None:
        """Its marker was added."""
        assert self._aborted is not None
        self._aborted += aborted.encode()

    def finish(self) -> None:
        """Everything durable but the names, which the swap makes so."""
        self._index_time()
        self._file.sync()
        for kind, entries in ((INDEX, self._offsets), (TIME_INDEX, self._times), (TXN_INDEX, self._aborted)):
            if entries is None:
                continue
            file = self._files.empty(kind)
            if entries:
                file.write(entries, 0)
            file.sync()

    def discard(self) -> None:
        self._files.remove()
