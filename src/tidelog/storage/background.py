"""The housekeeping of all logs, in one task: retention, checkpoints, syncs after a roll, removal of deleted files,
expiry of producers, idle descriptors.

No log has a timer of its own.  An idle broker pays for one look a second at a few empty sets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from tidelog.clock import Clock
from tidelog.config import TopicConfig
from tidelog.errors import TidelogError
from tidelog.storage.checkpoints import OffsetFile
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.disk import Disk
from tidelog.storage.log import Log
from tidelog.types import TopicPartition

logger = logging.getLogger(__name__)

TICK_MS = 1000
IDLE_FILES_MS = 60_000
# Logs that are looked at before others get their turn on the loop, and logs opened for retention alone per tick.
SLICE = 200
OPENED_PER_TICK = 20

Committed = Callable[[TopicPartition], int | None]


@dataclass(frozen=True, slots=True)
class Intervals:
    first_ms: int = 30_000
    """From the start to the first look at retention, unless its interval is shorter."""
    retention_ms: int = 300_000
    recovery_points_ms: int = 60_000
    log_starts_ms: int = 60_000
    committed_ms: int = 5_000
    producers_ms: int = 600_000
    producer_expiration_ms: int = 86_400_000


@dataclass(slots=True)
class _Chore:
    work: Callable[[], Awaitable[None]]
    every_ms: int
    due_ms: int


class Background:
    """`committed` returns the high watermark of a partition; None when this broker neither leads nor follows it: then the
    checkpoint counts."""

    def __init__(self, dirs: LogDirs, clock: Clock, intervals: Intervals, committed: Committed) -> None:
        self._dirs = dirs
        self._clock = clock
        self._intervals = intervals
        self._committed = committed
        self._to_open: list[TopicPartition] = []
        # Logs that nobody uses: when the first segment of each may be too old, under which settings.
        self._resting: dict[TopicPartition, tuple[int, TopicConfig]] = {}
        now_ms = clock.monotonic_ms()
        self._chores = [
            _Chore(work, every_ms, now_ms + first_ms)
            for work, every_ms, first_ms in (
                (
                    self._check_retention,
                    intervals.retention_ms,
                    min(intervals.first_ms, intervals.retention_ms),
                ),
                (self._save_recovery_points, intervals.recovery_points_ms, intervals.recovery_points_ms),
                (self._save_log_starts, intervals.log_starts_ms, intervals.log_starts_ms),
                (self._save_committed, intervals.committed_ms, intervals.committed_ms),
                (self._expire_producers, intervals.producers_ms, intervals.producers_ms),
                (self._release_files, IDLE_FILES_MS, IDLE_FILES_MS),
            )
        ]

    def expire_producers_after(self, idle_ms: int) -> None:
        """From the next look on."""
        self._intervals = replace(self._intervals, producer_expiration_ms=idle_ms)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            try:
                await self.tick()
            except Exception:
                # One log that cannot be looked after must not cost all others their retention.
                logger.exception("Housekeeping failed, and runs again in the next round")

    async def tick(self) -> None:
        """Everything that is due now."""
        for each in self._dirs.online():
            await self._sync_rolled(each)
            await self._remove_deleted(each)
        self._open_some()
        now_ms = self._clock.monotonic_ms()
        for chore in self._chores:
            if chore.due_ms <= now_ms:
                chore.due_ms = now_ms + chore.every_ms
                await chore.work()

    # Every tick

    async def _sync_rolled(self, home: LogDirectory) -> None:
        rolled = list(home.volume.rolled)
        home.volume.rolled.clear()
        for log in rolled:
            await log.sync_sealed()

    async def _remove_deleted(self, home: LogDirectory) -> None:
        disk, files = home.volume.disk, []
        for trash in list(home.volume.trashed):
            due, all_gone = trash.take_deleted()
            files += due
            if all_gone:
                home.volume.trashed.pop(trash, None)
        folders = home.take_due()
        if not files and not folders:
            return
        try:
            await disk.run(lambda: _remove(disk, files, folders))
        except OSError as problem:
            home.volume.failed(problem, f"remove deleted files of {home.path}")

    def _open_some(self) -> None:
        """A few of the logs that nobody has opened since the start: retention holds for them too."""
        for _ in range(min(OPENED_PER_TICK, len(self._to_open))):
            name = self._to_open.pop()
            if name not in self._dirs:
                continue
            home, config = self._dirs.home(name), self._dirs.config(name)
            if name in home.logs or home.problem is not None:
                continue
            try:
                log = home.open(name, config)
            except TidelogError as problem:
                logger.warning("retention of %s: %s", name, problem)
                continue
            self._apply_retention(name, home, log)
            if home.problem is None:
                self._resting[name] = (log.cutter.retention_due_ms(), config)
                home.rest(name)

    def _apply_retention(self, name: TopicPartition, home: LogDirectory, log: Log) -> None:
        try:
            count = log.cutter.apply_retention(self._bound(name, home))
        except TidelogError as problem:
            logger.warning("retention of %s: %s", name, problem)
        else:
            if count:
                logger.info("%s: deleted %d segments, starts at %d now", name, count, log.start)

    # Now and then

    async def _check_retention(self) -> None:
        for home in self._dirs.online():
            for number, (name, log) in enumerate(list(home.logs.items())):
                if number % SLICE == SLICE - 1:
                    await asyncio.sleep(0)
                if home.logs.get(name) is log and home.problem is None:
                    self._apply_retention(name, home, log)
        self._to_open = [name for name in self._dirs if self._wants_opening(name)]

    def _wants_opening(self, name: TopicPartition) -> bool:
        home = self._dirs.home(name)
        if name in home.logs or home.problem is not None:
            return False
        due_ms, config = self._resting.get(name, (0, None))
        return due_ms <= self._clock.now_ms() or config is not self._dirs.config(name)

    def _bound(self, name: TopicPartition, home: LogDirectory) -> int:
        committed = self._committed(name)
        return home.committed.offsets.get(name, 0) if committed is None else committed

    async def _save_recovery_points(self) -> None:
        for home in self._dirs.online():
            home.gather()
            await self._save(home, home.volume.recovery_points)

    async def _save_log_starts(self) -> None:
        for home in self._dirs.online():
            home.gather()
            await self._save(home, home.log_starts)

    async def _save_committed(self) -> None:
        for home in self._dirs.online():
            for name in home.logs:
                committed = self._committed(name)
                if committed is not None:
                    home.committed.offsets[name] = committed
            await self._save(home, home.committed)

    async def _save(self, home: LogDirectory, file: OffsetFile) -> None:
        try:
            await home.volume.disk.run(file.save)
        except OSError as problem:
            home.volume.failed(problem, f"save checkpoints of {home.path}")

    async def _expire_producers(self) -> None:
        before_ms = self._clock.now_ms() - self._intervals.producer_expiration_ms
        for home in self._dirs.online():
            for number, log in enumerate(list(home.logs.values())):
                if number % SLICE == SLICE - 1:
                    await asyncio.sleep(0)
                log.producers.expire(before_ms)

    async def _release_files(self) -> None:
        for files in {id(home.volume.files): home.volume.files for home in self._dirs.dirs}.values():
            files.release_idle()


def _remove(disk: Disk, files: list[str], folders: list[str]) -> None:
    for path in files:
        disk.remove(path)
    for folder in folders:
        if disk.exists(folder):
            disk.remove_folder(folder)
