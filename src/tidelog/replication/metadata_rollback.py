"""Recovery from a metadata store that was restored from a backup: the metadata are older than the logs.

A replica whose log has records of a newer leader epoch than the metadata know neither leads nor follows: the stored
in-sync set is of the past.  Its broker reports how far the log reaches, so do the brokers of all other replicas, and the
controller elects the best log in an epoch that no log has seen.  Called by `app.broker_replication`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tidelog import errors
from tidelog.metadata.elections.replica_doubts import EMPTY_LOG, NO_LOG, rolled_back
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image, PartitionImage, changed_partitions
from tidelog.metadata.records import PartitionRecord
from tidelog.replication.partitions import Partitions
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.replication")

LOOK_S = 0.5


class ReportedMetadata(Protocol):
    async def report(
        self, name: TopicPartition, next_state: Callable[[PartitionImage], PartitionRecord | None]
    ) -> bool: ...


class MetadataRollback:
    def __init__(
        self, node: NodeId, partitions: Partitions, dirs: LogDirs, metadata: ReportedMetadata
    ) -> None:
        self._node = node
        self._partitions = partitions
        self._dirs = dirs
        self._metadata = metadata

    def started(self, image: Image) -> None:
        self.learned(Update(Image(), image, tuple(image.topics), (), False, False, ()))

    def learned(self, update: Update) -> None:
        """Every update of the metadata: another replica may have found that they are old."""
        for name in update.topics:
            topic = update.image.topics.get(name)
            if topic is None:
                continue
            for _, partition in changed_partitions(update.before.topics.get(name), topic):
                if partition.rolled_back and self._node in partition.replicas:
                    self._partitions.newer_than_metadata[TopicPartition(name, partition.index)] = None

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            for name in list(self._partitions.newer_than_metadata):
                try:
                    await self._report(name)
                except errors.TidelogError as problem:
                    log.warning("%s: its log cannot be reported now: %s", name, problem)
                else:
                    self._partitions.newer_than_metadata.pop(name, None)

    async def _report(self, name: TopicPartition) -> None:
        reach, last_epoch = partial(self._reach, name), partial(self._last_epoch, name)
        next_state = partial(rolled_back, node=self._node, reach=reach, last_epoch=last_epoch)
        if await self._metadata.report(name, next_state):
            log.error(
                "the metadata of %s are older than its records: they were restored from a backup.  The best log leads "
                "when the brokers of all its replicas have reported",
                name,
            )

    def _reach(self, name: TopicPartition) -> tuple[int, int]:
        if name not in self._dirs:
            return EMPTY_LOG if self._dirs.complete else NO_LOG
        replica = self._dirs.open(name)
        return replica.epochs.latest, replica.end

    def _last_epoch(self, name: TopicPartition) -> int:
        if name not in self._dirs:
            return NO_LOG[0]
        replica = self._dirs.open(name)
        return replica.epochs.of_last_record(replica.end)
