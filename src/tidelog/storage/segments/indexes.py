"""The three indexes of one segment: by offset, by time, of aborted transactions.  Opened at first use.

An index may lag behind its log; the entries that it has are right.  This module reports an inconsistent index
(`CorruptIndex`), and `scanning` rebuilds it.  Used by `Segment`."""

from __future__ import annotations

from tidelog.storage.dirs.volume import Volume
from tidelog.storage.segments.index import OffsetIndex, TimeIndex
from tidelog.storage.segments.segment_files import INDEX, TIME_INDEX, TXN_INDEX, SegmentFiles
from tidelog.storage.segments.txn_index import TxnIndex


class SegmentIndexes:
    __slots__ = ("_base", "_bytes_max", "_files", "_transactions", "_volume", "fresh", "offsets", "times")

    def __init__(self, volume: Volume, files: SegmentFiles, base: int, bytes_max: int) -> None:
        self._volume = volume
        self._files = files
        self._base = base
        self._bytes_max = bytes_max
        self._transactions: TxnIndex | None = None
        self.fresh = False  # made in this run: an index that is not there has no entries yet
        self.offsets: OffsetIndex | None = None
        self.times: TimeIndex | None = None

    def created(self) -> None:
        """The segment is new.  Indexes are made with their first entries: a file costs more than all else about a new
        segment."""
        self.fresh = True
        self._transactions = TxnIndex(self._volume.disk, self._files.path(TXN_INDEX))

    def open_offsets(self, missing: bool) -> OffsetIndex:
        """CorruptIndex or FileNotFoundError: it has to be built anew.  `missing`: it need not be there."""
        volume, path = self._volume, self._files.path(INDEX)
        return OffsetIndex(volume.disk, volume.files, path, self._base, self._bytes_max, missing)

    def open_times(self, missing: bool) -> TimeIndex:
        volume, path = self._volume, self._files.path(TIME_INDEX)
        return TimeIndex(volume.disk, volume.files, path, self._base, self._bytes_max, missing)

    @property
    def transactions(self) -> TxnIndex:
        """The aborted ones whose markers are here.  They hold no descriptor, and stay once they were read."""
        index = self._transactions
        if index is None:
            index = self._transactions = TxnIndex.read(self._volume.disk, self._files.path(TXN_INDEX))
        return index

    def sane(self) -> bool:
        """After a crash any part of an index may be missing; reads all of both.  CorruptIndex or FileNotFoundError
        as well as false: they have to be built anew."""
        sane = True
        self.release()
        for index in (self.open_offsets(False), self.open_times(False)):
            index.drop_zeros()
            sane = sane and index.sane()
            index.trim()
        return sane

    def empty(self) -> None:
        """No entries by offset or time."""
        self.release()
        for kind in (INDEX, TIME_INDEX):
            self._files.empty(kind)

    def trim_transactions(self) -> None:
        if self._transactions is not None:
            self._transactions.trim()

    def release(self) -> None:
        """Every descriptor; the next use opens what it needs."""
        for index in (self.offsets, self.times):
            if index is not None:
                index.release()
        self.offsets = self.times = None

    def forget(self) -> None:
        """The files are about to have other names."""
        self.release()
        self._transactions = None
