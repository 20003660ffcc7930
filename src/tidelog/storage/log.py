"""One partition's log: a row of segments of which the last is appended to.

`start` <= `end` <= `next`.  What lies below `end` is written, whole, and may be read; `next` is ahead of it
only while appends of a topic that asks for a sync on every one are on their way to the disk.  All methods run
on the event loop's thread; only the work handed to the flusher does not.  `replication.partition` is the one
writer of a log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog._speed.log.batch import Header
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.storage import aborted, lookup, snapshots
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import File
from tidelog.storage.durability import GroupAppend
from tidelog.storage.extent import Extent
from tidelog.storage.flusher import Plan
from tidelog.storage.loading import Loaded, load
from tidelog.storage.log_folder import Covered
from tidelog.storage.lookup import Known, TimedOffset
from tidelog.storage.reading import NotHereYet, Records, Slice, cut_slice, read_anywhere
from tidelog.storage.segments import rolling
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.txn_index import Aborted
from tidelog.types import TopicPartition


class Log(Extent):
    __slots__ = ("_last_queued", "_opened_end", "cuts")

    def __init__(
        self, volume: Volume, folder: str, name: TopicPartition, config: TopicConfig, loaded: Loaded
    ) -> None:
        """`loaded` is what `loading.load` found in the folder; `Log.open` is the usual way in."""
        super().__init__(volume, folder, name, config, loaded)
        self._opened_end = self.end
        self.cuts = 0  # how often records went from its end
        self._queued = 0
        self._last_queued: GroupAppend | None = None
        self.reconfigure(config)

    @classmethod
    def open(
        cls,
        volume: Volume,
        folder: str,
        name: TopicPartition,
        config: TopicConfig,
        start: int = 0,
        recovery_point: int = 0,
    ) -> Log:
        """A log that was stopped cleanly or recovered, or a new one when the folder is empty."""
        volume.disk.make_folder(folder)
        return cls(volume, folder, name, config, load(volume, folder, config, start, recovery_point))

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk for certain."""
        return self._durability.recovery_point

    @property
    def resting(self) -> bool:
        """Nothing has changed since it was opened, and all of it is durable."""
        return not (
            self._changed
            or self.next != self._opened_end
            or self.recovery_point < self._active.end
            or not self._durability.epochs_saved
            or self._trash
        )

    @property
    def durable(self) -> asyncio.Future[None] | None:
        """Done when the last append that is on its way to the disk is there, and with it all before."""
        return None if self._last_queued is None else self._last_queued.future

    # Appending

    def _begin_group_append(self, segment: Segment, file: File, position: int) -> GroupAppend:
        """The job that takes what is appended to the segment from now on, until its group starts.  Something has to
        be: an empty one must not get there."""
        job = self._group_append = self._last_queued = GroupAppend(self, segment, file, position)
        self._queued += 1
        self._volume.flusher.submit(job)
        return job

    def append_abort(
        self, data: Any, base: int, last: int, max_timestamp: int, epoch: int, gone: Aborted
    ) -> asyncio.Future[None] | None:
        """As `append`, for the marker that aborts a transaction: the index has it before the log does, so that no
        reader finds the marker alone."""
        if self._volume.problem is not None:
            raise self._volume.offline()
        segment: Segment = self.room_for(data, base, last, max_timestamp)
        try:
            segment.transactions.append(gone)
        except OSError as problem:
            raise self._volume.failed(problem, f"append to {self.name}") from problem
        try:
            return self.append(data, base, last, max_timestamp, last, epoch)
        except KafkaStorageError:
            self._forget_abort(segment, base)
            raise

    def _forget_abort(self, segment: Segment, offset: int) -> None:
        try:
            segment.transactions.truncate_to(offset)
        except OSError as problem:
            self._volume.failed(problem, f"cut {self.name}")

    def learned(self, header: Header, batch: Callable[[], bytes | memoryview]) -> None:
        """A batch with a producer, made by another log, was appended: a follower's, or a copy's."""
        gone = snapshots.learn(self.producers, header, batch)
        if gone is not None:
            try:
                self._active.transactions.append(gone)
            except OSError as problem:
                # Its marker is in the log.
                self._active.transactions.remember(gone)
                error = self._volume.failed(problem, f"append to {self.name}")
                if self._volume.problem is not None:
                    raise error from problem

    def _append_failed(self, problem: OSError) -> Exception:
        """Part of it may have been written.  If cutting it fails too, the next append overwrites it.  In a group nothing
        was: what lies past the end belongs to jobs before."""
        segment = self._active
        try:
            if not self._queueing and segment.file.size() > segment.size:
                segment.file.truncate(segment.size)
        except OSError:
            pass
        return self._volume.failed(problem, f"append to {self.name}")

    # Rolling

    def _started(self, segment: Segment, timestamp: int) -> None:
        """The first batch decides when the segment is too old."""
        segment.first_timestamp = timestamp
        rolling.set_limits(segment, self.config)

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        self._segment_bytes = config.segment_bytes
        self._active.jitter_ms = rolling.jitter_ms(config, self._volume.random)
        rolling.set_limits(self._active, config)
        self._queueing = config.flush_messages == 1 or self._queued > 0
        self._durability.configure(config)

    # Reading

    def read(self, offset: int, bytes_max: int, end: int, whole_batch: bool = True) -> Slice | None:
        """From the batch that holds `offset`, up to `bytes_max` of one segment, nothing from the batch that
        holds `end` on.  With `whole_batch` the first batch comes whole however large; without, None when it
        does not fit."""
        if self._volume.problem is not None:
            raise self._volume.offline()
        if offset >= self.end or offset < self.start:
            if offset == self.end:
                return None
            raise OffsetOutOfRange(f"{self.name} has offsets {self.start} to {self.end}, not {offset}")
        segment = self._active
        bad = self._damage.ranges
        try:
            if offset < segment.base or bad:
                return read_anywhere(self.segments, bad, offset, bytes_max, end, whole_batch)
            position, header = segment.locate(offset)
            limit = segment.size if end >= segment.end else segment.locate(end)[0]
            return cut_slice(segment, position, header, limit, bytes_max, whole_batch)
        except CorruptMessage:
            if not any(rotten.start <= offset < rotten.end for rotten in bad):
                self.suspect(offset)
            raise
        except OSError as problem:
            raise self._volume.failed(problem, f"read {self.name}") from problem

    def fetch(
        self, offset: int, bytes_max: int, end: int, whole_batch: bool = True
    ) -> Records | NotHereYet | None:
        """As `read`, for an answer to a fetch, which can send more than slices of files, and can wait."""
        return self.read(offset, bytes_max, end, whole_batch)

    def aborted(self, start: int, end: int, part: Records | None = None) -> list[Aborted]:
        """The aborted transactions that have records from `start` on and below `end`, or in what was read so."""
        try:
            if not isinstance(part, Slice):
                return aborted.between(self.segments, start, end if part is None else min(end, part.end))
            return aborted.in_slice(self.segments, part, start, end)
        except OSError as problem:
            raise self._volume.failed(problem, f"read {self.name}") from problem

    # Cutting

    def truncate_to(self, offset: int) -> None:
        """Drops every batch that reaches `offset` or beyond; `end` is `offset` afterwards, if it was
        larger."""
        assert not self._queued, "a log is not cut while appends are on their way to it"
        if offset < self.end:
            self._lower_recovery_point(offset, f"truncate {self.name}")
            self.cuts += 1
            self._change(partial(self._cut, offset), f"truncate {self.name}")

    def restart_at(self, offset: int) -> None:
        """Empty, with `offset` as the next one: for a follower whose leader has nothing older."""
        assert not self._queued, "a log is not cut while appends are on their way to it"
        self._lower_recovery_point(0, f"restart {self.name}")
        self.cuts += 1
        self._change(partial(self._clear, offset), f"restart {self.name}")

    # Times

    def offset_for_time(self, timestamp: int, known: Known | None = None) -> TimedOffset | None:
        """The first record that is not older than `timestamp`; see `lookup` for `known`."""
        return self._look_up(lambda: lookup.offset_for_time(self.segments, timestamp, self.start, known))

    def max_timestamp(self, known: Known | None = None) -> TimedOffset | None:
        """The first record that has the largest timestamp."""
        return self._look_up(lambda: lookup.max_timestamp(self.segments, known))

    def _look_up(self, search: Callable[[], TimedOffset | None]) -> TimedOffset | None:
        if self._volume.problem is not None:
            raise self._volume.offline()
        try:
            return search()
        except OSError as problem:
            raise self._volume.failed(problem, f"read {self.name}") from problem

    # Making it durable

    def flush(self) -> asyncio.Future[None]:
        """Done when everything below the present `end` is on disk; the recovery point has moved then."""
        return self._durability.flush()

    def wrote(self, path: str) -> None:
        """A small file in the log's folder is to be made durable with the next sync, by housekeeping at the latest."""
        self._durability.wrote(path)

    def plan_names(self, plan: Plan) -> Covered:
        return self._durability.plan_names(plan)

    def append_started(self, append: GroupAppend) -> None:
        if self._group_append is append:
            self._group_append = None

    def append_written(self, append: GroupAppend) -> None:
        append.segment.written(append.size, append.end)
        self.end = append.end
        self._durability.appended_durably(append.end, append.covered)
        self._queued -= 1
        if not self._queued:
            self._last_queued = None
            self._queueing = self.config.flush_messages == 1

    def append_failed(self, problem: OSError) -> Exception:
        """Offsets that were given out and not written are taken back, those of later appends with them: a log
        has no holes."""
        if self._durability.abandoned:
            return KafkaStorageError(f"{self.name} is deleted")
        error = self._volume.failed(problem, f"append to {self.name}")
        withdrawn = self._volume.flusher.withdraw(self)
        self._queued = 0
        self._last_queued = self._group_append = None
        if self.next > self.end:
            begun = self.producers.begun_at(self.end)
            try:
                self._cut(self.end)
            except OSError as worse:
                self._volume.failed(worse, f"cut {self.name}", at_risk=True)
            for beginning in begun:
                self.producers.expect(beginning)
        self._queueing = self.config.flush_messages == 1
        for job in withdrawn:
            job.fail(error)
        return error

    def abandon(self) -> None:
        """Its folder is about to go: nothing is written any more, and who waits is told so."""
        self._durability.abandoned = True
        self._group_append = None
        gone = KafkaStorageError(f"{self.name} is deleted")
        for job in self._volume.flusher.withdraw(self) + self._volume.flusher.withdraw(self._durability):
            job.fail(gone)
        for segment in self.segments:
            segment.release_all()
        self._volume.rolled.pop(self._durability, None)
        self._volume.trashed.pop(self, None)

    def close(self, renames: list[tuple[str, str]] | None = None) -> None:
        """As `open` wants to find it.  Blocks.  The caller makes it durable with `Disk.sync_all`, which costs the same
        for one log and for many, and then does the `renames` that he passed a list for."""
        assert not self._queued, "a log is not closed while appends are on their way to it"
        if not self.resting:
            disk, folder, end = self._volume.disk, self.folder, self.end
            self._active.close()
            snapshots.write(disk, folder, end, self.producers, self._active.end)
            snapshots.remove_strays(disk, folder, [segment.base for segment in self.segments], end)
            self._durability.settle(renames)
        for segment in self.segments:
            segment.release_all()
        self._trash.empty()
        self._volume.trashed.pop(self, None)


def is_offline(log: Log) -> bool:
    """Its disk has failed."""
    return log._volume.problem is not None


def is_unfit(log: Log) -> bool:
    """Its disk has failed, or some of its bytes rotted."""
    return log._volume.problem is not None or bool(log._damage.ranges)


__all__ = ["Log", "Slice", "is_offline", "is_unfit"]
