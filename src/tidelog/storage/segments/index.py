"""Sparse indexes of a segment: offset to position, and time to offset; memory-mapped, searched by halves.

Entries only grow.  A file is as long as its entries once it is sealed or closed; while it grows it is longer,
in steps whose blocks are reserved, so a full disk is an OSError here and never a dead process.  An index may
be sparse or empty and still be right: readers walk batches from the entry they find.  Used by `segment` only.
"""

from __future__ import annotations

from array import array
from operator import lt
from struct import Struct
from sys import byteorder
from typing import ClassVar

from tidelog.storage.disk import Disk, Mapping
from tidelog.storage.open_files import OpenFiles

STEP_BYTES = 4096


class CorruptIndex(Exception):
    """The file's content is impossible: rebuild it from the log."""


class _Index:
    ENTRY: ClassVar[Struct]

    __slots__ = (
        "_capacity",
        "_disk",
        "_entries_max",
        "_files",
        "_mapping",
        "_view",
        "base",
        "count",
        "made",
        "path",
        "used",
    )

    def __init__(
        self, disk: Disk, files: OpenFiles, path: str, base: int, bytes_max: int, missing: bool = False
    ) -> None:
        """`missing`: the file need not be there, it is made with the first entry."""
        self.path = path
        self.base = base
        self.used = False
        self._disk = disk
        self._files = files
        self._entries_max = max(2, bytes_max // self.ENTRY.size)
        self._mapping: Mapping | None = None
        self._view: memoryview | None = None
        self.made = not missing or disk.exists(path)
        self._capacity = disk.size(path) if self.made else 0
        self.count = self._capacity // self.ENTRY.size
        if self._capacity % self.ENTRY.size:
            raise CorruptIndex(f"{path} ends in the middle of an entry")
        self._load_last()

    @property
    def full(self) -> bool:
        """One place is kept for the entry that sealing may add."""
        return self.count >= self._entries_max - 1

    def reserve(self) -> None:
        """Room for one more entry, or OSError with nothing changed."""
        size = self.ENTRY.size
        if (self.count + 1) * size > self._capacity:
            grown = min(max(STEP_BYTES, self._capacity * 2), max(self._entries_max, self.count + 1) * size)
            self._unmap()
            # Takes effect only when the mapping is there: a full disk leaves the index as it was.
            self._map(max(grown // size, self.count + 1) * size)

    def trim(self) -> None:
        """The file as long as its entries, for a segment that is sealed or closed."""
        self._unmap()
        if self._capacity != self.count * self.ENTRY.size:
            self._capacity = self.count * self.ENTRY.size
            self._disk.open(self.path).truncate(self._capacity)

    def make(self) -> None:
        """An empty file, if there is none yet."""
        if not self.made:
            self._disk.open(self.path, create=True)
            self.made = True

    def release(self) -> None:
        self._unmap()

    def drop_zeros(self) -> None:
        """After a crash the room reserved for growth is still there, at the end, and no entry is all zeros."""
        size = self.ENTRY.size
        used = len(self._disk.open(self.path).read(self.count * size, 0).rstrip(b"\0"))
        self.count = (used + size - 1) // size
        self._load_last()

    def sane(self) -> bool:
        """Every entry is larger than the one before in all it says; costs a read of the whole index."""
        words = array("i" if self.ENTRY.size == 8 else "I")
        words.frombytes(self._disk.open(self.path).read(self.count * self.ENTRY.size, 0))
        if byteorder == "little":
            words.byteswap()
        return all(all(map(lt, column, column[1:])) for column in self._columns(words))

    def _columns(self, words: array[int]) -> list[array[int]]:
        raise AssertionError("each index knows its columns")

    def _load_last(self) -> None:
        raise AssertionError("each index knows its last entry")

    def _entry(self, number: int) -> tuple[int, int]:
        view = self._view
        if view is None:
            view = self._map(self._capacity)
        self.used = True
        first, second = self.ENTRY.unpack_from(view, number * self.ENTRY.size)
        return first, second

    def _put(self, first: int, second: int) -> None:
        self.reserve()
        view = self._view
        if view is None:
            view = self._map(self._capacity)
        self.used = True
        self.ENTRY.pack_into(view, self.count * self.ENTRY.size, first, second)
        self.count += 1

    def _count_below(self, column: int, value: int) -> int:
        """How many entries have a smaller value in `column`; entries are sorted by either."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) >> 1
            if self._entry(middle)[column] < value:
                low = middle + 1
            else:
                high = middle
        return low

    def _map(self, capacity: int) -> memoryview:
        self._mapping = self._disk.map(self.path, capacity)
        self._capacity = capacity
        self.made = True
        self._view = self._mapping.view
        self._files.opened(self)
        return self._view

    def _unmap(self) -> None:
        if self._mapping is not None:
            self._view = None
            self._mapping.close()
            self._mapping = None
            self._files.closed(self)


class OffsetIndex(_Index):
    """(offset relative to the segment's base, position of the batch that starts with it)."""

    ENTRY = Struct(">ii")

    __slots__ = ("last_offset", "last_position")

    last_offset: int
    last_position: int

    def append(self, offset: int, position: int) -> None:
        self._put(offset - self.base, position)
        self.last_offset = offset
        self.last_position = position

    def floor(self, offset: int) -> tuple[int, int]:
        """Offset and position of the last entry at or before `offset`; the segment's start when there is
        none."""
        if offset >= self.last_offset:
            return self.last_offset, self.last_position
        below = self._count_below(0, offset - self.base + 1)
        if below == 0:
            return self.base, 0
        relative, position = self._entry(below - 1)
        return self.base + relative, position

    def before(self, position: int) -> tuple[int, int]:
        """Offset and position of the last entry before `position` in the file; the segment's start when there is none."""
        if self.last_position < position:
            return self.last_offset, self.last_position
        below = self._count_below(1, position)
        if below == 0:
            return self.base, 0
        relative, entry_position = self._entry(below - 1)
        return self.base + relative, entry_position

    def behind(self, position: int) -> int | None:
        """The offset of the first entry at `position` or later in the file; None when there is none."""
        below = self._count_below(1, position)
        return None if below >= self.count else self.base + self._entry(below)[0]

    def truncate_to(self, offset: int) -> None:
        """Forgets entries at `offset` and later."""
        self.count = self._count_below(0, offset - self.base)
        self._load_last()

    def check(self, log_size: int) -> None:
        """What can be seen without reading all of it."""
        if self.count and not (0 <= self.last_position < log_size and self.last_offset >= self.base):
            self.release()
            raise CorruptIndex(f"{self.path} ends with an entry that points outside its log")

    def _load_last(self) -> None:
        self.last_offset, self.last_position = self.base, 0
        if self.count:
            relative, self.last_position = self._entry(self.count - 1)
            self.last_offset = self.base + relative

    def _columns(self, words: array[int]) -> list[array[int]]:
        return [words[0::2], words[1::2]]


class TimeIndex(_Index):
    """(largest timestamp so far, relative offset of the batch it came with): each entry is larger in time."""

    ENTRY = Struct(">qi")

    __slots__ = ("last_offset", "last_timestamp")

    last_offset: int
    last_timestamp: int

    def append(self, timestamp: int, offset: int) -> None:
        """Nothing when the largest timestamp has not moved since the last entry."""
        if timestamp > self.last_timestamp:
            self._put(timestamp, offset - self.base)
            self.last_timestamp = timestamp
            self.last_offset = offset

    def floor(self, timestamp: int) -> tuple[int, int]:
        """The last entry that is not newer: every batch before its offset is older than `timestamp`.  -1 and the
        segment's start when there is none."""
        below = self._count_below(0, timestamp + 1)
        if below == 0:
            return -1, self.base
        entry_timestamp, relative = self._entry(below - 1)
        return entry_timestamp, self.base + relative

    def truncate_to(self, offset: int) -> None:
        self.count = self._count_below(1, offset - self.base)
        self._load_last()

    def check(self, timestamp_min: int) -> None:
        """What can be seen without reading all of it; `timestamp_min` is in the segment for certain."""
        if self.last_offset < self.base or self.last_timestamp < timestamp_min:
            self.release()
            raise CorruptIndex(f"{self.path} ends with an entry from before its segment")

    def _load_last(self) -> None:
        self.last_timestamp, self.last_offset = -1, self.base
        if self.count:
            self.last_timestamp, relative = self._entry(self.count - 1)
            self.last_offset = self.base + relative

    def _columns(self, words: array[int]) -> list[array[int]]:
        # The high halves of timestamps repeat: joined to one number per entry before they are compared.
        joined = array("Q", ((high << 32 | low) for high, low in zip(words[0::3], words[1::3], strict=True)))
        return [joined, words[2::3]]
