"""Reads all logs of one directory repeatedly and slowly, to find rotten bytes before a client reads them.

A round reads all logs in the order of their names, at `bytes_per_second`, and begins once in `period_ms`; after a restart a
small checkpoint lets it continue.  Bytes come from the device and leave the page cache alone (`Disk.open_direct`).  The
scrubber checks segments that readers reported (`Volume.suspects`) at once, beside the round.  It records damage in the log
(`note_damage`); `replication.repair` repairs it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import NamedTuple

from tidelog.errors import TidelogError
from tidelog.storage.dirs import folders
from tidelog.storage.dirs.log_dir import Configs, LogDirectory
from tidelog.storage.dirs.volume import NO_KEY
from tidelog.storage.encryption.encrypting_disk import EncryptingDisk
from tidelog.storage.integrity.damage_notes import note_damage
from tidelog.storage.integrity.verification import SegmentCheck, find_damage
from tidelog.storage.log import Log
from tidelog.storage.segments import scanning
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.segment_files import LOG, stem
from tidelog.types import TopicPartition

logger = logging.getLogger("tidelog.scrubber")

SCRUBBED = "scrub-checkpoint"
FIRST_MS = 60_000
LOOK_S = 0.5
SAVE_EVERY_MS = 30_000


class ScrubPace(NamedTuple):
    period_ms: int
    bytes_per_second: int
    """0: no rounds; only what readers complained about is checked."""


@dataclass(slots=True)
class ScrubCounters:
    """Since the start, except where it says otherwise."""

    bytes_read: int = 0
    segments: int = 0
    indexes_rebuilt: int = 0
    ranges_found: int = 0
    round_done_ms: int = 0
    """When the last full round ended, in this run or an earlier one; 0 when none has."""


@dataclass(slots=True)
class Round:
    """How far the round is: all before the segment `base` of `topic`-`partition` is read."""

    begun_ms: int = 0
    done_ms: int = 0
    under_way: bool = False
    topic: str = ""
    partition: int = 0
    base: int = 0

    def reached(self, name: TopicPartition, base: int) -> None:
        self.topic, self.partition = name
        self.base = base

    def passed(self, name: TopicPartition, base: int) -> bool:
        return (name.topic, name.partition, base) < (self.topic, self.partition, self.base)


class Target(NamedTuple):
    base: int
    size: int
    sealed: bool


class Scrubber:
    def __init__(self, home: LogDirectory, configs: Configs, pace: Callable[[], ScrubPace]) -> None:
        self.counters = ScrubCounters()
        self._home = home
        self._volume = home.volume
        self._configs = configs
        self._pace = pace
        self._path = f"{home.path}/{SCRUBBED}"
        self._round = Round()
        self._saved_ms = 0
        self._warned_begun_ms = 0

    @property
    def path(self) -> str:
        return self._home.path

    @property
    def is_overdue(self) -> bool:
        """The round under way has taken longer than a period: the pace is too low for what is on the disk."""
        pace, current = self._pace(), self._round
        begun = current.under_way and pace.bytes_per_second > 0
        return begun and self._volume.clock.now_ms() > current.begun_ms + pace.period_ms

    async def run(self) -> None:
        """Until it is cancelled, or the directory goes offline."""
        # A TaskGroup would end them in the order of their addresses in memory.
        tasks = [asyncio.create_task(work) for work in (self._watch_suspects(), self._run_rounds())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_rounds(self) -> None:
        await asyncio.sleep(min(FIRST_MS, self._pace().period_ms) / 1000)
        self._load()
        while self._volume.problem is None:
            pace, now_ms = self._pace(), self._volume.clock.now_ms()
            current = self._round
            # A clock that was set back must not keep a round from beginning for ever.
            waits = current.begun_ms <= now_ms < current.begun_ms + pace.period_ms
            if not pace.bytes_per_second or (not current.under_way and waits):
                await asyncio.sleep(LOOK_S)
                continue
            try:
                await self.scrub()
            except OSError as problem:
                self._volume.failed(problem, f"scrub {self._home.path}")
                await asyncio.sleep(LOOK_S)
            except Exception:
                logger.exception("Scrubbing of %s failed, and runs again later", self._home.path)
                await asyncio.sleep(FIRST_MS / 1000)

    async def scrub(self) -> None:
        """The rest of the round under way, or all of a new one."""
        clock, current = self._volume.clock, self._round
        if not current.under_way:
            current = self._round = Round(clock.now_ms(), current.done_ms, True)
        for name in sorted(self._home.names):
            if (name.topic, name.partition) < (current.topic, current.partition):
                continue
            for target in await self._targets(name):
                if not current.passed(name, target.base):
                    await self._check(name, target)
                    current.reached(name, target.base + 1)
                    self._warn_when_overdue()
                    await self._save(SAVE_EVERY_MS)
        done_ms = clock.now_ms()
        self._round = Round(current.begun_ms, done_ms)
        self.counters.round_done_ms = done_ms
        await self._save(0)

    def _warn_when_overdue(self) -> None:
        """Once in a round."""
        if self.is_overdue and self._warned_begun_ms != self._round.begun_ms:
            self._warned_begun_ms = self._round.begun_ms
            logger.warning(
                "reading all of %s takes longer than tidelog.scrub.period.ms (%d s): raise "
                "tidelog.scrub.bytes.per.second, or the period",
                self._home.path,
                self._pace().period_ms // 1000,
            )

    # One segment

    async def _targets(self, name: TopicPartition) -> list[Target]:
        """The segments to check; of the active segment only the part that is synced: a check causes no writes."""
        log = self._home.logs.get(name)
        if log is None:
            folder = self._home.folder(name)
            try:
                return await self._volume.disk.run(partial(self._list, folder))
            except FileNotFoundError:
                return []  # deleted meanwhile
        *sealed, active = log.segments
        targets = [Target(segment.base, segment.size, True) for segment in sealed]
        durable = min(log.recovery_point, active.end)
        if durable > active.base:
            try:
                size = active.size if durable == active.end else active.locate(durable)[0]
                targets.append(Target(active.base, size, False))
            except TidelogError:
                log.suspect(durable)
        return targets

    def _list(self, folder: str) -> list[Target]:
        disk = self._volume.disk
        bases = sorted(int(name.removesuffix(LOG)) for name in disk.list(folder) if name.endswith(LOG))
        return [Target(base, disk.size(stem(folder, base) + LOG), base != bases[-1]) for base in bases]

    async def _check(self, name: TopicPartition, target: Target) -> None:
        disk, folder, counters = self._volume.disk, self._home.folder(name), self.counters
        try:
            check = await disk.run(lambda: SegmentCheck(disk, folder, *target))
            while not check.done:
                count = await disk.run(check.step)
                counters.bytes_read += count
                await self._pause(count)
        except FileNotFoundError:
            return  # deleted or compacted meanwhile
        except OSError as problem:
            if problem.errno != NO_KEY:
                raise
            return  # looked at in the next round, if the key is back
        counters.segments += 1
        if not check.whole:
            await self._confirm(name, target.base)
        elif not check.index_fits:
            self._rebuild_index(name, target.base)

    async def _pause(self, count: int) -> None:
        """For as long as `count` bytes take.  The pace may change meanwhile; the round stands still while it is 0."""
        left = float(count)
        while left > 0:
            bytes_per_second = self._pace().bytes_per_second
            if bytes_per_second and left <= bytes_per_second * LOOK_S:
                await asyncio.sleep(left / bytes_per_second)
                return
            await asyncio.sleep(LOOK_S)
            left -= bytes_per_second * LOOK_S

    def _open(self, name: TopicPartition, base: int) -> tuple[Log, Segment] | None:
        """None when there is no such segment (any more)."""
        if name not in self._home.names:
            return None
        log = self._home.open(name, self._configs(name.topic))
        segment = log.segments[log.segments.holding(base)]
        return (log, segment) if segment.base == base else None

    async def _confirm(self, name: TopicPartition, base: int) -> None:
        """Looks again, at the log as it is now: it may have been cut or compacted while it was read."""
        disk = self._volume.disk
        opened = self._open(name, base)
        if opened is None:
            return
        log, segment = opened
        files, cuts, size, end = segment.files, log.state.cuts, segment.size, segment.end
        try:
            ranges = await disk.run(lambda: find_damage(files.open_direct(), base, size, end))
        except FileNotFoundError:
            return
        if log.state.cuts != cuts or self._open(name, base) != (log, segment):
            return
        fresh = [bad for bad in ranges if bad not in segment.bad]
        if fresh:
            note_damage(log, segment, ranges)
            self.counters.ranges_found += len(fresh)
        for bad in fresh:
            logger.error("%s: offsets %d to %d are damaged in %s", name, bad.start, bad.end, segment.path)

    def _rebuild_index(self, name: TopicPartition, base: int) -> None:
        opened = self._open(name, base)
        if opened is not None and opened[1] is not opened[0].segments.last:
            logger.warning("%s has an index that does not match its batches: rebuilt", opened[1].path)
            opened[1].rebuild_indexes()
            scanning.trim_indexes(opened[1])
            self.counters.indexes_rebuilt += 1

    # What readers complained about

    async def _watch_suspects(self) -> None:
        suspects = self._volume.suspects
        while self._volume.problem is None:
            self._suspect_encrypted()
            if not suspects:
                await asyncio.sleep(LOOK_S)
                continue
            name = next(iter(suspects))
            offset = suspects.pop(name)
            try:
                await self._check_suspect(name, offset)
            except (OSError, TidelogError) as problem:
                logger.warning("%s cannot be checked now: %s", name, problem)

    def _suspect_encrypted(self) -> None:
        """An encrypted file itself reports that its bytes have changed."""
        disk = self._volume.disk
        if isinstance(disk, EncryptingDisk):
            for path in disk.take_rotten():
                folder = folders.parse(os.path.basename(path))
                if folder is not None and folder.suffix == "" and folder.name not in self._volume.damaged:
                    self._volume.suspects[folder.name] = None

    async def _check_suspect(self, name: TopicPartition, offset: int | None) -> None:
        log = self._home.logs.get(name)
        if log is not None:
            segments = list(log.segments)
            if offset is not None:
                segments = [segments[log.segments.holding(offset)]]
            logger.warning("%s: a read failed: checking its bytes", name)
            for segment in segments:
                await self._confirm(name, segment.base)

    # The checkpoint

    def _load(self) -> None:
        try:
            self._round = Round(**json.loads(self._volume.disk.read_file(self._path)))
        except (OSError, ValueError, TypeError):
            self._round = Round()
        self.counters.round_done_ms = self._round.done_ms

    async def _save(self, every_ms: int) -> None:
        now_ms = self._volume.clock.monotonic_ms()
        if now_ms - self._saved_ms >= every_ms:
            self._saved_ms = now_ms
            data = json.dumps(asdict(self._round)).encode()
            await self._volume.disk.run(partial(self._volume.disk.replace_file, self._path, data))
