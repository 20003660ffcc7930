"""The aborted transactions whose markers lie in one segment: `<base>.txnindex`, 34 bytes an entry, as in Kafka.

Entries are in the order of their markers.  A segment without aborted transactions has no file.  The file is small, so the
first reader loads it into memory as a whole.  An entry is written before the marker itself, so that no reader finds the
marker without the entry.  The file may lag behind while the disk is full: until the segment is sealed, recovery rebuilds it
from the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from tidelog.storage.disk import Disk

_ENTRY = Struct(">hqqqq")
_VERSION = 0
_LAST_OFFSET = Struct(">q")
_LAST_OFFSET_AT = 18


class Aborted(NamedTuple):
    """A transaction whose data nobody may see: from its first offset up to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's."""
    last_stable: int = -1
    """Where readers of committed data had to stop when the marker was written: no transaction that ended later can
    have records below."""

    def encode(self) -> bytes:
        return _ENTRY.pack(_VERSION, *self)


def decode(data: bytes | bytearray) -> Iterator[Aborted]:
    """Whole entries."""
    for _version, *fields in _ENTRY.iter_unpack(memoryview(data)[: len(data) // _ENTRY.size * _ENTRY.size]):
        yield Aborted(*fields)


def sane(data: bytes | bytearray, base: int) -> bool:
    """Whether these can be the entries of a segment that starts at `base`."""
    if len(data) % _ENTRY.size:
        return False
    before = base - 1
    for version, _, first, last, _ in _ENTRY.iter_unpack(data):
        if version != _VERSION or last <= before or first > last:
            return False
        before = last
    return True


class TxnIndex:
    __slots__ = ("_data", "_disk", "_path", "_written")

    def __init__(self, disk: Disk, path: str, data: bytes = b"") -> None:
        self._disk = disk
        self._path = path
        self._data = bytearray(data)
        self._written = len(data)  # as far as the file has the same; behind it there may be anything

    @classmethod
    def read(cls, disk: Disk, path: str) -> TxnIndex:
        return cls(disk, path, disk.read_file(path) if disk.exists(path) else b"")

    def __len__(self) -> int:
        return len(self._data) // _ENTRY.size

    def __iter__(self) -> Iterator[Aborted]:
        return decode(bytes(self._data))

    def sane(self, base: int) -> bool:
        return sane(self._data, base)

    def append(self, aborted: Aborted) -> None:
        """OSError changes nothing.  Not synced: recovery rebuilds the entries that did not become durable with the
        segment."""
        entry = aborted.encode()
        self._write(self._data[self._written :] + entry)
        self._data += entry

    def remember(self, aborted: Aborted) -> None:
        """As `append`, for a marker that is in the log already and an entry that cannot be written now: `trim` or the
        next `append` writes it."""
        self._data += aborted.encode()

    def put(self, entries: Iterable[Aborted]) -> None:
        """Among the others, in their order; one whose marker is known already takes its place.  Synced, all or nothing."""
        by_marker = {aborted.last_offset: aborted for aborted in [*self, *entries]}
        data = b"".join(by_marker[offset].encode() for offset in sorted(by_marker))
        if data != self._data:
            self._disk.replace_file(self._path, data)
            self._data = bytearray(data)
            self._written = len(data)

    def _write(self, data: bytearray) -> None:
        self._disk.open(self._path, create=True).write(data, self._written)
        self._written += len(data)

    def truncate_to(self, offset: int) -> None:
        """Forgets markers at `offset` and later."""
        self._cut(self._position(offset))

    def clear(self) -> None:
        self._data.clear()
        self._written = 0
        self._disk.remove(self._path)

    def trim(self) -> None:
        """The file holds the entries and nothing else: an append that failed may have left more, or less."""
        if self._written < len(self._data):
            self._write(self._data[self._written :])
        if self._disk.exists(self._path):
            file = self._disk.open(self._path)
            if file.size() > len(self._data):
                file.truncate(len(self._data))

    def _cut(self, size: int) -> None:
        if size < len(self._data):
            del self._data[size:]
            self._written = min(self._written, size)
            if self._disk.exists(self._path):
                self._disk.open(self._path).truncate(size)

    def between(self, start: int, end: int) -> tuple[list[Aborted], bool]:
        """The aborted transactions with records from `start` to below `end`; True if no later index can have any."""
        entries: list[Aborted] = []
        for aborted in decode(self._data[self._position(start) :]):
            if aborted.first_offset < end:
                entries.append(aborted)
            if aborted.last_stable >= end:
                return entries, True
        return entries, False

    def _position(self, offset: int) -> int:
        """The position of the first entry whose marker is at `offset` or later."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            (last,) = _LAST_OFFSET.unpack_from(self._data, middle * _ENTRY.size + _LAST_OFFSET_AT)
            if last < offset:
                low = middle + 1
            else:
                high = middle
        return low * _ENTRY.size
