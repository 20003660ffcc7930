"""Takes a backup of a running cluster: batches as the brokers serve them, up to one cut.

The journal in the store comes first, with the cut; then the objects; the manifest comes last.  So a backup that is killed
leaves nothing that looks whole, and the same command goes on where it ended."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from tidelog._speed.log.batch import crc_ok, walk
from tidelog.backup.cut import ClusterCut, LogRange, take_whole_cut
from tidelog.backup.manifest import (
    BackupManifest,
    BackupObject,
    CorruptBackup,
    PartitionBackup,
    check_name,
    reusable,
)
from tidelog.backup.repository import BackupRepository
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.list_offsets import EARLIEST, LATEST, list_offsets
from tidelog.client.consumer.range_reader import RangeReader
from tidelog.errors import InvalidConfig, OffsetOutOfRange, UnknownTopicOrPartition
from tidelog.metadata.records import TOPIC_CONFIGS, TOPICS, decode_configs
from tidelog.types import TopicPartition

OBJECT_BYTES = 16 << 20
SMALL_BYTES = OBJECT_BYTES // 4
FETCH_BYTES = 4 << 20
PARTITIONS_AT_ONCE = 4
JOURNAL_BYTES = 256 << 20
"""How much is copied again at most after a kill."""

Progress = Callable[[int, int, int], None]
"""Bytes copied; offsets copied; offsets that are to be copied."""


class Created(NamedTuple):
    manifest: BackupManifest
    copied_bytes: int
    resumed: bool
    skipped: tuple[TopicPartition, ...]
    """Partitions that were deleted while the backup was taken."""


class BackupCreation:
    def __init__(
        self, cluster: Cluster, repository: BackupRepository, timeout_ms: int, progress: Progress
    ) -> None:
        self._cluster = cluster
        self._repository = repository
        self._timeout_ms = timeout_ms
        self._progress = progress
        self._reader = RangeReader(
            cluster, read_committed=False, fetch_bytes=FETCH_BYTES, timeout_ms=timeout_ms
        )
        self._copied_bytes = self._journaled_bytes = 0
        self._copied_offsets = self._offsets = 0
        self._saving = asyncio.Lock()
        self._gone: list[TopicPartition] = []

    async def run(self, name: str) -> Created:
        check_name(name)
        if name in await self._repository.names():
            raise InvalidConfig(
                f"A backup {name!r} already exists at {self._repository.url}: use another name."
            )
        journal = await self._repository.journal(name)
        self._manifest = journal or await self._begin(name)
        await self._check_cluster()
        left = [each for each in self._manifest.partitions if each.copied_end < each.end]
        self._offsets = sum(each.end - each.copied_end for each in left)
        await self._copy_all(left)
        self._drop_gone()
        await self._repository.finish(self._manifest)
        return Created(self._manifest, self._copied_bytes, journal is not None, tuple(self._gone))

    async def _begin(self, name: str) -> BackupManifest:
        before = await self._repository.newest()
        cut = await take_whole_cut(self._cluster, self._timeout_ms)
        if before is not None and before.cluster_id != cut.cluster_id:
            raise InvalidConfig(
                f"{self._repository.url} has backups of cluster {before.cluster_id}, and this is cluster {cut.cluster_id}: "
                "use another place."
            )
        self._check_encryption(cut)
        parts = {each.name: each for each in before.partitions} if before is not None else {}
        partitions = tuple(
            _partition(where, found, parts.get(where)) for where, found in sorted(cut.ranges.items())
        )
        manifest = BackupManifest(
            name, cut.cluster_id, cut.cut_ms, cut.clock_difference_ms, partitions, tuple(cut.metadata)
        )
        await self._repository.save_journal(manifest)
        return manifest

    def _check_encryption(self, cut: ClusterCut) -> None:
        if self._repository.encrypted:
            return
        for key, value in cut.metadata:
            if key.startswith(TOPIC_CONFIGS):
                named = decode_configs(value).get("encryption.key", "none")
                if named != "none":
                    raise InvalidConfig(
                        f"Topic {key.removeprefix(TOPIC_CONFIGS)!r} is encrypted with {named}, and the backups at "
                        f"{self._repository.url} are not encrypted: use another place, with --encryption-key."
                    )

    async def _check_cluster(self) -> None:
        await self._cluster.refresh(())
        cluster_id = self._cluster.topology.cluster_id
        if cluster_id != self._manifest.cluster_id:
            raise InvalidConfig(
                f"Backup {self._manifest.name!r} was begun of cluster {self._manifest.cluster_id}, and this is cluster "
                f"{cluster_id}: use another name."
            )

    async def _copy_all(self, partitions: Iterable[PartitionBackup]) -> None:
        waiting = asyncio.Semaphore(PARTITIONS_AT_ONCE)

        async def copy(partition: PartitionBackup) -> None:
            async with waiting:
                await self._copy(partition)

        async with asyncio.TaskGroup() as group:
            for partition in partitions:
                group.create_task(copy(partition))

    async def _copy(self, partition: PartitionBackup) -> None:
        run = _Run()
        start = partition.copied_end
        try:
            pieces = self._reader.pieces(partition.name, start, partition.end, uuid.UUID(partition.topic_id))
            async for piece in pieces:
                run.add(partition, bytes(piece.data))
                self._copied_offsets += min(piece.end, partition.end) - max(piece.start, start)
                if run.size >= OBJECT_BYTES:
                    partition = await self._store(partition, run)
                    run = _Run()
                self._progress(self._copied_bytes + run.size, self._copied_offsets, self._offsets)
        except UnknownTopicOrPartition:
            self._gone.append(partition.name)
            return
        except OffsetOutOfRange as problem:
            if not await self._ends_empty(partition, max(run.end, partition.copied_end)):
                # Retention or DeleteRecords overtook the backup, or an unclean election cut the log.
                raise OffsetOutOfRange(
                    f"{partition.name} no longer has what the cut of this backup names ({problem}): take a new backup"
                ) from None
        if run.size:
            await self._store(partition, run)

    async def _ends_empty(self, partition: PartitionBackup, offset: int) -> bool:
        """Whether compaction has left nothing of the records from `offset` to the end."""
        wanted = {partition.name: EARLIEST}, {partition.name: LATEST}
        (start,), (end,) = [
            (await list_offsets(self._cluster, each, self._timeout_ms)).values() for each in wanted
        ]
        return start.offset <= offset and end.offset >= partition.end

    async def _store(self, partition: PartitionBackup, run: _Run) -> PartitionBackup:
        stored = await self._repository.put_batches(
            partition, run.start, run.end, run.data(), run.last_epoch, run.newest_ms
        )
        partition = replace(partition, objects=(*partition.objects, stored))
        self._manifest = self._manifest.with_partition(partition)
        self._copied_bytes += run.size
        async with self._saving:
            if self._copied_bytes - self._journaled_bytes >= JOURNAL_BYTES:
                self._journaled_bytes = self._copied_bytes
                await self._repository.save_journal(self._manifest)
        return partition

    def _drop_gone(self) -> None:
        """A topic that was deleted meanwhile is no part of the backup."""
        topics = {name.topic for name in self._gone}
        if topics:
            self._manifest = replace(
                self._manifest,
                partitions=tuple(each for each in self._manifest.partitions if each.topic not in topics),
                metadata=tuple(
                    (key, value)
                    for key, value in self._manifest.metadata
                    if key not in {TOPICS + topic for topic in topics}
                ),
            )


def _partition(where: TopicPartition, found: LogRange, before: PartitionBackup | None) -> PartitionBackup:
    objects: tuple[BackupObject, ...] = reusable(
        before, found.topic_id, found.start, found.end, found.epochs, SMALL_BYTES
    )
    return PartitionBackup(where.topic, found.topic_id.hex, where.partition, found.start, found.end, objects)


class _Run:
    """Batches that become one object."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0
        self.start = self.end = -1
        self.last_epoch = -1
        self.newest_ms = -1

    def data(self) -> bytes:
        return b"".join(self._pieces)

    def add(self, partition: PartitionBackup, data: bytes) -> None:
        """The batches of `data` that begin before the end of the partition, each checked against its checksum."""
        headers = [header for header in walk(data) if header.base_offset < partition.end]
        if not headers:
            return
        for header in headers:
            if not crc_ok(data, header.position):
                raise CorruptBackup(
                    f"{partition.name} has a damaged batch at offset {header.base_offset}: let the cluster repair it, then "
                    "go on with the same command"
                )
        first, last = headers[0], headers[-1]
        self._pieces.append(data[first.position : last.position + last.size])
        self.size += len(self._pieces[-1])
        if self.start < 0:
            # Of a log that starts inside a batch, the whole batch comes.
            self.start = (
                partition.copied_end if partition.objects else min(first.base_offset, partition.start)
            )
        self.end, self.last_epoch = last.last_offset + 1, last.leader_epoch
        self.newest_ms = max(self.newest_ms, *(header.max_timestamp for header in headers))
