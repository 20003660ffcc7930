"""One log directory (`log.dirs`): its owner, its logs, its checkpoints, and whether its disk works or is offline.

Starting lists the folder once; a log is opened when it is first asked for.  Only after an unclean stop is every log
looked at, in the disk's thread.  An error of the disk takes this directory offline and no other: its logs raise
KafkaStorageError, `problem` says why.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from random import Random
from uuid import UUID

from tidelog.clock import Clock
from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage, InconsistentTopicId, KafkaStorageError
from tidelog.storage import checkpoints
from tidelog.storage.checkpoints import CorruptCheckpoint, OffsetFile
from tidelog.storage.dirs import folders, identity
from tidelog.storage.dirs.identity import Identity, LastRun
from tidelog.storage.dirs.volume import NO_KEY, Volume
from tidelog.storage.disk import Disk, Lock
from tidelog.storage.flush.flusher import NotDurable
from tidelog.storage.log import Log
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.recovery.loading import Torn
from tidelog.storage.recovery.recovery import Recovery, Report
from tidelog.storage.segments.segment_files import LOG
from tidelog.types import TopicPartition

LOCK = ".lock"
_RECOVERY_FILES = 64
_END = 1 << 63

logger = logging.getLogger("tidelog.storage")

Configs = Callable[[str], TopicConfig]


class LogDirectory:
    """`names` has every partition that lives here; `logs` those that are open; `strays` the folders of logs that belong
    to no topic in the metadata, with the id of the topic that each is from."""

    def __init__(self, path: str, disk: Disk, clock: Clock, random: Random, files: OpenFiles) -> None:
        self.path = path
        self.volume = Volume.of(path, disk, clock, random, files)
        self.identity: Identity | None = None  # None while it could not be claimed
        self.made_now = False  # nobody has used it before
        self.last_run: LastRun | None = None  # how it ended; None while that could not be read
        self.names: set[TopicPartition] = set()
        self.logs: dict[TopicPartition, Log] = {}
        self.strays: dict[str, UUID | None] = {}
        self.log_starts = OffsetFile(disk, f"{path}/{checkpoints.LOG_STARTS}")
        self.committed = OffsetFile(disk, f"{path}/{checkpoints.COMMITTED}")
        self.to_open: set[TopicPartition] = set()
        """Damaged, as the last run or recovery says."""
        self.shortened: set[TopicPartition] = set()
        """Recovery cut the ends of these logs.  A process that is killed tears few writes: it may have been a batch that was
        acknowledged and rotted."""
        self.unrecovered: set[TopicPartition] = set()
        """Logs whose keys were not available after an unclean stop: they are recovered when they are first opened."""
        self._disk = disk
        self._lock: Lock | None = None
        self._renamed = False  # folders of deleted logs were, and it is not certain yet
        self._doomed: list[tuple[int, str]] = []  # folders to remove, and when

    @property
    def problem(self) -> OSError | None:
        """What took the directory offline."""
        return self.volume.problem

    # Starting and stopping

    async def start(self, cluster_id: str, node_id: int, configs: Configs) -> list[Report]:
        """The result of recovery, if the last stop was not clean.  A directory of another broker, or one in use, raises;
        a directory whose disk fails is offline.  Until `began`, the next start finds the same state."""
        try:
            self._claim(cluster_id, node_id)
            self._list()
            self.last_run = last = identity.read_last_run(self._disk, self.path)
            reports: list[Report] = []
            if not last.clean and self.names:
                reports = await self._disk.run(lambda: self._recover(configs, last))
        except OSError as problem:
            self.volume.failed(problem, f"start {self.path}", at_risk=True)
            return []
        return reports

    def began(self) -> None:
        """From here on a stop without `stop` is a crash.  Whoever has to know how the last run ended knows it."""
        if self.problem is None:
            try:
                identity.mark_running(self._disk, self.path)
            except OSError as problem:
                self.volume.failed(problem, f"start {self.path}", at_risk=True)

    def _claim(self, cluster_id: str, node_id: int) -> None:
        disk, path = self._disk, self.path
        _make_durably(disk, path)
        try:
            self._lock = disk.lock(f"{path}/{LOCK}")
        except BlockingIOError:
            raise KafkaStorageError(
                f"{path} is in use by another broker: stop it, or use another one"
            ) from None
        try:
            own_identity = identity.read_identity(disk, path)
            if own_identity is None:
                directory_id = UUID(int=self.volume.random.getrandbits(128), version=4)
                self.made_now = True
                own_identity = Identity(cluster_id, node_id, directory_id)
                identity.write_identity(disk, path, own_identity)
            identity.check_identity(path, own_identity, cluster_id, node_id)
        except BaseException:
            self._lock.close()
            raise
        self.identity = own_identity

    def remember(self, siblings: frozenset[UUID]) -> None:
        """The directories that this broker has, so that one which is missing later is missed."""
        assert self.identity is not None, "only a directory that is claimed"
        if self.identity.siblings == siblings:
            return
        self.identity = self.identity._replace(siblings=siblings)
        try:
            identity.write_identity(self._disk, self.path, self.identity)
        except OSError as problem:
            self.volume.failed(problem, f"start {self.path}", at_risk=True)

    def _list(self) -> None:
        for name in self._disk.list(self.path):
            folder = folders.parse(name)
            if folder is None:
                continue
            if folder.suffix == "":
                self.names.add(folder.name)
            elif folder.suffix == folders.STRAY:
                path = f"{self.path}/{name}"
                self.strays[path] = self._topic_id_in(path)
            else:
                # A move that did not end is begun anew by whoever wants it.
                self._doomed.append((0, f"{self.path}/{name}"))
        damaged = OffsetFile(self._disk, f"{self.path}/{checkpoints.DAMAGED_LOGS}")
        damaged.load()
        self.to_open = self.names.intersection(damaged.offsets)
        self.volume.recovery_points.load()
        self.log_starts.load()
        self.committed.load()

    def _recover(self, configs: Configs, last: LastRun) -> list[Report]:
        """In the disk's thread, with files of its own: nothing else uses this directory yet."""
        volume = replace(self.volume, files=OpenFiles(_RECOVERY_FILES))
        points, starts = self.volume.recovery_points.offsets, self.log_starts.offsets
        reports = []
        for name in sorted(self.names):
            recovery = Recovery(
                volume, self.folder(name), configs(name.topic), last.power_lost, write_again=last.failed
            )
            try:
                report = recovery.run(starts.get(name, 0), points.get(name, 0))
            except NotADirectoryError:
                self.names.discard(name)  # somebody's file
            except CorruptMessage as problem:
                logger.error("%s cannot be recovered: %s", name, problem)
            except OSError as problem:
                if problem.errno != NO_KEY:
                    raise
                self.unrecovered.add(name)
                logger.error("%s is offline until it can be recovered: %s", name, problem)
            else:
                points[name] = report.recovery_point
                reports.append(report)
                if report.bad:
                    self.to_open.add(name)
                if report.cut_batches:
                    self.shortened.add(name)
        self._disk.sync_all(self.path)
        self.volume.recovery_points.save()
        return reports

    async def stop(self) -> None:
        """Everything durable, and the mark that says so.  Nothing may be appended any more."""
        await self.volume.flusher.drained()
        if self.problem is None:
            try:
                await self._disk.run(self._stop)
            except OSError as problem:
                # All that found no room can be had from the logs: this was not a clean stop, and nothing worse.
                self.volume.failed(problem, f"stop {self.path}", isinstance(problem, NotDurable))
        self.let_go()

    def let_go(self) -> None:
        """Releases the lock and stops the timer, without saving anything."""
        self.volume.flusher.stop()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _stop(self) -> None:
        resting = all(log.resting for log in self.logs.values())
        renames: list[tuple[str, str]] = []
        for log in self.logs.values():
            log.close(renames)
        if not resting:
            self._sync_all()
        for fresh, path in renames:
            self._disk.rename(fresh, path)
        if renames:
            self._sync_all()
        self.checkpoint()
        if not self.unrecovered:
            identity.mark_clean(self._disk, self.path)

    def _sync_all(self) -> None:
        try:
            self._disk.sync_all(self.path)
        except OSError as problem:
            raise NotDurable(*problem.args) from problem

    # Logs

    def folder(self, name: TopicPartition) -> str:
        return f"{self.path}/{name}"

    def open(self, name: TopicPartition, config: TopicConfig) -> Log:
        """The log of a partition that lives here; the same object every time."""
        log = self.logs.get(name)
        if log is None:
            if self.problem is not None:
                raise self.volume.offline()
            assert name in self.names, f"{name} is not in {self.path}"
            start = self.log_starts.offsets.get(name, 0)
            point = self.volume.recovery_points.offsets.get(name, 0)
            try:
                if name in self.unrecovered:
                    point = self._recover_again(name, config, start, point)
                try:
                    log = Log.open(self.volume, self.folder(name), name, config, start, point)
                except Torn as problem:
                    logger.warning("%s was closed and has changed since: %s", name, problem)
                    point = self._recover_again(name, config, start, point)
                    log = Log.open(self.volume, self.folder(name), name, config, start, point)
            except OSError as problem:
                raise self.volume.failed(problem, f"open {name}") from problem
            self.logs[name] = log
        return log

    def _recover_again(self, name: TopicPartition, config: TopicConfig, start: int, point: int) -> int:
        """Recovers a log whose keys were away at the start, as the start would have done.  In any other log only an
        incomplete end is cut off, and everything before is trusted: that takes no longer than opening the log."""
        late, last = name in self.unrecovered, self.last_run
        power_lost, failed = (last.power_lost, last.failed) if late and last is not None else (False, False)
        recovery = Recovery(self.volume, self.folder(name), config, power_lost, failed)
        report = recovery.run(start, point if late else _END)
        logger.warning("recovered %s", report)
        self._disk.sync_all(self.path)
        self.unrecovered.discard(name)
        self.volume.recovery_points.lower(name, report.recovery_point)
        return report.recovery_point

    def rest(self, name: TopicPartition) -> None:
        """Closes a log that nobody holds, if that takes no sync."""
        if self.logs[name].resting:
            self.logs.pop(name).close()

    def create(self, name: TopicPartition, topic_id: UUID, config: TopicConfig) -> Log:
        """A new, empty log.  Its folder, and whose it is, are durable with its first sync or the next housekeeping."""
        if self.problem is not None:
            raise self.volume.offline()
        folder = self.folder(name)
        try:
            # A deleted topic of the same name may have left offsets that do not hold for this one.
            for file in (self.volume.recovery_points, self.log_starts, self.committed):
                file.forget(name)
            self._disk.make_folder(folder)
            path = f"{folder}/{checkpoints.PARTITION_METADATA}"
            self._disk.open(path, create=True).write(checkpoints.encode_topic_id(topic_id), 0)
        except OSError as problem:
            raise self.volume.failed(problem, f"create {name}") from problem
        self.names.add(name)
        log = self.open(name, config)
        log.wrote(path)
        return log

    def holds(self, name: TopicPartition) -> bool:
        """True if the entry is a partition: somebody may have put a file or folder with such a name here."""
        try:
            names = self._disk.list(self.folder(name))
        except NotADirectoryError:
            return False
        except OSError as problem:
            raise self.volume.failed(problem, f"open {name}") from problem
        return not names or any(
            each == checkpoints.PARTITION_METADATA or each.endswith(LOG) for each in names
        )

    def topic_id(self, name: TopicPartition) -> UUID | None:
        """Which topic of this name the folder is from.  None when that is lost: by damage, or because the power was cut
        before anything of a new log was synced."""
        try:
            return self._topic_id_in(self.folder(name))
        except OSError as problem:
            raise self.volume.failed(problem, f"open {name}") from problem

    def _topic_id_in(self, folder: str) -> UUID | None:
        try:
            data = self._disk.read_file(f"{folder}/{checkpoints.PARTITION_METADATA}")
            return checkpoints.decode_topic_id(data)
        except (FileNotFoundError, NotADirectoryError, CorruptCheckpoint):
            return None

    def set_topic_id(self, name: TopicPartition, topic_id: UUID) -> None:
        """The file that says so was lost in a crash."""
        logger.warning("%s has lost %s: it is from topic %s", name, checkpoints.PARTITION_METADATA, topic_id)
        path = f"{self.folder(name)}/{checkpoints.PARTITION_METADATA}"
        try:
            self._disk.replace_file(path, checkpoints.encode_topic_id(topic_id))
        except OSError as problem:
            raise self.volume.failed(problem, f"open {name}") from problem

    def check_topic_id(self, name: TopicPartition, topic_id: UUID) -> None:
        topic_id_on_disk = self.topic_id(name)
        if topic_id_on_disk is not None and topic_id_on_disk != topic_id:
            raise InconsistentTopicId(
                f"{self.folder(name)} is from an earlier topic of that name ({topic_id_on_disk})"
            )

    def delete(self, name: TopicPartition, delay_ms: int = 0) -> None:
        """Gone at once; its bytes after `delay_ms`, so that what is being sent can be sent."""
        target = self.take_away(name, folders.DELETE)
        self._doomed.append((self.volume.clock.now_ms() + delay_ms, target))

    def take_away(self, name: TopicPartition, suffix: str) -> str:
        """Nobody finds it any more; the path that its folder has now."""
        log = self.logs.pop(name, None)
        if log is not None:
            log.abandon()
        self.names.discard(name)
        self.unrecovered.discard(name)
        for file in (self.volume.recovery_points, self.log_starts, self.committed):
            file.offsets.pop(name, None)
        self.volume.suspects.pop(name, None)
        self.volume.damaged.pop(name, None)
        unique = UUID(int=self.volume.random.getrandbits(128), version=4)
        target = f"{self.path}/{folders.marked(name, unique, suffix)}"
        try:
            self._disk.rename(self.folder(name), target)
        except OSError as problem:
            raise self.volume.failed(problem, f"delete {name}", at_risk=True) from problem
        self._renamed = True
        return target

    def deleted(self) -> None:
        """What was deleted stays deleted: a crash would bring it back, in the place of a new topic of the same name.  One
        sync for all, since a topic may have thousands of partitions."""
        if self._renamed and self.problem is None:
            self._renamed = False
            try:
                self._disk.sync_folder(self.path)
            except OSError as problem:
                raise self.volume.failed(problem, f"delete logs in {self.path}", at_risk=True) from problem

    def discard(self, folder: str) -> None:
        """A folder that is nobody's log: removed with the next round of housekeeping."""
        self._doomed.append((0, folder))

    def size_of(self, name: TopicPartition) -> int:
        """Bytes of a log, open or not."""
        log = self.logs.get(name)
        if log is not None:
            return log.size
        folder = self.folder(name)
        try:
            names = self._disk.list(folder)
            return sum(self._disk.size(f"{folder}/{each}") for each in names if each.endswith(".log"))
        except OSError as problem:
            raise self.volume.failed(problem, f"measure {name}") from problem

    # Housekeeping, called by `background`

    def checkpoint(self) -> None:
        """Blocks.  Recovery points, log starts and committed offsets as they are known now."""
        self.gather()
        self.volume.recovery_points.save()
        self.log_starts.save()
        self.committed.save()

    def gather(self) -> None:
        """What open logs know, for the next save."""
        points, starts = self.volume.recovery_points.offsets, self.log_starts.offsets
        for name, log in self.logs.items():
            points[name] = log.recovery_point
            if log.start > 0:
                starts[name] = log.start

    def take_due(self) -> list[str]:
        """Folders that are to be removed now."""
        now_ms = self.volume.clock.now_ms()
        due = [folder for due_ms, folder in self._doomed if due_ms <= now_ms]
        self._doomed = [entry for entry in self._doomed if entry[0] > now_ms]
        return due


def _make_durably(disk: Disk, path: str) -> None:
    """A folder, with the names of all that had to be made for it."""
    missing = []
    while path and not disk.exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    if missing:
        disk.make_folder(missing[0])
    for made in missing:
        disk.sync_folder(os.path.dirname(made) or ".")
