"""Adds batches to a log: one by one, or queued for a group commit when the topic asks for a sync of each.

The native part (`_speed/log/append.pyx`) is the only code that gives out offsets and places.  An append that fails takes
its offsets back, and those of all appends behind it: a log has no holes.  `replication.partition` is the one writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog._speed.log.append import NativeAppender
from tidelog._speed.log.batch import Header
from tidelog.config import TopicConfig
from tidelog.errors import KafkaStorageError
from tidelog.storage.cutter import Cutter
from tidelog.storage.disk import File
from tidelog.storage.flush.durability import GroupAppend
from tidelog.storage.flush.flusher import Plan
from tidelog.storage.flush.log_folder import Covered
from tidelog.storage.log_state import LogState
from tidelog.storage.producer_state import snapshots
from tidelog.storage.roller import Roller
from tidelog.storage.segments import rolling
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.txn_index import Aborted

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Appender(NativeAppender):
    __slots__ = ("_cutter", "_last_queued", "_roller")

    group: GroupAppend | None
    log: LogState

    def __init__(self, log: LogState, roller: Roller, cutter: Cutter) -> None:
        self.log = log
        self._roller = roller
        self._cutter = cutter
        self._last_queued: GroupAppend | None = None
        self.reconfigure(log.config)

    def reconfigure(self, config: TopicConfig) -> None:
        self.segment_bytes = config.segment_bytes
        self.queueing = config.flush_messages == 1 or self.log.queued > 0

    @property
    def durable(self) -> asyncio.Future[None] | None:
        """Done when the last append that is on its way to the disk is there, and with it all before."""
        return None if self._last_queued is None else self._last_queued.future

    # Markers, and batches that other logs made

    def index_abort(self, marker: Buffer, timestamp: int, aborted: Aborted) -> None:
        """Before the append of the marker that aborts a transaction: the index has the transaction before the log has the
        marker, so that no reader finds the marker alone."""
        log = self.log
        log.check_online()
        segment: Segment = self.room_for(marker, log.next, log.next, timestamp)
        try:
            segment.indexes.transactions.append(aborted)
        except OSError as problem:
            raise log.volume.failed(problem, f"append to {log.name}") from problem

    def forget_abort(self, offset: int) -> None:
        """The marker could not be appended at `offset`."""
        try:
            self.log.segments.last.indexes.transactions.truncate_to(offset)
        except OSError as problem:
            self.log.volume.failed(problem, f"cut {self.log.name}")

    def learned(self, header: Header, batch: Callable[[], bytes | memoryview]) -> None:
        """A batch with a producer, made by another log, was appended: a follower's, or a copy's."""
        log = self.log
        aborted = snapshots.learn(log.producers, header, batch)
        if aborted is not None:
            transactions = log.segments.last.indexes.transactions
            try:
                transactions.append(aborted)
            except OSError as problem:
                # Its marker is in the log.
                transactions.remember(aborted)
                error = log.volume.failed(problem, f"append to {log.name}")
                if log.volume.problem is not None:
                    raise error from problem

    # For the native part

    def roll(self, base: int) -> Segment:
        return self._roller.roll(base)

    def _started(self, segment: Segment, timestamp: int) -> None:
        """The first batch decides when the segment is too old."""
        segment.first_timestamp = timestamp
        rolling.set_limits(segment, self.log.config)

    def _append_failed(self, problem: OSError) -> Exception:
        """Part of it may have been written.  If cutting it fails too, the next append overwrites it.  In a group nothing
        was: what lies past the end belongs to jobs before."""
        log, segment = self.log, self.log.segments.last
        try:
            if not self.queueing and segment.file.size() > segment.size:
                segment.file.truncate(segment.size)
        except OSError:
            pass
        return log.volume.failed(problem, f"append to {log.name}")

    def _begin_group_append(self, segment: Segment, file: File, position: int) -> GroupAppend:
        """The job that takes what is appended to the segment from now on, until its group starts.  Something has to
        be: an empty one must not get there."""
        job = self.group = self._last_queued = GroupAppend(self, segment, file, position)
        self.log.queued += 1
        self.log.volume.flusher.submit(job)
        return job

    # For group appends

    def append_started(self, append: GroupAppend) -> None:
        if self.group is append:
            self.group = None

    def plan_names(self, plan: Plan) -> Covered:
        return self.log.durability.plan_names(plan)

    def append_written(self, append: GroupAppend) -> None:
        log = self.log
        append.segment.size += append.size
        log.end = append.segment.end = append.end
        log.durability.appended_durably(append.end, append.covered)
        log.queued -= 1
        if not log.queued:
            self._last_queued = None
            self.queueing = log.config.flush_messages == 1

    def append_failed(self, problem: OSError) -> Exception:
        """Offsets that were given out and not written are taken back, those of later appends with them: a log
        has no holes."""
        log = self.log
        if log.durability.abandoned:
            return KafkaStorageError(f"{log.name} is deleted")
        error = log.volume.failed(problem, f"append to {log.name}")
        withdrawn = log.volume.flusher.withdraw(self)
        log.queued = 0
        self._last_queued = self.group = None
        if log.next > log.end:
            begun = log.producers.begun_at(log.end)
            try:
                self._cutter.cut(log.end)
            except OSError as worse:
                log.volume.failed(worse, f"cut {log.name}", at_risk=True)
            for beginning in begun:
                log.producers.expect(beginning)
        self.queueing = log.config.flush_messages == 1
        for job in withdrawn:
            job.fail(error)
        return error

    def abandon(self) -> None:
        """The log's folder is about to be deleted: appends that wait fail."""
        log = self.log
        self.group = None
        flusher = log.volume.flusher
        gone = KafkaStorageError(f"{log.name} is deleted")
        for job in flusher.withdraw(self) + flusher.withdraw(log.durability):
            job.fail(gone)
