"""One stretch of a log: the file of batches that starts at `base`, and its indexes.

Bytes below `size` are whole batches in ascending offsets.  Indexes lag behind and are right as far as they
go. A `Segment` knows nothing of its neighbours; `log` decides when one is full and which one is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidelog._speed.log.batch import HEADER_SIZE, Header, find, header_at, walk
from tidelog.errors import CorruptMessage
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.segments import times
from tidelog.storage.segments.index import CorruptIndex, OffsetIndex, TimeIndex
from tidelog.storage.segments.segment_files import (
    INDEX,
    LOG,
    SUFFIXES,
    TIME_INDEX,
    TXN_INDEX,
    SegmentFiles,
    stem,
)
from tidelog.storage.segments.txn_index import TxnIndex

OFFSETS_MAX = (1 << 31) - 1  # indexes keep offsets relative to the base in 31 bits
NEVER = (1 << 63) - 1
ALWAYS = -(1 << 63)

_LOOKUP_BYTES = 8192
_RECENT_MAX = 32


class Segment(SegmentFiles):
    __slots__ = (
        "_before",
        "_fresh",
        "bad",
        "jitter_ms",
    )

    def __init__(
        self, volume: Volume, folder: str, base: int, size: int, index_bytes_max: int, interval_bytes: int
    ) -> None:
        super().__init__(volume, folder, base, index_bytes_max)
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
        self.bad: Sequence[BadRange] = ()
        self._interval_bytes = interval_bytes
        self._since_index = 0
        self._fresh = False  # made in this run: an index that is not there has no entries yet
        # Where the latest batches start, for readers at the tail: two generations bound it.
        self._recent = {}
        self._before: dict[int, int] = {}

    @classmethod
    def create(
        cls, volume: Volume, folder: str, base: int, index_bytes_max: int, interval_bytes: int, allocate: int
    ) -> Segment:
        """Empty; what a crash left under the same names goes.  Indexes are made with their first entries: a file
        costs more than all else here."""
        segment = cls(volume, folder, base, 0, index_bytes_max, interval_bytes)
        segment._fresh = True
        try:
            for kind in (INDEX, TIME_INDEX, TXN_INDEX):
                volume.disk.remove(segment.stem + kind)
            segment._transactions = TxnIndex(volume.disk, segment.stem + TXN_INDEX)
            file = volume.disk.open(segment.path, create=True)
            if file.size():
                file.truncate(0)
            if allocate:
                segment.file.allocate(allocate)
        except OSError:
            # The log may go on in the segment before, past `base`: an empty one must not be found there later.
            segment.remove()
            raise
        return segment

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            try:
                index = self.open_index(missing=self._fresh or self.size == 0)
                index.check(self.size)
            except (CorruptIndex, FileNotFoundError):
                self.rebuild_indexes()
            else:
                self._index = index
        assert self._index is not None
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            try:
                index = self.open_time_index(missing=self._fresh or self.size == 0)
                index.check(self._first_timestamp())
            except (CorruptIndex, FileNotFoundError):
                self.rebuild_indexes()
            else:
                self._time_index = index
        assert self._time_index is not None
        return self._time_index

    def _first_timestamp(self) -> int:
        """Of the first batch on disk; the time index of a segment that was closed knows one at least as large."""
        if self._fresh or not self.size:
            return -1
        first = header_at(self.file.read(HEADER_SIZE, 0))
        return -1 if first is None else first.max_timestamp

    # Writing

    def written(self, size: int, end: int) -> None:
        self.size += size
        self.end = end

    def _reserve_index(self) -> None:
        self.index.reserve()
        self.time_index.reserve()

    def _add_to_index(self, data: Any, base: int, position: int, due: bool) -> None:
        """Entries every `interval` bytes: one for a small append, several inside a large one with many
        batches."""
        if len(self._recent) > _RECENT_MAX:
            self._before, self._recent = self._recent, {}
        interval = self._interval_bytes
        index, since = self.index, self._since_index
        if due:
            index.append(base, position)
            since = 0
        first = header_at(data)
        if first is None or first.size == len(data):
            since += len(data)
        else:
            for header in walk(data):
                if since > interval and header.position and not index.full:
                    try:
                        index.append(header.base_offset, position + header.position)
                    except OSError:
                        break  # the bytes are written: an entry less does no harm
                    since = 0
                since += header.size
        self._since_index = since
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
            found = header_at(self.file.read(HEADER_SIZE, position)) if 0 < position < self.size else None
            if found is None or found.magic != 2 or not self.base <= found.base_offset <= offset:
                # The index does not fit its log: everything it says can be had from the log.
                self.rebuild_indexes()
                position = self.index.floor(offset)[1]
        return position

    # Time

    def newest(self) -> tuple[int, int]:
        """The largest timestamp, and the last offset of the batch that has it; -1 when there is none."""
        if self.max_timestamp < 0 and self.size:
            if not times.complete(self):
                self.rebuild_indexes()
            self.max_timestamp = self.time_index.last_timestamp
            self.max_timestamp_offset = self.time_index.last_offset
        return self.max_timestamp, self.max_timestamp_offset

    def age_from(self) -> int:
        """When its newest record was made; of records without a time, when the segment was first seen."""
        newest = self.newest()[0]
        return newest if newest >= 0 else self.created_ms

    def load(self, position: int | None = None) -> None:
        """What the segment that is appended to must know besides names and sizes: its end, its timestamps.
        Walks only what the indexes do not cover, or all from `position`."""
        self.max_timestamp = self.time_index.last_timestamp
        self.max_timestamp_offset = self.time_index.last_offset
        self.end = self.base
        self.first_timestamp = -1
        start = ended = self.index.last_position if position is None else position
        for at, header in self.headers(start):
            ended = at + header.size
            if header.base_offset < self.end:
                raise CorruptMessage(f"{self.path} has offset {header.base_offset} where {self.end} is next")
            if at == 0:
                self.first_timestamp = header.max_timestamp
            self.end = header.last_offset + 1
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset
        if start:
            self.first_timestamp = next(self.headers(0))[1].max_timestamp
        if (
            max([ended, *(bad.position + bad.size for bad in self.bad if bad.position < self.size)])
            != self.size
        ):
            raise CorruptMessage(f"{self.path} ends in the middle of a batch")
        self._since_index = self.size - self.index.last_position

    # Changing

    def truncate_to(self, offset: int) -> int:
        """Drops every batch that reaches `offset` or beyond; bytes dropped."""
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
        self.transactions.truncate_to(offset)
        self.file.truncate(position)
        self.size = self.reserved = position
        self.index_full = False
        self.load()
        return dropped

    def rebuild_indexes(self) -> None:
        """From the batches below `size`, which must be whole outside of bad ranges."""
        size, end = self.size, self.end
        behind_bad = {bad.position + bad.size for bad in self.bad}
        self._empty_indexes()
        self.restart(0)
        for position, header in self.headers(0, size):
            self.scanned(position, header, position in behind_bad)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self.size, self.end = size, max(end, self.end)

    def newest_entry_fits(self) -> bool:
        """Whether the last entry of the time index is what its batch says."""
        entry = self.time_index
        for _, header in self.headers(self.index.floor(entry.last_offset)[1]):
            if header.last_offset >= entry.last_offset:
                return entry.count == 0 or header.max_timestamp == entry.last_timestamp
        return entry.count == 0

    def check_indexes(self) -> None:
        """Opens both, which builds them anew where they are missing or cannot be right."""
        self.index.trim()
        self.time_index.trim()

    def restart(self, position: int) -> None:
        """For a scan: everything from `position` on is to be found out again."""
        if position == 0:
            self._empty_indexes()
        self.size = position
        self.index_full = False
        # One index may have lost more than the other.
        self.load(self.index.floor(self.time_index.last_offset)[1])

    def scanned(self, position: int, header: Header, behind_bad: bool = False) -> None:
        """The batch at `position` is whole, and follows what was scanned before."""
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        # A search never walks over a bad range: the first batch behind one has an entry of its own.
        if self._since_index > self._interval_bytes or behind_bad:
            self.index.append(header.base_offset, position)
            if not self.time_index.full:
                self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
            self._since_index = 0
        self._since_index += header.size
        self.size = position + header.size
        self.end = header.last_offset + 1

    def seal(self) -> None:
        """No more appends: files become as long as what is in them."""
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self._trim()
        self._recent = {}
        self._before = {}

    def close(self) -> None:
        """As after a clean stop: the next `load` finds it complete."""
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self._trim()
        self.release_all()

    def _trim(self) -> None:
        size = max(self.size, self.reserved)
        if self.file.size() > size:
            self.file.truncate(size)
        self.index.trim()
        self.time_index.trim()
        if self._transactions is not None:
            self._transactions.trim()
        if size:
            self.index.make()
            self.time_index.make()

    def release(self) -> None:
        super().release()
        self._recent.clear()
        self._before.clear()


__all__ = [
    "ALWAYS",
    "INDEX",
    "LOG",
    "NEVER",
    "OFFSETS_MAX",
    "SUFFIXES",
    "TIME_INDEX",
    "TXN_INDEX",
    "Segment",
    "stem",
]
