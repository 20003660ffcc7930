"""Keeps remote storage in step with the logs of this broker (KIP-405): copies sealed segments of partitions that it leads,
deletes what retention lets go, and reads what other leaders copied.

A leader of an older epoch cannot write a manifest any more once the next one has written its first, and objects have
names of their own, so two leaders never damage each other.  Objects that no manifest names are what a crash left of a
copy: the next leader, or the next start, removes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import Random

from tidelog._speed.log.crc32c import crc32c
from tidelog.clock import Clock
from tidelog.config import BrokerConfig, TopicConfig
from tidelog.errors import KafkaStorageError, TidelogError
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import TopicImage
from tidelog.replication.copy_pacer import CopyPacer
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.log import Log
from tidelog.storage.segments.segment import Segment
from tidelog.storage.tiers import manifest as manifests
from tidelog.storage.tiers.cold_log import REMOTE_SEEN, ColdLog, Fenced
from tidelog.storage.tiers.manifest import ColdSegment, Manifest
from tidelog.storage.tiers.object_store import StoreProblem
from tidelog.storage.tiers.segment_copy import SealedSource, SegmentCopy
from tidelog.storage.tiers.tiers import Tiers
from tidelog.types import TopicPartition

logger = logging.getLogger("tidelog.tiers")

TELL_EVERY_MS = 10_000
TURN = 200
_ENABLED = "remote.storage.enable"


@dataclass(slots=True)
class TieringCounters:
    copies: int = 0
    copied_bytes: int = 0
    copy_errors: int = 0
    deletes: int = 0
    delete_errors: int = 0


class Tiering:
    def __init__(
        self,
        tiers: Tiers,
        partitions: Partitions,
        dirs: LogDirs,
        topic_config: Callable[[str], TopicConfig],
        config: Callable[[], BrokerConfig],
        clock: Clock,
        random: Random,
        counters: TieringCounters,
    ) -> None:
        self.counters = counters
        self._tiers = tiers
        self._partitions = partitions
        self._dirs = dirs
        self._topic_config = topic_config
        self._config = config
        self._clock = clock
        self._random = random
        self._pace = CopyPacer(clock, lambda: config().remote_log_manager_copy_max_bytes_per_second)
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._deletions: set[asyncio.Task[None]] = set()
        self._copying = self._deleting = 0
        self._turn = asyncio.Event()
        self._claimed: dict[ColdLog, int] = {}
        """The leader epoch for which the manifest was taken over."""
        self._told_ms: int | None = None

    async def run(self) -> None:
        """For ever."""
        try:
            while True:
                await asyncio.sleep(self._config().remote_log_manager_task_interval_ms / 1000)
                await self._begin_round()
        finally:
            tasks = [*self._tasks.values(), *self._deletions]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin_round(self) -> None:
        for at, name in enumerate(list(self._dirs)):
            if at % TURN == TURN - 1:
                await asyncio.sleep(0)
            if name in self._tasks or not self._topic_config(name.topic).remote_storage_enable:
                continue
            partition = self._partitions.of_log(name)
            if partition is not None and partition.log.cold is not None:
                task = asyncio.get_running_loop().create_task(self._look_after(partition, partition.log.cold))
                self._tasks[name] = task
                task.add_done_callback(lambda done, name=name: self._ended(name, done))  # type: ignore[misc]

    def _ended(self, name: TopicPartition, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if not task.cancelled() and task.exception() is not None:
            logger.error("remote storage of %s", name, exc_info=task.exception())

    def apply(self, update: Update) -> None:
        """Called for every update, after `Partitions`."""
        for name in update.topics:
            before, after = update.before.topics.get(name), update.image.topics.get(name)
            if before is None or (after is not None and after.id == before.id):
                continue
            if update.before.topic_overrides(name).get(_ENABLED) == "true":
                self._delete_all(before)
        for name in update.topic_configs:
            topic = update.image.topics.get(name)
            was = update.before.topic_overrides(name).get(_ENABLED) == "true"
            if topic is not None and was and update.image.topic_overrides(name).get(_ENABLED) != "true":
                self._delete_all(topic)

    # One partition

    async def _look_after(self, partition: HostedPartition, cold: ColdLog) -> None:
        try:
            if self._leads(partition):
                await self._lead(partition, cold)
            elif partition.log.cutter.waits_for_copies(partition.state.committed):
                await cold.load()
                await _remember_seen(partition.log, cold)
        except Fenced as problem:
            logger.info("%s", problem)
        except (StoreProblem, TidelogError, OSError) as problem:
            self._tell(f"remote storage of {partition.name}: {problem}")

    def _leads(self, partition: HostedPartition) -> bool:
        return partition.leader == self._partitions.node and partition.state.knows_committed

    async def _lead(self, partition: HostedPartition, cold: ColdLog) -> None:
        epoch = int(partition.state.epoch)
        if self._claimed.get(cold) != epoch:
            await self._claim(partition, cold, epoch)
        partition.log.state.settle_start()
        try:
            while self._leads(partition) and partition.state.epoch == epoch:
                source = next_to_copy(partition, cold)
                if source is None:
                    break
                await self._copy(partition.log, cold, epoch, source)
        except (StoreProblem, TidelogError, OSError):
            self.counters.copy_errors += 1
            raise
        await self._expire(partition.log, cold, epoch)

    async def _claim(self, partition: HostedPartition, cold: ColdLog, epoch: int) -> None:
        """What earlier leaders copied is this leader's now, without what its log does not have."""
        log, manifest = partition.log, await cold.load()
        if not log.size and manifest.end is not None and log.next < manifest.end:
            raise KafkaStorageError(
                f"the log is empty here, and remote storage has records up to {manifest.end}"
            )
        count = manifests.diverged(manifest.segments, log.end, log.epochs.of)
        if count:
            logger.error(
                "%s: %d segments in remote storage have records that the log has not, and are not read any more",
                partition.name,
                count,
            )
        if manifest.leader_epoch < epoch or count:
            manifest = await cold.change(
                epoch, log.start, lambda newest: newest.without_diverged(count) if count else newest
            )
        await _remember_seen(log, cold)
        await self._remove_orphans(cold, manifest)
        self._claimed[cold] = epoch

    async def _remove_orphans(self, cold: ColdLog, manifest: Manifest) -> None:
        await self._tiers.store.remove_unfinished(f"{cold.folder}/segments/")
        orphans = []
        for stored in await self._tiers.store.list(f"{cold.folder}/segments/"):
            name = stored.name.rpartition("/")[2].partition(".")[0]
            epoch = manifests.epoch_of_name(name)
            if epoch is not None and epoch <= max(manifest.leader_epoch, 0) and name not in manifest.names:
                orphans.append(stored.name)
        if orphans:
            logger.info("%s: removing %d objects of copies that did not end", cold.name, len(orphans))
            await self._tiers.store.delete(orphans)

    # Copying

    async def _copy(self, log: Log, cold: ColdLog, epoch: int, source: SealedSource) -> None:
        while self._copying >= self._config().remote_log_manager_copier_thread_pool_size:
            self._turn.clear()
            await self._turn.wait()
        self._copying += 1
        try:
            await self._copy_now(log, cold, epoch, source)
        finally:
            self._copying -= 1
            self._turn.set()

    async def _copy_now(self, log: Log, cold: ColdLog, epoch: int, source: SealedSource) -> None:
        store, token = self._tiers.store, f"{self._random.getrandbits(64):016x}"
        name = manifests.segment_name(source.start, source.end, epoch, token)
        path = f"{cold.folder}/segments/{name}"
        copy = SegmentCopy(source)
        try:
            await store.put(f"{path}.log", self._paced(copy))
            stored = await store.size(f"{path}.log")
            if stored != source.size:
                raise StoreProblem(f"{path}.log has {stored} bytes after {source.size} were written")
            side = (await copy.side_file()).encode()
            await store.create(f"{path}.side", side)
            segment = ColdSegment(
                source.start,
                source.end,
                name,
                source.size,
                source.max_timestamp,
                len(side),
                crc32c(side),
                source.last_epoch,
            )
            await cold.change(epoch, log.start, lambda newest: newest.with_copied(segment))
        except (StoreProblem, TidelogError, OSError, Fenced, manifests.NotNeighbours):
            newest = cold.manifest
            if newest is None or name not in newest.names:
                await self._discard(path)
            if copy.problem is not None:
                log.suspect(source.start)
                raise copy.problem from None
            raise
        self.counters.copies += 1
        self.counters.copied_bytes += source.size

    async def _paced(self, copy: SegmentCopy) -> AsyncIterator[bytes]:
        async for piece in copy.pieces():
            yield piece
            await self._pace.copied(len(piece))

    async def _discard(self, path: str) -> None:
        try:
            await self._tiers.store.delete([f"{path}.log", f"{path}.side"])
        except StoreProblem:
            pass  # found by the next leader

    # Deleting

    async def _expire(self, log: Log, cold: ColdLog, epoch: int) -> None:
        manifest, config = cold.manifest, log.config
        if manifest is None or not manifest.names:
            return
        end = manifest.end or 0
        count = manifests.expired(
            manifest.segments,
            sum(segment.size for segment in log.segments if segment.base >= end),
            now_ms=self._clock.now_ms(),
            retention_ms=config.retention_ms,
            retention_bytes=config.retention_bytes,
            start=log.start,
        )
        if count:
            # Readers first: nobody is to look for what is about to go.
            log.advance_start(min(max(log.start, manifest.segments[count - 1].end), log.end))
        first = manifest.start
        if count or (first is not None and log.start > max(first, manifest.log_start)):
            manifest = await cold.change(
                epoch,
                log.start,
                lambda newest: newest.without_first(sum(each.end <= log.start for each in newest.segments)),
            )
        if manifest.deleting:
            await self._delete(cold, epoch, log.start, manifest.deleting)

    async def _delete(self, cold: ColdLog, epoch: int, log_start: int, names: tuple[str, ...]) -> None:
        while self._deleting >= self._config().remote_log_manager_expiration_thread_pool_size:
            self._turn.clear()
            await self._turn.wait()
        self._deleting += 1
        try:
            for name in names:
                path = f"{cold.folder}/segments/{name}"
                await self._tiers.store.delete([f"{path}.log", f"{path}.side"])
            await cold.change(epoch, log_start, lambda newest: newest.without_deleted(names))
        except StoreProblem:
            self.counters.delete_errors += 1
            raise
        finally:
            self._deleting -= 1
            self._turn.set()
        self.counters.deletes += len(names)
        logger.info("%s: deleted %d segments from remote storage", cold.name, len(names))

    def _delete_all(self, topic: TopicImage) -> None:
        """The last leader of a partition deletes its objects, once the topic is deleted or no longer uses remote storage."""
        for partition in topic.partitions:
            cold = self._tiers.log(TopicPartition(topic.name, partition.index), topic.id)
            self._tiers.forget(topic.id, partition.index)
            self._claimed.pop(cold, None)
            copying = self._tasks.pop(cold.name, None)
            if copying is not None:
                copying.cancel()
            if partition.leader == self._partitions.node:
                task = asyncio.get_running_loop().create_task(self._delete_folder(cold, copying))
                self._deletions.add(task)
                task.add_done_callback(self._deletions.discard)

    async def _delete_folder(self, cold: ColdLog, copying: asyncio.Task[None] | None) -> None:
        if copying is not None:
            await asyncio.wait([copying])
        while True:
            try:
                names = [stored.name for stored in await self._tiers.store.list(f"{cold.folder}/")]
                # Manifests last: as long as there are objects, there is something that tells whose they are.
                await self._tiers.store.delete(sorted(names, key=lambda name: "/manifests/" in name))
                return
            except StoreProblem as problem:
                self.counters.delete_errors += 1
                self._tell(f"deleting {cold.name} from remote storage: {problem}")
                await asyncio.sleep(self._config().remote_log_manager_task_interval_ms / 1000)

    def _tell(self, message: str) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._told_ms is None or now_ms - self._told_ms >= TELL_EVERY_MS:
            self._told_ms = now_ms
            logger.warning("%s", message)


