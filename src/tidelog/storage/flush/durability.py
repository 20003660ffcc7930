"""How far a log is on disk for certain, and what it takes to get further.

Below `recovery_point` everything is synced: bytes, indexes of sealed segments, names, leader epochs.  It
moves only here.  The parts of the log tell what changed; `Appender` asks after every append whether `flush.messages` or
`flush.ms` want a sync.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple, Protocol

from tidelog._speed.log.append import NativeGroupAppend
from tidelog.config import TopicConfig
from tidelog.errors import KafkaStorageError
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.disk import Disk, File
from tidelog.storage.flush.flusher import NotDurable, Plan
from tidelog.storage.flush.log_folder import Covered, LogFolder
from tidelog.storage.leader_epochs import Epochs
from tidelog.storage.segments.segment import ALWAYS, NEVER, Segment


class SyncProgress(NamedTuple):
    """What is certain when a sync has succeeded."""

    end: int
    sealed: list[Segment]
    covered: Covered
    cuts: int
    """How often the log had been cut when the sync started."""


class Durability:
    __slots__ = (
        "_config",
        "_cuts",
        "_folder",
        "_scheduled",
        "_sync",
        "_unsynced",
        "_volume",
        "abandoned",
        "active",
        "due_at",
        "recovery_point",
    )

    def __init__(
        self, volume: Volume, folder: str, config: TopicConfig, epochs: Epochs, active: Segment
    ) -> None:
        self.active = active
        self.abandoned = False
        self.recovery_point = 0
        self.due_at = NEVER
        self._volume = volume
        self._folder = LogFolder(volume.disk, volume.path, folder, epochs)
        self._unsynced: list[Segment] = []  # sealed since the last sync
        self._cuts = 0
        self._sync: Sync | None = None  # waiting in the flusher, so it will cover what is appended now
        self._scheduled = False
        self.configure(config)

    # Facts from the log

    def configure(self, config: TopicConfig) -> None:
        self._config = config
        self._set_due()

    def opened(self, recovery_point: int, created: bool) -> None:
        self.recovery_point = recovery_point
        if created:
            self._folder.created()
        self._set_due()

    def wrote(self, path: str) -> None:
        """A small file in the folder, which is to be durable with the next sync, by housekeeping at the latest."""
        self._folder.wrote(path)
        self._volume.rolled[self] = None

    def rolled(self, fresh: Segment, sealed: Segment | None = None, snapshot: str | None = None) -> None:
        """`snapshot` is the path of what was known of producers then."""
        self.active = fresh
        self._folder.changed()
        if sealed is not None:
            self._unsynced.append(sealed)
            self._volume.rolled[self] = None
        if snapshot is not None:
            self._folder.wrote(snapshot)

    def dropped(self, segments: list[Segment]) -> None:
        """Nobody will ask for these again."""
        self._unsynced = [segment for segment in self._unsynced if segment not in segments]
        self._folder.changed()

    def cut(self, active: Segment) -> None:
        """The recovery point stays below the last batch: bytes that are written after it later must not count as
        synced."""
        self.active = active
        self._cuts += 1
        self.recovery_point = min(self.recovery_point, active.end)
        self._set_due()

    @property
    def epochs_saved(self) -> bool:
        return self._folder.epochs_saved

    def appended_durably(self, end: int, covered: Covered) -> None:
        """The active segment is synced up to here: so is the log, if no sealed one lags behind."""
        self._folder.synced(covered)
        if not self._unsynced:
            self.recovery_point = end

    # Syncing

    def flush(self) -> asyncio.Future[None]:
        """Done when everything that is written now is on disk, and the recovery point has moved."""
        if self._sync is None:
            self._sync = Sync(self)
            self._volume.flusher.submit(self._sync)
        return self._sync.future

    def flush_if_due(self, end: int) -> asyncio.Future[None] | None:
        """After an append that reached `due_at`."""
        if end - self.recovery_point >= self._config.flush_messages:
            return self.flush()
        if self._config.flush_ms < NEVER and not self._scheduled:
            self._scheduled = True
            self._volume.flusher.call_later(self._config.flush_ms, self)
        return None

    def flush_due(self) -> None:
        """`flush.ms` has passed since the first append that was not synced."""
        self._scheduled = False
        if self.abandoned:
            return
        if self.recovery_point < self.active.end and self._volume.problem is None:
            # Nobody waits for this one: a failure takes the directory offline, which everybody sees.
            self.flush().add_done_callback(lambda done: done.cancelled() or done.exception())

    def settle(self, renames: list[tuple[str, str]] | None) -> None:
        """For closing: as `LogFolder.settle`."""
        self._folder.settle(renames)
        self._unsynced.clear()
        self._volume.rolled.pop(self, None)
        self.recovery_point = self.active.end

    async def sync_sealed(self) -> None:
        """What was sealed is synced apart from group commits, which need not wait for so many bytes."""
        plan = Plan()
        progress = self._plan(plan, self.active.base)
        try:
            await self._volume.disk.run(partial(_perform, self._volume.disk, plan))
        except OSError as problem:
            self.sync_failed(problem)
        else:
            self.synced(progress)

    def plan_names(self, plan: Plan) -> Covered:
        """What must be durable besides the bytes of segments."""
        return self._folder.plan(plan)

    def plan_sync(self, plan: Plan) -> SyncProgress:
        """Plans a sync of everything that is written now."""
        self._sync = None
        plan.files.append(self.active.file)
        return self._plan(plan, self.active.end)

    def _plan(self, plan: Plan, end: int) -> SyncProgress:
        """Plans a sync below `end`: appends to a sealed segment may be reserved and not written yet."""
        sealed = []
        for segment in self._unsynced:
            if segment.reserved > segment.size:
                end = min(end, segment.end)
            else:
                sealed.append(segment)
        plan.others.extend(segment.files.sync for segment in sealed)
        return SyncProgress(end, sealed, self._folder.plan(plan), self._cuts)

    def synced(self, progress: SyncProgress) -> None:
        self._folder.synced(progress.covered)
        # What was written in the place of what was cut may lie below `end`, and no sync has seen it.
        cut = progress.cuts != self._cuts
        if not cut:
            self._unsynced = [segment for segment in self._unsynced if segment not in progress.sealed]
        if self._unsynced:
            self._volume.rolled[self] = None
        if cut:
            return
        self.recovery_point = max(self.recovery_point, min(progress.end, self.active.end))
        self._set_due()

    def sync_failed(self, problem: OSError) -> Exception:
        if self.abandoned:
            return KafkaStorageError(f"{self._folder.path} is deleted")
        # The system may have dropped what it could not write: nothing above the recovery point is certain.  But
        # small files that found no room on a full disk, and files that could not be opened, lose nothing: those
        # are tried again.
        self._volume.rolled[self] = None
        return self._volume.failed(
            problem, f"sync {self._folder.path}", at_risk=isinstance(problem, NotDurable)
        )

    def _set_due(self) -> None:
        if self._config.flush_ms < NEVER:
            self.due_at = ALWAYS
        else:
            self.due_at = min(self.recovery_point + self._config.flush_messages - 1, NEVER)


def _perform(disk: Disk, plan: Plan) -> None:
    for step in plan.others:
        step()
    if plan.folder is not None:
        disk.sync_folder(plan.folder)


class _Job:
    __slots__ = ()

    owner: object
    future: asyncio.Future[None]

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def succeed(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Sync(_Job):
    """Makes durable what a log has written by the time its group starts."""

    __slots__ = ("_durability", "_progress", "future", "owner")

    def __init__(self, durability: Durability) -> None:
        self.owner = self._durability = durability
        self.future = asyncio.get_running_loop().create_future()
        self._progress: SyncProgress | None = None  # while it waits

    def start(self) -> Plan:
        plan = Plan()
        self._progress = self._durability.plan_sync(plan)
        return plan

    def finish(self, problem: OSError | None) -> None:
        assert self._progress is not None, "a job that has not started does not finish"
        if problem is None:
            self._durability.synced(self._progress)
            self.succeed()
        else:
            self.fail(self._durability.sync_failed(problem))


class AppendOwner(Protocol):
    def append_started(self, append: GroupAppend) -> None: ...
    def plan_names(self, plan: Plan) -> Covered: ...
    def append_written(self, append: GroupAppend) -> None: ...
    def append_failed(self, problem: OSError) -> Exception: ...


class GroupAppend(NativeGroupAppend, _Job):
    """Bytes with given offsets and a reserved place in the segment: to be written and synced.  Until its group starts,
    the job takes later appends too, so that a log has one job in a group."""

    __slots__ = ("_log", "covered", "file", "position")

    segment: Segment
    covered: Covered

    def __init__(self, log: AppendOwner, segment: Segment, file: File, position: int) -> None:
        self.owner = self._log = log
        self.future = asyncio.get_running_loop().create_future()
        self.segment = segment
        self.file = file
        self.position = position
        self.pieces = []
        self.size = 0
        self.end = -1
        self.answers = None

    def start(self) -> Plan:
        self._log.append_started(self)
        plan = Plan()
        pieces = self.pieces
        plan.writes.append((self.file, pieces[0] if len(pieces) == 1 else b"".join(pieces), self.position))
        plan.files.append(self.file)
        self.covered = self._log.plan_names(plan)
        return plan

    def finish(self, problem: OSError | None) -> None:
        if problem is None:
            self._log.append_written(self)
            self.succeed()
        else:
            self.fail(self._log.append_failed(problem))
