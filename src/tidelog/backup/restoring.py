"""Restores a backup, up to its cut or an earlier point, into the data directory of a new cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from tidelog._speed.log.batch import walk
from tidelog._speed.log.index_interval import SEGMENT_OFFSETS_MAX
from tidelog.backup.data_directory import NewDataDirectory
from tidelog.backup.manifest import BackupManifest, BackupObject, CorruptBackup, PartitionBackup
from tidelog.backup.new_metadata import metadata_of_one_broker
from tidelog.backup.open_transactions import (
    TransactionLog,
    end_open_transactions,
    is_transaction_topic,
)
from tidelog.backup.point import RestorePoint, batches_before
from tidelog.backup.repository import BackupRepository
from tidelog.config import TopicConfig
from tidelog.errors import InvalidConfig
from tidelog.metadata.records import TOPIC_CONFIGS, decode_configs
from tidelog.storage.segments.segment_files import LOG, stem
from tidelog.types import TopicPartition

PARTITIONS_AT_ONCE = 4

Progress = Callable[[int, int], None]
"""Bytes read, of all."""


@dataclass(frozen=True, slots=True)
class Selection:
    """`topics` None: the whole cluster, with groups, users and all else.  `new_name`: of the only topic."""

    topics: tuple[str, ...] | None = None
    new_name: str | None = None

    def check(self, manifest: BackupManifest) -> None:
        missing = sorted(set(self.topics or ()) - set(manifest.topics))
        if missing:
            raise InvalidConfig(f"Backup {manifest.name!r} has no topic {missing[0]!r}.")
        if self.new_name is not None and len(self.topics or ()) != 1:
            raise InvalidConfig("A new name is for one topic: name it with --topic.")

    def partitions(self, manifest: BackupManifest) -> list[PartitionBackup]:
        return [each for each in manifest.partitions if self.topics is None or each.topic in self.topics]

    def name_of(self, topic: str) -> str:
        return topic if self.new_name is None else self.new_name


class RestoredPartition(NamedTuple):
    name: TopicPartition
    start: int
    end: int
    batch_bytes: int
    left_out: int
    """Offsets of the backup that lie behind the point."""


async def plan_restore(
    repository: BackupRepository,
    manifest: BackupManifest,
    point: RestorePoint,
    selection: Selection,
    progress: Progress,
) -> list[RestoredPartition]:
    """What a restore would bring, without writing anything.  Reads only objects that the point may lie in."""
    selection.check(manifest)
    _check_point(manifest, point)
    planned = []
    done, total = 0, sum(each.batch_bytes for each in selection.partitions(manifest))
    for partition in selection.partitions(manifest):
        size, end, reached = 0, partition.start, False
        for stored in partition.objects:
            if not reached and _lies_behind(point, partition, stored):
                size, end = size + stored.batch_bytes, stored.end
            elif not reached:
                data = await repository.get_batches(partition, stored)
                kept, kept_end, reached = batches_before(point, partition.name, data, partition.end)
                size, end = size + kept, max(end, kept_end)
            done += stored.batch_bytes
            progress(done, total)
        planned.append(_restored(partition, end, size, reached))
    return planned


def _lies_behind(point: RestorePoint, partition: PartitionBackup, stored: BackupObject) -> bool:
    """The point lies behind all of the object."""
    end = point.ends.get(partition.name, partition.end)
    return stored.end <= min(end, partition.end) and (point.at_ms is None or stored.newest_ms <= point.at_ms)


def _restored(partition: PartitionBackup, end: int, size: int, reached: bool) -> RestoredPartition:
    if not reached:
        end = partition.end  # behind the last batch, where compaction has left nothing
    return RestoredPartition(partition.name, min(partition.start, end), end, size, partition.end - end)


def _check_point(manifest: BackupManifest, point: RestorePoint) -> None:
    if point.at_ms is not None and point.at_ms > manifest.cut_ms:
        raise InvalidConfig(
            f"Backup {manifest.name!r} was taken before {point}: leave --at out, or use a later backup."
        )
    parts = {each.name: each for each in manifest.partitions}
    for name, end in point.ends.items():
        partition = parts.get(name)
        if partition is None:
            raise InvalidConfig(f"Backup {manifest.name!r} has no partition {name}.")
        if end > partition.end:
            raise InvalidConfig(
                f"{name} ends at {partition.end} in backup {manifest.name!r}, and not at {end}."
            )


class Restoration:
    """Into one new data directory, once."""

    def __init__(
        self,
        repository: BackupRepository,
        manifest: BackupManifest,
        point: RestorePoint,
        selection: Selection,
        progress: Progress,
    ) -> None:
        selection.check(manifest)
        _check_point(manifest, point)
        self._repository = repository
        self._manifest = manifest
        self._point = point
        self._selection = selection
        self._progress = progress
        self._done = 0
        self._configs = topic_configs(manifest.metadata)

    async def run(self, directory: NewDataDirectory) -> list[RestoredPartition]:
        partitions = self._selection.partitions(self._manifest)
        self._total = sum(each.batch_bytes for each in partitions)
        waiting = asyncio.Semaphore(PARTITIONS_AT_ONCE)

        async def restore(partition: PartitionBackup) -> RestoredPartition:
            async with waiting:
                return await self._restore(directory, partition)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(restore(partition)) for partition in partitions]
        await self._end_transactions(directory, partitions)
        epochs = {partition.name: directory.epochs.get(self._name(partition), -1) for partition in partitions}
        topics: Collection[str] | None = self._selection.topics
        renamed = {topic: self._selection.name_of(topic) for topic in topics or ()}
        await directory.finish(
            metadata_of_one_broker(
                self._manifest.metadata, directory.cluster_id, directory.node, epochs, topics, renamed
            )
        )
        return [task.result() for task in tasks]

    async def _end_transactions(self, directory: NewDataDirectory, partitions: list[PartitionBackup]) -> None:
        if self._point.is_end and self._selection.topics is None:
            return
        known = TransactionLog()
        for partition in self._manifest.partitions:
            if is_transaction_topic(partition.name):
                for stored in partition.objects:
                    data = await self._repository.get_batches(partition, stored)
                    kept, _, _ = batches_before(self._point, partition.name, data, partition.end)
                    known.learn(data[:kept])
        for partition in partitions:
            await end_open_transactions(
                directory,
                self._name(partition),
                self._configs.get(partition.topic, TopicConfig()),
                known,
                original=partition.name,
                coordinated=self._selection.topics is None,
                time_ms=self._point.at_ms or self._manifest.cut_ms,
            )

    def _name(self, partition: PartitionBackup) -> TopicPartition:
        return TopicPartition(self._selection.name_of(partition.topic), partition.index)

    async def _restore(self, directory: NewDataDirectory, partition: PartitionBackup) -> RestoredPartition:
        name, config = self._name(partition), self._configs.get(partition.topic, TopicConfig())
        folder = await asyncio.to_thread(directory.make_log, name, UUID(partition.topic_id))
        writer = _SegmentWriter(folder, config.segment_bytes)
        end, size, reached = partition.start, 0, False
        for stored in partition.objects:
            if not reached:
                data = await self._repository.get_batches(partition, stored)
                kept, kept_end, reached = batches_before(self._point, partition.name, data, partition.end)
                if kept:
                    await asyncio.to_thread(writer.add, memoryview(data)[:kept], partition)
                    end, size = kept_end, size + kept
            self._done += stored.batch_bytes
            self._progress(self._done, self._total)
        restored = _restored(partition, end, size, reached)
        await asyncio.to_thread(directory.complete_log, name, config, restored.start, restored.end)
        return restored


def topic_configs(entries: Collection[tuple[str, bytes]]) -> dict[str, TopicConfig]:
    """The settings that topics have of their own, over Kafka's defaults."""
    configs = {}
    for key, value in entries:
        if key.startswith(TOPIC_CONFIGS):
            configs[key.removeprefix(TOPIC_CONFIGS)] = TopicConfig.of(decode_configs(value), TopicConfig())
    return configs


class _SegmentWriter:
    """Batches of one partition in ascending offsets, as segments of about the topic's size."""

    def __init__(self, folder: str, segment_bytes: int) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._base = self._end = -1
        self._size = 0

    def add(self, data: memoryview, partition: PartitionBackup) -> None:
        """Blocks."""
        headers = walk(data)
        first, last = headers[0], headers[-1]
        if first.base_offset < self._end:
            raise CorruptBackup(f"{partition.name} has offset {first.base_offset} twice in its backup")
        full = (
            self._size + len(data) > self._segment_bytes
            or last.last_offset - self._base > SEGMENT_OFFSETS_MAX
        )
        if self._base < 0 or (self._size and full):
            self._base, self._size = first.base_offset, 0
        with open(stem(self._folder, self._base) + LOG, "ab") as file:
            file.write(data)
        self._size += len(data)
        self._end = last.last_offset + 1
