"""The files of one segment: the log and its indexes.  The one place where they are named, made, opened, renamed and removed.

All files of a segment have the same stem and the same suffix, and come and go together.  Every other module that touches
them (compaction, swaps, scrubbing, salvage) asks here.  What is in the files is the business of `segment` and `index`."""

from __future__ import annotations

import re
from typing import NamedTuple

from tidelog.storage.disk import Disk, File, ReadableFile
from tidelog.storage.flush.flusher import sync

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
KINDS = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
BESIDE_LOG = KINDS[1:]
# Transactions are rare: where a segment has none there is no file.
NEEDED = (LOG, INDEX, TIME_INDEX)


_NAME = re.compile(rf"(\d{{20}})({'|'.join(map(re.escape, KINDS))})(|\..+)")


class SegmentFileName(NamedTuple):
    base: int
    kind: str
    suffix: str
    """Empty for the files of the log itself."""


def parse(name: str) -> SegmentFileName | None:
    """A name in a log's folder, if it is that of a segment's file."""
    match = _NAME.fullmatch(name)
    return None if match is None else SegmentFileName(int(match[1]), match[2], match[3])


def stem(folder: str, base: int) -> str:
    """The path of a segment's files without their kind and suffix."""
    return f"{folder}/{base:020d}"


class SegmentFiles:
    __slots__ = ("_disk", "folder", "stem", "suffix")

    def __init__(self, disk: Disk, folder: str, base: int, suffix: str = "") -> None:
        """`suffix` follows the usual names: for files that are not, or no longer, part of the log."""
        self._disk = disk
        self.folder = folder
        self.stem = stem(folder, base)
        self.suffix = suffix

    def path(self, kind: str = LOG) -> str:
        return self.stem + kind + self.suffix

    def paths(self) -> list[str]:
        return [self.path(kind) for kind in KINDS]

    def exists(self, kind: str = LOG) -> bool:
        return self._disk.exists(self.path(kind))

    def size(self, kind: str = LOG) -> int:
        return self._disk.size(self.path(kind))

    def open(self) -> File:
        """The log."""
        return self._disk.open(self.path())

    def open_direct(self) -> ReadableFile:
        """The log as the device has it."""
        return self._disk.open_direct(self.path())

    def create(self, allocate: int = 0) -> File:
        """An empty log, with room reserved for so many bytes.  What a crash left under the same names goes."""
        self.remove()  # the log as well: whether a file is encrypted is decided when it is made
        file = self._disk.open(self.path(), create=True)
        if allocate:
            file.allocate(allocate)
        return file

    def empty(self, kind: str) -> File:
        """An index without entries."""
        file = self._disk.open(self.path(kind), create=True)
        file.truncate(0)
        return file

    def sync(self) -> None:
        """Everything of a sealed segment; blocks, and touches nothing that the loop's thread changes."""
        for kind in KINDS:
            try:
                file = self._disk.open(self.path(kind))
            except FileNotFoundError:
                continue  # on its way out: retention renamed it
            sync(file)

    def rename(self, suffix: str, log_last: bool = False, needed: tuple[str, ...] = ()) -> None:
        """To names that end in `suffix`; those who hold a file go on reading.  Files that are not there are passed over,
        unless they are `needed`.  `log_last`: with a log under the new name all other files have theirs."""
        old, self.suffix = self.suffix, suffix
        for kind in reversed(KINDS) if log_last else KINDS:
            path = self.stem + kind
            if kind in needed or self._disk.exists(path + old):
                self._disk.rename(path + old, path + suffix)

    def remove(self, *kinds: str) -> None:
        """These, or all.  No error when they are gone."""
        for kind in kinds or KINDS:
            self._disk.remove(self.path(kind))