async def _remember_seen(log: Log, cold: ColdLog) -> None:
    if not cold.seen and cold.manifest is not None and cold.manifest.number:
        disk, path = log.volume.disk, f"{log.folder}/{REMOTE_SEEN}"
        await disk.run(lambda: disk.replace_file(path, b""))
        cold.seen = True


def next_to_copy(partition: HostedPartition, cold: ColdLog) -> SealedSource | None:
    """The oldest sealed segment, or the rest of one, that is committed and not copied."""
    log, copied = partition.log, cold.end
    if log.config.remote_log_copy_disable:
        return None
    start = log.local_start if copied is None else max(copied, log.segments.first.base)
    stable = min(partition.last_stable, partition.state.committed)
    for segment in log.segments:
        if segment is log.segments.last or segment.end > stable:
            return None
        if segment.end > start and segment.size:
            return _source(log, segment, segment.base if copied is None else copied)
    return None


def _source(log: Log, segment: Segment, copied: int) -> SealedSource:
    position = 0 if copied <= segment.base else segment.locate(copied)[0]
    return SealedSource(
        disk=log.volume.disk,
        folder=log.folder,
        files=segment.files,
        start=copied,
        end=segment.end,
        position=position,
        size=segment.size - position,
        max_timestamp=segment.newest()[0],
        aborted=log.aborted(max(copied, segment.base), segment.end),
        epochs=list(log.epochs),
    )
