"""Compacts the logs of one directory in the background: picks the dirtiest, has it rewritten, swaps segments in.

The decisions are `compaction`'s, the work is a `Runner`'s; here is the order of things.  A group of segments is
swapped in when its files are on disk, and the checkpoint of what is clean moves only when all swaps of the round are:
a crash in between leaves more to clean, never a log that is taken for clean and is not.  What a round supersedes
records with must be on disk before it starts.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tidelog.config import TopicConfig
from tidelog.errors import CorruptMessage, KafkaStorageError
from tidelog.storage.checkpoints import OffsetFile
from tidelog.storage.compaction.cleaned import cleaned_suffix
from tidelog.storage.compaction.job import (
    NO_IO_LIMIT,
    CompactionJob,
    CompactionProgress,
    LastRecord,
    Rewritten,
)
from tidelog.storage.compaction.rules import Dirt, SealedSegment, SegmentToRewrite, dirt, first_dirty
from tidelog.storage.compaction.runner import CompactionFailed, Runner
from tidelog.storage.dirs.volume import Volume
from tidelog.storage.encryption.worker_keys import keys_for_worker
from tidelog.storage.log import Log
from tidelog.storage.producer_state import snapshots
from tidelog.storage.segments import swapping
from tidelog.storage.segments.segment import Segment
from tidelog.storage.segments.segment_files import INDEX, TIME_INDEX
from tidelog.types import TopicPartition

CLEAN_POINTS = "cleaner-offset-checkpoint"
_NO_LAG_LIMIT = (1 << 63) - 1

T = TypeVar("T")

log = logging.getLogger("tidelog.cleaner")


class Cleanable(NamedTuple):
    """A log as its partition knows it."""

    log: Log
    stable: int
    """Nothing at or above may be compacted: not committed yet, or in a transaction that is open."""


@dataclass(slots=True)
class Counters:
    """Since the start, except where it says otherwise."""

    rounds: int = 0
    rounds_failed: int = 0
    segments_swapped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    last_round_keys: int = 0
    last_round_ms: int = 0
    dirtiest_percent: int = 0
    """The dirty share of the dirtiest log at the last search."""
    overdue_ms_max: int = 0
    """How far `max.compaction.lag.ms` was overrun when it was last looked for."""

    def add(self, progress: CompactionProgress, took_ms: int) -> None:
        self.rounds += 1
        self.bytes_read += progress.bytes_read
        self.bytes_written += progress.bytes_written
        self.records_read += progress.records_read
        self.records_kept += progress.records_kept
        self.records_without_key += progress.records_without_key
        self.last_round_keys = progress.keys
        self.last_round_ms = took_ms


class _Changed(Exception):
    """The log lost or replaced segments while they were being rewritten."""


class _Round:
    """What happens to a log while it is being rewritten."""

    __slots__ = ("end_max", "gone", "log")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.gone = False
        self.end_max = log.end

    def still_has(self, old: Sequence[Segment]) -> bool:
        """Retention, a truncation or a deletion may have come first."""
        present = {id(segment) for segment in self.log.segments}
        return (
            not self.gone
            and all(id(segment) in present for segment in old)
            and old[-1] is not self.log.segments.last
        )


class Cleaner:
    def __init__(
        self,
        volume: Volume,
        logs: Callable[[], Iterable[Cleanable]],
        runner: Runner,
        memory_bytes: int,
        backoff_ms: int,
    ) -> None:
        """`logs` gives those of `volume` as they are at the moment of the call."""
        self.counters = Counters()
        self.uncleanable: set[TopicPartition] = set()
        """Damaged, or failing in a way that trying again does not change."""
        self.memory_bytes = memory_bytes
        self.backoff_ms = backoff_ms
        self.io_bytes_per_second = NO_IO_LIMIT
        self._volume = volume
        self._logs = logs
        self._runner = runner
        self._clean = OffsetFile(volume.disk, f"{volume.path}/{CLEAN_POINTS}")
        try:
            self._clean.load()
        except OSError as problem:
            volume.failed(problem, f"read {CLEAN_POINTS}")
        self._saving = threading.Lock()  # in the disk's thread after a round, on the loop after a truncation
        self._round: _Round | None = None

    @property
    def path(self) -> str:
        return self._volume.path

    async def run(self) -> None:
        """Until it is cancelled, or the directory goes offline."""
        while self._volume.problem is None:
            try:
                cleaned = await self.clean_dirtiest()
            except Exception:
                log.exception("compaction in %s failed", self._volume.path)
                self.counters.rounds_failed += 1
                cleaned = False
            if not cleaned:
                await asyncio.sleep(self.backoff_ms / 1000)

    async def clean_dirtiest(self) -> bool:
        """One round over the log that needs it most; false when none does, or the round failed."""
        chosen = self._choose()
        if chosen is None:
            return False
        target, state = chosen
        name = target.log.name
        started_ms = self._volume.clock.monotonic_ms()
        self._round = _Round(target.log)
        try:
            progress = await self._clean_log(self._round, state)
        except (_Changed, FileNotFoundError):
            return False  # deleted, moved or cut meanwhile: what is left of it comes up again by itself
        except CompactionFailed as problem:
            self._failed(name, problem)
            return False
        except OSError as problem:
            self._failed(name, self._volume.failed(problem, f"compact {name}"))
            return False
        except KafkaStorageError as problem:
            self._failed(name, problem)
            return False
        finally:
            self._round = None
        self.counters.add(progress, self._volume.clock.monotonic_ms() - started_ms)
        return True

    # Facts from others

    def first_dirty(self, name: TopicPartition) -> int | None:
        """Below it no key has two records; None when that is not known of any offset."""
        return self._clean.offsets.get(name)

    def truncated(self, name: TopicPartition, offset: int) -> None:
        """The log was cut: what comes at `offset` and after it is dirty, whatever was there before.  Blocks."""
        if self._round is not None and self._round.log.name == name:
            self._round.end_max = min(self._round.end_max, offset)
        with self._saving:
            self._clean.lower(name, offset)

    def repaired(self, name: TopicPartition) -> None:
        """What was damaged is whole again."""
        self.uncleanable.discard(name)

    def removed(self, name: TopicPartition) -> None:
        """The log is closed: gone, or in another directory now."""
        if self._round is not None and self._round.log.name == name:
            self._round.gone = True
        self._clean.offsets.pop(name, None)
        self.uncleanable.discard(name)

    # Choosing

    def _choose(self) -> tuple[Cleanable, Dirt] | None:
        now_ms = self._volume.clock.now_ms()
        states = []
        for target in self._logs():
            name = target.log.name
            if "compact" not in target.log.config.cleanup_policy or name in self.uncleanable:
                continue
            try:
                states.append((target, self._dirt(target, now_ms)))
            except CorruptMessage as problem:
                self._failed(name, CompactionFailed(str(problem), damaged=True))
        counters = self.counters
        counters.dirtiest_percent = int(100 * max((state.ratio for _, state in states), default=0))
        counters.overdue_ms_max = max((state.overdue_ms for _, state in states), default=0)
        worth = [each for each in states if each[1].worth_cleaning(each[0].log.config)]
        return max(worth, key=lambda each: each[1].ratio, default=None)

    def _dirt(self, target: Cleanable, now_ms: int) -> Dirt:
        log = target.log
        *sealed, active = log.segments
        start = first_dirty(self._clean.offsets.get(log.name), log.start, log.end)
        facts = [_facts(segment, start, log.config) for segment in sealed]
        return dirt(facts, active.base, start, target.stable, log.config, now_ms)

    # A round

    async def _clean_log(self, current: _Round, state: Dirt) -> CompactionProgress:
        log, disk = current.log, self._volume.disk
        if log.recovery_point < state.bound:
            await log.flush()
        # Compaction leaves gaps.  Recovery takes one above the recovery point it finds for a loss.
        points = self._volume.recovery_points
        points.offsets[log.name] = log.recovery_point
        await disk.run(points.save)
        if log.damaged:
            raise CompactionFailed("it has damaged ranges", damaged=True)
        old = {segment.base: segment for segment in log.segments if segment.base < state.bound}
        job = self._job(log, state, list(old.values()))
        progress = None
        try:
            async with aclosing(self._runner.run(job)) as answers:
                async for answer in answers:
                    if isinstance(answer, Rewritten):
                        await self._swap(current, [old[base] for base in answer.bases], job.token)
                    else:
                        progress = answer
        finally:
            await _to_its_end(disk.run(lambda: self._remove_files(log.folder, job.token)))
        assert progress is not None, "a runner ends with its progress or raises"
        await disk.run(lambda: disk.sync_folder(log.folder))
        if current.gone:
            raise _Changed
        self._clean.offsets[log.name] = min(progress.end, current.end_max)
        await disk.run(self._save)
        return progress

    def _job(self, log: Log, state: Dirt, segments: Sequence[Segment]) -> CompactionJob:
        config, volume = log.config, self._volume
        paths = [segment.path for segment in segments]
        data_keys, new_data_key = keys_for_worker(volume.disk, paths, log.segments.last.path)
        return CompactionJob(
            folder=log.folder,
            token=volume.random.randbytes(8).hex(),
            sources=[_source(segment) for segment in segments],
            first_dirty=state.first_dirty,
            bound=state.bound,
            now_ms=volume.clock.now_ms(),
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            memory_bytes=self.memory_bytes,
            io_bytes_per_second=self.io_bytes_per_second,
            seed=volume.random.randbytes(16).hex(),
            producers={
                each.id: LastRecord(each.batches[-1].last_offset if each.batches else -1, each.epoch)
                for each in log.producers
            },
            data_keys=data_keys,
            new_data_key=new_data_key,
            aborted=log.aborted(segments[0].base, state.bound) if segments else [],
        )

    async def _swap(self, current: _Round, old: list[Segment], token: str) -> None:
        disk, folder, base = self._volume.disk, current.log.folder, old[0].base
        if not current.still_has(old):
            raise _Changed
        try:
            behind = next(each.base for each in current.log.segments if each.base > old[-1].base)
            await _to_its_end(disk.run(lambda: snapshots.forget_log_end(disk, folder, behind)))
            await _to_its_end(
                disk.run(lambda: swapping.make_ready(disk, folder, base, cleaned_suffix(token)))
            )
            if not current.still_has(old):
                raise _Changed
        except BaseException:
            await _to_its_end(disk.run(lambda: self._remove_files(folder, swapping.SWAP)))
            raise
        current.log.cutter.replace_segments(old, base)
        self.counters.segments_swapped += len(old)

    def _save(self) -> None:
        with self._saving:
            self._clean.save()

    def _remove_files(self, folder: str, mark: str) -> None:
        """Removes the files of a round that was given up: their names contain `mark`."""
        disk = self._volume.disk
        if disk.exists(folder):
            for name in disk.list(folder):
                if mark in name:
                    disk.remove(f"{folder}/{name}")

    def _failed(self, name: TopicPartition, problem: CompactionFailed | KafkaStorageError) -> None:
        self.counters.rounds_failed += 1
        if isinstance(problem, CompactionFailed) and problem.damaged:
            self.uncleanable.add(name)
            self._volume.suspects[name] = None
            log.error("%s is not compacted any more: %s", name, problem)
            return
        log.warning("%s is not compacted for now: %s", name, problem)
        if isinstance(problem, CompactionFailed) and problem.errno == errno.EIO:
            self._volume.failed(OSError(errno.EIO, str(problem)), f"compact {name}")


async def _to_its_end(work: Awaitable[T]) -> T:
    """Work in the disk's thread goes on when its waiter is cancelled: then nothing may follow before it is done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _facts(segment: Segment, dirty_from: int, config: TopicConfig) -> SealedSegment:
    """Times are looked up only where a setting asks for them: that opens files."""
    newest = oldest = -1
    if segment.end > dirty_from and segment.size:
        if config.min_compaction_lag_ms > 0:
            newest = segment.newest()[0]
        if config.max_compaction_lag_ms < _NO_LAG_LIMIT:
            oldest = segment.header(0).max_timestamp
    return SealedSegment(segment.base, segment.size, newest, oldest)


def _source(segment: Segment) -> SegmentToRewrite:
    files = segment.files
    # A missing index is built anew when it is needed.
    sizes = [files.size(kind) if files.exists(kind) else 0 for kind in (INDEX, TIME_INDEX)]
    return SegmentToRewrite(segment.base, segment.size, *sizes)
