"""A new cluster from remote storage alone, when all brokers of the old one are lost: what their manifests name.

There are the records of sealed segments that were copied, with their offsets, up to the last copied segment of each
partition; and nothing else: no later records, groups, settings, users, nor topics without remote storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from tidelog.backup.data_directory import NewDataDirectory
from tidelog.backup.open_transactions import TransactionLog, end_open_transactions
from tidelog.config import TopicConfig
from tidelog.errors import InvalidConfig
from tidelog.metadata import records
from tidelog.metadata.producer_ids import SKIPPED
from tidelog.metadata.records import PartitionRecord, TopicRecord
from tidelog.storage.segments.segment_files import LOG, stem
from tidelog.storage.tiers.manifest import Manifest
from tidelog.storage.tiers.manifest_chain import ManifestChain
from tidelog.storage.tiers.object_store import ObjectStore
from tidelog.types import TopicPartition

READ_BYTES = 8 << 20
# Settings are not in the store.  With the default retention, a broker would delete at its start what was just brought back.
KEPT_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}

Progress = Callable[[int, int], None]
"""Bytes read, of all."""


class RecoveredPartition(NamedTuple):
    name: TopicPartition
    start: int
    end: int
    size: int
    newest_ms: int
    """The newest timestamp: what is younger was not in the store."""


class TierRecovery:
    def __init__(self, store: ObjectStore, url: str, progress: Progress) -> None:
        self._store = store
        self._url = url
        self._progress = progress
        self._done = self._total = 0

    async def clusters(self) -> list[str]:
        return sorted({name.split("/")[0] for name in await self._manifest_names()})

    async def _manifest_names(self) -> list[str]:
        """Of one manifest for each: CLUSTER/topics/TOPIC/ID/PARTITION/manifests/NUMBER.json."""
        listed = [each.name for each in await self._store.list("")]
        return [name for name in listed if name.endswith(".json") and name.count("/") == 6]

    async def manifests(self, cluster_id: str | None) -> list[Manifest]:
        """The newest of each partition.  `cluster_id` None: of the only cluster."""
        clusters = await self.clusters()
        if cluster_id is None and len(clusters) > 1:
            raise InvalidConfig(
                f"{self._url} has the clusters {', '.join(clusters)}: choose one with --cluster."
            )
        wanted = cluster_id or next(iter(clusters), None)
        if wanted is None or wanted not in clusters:
            there = ", ".join(clusters) or "none"
            raise InvalidConfig(
                f"{self._url} has no manifests of cluster {cluster_id or '?'}: there are {there}."
            )
        names = await self._manifest_names()
        folders = {name.rpartition("/manifests/")[0] for name in names if name.startswith(f"{wanted}/")}
        chains = [ManifestChain(self._store, folder) for folder in sorted(folders)]
        newest = [await chain.newest() for chain in chains]
        self._folders = {
            (each.topic_id, each.partition): chain.folder
            for chain, each in zip(chains, newest, strict=True)
            if each is not None
        }
        return [each for each in newest if each is not None]

    async def run(self, directory: NewDataDirectory, cluster_id: str | None) -> list[RecoveredPartition]:
        manifests = await self.manifests(cluster_id)
        ids = {each.topic: each.topic_id for each in manifests}
        twice = [each.topic for each in manifests if ids[each.topic] != each.topic_id]
        if twice:
            raise InvalidConfig(
                f"{self._url} has two topics called {twice[0]!r}: one was deleted, and its objects are still there.  Remove "
                "the folder of the one that is not wanted."
            )
        self._total = sum(each.size for each in manifests)
        recovered = [await self._recover(directory, each) for each in manifests]
        await directory.finish(self._metadata(directory, manifests))
        return recovered

    async def _recover(self, directory: NewDataDirectory, manifest: Manifest) -> RecoveredPartition:
        name = TopicPartition(manifest.topic, manifest.partition)
        folder = await asyncio.to_thread(directory.make_log, name, UUID(manifest.topic_id))
        source = f"{self._folders[manifest.topic_id, manifest.partition]}/segments"
        for segment in manifest.segments:
            path = stem(folder, segment.start) + LOG
            for start in range(0, segment.size, READ_BYTES):
                end = min(start + READ_BYTES, segment.size)
                data = await self._store.get_range(f"{source}/{segment.name}.log", start, end)
                await asyncio.to_thread(_append, path, data)
                self._done += len(data)
                self._progress(self._done, self._total)
        end = manifest.log_start if manifest.end is None else max(manifest.end, manifest.log_start)
        start = min(max(manifest.log_start, manifest.start or 0), end)
        await asyncio.to_thread(directory.complete_log, name, TopicConfig(), start, end)
        newest_ms = max((segment.max_timestamp for segment in manifest.segments), default=-1)
        await end_open_transactions(
            directory,
            name,
            TopicConfig(),
            TransactionLog(),
            original=name,
            coordinated=False,
            time_ms=max(newest_ms, 0),
        )
        return RecoveredPartition(name, start, end, manifest.size, newest_ms)

    def _metadata(self, directory: NewDataDirectory, manifests: list[Manifest]) -> list[tuple[str, bytes]]:
        node = directory.node
        next_id = max(directory.producer_ids, default=-1) + SKIPPED
        entries = [
            (records.CLUSTER, directory.cluster_id.encode()),
            (records.PRODUCER_IDS, b"%d" % next_id),
        ]
        for topic in sorted({each.topic for each in manifests}):
            parts = [each for each in manifests if each.topic == topic]
            topic_id = UUID(parts[0].topic_id)
            count = max(each.partition for each in parts) + 1
            entries.append((records.topic_key(topic), TopicRecord(topic_id, ((node,),) * count).encode()))
            entries.append((records.topic_config_key(topic), records.encode_configs(KEPT_FOR_EVER)))
            for index in range(count):
                epoch = directory.epochs.get(TopicPartition(topic, index), -1) + 1
                record = PartitionRecord(node, epoch, (node,), 0)
                entries.append((records.partition_key(topic_id, index), record.encode()))
        return entries


def _append(path: str, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)
