"""One stretch of a log: the file of batches that starts at `base`, and its indexes.

Bytes below `size` are whole batches in ascending offsets.  Indexes lag behind and are right as far as they
go. A `Segment` knows nothing of its neighbours; `Roller` decides when one is full and `Reader` which one is read.
Its parts: `SegmentFiles` (names and files), `SegmentIndexes`, `IndexInterval` (which batches get entries).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidelog._speed.log.append import NativeSegment
from tidelog._speed.log.batch import HEADER_SIZE, Header, find, header_at, walk
from tidelog._speed.log.index_interval import IndexInterval
from tidelog.errors import CorruptMessage
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import File
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.segments import scanning, time_index_check
from tidelog.storage.segments.index import CorruptIndex, OffsetIndex, TimeIndex
from tidelog.storage.segments.indexes import SegmentIndexes
from tidelog.storage.segments.segment_files import SegmentFiles
from tidelog.storage.shared_files import make_own

NEVER = (1 << 63) - 1
ALWAYS = -(1 << 63)

_LOOKUP_BYTES = 8192
_RECENT_MAX = 32


class Segment(NativeSegment):
    __slots__ = (
        "_before",
        "_volume",
        "bad",
        "files",
        "indexes",
        "jitter_ms",
    )

    def __init__(
        self, volume: Volume, folder: str, base: int, size: int, index_bytes_max: int, interval_bytes: int
    ) -> None:
        self.base = base
        self.files = SegmentFiles(volume.disk, folder, base)
        self.indexes = SegmentIndexes(volume, self.files, base, index_bytes_max)
        self.interval = IndexInterval(interval_bytes)
        self.size = size
        self.reserved = size  # past `size` while synced appends are on their way to the disk
        self.end = base
        self.max_timestamp = -1
        self.max_timestamp_offset = base
        self.first_timestamp = -1
        self.created_ms = volume.clock.now_ms()
        self.roll_at = self.age_ms_max = NEVER
        self.jitter_ms = 0
        self.index_full = False
        self.used = False
        self.bad: Sequence[BadRange] = ()
        self._volume = volume
        self._file = None
        # Where the latest batches start, for readers at the tail: two generations bound it.
        self._recent = {}
        self._before: dict[int, int] = {}

    @classmethod
    def create(
        cls, volume: Volume, folder: str, base: int, index_bytes_max: int, interval_bytes: int, allocate: int
    ) -> Segment:
        """Empty; what a crash left under the same names goes."""
        segment = cls(volume, folder, base, 0, index_bytes_max, interval_bytes)
        try:
            segment.files.create(allocate)
            segment.indexes.created()
        except OSError:
            # The log may go on in the segment before, past `base`: an empty one must not be found there later.
            segment.remove()
            raise
        return segment

    # Files

    @property
    def path(self) -> str:
        return self.files.path()

    @property
    def file(self) -> File:
        file: File | None = self._file
        if file is None:
            file = self._file = self.files.open()
            self._volume.files.opened(self)
        self.used = True
        return file

    def release(self) -> None:
        """For `OpenFiles`: the log's descriptor.  Indexes are handles of their own."""
        self._file = None
        self._recent.clear()
        self._before.clear()

    def release_all(self) -> None:
        """Every descriptor; the next use opens what it needs."""
        self.indexes.release()
        self.release()
        self._volume.files.closed(self)

    def rename(self, suffix: str) -> None:
        """All files to `<name><suffix>`, as for deletion; readers that hold the file go on reading."""
        self.indexes.forget()
        self.files.rename(suffix)

    def remove(self) -> None:
        self.release_all()
        self.files.remove()

    # Indexes

    @property
    def index(self) -> OffsetIndex:
        indexes = self.indexes
        if indexes.offsets is None:
            try:
                index = indexes.open_offsets(missing=indexes.fresh or self.size == 0)
                index.check(self.size)
            except (CorruptIndex, FileNotFoundError):
                self.rebuild_indexes()
            else:
                indexes.offsets = index
        assert indexes.offsets is not None
        return indexes.offsets

    @property
    def time_index(self) -> TimeIndex:
        indexes = self.indexes
        if indexes.times is None:
            try:
                index = indexes.open_times(missing=indexes.fresh or self.size == 0)
                index.check(self._first_timestamp())
            except (CorruptIndex, FileNotFoundError):
                self.rebuild_indexes()
            else:
                indexes.times = index
        assert indexes.times is not None
        return indexes.times

    def _first_timestamp(self) -> int:
        """Of the first batch on disk; the time index of a segment that was closed knows one at least as large."""
        if self.indexes.fresh or not self.size:
            return -1
        first = header_at(self.file.read(HEADER_SIZE, 0))
        return -1 if first is None else first.max_timestamp

    def rebuild_indexes(self) -> None:
        """From the batches below `size`, which must be whole outside of bad ranges."""
        scanning.rebuild_indexes(self)

    # Writing

    def _reserve_index(self) -> None:
        self.index.reserve()
        self.time_index.reserve()

    def _add_to_index(self, data: Any, base: int, position: int, due: bool) -> None:
        """Entries every `interval` bytes: one for a small append, several inside a large one with many
        batches."""
        if len(self._recent) > _RECENT_MAX:
            self._before, self._recent = self._recent, {}
        index, interval = self.index, self.interval
        if due:
            index.append(base, position)
            interval.indexed()
        first = header_at(data)
        if first is None or first.size == len(data):
            interval.passed(len(data))
        else:
            for header in walk(data):
                if interval.due and not index.full:
                    try:
                        index.append(header.base_offset, position + header.position)
                    except OSError:
                        break  # the bytes are written: an entry less does no harm
                    interval.indexed()
                interval.passed(header.size)
        if due:
            self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        if index.full or self.time_index.full:
            self.index_full = True
            self.roll_at = ALWAYS

    # Reading

    def locate(self, offset: int) -> tuple[int, Header | None]:
        """Where the first batch that ends at or after `offset` starts; `size` when there is none.  The header
        comes along when it had to be read."""
        position = self._recent.get(offset)
        if position is None:
            position = self._before.get(offset)
        if position is not None:
            return position, None
        if offset >= self.end:
            return self.size, None
        position = self._from_index(offset)
        file, size = self.file, self.size
        while size - position >= HEADER_SIZE:
            data = file.read(min(_LOOKUP_BYTES, size - position), position)
            skipped, header = find(data, offset)
            if header is not None:
                return position + skipped, header
            if skipped == 0:
                break
            position += skipped
        if position != size:
            raise CorruptMessage(f"{self.path} has no batch at position {position}, where one must start")
        return size, None

    def end_at(self, stop: int, offset: int, bound: int) -> int:
        """Past the last record of the whole batches before the position `stop`, not below `offset`, where one starts.
        `bound` is known to be where some batch ends."""
        if stop >= self.size:
            return min(self.end, bound)
        if self._recent.get(bound) == stop or self._before.get(bound) == stop:
            return bound
        end, position = self.index.before(stop)
        if end < offset:
            end, position = offset, self.locate(offset)[0]
        for at, header in self.headers(position, stop):
            if at + header.size > stop:
                break
            end = header.last_offset + 1
        return end

    def header(self, position: int) -> Header:
        """Of the batch that starts there."""
        header = header_at(self.file.read(HEADER_SIZE, position))
        if header is None:
            raise CorruptMessage(f"{self.path} has no batch at position {position}, where one must start")
        return header

    def headers(self, position: int, end: int | None = None) -> Iterator[tuple[int, Header]]:
        """(position, header) of every batch from `position`, where one must start, to `end`, without bad
        ranges. Bodies are not read when they are large."""
        file, end = self.file, self.size if end is None else end
        for bad in self.bad:
            if position <= bad.position < end:
                yield from self.headers(position, bad.position)
                position = bad.position + bad.size
        while end - position >= HEADER_SIZE:
            data = file.read(min(_LOOKUP_BYTES, end - position), position)
            at = 0
            while (header := header_at(data, at)) is not None:
                yield position + at, header
                at += header.size
                if at + HEADER_SIZE > len(data):
                    break
            if at == 0:
                raise CorruptMessage(f"{self.path} has no batch at position {position}, where one must start")
            position += at

    def _from_index(self, offset: int) -> int:
        position = self.index.floor(offset)[1]
        if position:
            header = header_at(self.file.read(HEADER_SIZE, position)) if 0 < position < self.size else None
            if header is None or header.magic != 2 or not self.base <= header.base_offset <= offset:
                # The index does not fit its log: everything it says can be had from the log.
                self.rebuild_indexes()
                position = self.index.floor(offset)[1]
        return position

    # Time

    def newest(self) -> tuple[int, int]:
        """The largest timestamp, and the last offset of the batch that has it; -1 when there is none."""
        if self.max_timestamp < 0 and self.size:
            if not time_index_check.complete(self):
                self.rebuild_indexes()
            self.max_timestamp = self.time_index.last_timestamp
            self.max_timestamp_offset = self.time_index.last_offset
        return self.max_timestamp, self.max_timestamp_offset

    def age_from(self) -> int:
        """When its newest record was made; of records without a time, when the segment was first seen."""
        newest = self.newest()[0]
        return newest if newest >= 0 else self.created_ms

    # Changing

    def truncate_to(self, offset: int) -> int:
        """Drops every batch that reaches `offset` or beyond; bytes dropped."""
        if make_own(self.path):
            self.release_all()
        bad = next((bad for bad in self.bad if bad.start <= offset < bad.end), None)
        position, header = (bad.position, None) if bad else self.locate(offset)
        dropped = self.size - position
        if bad:
            offset = bad.start
        elif dropped:
            # The batch may begin before `offset`, and the time index may know a record in the middle of it.
            offset = min(offset, (header or self.header(position)).base_offset)
        self._recent.clear()
        self._before.clear()
        self.index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.indexes.transactions.truncate_to(offset)
        self.file.truncate(position)
        self.size = self.reserved = position
        self.index_full = False
        scanning.load(self)
        return dropped

    def seal(self) -> None:
        """No more appends: files become as long as what is in them."""
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        size = max(self.size, self.reserved)
        if self.file.size() > size:
            self.file.truncate(size)
        self.index.trim()
        self.time_index.trim()
        self.indexes.trim_transactions()
        if size:
            self.index.make()
            self.time_index.make()
        self._recent = {}
        self._before = {}

    def close(self) -> None:
        """As after a clean stop: the next start finds it complete."""
        self.seal()
        self.release_all()
