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

from tidelog._speed.batch import Header, header_at
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from tidelog.storage import aborted, lookup, rolling, snapshots
from tidelog.storage.disk import File
from tidelog.storage.durability import Append
from tidelog.storage.extent import Extent
from tidelog.storage.flusher import Plan
from tidelog.storage.loading import Loaded, load
from tidelog.storage.log_folder import Covered
from tidelog.storage.lookup import Known, TimedOffset
from tidelog.storage.reading import Slice, cut_slice, read_anywhere
from tidelog.storage.segment import OFFSETS_MAX, Segment
from tidelog.storage.txn_index import Aborted
from tidelog.storage.volume import Volume
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
        self._last_queued: Append | None = None
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

    def append(
        self, data: Any, base: int, last: int, max_timestamp: int, max_timestamp_offset: int, epoch: int
    ) -> asyncio.Future[None] | None:
        """Whole batches of one leader epoch, stamped, from `base` (not below `next`) to `last`.

        None: they are in the page cache, `end` has moved.  A future: the topic asks for a sync, and it is
        done when `end` has moved and all is on disk.  A full or failing disk raises KafkaStorageError and
        changes nothing."""
        if self._queueing or self._volume.problem is not None:
            return self._append_queued(data, base, last, max_timestamp, max_timestamp_offset, epoch)
        segment = self._active
        if (
            segment.size + len(data) > self._segment_bytes
            or max_timestamp > segment.roll_at
            or last - segment.base > OFFSETS_MAX
        ):
            segment = self._roll_if_due(segment.size, data, base, last, max_timestamp)
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, base)
        try:
            segment.append(data, base, last, max_timestamp, max_timestamp_offset)
        except OSError as problem:
            raise self._append_failed(problem) from problem
        if segment.first_timestamp < 0:
            self._started(segment, max_timestamp)
        self.end = self.next = last + 1
        if last >= self._durability.due_at:
            return self._durability.flush_if_due(last + 1)
        return None

    def _append_queued(
        self, data: Any, base: int, last: int, max_timestamp: int, max_timestamp_offset: int, epoch: int
    ) -> asyncio.Future[None]:
        if self._volume.problem is not None:
            raise self._volume.offline()
        segment = self._active
        if not self._queued:
            segment.reserved = segment.size
        segment = self._roll_if_due(segment.reserved, data, base, last, max_timestamp)
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, base)
        try:
            file, position = segment.reserve(data, base, last, max_timestamp, max_timestamp_offset)
        except OSError as problem:
            raise self._volume.failed(problem, f"append to {self.name}") from problem
        if segment.first_timestamp < 0:
            self._started(segment, max_timestamp)
        self.next = last + 1
        append = self._gathering
        if append is None or append.segment is not segment:
            append = self._gather(segment, file, position)
        append.add(bytes(data), last + 1)
        return append.future

    def _gather(self, segment: Segment, file: File, position: int) -> Append:
        """The job that takes what is appended to the segment from now on, until its group starts.  Something has to
        be: an empty one must not get there."""
        append = self._gathering = self._last_queued = Append(self, segment, file, position)
        self._queued += 1
        self._volume.flusher.submit(append)
        return append

    def append_abort(
        self, data: Any, base: int, last: int, max_timestamp: int, epoch: int, gone: Aborted
    ) -> asyncio.Future[None] | None:
        """As `append`, for the marker that aborts a transaction: the index has it before the log does, so that no
        reader finds the marker alone."""
        if self._volume.problem is not None:
            raise self._volume.offline()
        segment = self._active
        size = segment.reserved if self._queued else segment.size
        segment = self._roll_if_due(size, data, base, last, max_timestamp)
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
        """Part of it may have been written.  If cutting it fails too, the next append overwrites it."""
        segment = self._active
        try:
            if segment.file.size() > segment.size:
                segment.file.truncate(segment.size)
        except OSError:
            pass
        return self._volume.failed(problem, f"append to {self.name}")

    # Rolling

    def _started(self, segment: Segment, timestamp: int) -> None:
        """The first batch decides when the segment is too old."""
        segment.first_timestamp = timestamp
        segment.roll_at = rolling.roll_at(segment, self.config)

    def _roll_if_due(self, size: int, data: Any, base: int, last: int, timestamp: int) -> Segment:
        segment, config = self._active, self.config
        if len(data) > config.segment_bytes:
            first = header_at(data)
            if first is not None and first.size > config.segment_bytes:
                raise RecordListTooLarge(
                    f"a batch of {first.size} bytes does not fit into a segment of {self.name}: "
                    f"raise segment.bytes, which is {config.segment_bytes}"
                )
        now_ms = self._volume.clock.now_ms()
        if rolling.due(segment, config, size, len(data), last, timestamp, now_ms):
            return self.roll(base)
        return segment

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        self._segment_bytes = config.segment_bytes
        self._active.jitter_ms = rolling.jitter_ms(config, self._volume.random)
        self._active.roll_at = rolling.roll_at(self._active, config)
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

    def aborted(self, start: int, end: int, part: Slice | None = None) -> list[Aborted]:
        """The aborted transactions that have records from `start` on and below `end`, or in the slice that was read
        so."""
        try:
            if part is None:
                return aborted.between(self.segments, start, end)
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

    def append_started(self, append: Append) -> None:
        if self._gathering is append:
            self._gathering = None

    def append_written(self, append: Append) -> None:
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
        self._last_queued = self._gathering = None
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
        self._gathering = None
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
