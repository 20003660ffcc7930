"""How far a log is on disk for certain, and what it takes to get further.

Below `recovery_point` everything is synced: bytes, indexes of sealed segments, names, leader epochs.  It
moves only here.  `log` tells what changed and asks after every append whether `flush.messages` or `flush.ms`
want a sync.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from tidelog._speed.tail import Gathering
from tidelog.config import TopicConfig
from tidelog.errors import KafkaStorageError
from tidelog.storage import checkpoints
from tidelog.storage.disk import Disk, File
from tidelog.storage.epochs import Epochs
from tidelog.storage.flusher import NotDurable, Plan
from tidelog.storage.segment import ALWAYS, NEVER, Segment
from tidelog.storage.volume import Volume


class Durability:
    __slots__ = (
        "_config",
        "_epochs",
        "_folder",
        "_handed",
        "_scheduled",
        "_small",
        "_sync",
        "_unborn",
        "_unnamed",
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
        self._folder = folder
        self._epochs = epochs
        self._unsynced: list[Segment] = []  # sealed since the last sync
        self._small: list[str] = []
        self._unborn = False  # the name of the folder itself is not durable
        self._unnamed = False  # the folder has names that no sync of it has made durable
        # What of these the last plan has taken: should it fail, they are still to be done.
        self._handed: tuple[list[str], bool, bool, bool] = ([], False, False, False)
        self._sync: Sync | None = None  # waiting in the flusher, so it will cover what is appended now
        self._scheduled = False
        self.configure(config)

    # Facts from the log

    def configure(self, config: TopicConfig) -> None:
        self._config = config
        self._set_due()

    def opened(self, recovery_point: int, created: bool) -> None:
        self.recovery_point = recovery_point
        self._unnamed = self._unborn = created
        self._set_due()

    def wrote(self, path: str) -> None:
        """A small file in the folder, which is to be durable with the next sync."""
        self._small.append(path)
        self._unnamed = True

    def rolled(self, fresh: Segment, sealed: Segment | None = None, snapshot: str | None = None) -> None:
        """`snapshot` is the path of what was known of producers then."""
        self.active = fresh
        self._unnamed = True
        if sealed is not None:
            self._unsynced.append(sealed)
            self._volume.rolled[self] = None
        if snapshot is not None:
            self._small.append(snapshot)

    def dropped(self, segments: list[Segment]) -> None:
        """Nobody will ask for these again."""
        self._unsynced = [segment for segment in self._unsynced if segment not in segments]
        self._unnamed = True

    def cut(self, active: Segment) -> None:
        """Never above the last batch: what is written behind it later must not be taken for synced."""
        self.active = active
        self.recovery_point = min(self.recovery_point, active.end)
        self._set_due()

    def appended_durably(self, end: int) -> None:
        """The active segment is synced up to here: so is the log, if no sealed one lags behind."""
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
        """For closing: writes what is not written yet.  Whoever closes makes it durable, and then does `renames`;
        without them the one file that must be replaced as a whole is made durable here."""
        if self._epochs.dirty:
            disk, path = self._volume.disk, f"{self._folder}/{checkpoints.LEADER_EPOCHS}"
            data = checkpoints.encode_epochs(self._epochs)
            if renames is None:
                disk.replace_file(path, data)
            else:
                fresh = disk.open(path + ".tmp", create=True)
                fresh.truncate(0)
                fresh.write(data, 0)
                renames.append((path + ".tmp", path))
            self._epochs.dirty = False
        self._small.clear()
        self._unsynced.clear()
        self._unborn = self._unnamed = False
        self._volume.rolled.pop(self, None)
        self.recovery_point = self.active.end

    async def sync_sealed(self) -> None:
        """What was sealed is synced apart from group commits, which need not wait for so many bytes."""
        plan, sealed = Plan(), list(self._unsynced)
        base = self.active.base
        self._plan_sealed(plan)
        self.plan_names(plan)
        try:
            await self._volume.disk.run(partial(_perform, self._volume.disk, plan))
        except OSError as problem:
            self.sync_failed(problem)
            return
        self._unsynced = [segment for segment in self._unsynced if segment not in sealed]
        if not self._unsynced:
            self.recovery_point = max(self.recovery_point, min(base, self.active.end))
            self._set_due()

    def plan_names(self, plan: Plan) -> None:
        """What must be durable besides the bytes of segments."""
        if self._small or self._epochs.dirty or self._unborn or self._unnamed:
            self._handed = self._small, self._epochs.dirty, self._unborn, self._unnamed
        if self._small:
            plan.others.extend(partial(_sync_file, self._volume.disk, path) for path in self._small)
            self._small = []
        if self._epochs.dirty:
            path = f"{self._folder}/{checkpoints.LEADER_EPOCHS}"
            data = checkpoints.encode_epochs(self._epochs)
            plan.others.append(partial(self._volume.disk.replace_file, path, data))
            self._epochs.dirty = False
        if self._unborn:
            plan.others.append(partial(self._volume.disk.sync_folder, self._volume.path))
            self._unborn = False
        if self._unnamed:
            plan.folder = self._folder
            self._unnamed = False

    def plan_failed(self) -> None:
        """Whatever the last plan should have made durable may not be."""
        small, dirty, unborn, unnamed = self._handed
        self._small = small + self._small
        self._epochs.dirty = self._epochs.dirty or dirty
        self._unborn = self._unborn or unborn
        self._unnamed = self._unnamed or unnamed

    def plan_sync(self, sync: Sync) -> Plan:
        self._sync = None
        plan = Plan()
        sync.end = self.active.end
        sync.sealed = list(self._unsynced)
        plan.files.append(self.active.file)
        self._plan_sealed(plan)
        self.plan_names(plan)
        return plan

    def _plan_sealed(self, plan: Plan) -> None:
        plan.others.extend(segment.sync for segment in self._unsynced)

    def synced(self, sync: Sync) -> None:
        self._unsynced = [segment for segment in self._unsynced if segment not in sync.sealed]
        self.recovery_point = max(self.recovery_point, min(sync.end, self.active.end))
        self._set_due()

    def sync_failed(self, problem: OSError) -> Exception:
        if self.abandoned:
            return KafkaStorageError(f"{self._folder} is deleted")
        # The system may have dropped what it could not write: nothing above the recovery point is certain.  But
        # small files that found no room on a full disk, and files that could not be opened, lose nothing: those
        # are tried again.
        self._epochs.dirty = self._unnamed = self._unborn = True
        self._volume.rolled[self] = None
        return self._volume.failed(problem, f"sync {self._folder}", at_risk=isinstance(problem, NotDurable))

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


def _sync_file(disk: Disk, path: str) -> None:
    try:
        disk.open(path).sync()
    except FileNotFoundError:
        pass  # its segment is gone, and it with it


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

    __slots__ = ("_durability", "end", "future", "owner", "sealed")

    def __init__(self, durability: Durability) -> None:
        self.owner = self._durability = durability
        self.future = asyncio.get_running_loop().create_future()
        self.end = -1
        self.sealed: list[Segment] = []

    def start(self) -> Plan:
        return self._durability.plan_sync(self)

    def finish(self, problem: OSError | None) -> None:
        if problem is None:
            self._durability.synced(self)
            self.succeed()
        else:
            self.fail(self._durability.sync_failed(problem))


class AppendOwner(Protocol):
    def append_started(self, append: Append) -> None: ...
    def plan_names(self, plan: Plan) -> None: ...
    def append_written(self, append: Append) -> None: ...
    def append_failed(self, problem: OSError) -> Exception: ...


class Append(Gathering, _Job):
    """Bytes whose offsets are given out and whose place in the segment is reserved: to be written and synced.  Until
    its group starts it gathers what is appended behind it, so that a log has one job in a group."""

    __slots__ = ("_log", "file", "position")

    segment: Segment

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

    def add(self, data: bytes, end: int) -> None:
        self.pieces.append(data)
        self.size += len(data)
        self.end = end

    def start(self) -> Plan:
        self._log.append_started(self)
        plan = Plan()
        pieces = self.pieces
        plan.writes.append((self.file, pieces[0] if len(pieces) == 1 else b"".join(pieces), self.position))
        plan.files.append(self.file)
        self._log.plan_names(plan)
        return plan

    def finish(self, problem: OSError | None) -> None:
        if problem is None:
            self._log.append_written(self)
            self.succeed()
        else:
            self.fail(self._log.append_failed(problem))
