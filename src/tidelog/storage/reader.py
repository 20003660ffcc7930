"""Reads a log: by offset, by time, and which aborted transactions a reader has to know of.

Nothing that lies outside of `start` and `end` is given out, and nothing of a damaged range.  A read by offset finds the
bytes and does not read them: it gives a slice of a segment's file.  Used by `Log` and `moving`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog._speed.log.batch import Header
from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.storage import offset_lookup
from tidelog.storage.encryption.encrypted_file import EncryptedFile
from tidelog.storage.fetched_log import ColdRecords, NotHereYet, Records, Slice
from tidelog.storage.integrity.damage import BadRange
from tidelog.storage.log_state import LogState
from tidelog.storage.offset_lookup import Known, TimedOffset
from tidelog.storage.producer_state import aborted
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.segments import Segments
from tidelog.storage.segments.txn_index import Aborted


class Reader:
    __slots__ = ("_log",)

    def __init__(self, log: LogState) -> None:
        self._log = log

    def read(
        self, offset: int, bytes_max: int, end: int, whole_batch: bool = True
    ) -> Records | NotHereYet | None:
        """From the batch that holds `offset`, up to `bytes_max` of one segment, nothing from the batch that
        holds `end` on.  With `whole_batch` the first batch comes whole however large; without, None when it
        does not fit."""
        log = self._log
        if log.volume.problem is not None:
            raise log.volume.offline()
        if offset >= log.end or offset < log.start:
            if offset == log.end:
                return None
            raise OffsetOutOfRange(f"{log.name} has offsets {log.start} to {log.end}, not {offset}")
        if offset < log.segments.first.base and log.config.remote_storage_enable:
            remote = self._read_remote(offset, bytes_max, end, whole_batch)
            if not isinstance(remote, int):
                return remote
            offset = remote
        segment: Segment = log.segments.active
        bad = log.damage.ranges
        try:
            if offset < segment.base or bad:
                return _read_anywhere(log.segments, bad, offset, bytes_max, end, whole_batch)
            position, header = segment.locate(offset)
            limit = segment.size if end >= segment.end else segment.locate(end)[0]
            return _cut_slice(segment, position, header, limit, bytes_max, whole_batch)
        except CorruptMessage:
            if not any(rotten.start <= offset < rotten.end for rotten in bad):
                self.suspect(offset)
            raise
        except OSError as problem:
            raise self.failed(problem) from problem

    def _read_remote(
        self, offset: int, bytes_max: int, end: int, whole_batch: bool
    ) -> Records | NotHereYet | int | None:
        """A number: where to read on in the local segments."""
        log, cold = self._log, self._log.cold
        if cold is None:
            raise KafkaStorageError(
                f"{log.name} has offsets {log.start} to {log.segments.first.base} in remote storage, which this broker is "
                "started without: set remote.log.storage.system.enable and tidelog.remote.storage.url"
            )
        if cold.manifest is not None:
            log.settle_start()
            if not cold.manifest.number:
                raise KafkaStorageError(f"{log.name} has no manifest in remote storage yet")
            if offset < log.start:
                raise OffsetOutOfRange(f"{log.name} has offsets {log.start} to {log.end}, not {offset}")
        while cold.manifest is None or offset < (cold.end or 0):
            if offset >= end:
                return None
            records = cold.read(offset, bytes_max, end, whole_batch)
            if not isinstance(records, int):
                return records
            offset = records
        return None if offset >= end else offset

    def read_local(self, offset: int, bytes_max: int, end: int) -> Slice | None:
        """For what only deals with local segments, and begins there."""
        assert offset >= self._log.segments.first.base
        records = self.read(offset, bytes_max, end)
        assert records is None or isinstance(records, Slice)
        return records

    def read_bytes(self, records: Records) -> bytes:
        try:
            return records.read()
        except OSError as problem:
            raise self.failed(problem) from problem

    def aborted(self, start: int, end: int, part: Records | None = None) -> list[Aborted]:
        """The aborted transactions that have records from `start` on and below `end`, or in what was read so."""
        segments = self._log.segments
        if isinstance(part, ColdRecords):
            return [each for each in part.aborted if each.first_offset < end and each.last_offset >= start]
        try:
            if not isinstance(part, Slice):
                return aborted.between(segments, start, end if part is None else min(end, part.end))
            return aborted.in_slice(segments, part, start, end)
        except OSError as problem:
            raise self.failed(problem) from problem

    def offset_for_time(self, timestamp: int, opened: Known | None = None) -> TimedOffset | None:
        """The first record that is not older than `timestamp`; see `lookup` for `opened`."""
        log = self._log
        return self._look_up(
            lambda: offset_lookup.offset_for_time(log.segments, timestamp, log.start, opened)
        )

    def max_timestamp(self, opened: Known | None = None) -> TimedOffset | None:
        """The first record that has the largest timestamp."""
        return self._look_up(lambda: offset_lookup.max_timestamp(self._log.segments, opened))

    def _look_up(self, search: Callable[[], TimedOffset | None]) -> TimedOffset | None:
        self._log.check_online()
        try:
            return search()
        except OSError as problem:
            raise self.failed(problem) from problem

    def suspect(self, offset: int | None) -> None:
        """Somebody could not make sense of the bytes at `offset`: they are to be checked."""
        self._log.volume.suspects[self._log.name] = offset

    def failed(self, problem: OSError) -> Exception:
        """The error for a reader that could not read the bytes of a slice."""
        return self._log.volume.failed(problem, f"read {self._log.name}")

    def end_of(self, part: Records, offset: int, bound: int) -> int:
        """The offset past the last record of a read from `offset` with the bound `bound`.  For counters, so nothing is
        raised: `offset` when the end is unknown."""
        if not isinstance(part, Slice):
            return part.end
        segments = self._log.segments
        segment: Segment = segments.active
        try:
            if part.file is segment._file:
                return segment.end_at(part.position + part.size, offset, bound)
            for number in range(segments.holding(offset), len(segments)):
                if part.file is segments[number]._file:
                    return segments[number].end_at(part.position + part.size, offset, bound)
        except (OSError, CorruptMessage):
            pass
        return offset


def _cut_slice(
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
    file = segment.file
    if type(file) is EncryptedFile:
        file.check()  # a key that is gone is an error of the read, not of the answer that is on its way
    return Slice(file, position, size)


def _read_anywhere(
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
                f"{segments.first.files.folder} is damaged from offset {bad.start} to {bad.end}: "
                f"read on from {bad.end}, or restore these records from another copy"
            )
    for number in range(segments.holding(offset), len(segments)):
        segment = segments[number]
        if segment.base >= end:
            return None
        position, header = segment.locate(offset)
        if position < segment.size:
            limit = _limit(segment, offset, end)
            return _cut_slice(segment, position, header, limit, bytes_max, whole_batch)
    return None


def _limit(segment: Segment, offset: int, end: int) -> int:
    limit = segment.size
    for bad in segment.bad:
        if bad.start >= offset:
            limit = min(limit, bad.position)
        if bad.start <= end < bad.end:
            return limit
    return limit if end >= segment.end else min(limit, segment.locate(end)[0])
