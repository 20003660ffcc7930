"""The files of one segment: the log and its indexes, their names, and the descriptors held open on them.

What is in the files is `segment`'s business.
"""

from __future__ import annotations

from tidelog._speed.log.append import NativeSegment
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import File
from tidelog.storage.flusher import sync
from tidelog.storage.segments.index import OffsetIndex, TimeIndex
from tidelog.storage.segments.txn_index import TxnIndex

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)


def stem(folder: str, base: int) -> str:
    """The path of a segment's files without their suffix."""
    return f"{folder}/{base:020d}"


class SegmentFiles(NativeSegment):
    __slots__ = (
        "_index",
        "_index_bytes_max",
        "_time_index",
        "_transactions",
        "_volume",
        "folder",
        "stem",
        "suffix",
    )

    _file: File | None

    def __init__(self, volume: Volume, folder: str, base: int, index_bytes_max: int) -> None:
        self.base = base
        self.folder = folder
        self.stem = stem(folder, base)
        self.suffix = ""
        self.used = False
        self._volume = volume
        self._index_bytes_max = index_bytes_max
        self._file = None
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transactions: TxnIndex | None = None

    @property
    def path(self) -> str:
        return self.stem + LOG + self.suffix

    @property
    def file(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._volume.disk.open(self.path)
            self._volume.files.opened(self)
        self.used = True
        return file

    def open_index(self, missing: bool = False) -> OffsetIndex:
        """CorruptIndex or FileNotFoundError: it has to be built anew."""
        volume, path = self._volume, self._path(INDEX)
        return OffsetIndex(volume.disk, volume.files, path, self.base, self._index_bytes_max, missing)

    def open_time_index(self, missing: bool = False) -> TimeIndex:
        volume, path = self._volume, self._path(TIME_INDEX)
        return TimeIndex(volume.disk, volume.files, path, self.base, self._index_bytes_max, missing)

    @property
    def transactions(self) -> TxnIndex:
        """The aborted ones whose markers are here.  They hold no descriptor, and stay once they were read."""
        index = self._transactions
        if index is None:
            index = self._transactions = TxnIndex.read(self._volume.disk, self._path(TXN_INDEX))
        return index

    def indexes_sane(self) -> bool:
        """After a crash any part of an index may be missing; reads all of both.  CorruptIndex or FileNotFoundError
        as well as false: they have to be built anew."""
        sane = True
        self._drop_indexes()
        for opened in (self.open_index, self.open_time_index):
            index = opened()
            index.drop_zeros()
            sane = sane and index.sane()
            index.trim()
        return sane

    def _empty_indexes(self) -> None:
        self._drop_indexes()
        for kind in (INDEX, TIME_INDEX):
            self._volume.disk.open(self._path(kind), create=True).truncate(0)

    def _drop_indexes(self) -> None:
        for index in (self._index, self._time_index):
            if index is not None:
                index.release()
        self._index = self._time_index = None

    def release(self) -> None:
        """For `OpenFiles`: the log's descriptor.  Indexes are handles of their own."""
        self._file = None

    def release_all(self) -> None:
        """Every descriptor; the next use opens what it needs."""
        self._drop_indexes()
        self.release()
        self._volume.files.closed(self)

    def sync(self) -> None:
        """Everything of a sealed segment; blocks, and touches nothing that the loop's thread changes."""
        disk = self._volume.disk
        for kind in SUFFIXES:
            try:
                file = disk.open(self._path(kind))
            except FileNotFoundError:
                continue  # on its way out: retention renamed it
            sync(file)

    def rename(self, suffix: str) -> None:
        """All files to `<name><suffix>`, as for deletion; readers that hold the file go on reading."""
        self._drop_indexes()
        self._transactions = None
        old, self.suffix = self.suffix, suffix
        for kind in SUFFIXES:
            path = self.stem + kind
            if self._volume.disk.exists(path + old):
                self._volume.disk.rename(path + old, path + suffix)

    def remove(self) -> None:
        self.release_all()
        for path in self.paths():
            self._volume.disk.remove(path)

    def paths(self) -> list[str]:
        return [self._path(kind) for kind in SUFFIXES]

    def _path(self, kind: str) -> str:
        return self.stem + kind + self.suffix
