"""Logs in doubt that may have grown since they were reported, of partitions without a leader.

A replica in doubt fetches from the leader until it is in sync again.  If the leader goes before that, and all holders are in
doubt, the best log leads, as soon as each broker has reported again how far its log reaches.  Called by
`app.broker_replication`."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from tidelog import errors
from tidelog.metadata.elections.replica_doubts import NO_LOG, reported_again
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image, PartitionImage, changed_partitions
from tidelog.replication.metadata_rollback import ReportedMetadata
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.log import Log
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.replication")

RETRY_S = 0.5


class LeaderlessLogs:
    def __init__(self, node: NodeId, dirs: LogDirs, metadata: ReportedMetadata) -> None:
        self._node = node
        self._dirs = dirs
        self._metadata = metadata
        self._names: dict[TopicPartition, None] = {}
        self._news = asyncio.Event()

    def started(self, image: Image) -> None:
        self.learned(Update(Image(), image, tuple(image.topics), (), False, False, ()))

    def learned(self, update: Update) -> None:
        """Every update of the metadata, after the replicas have applied it."""
        for name in update.topics:
            topic = update.image.topics.get(name)
            if topic is not None:
                for _, partition in changed_partitions(update.before.topics.get(name), topic):
                    if self._may_report(partition):
                        self._names[TopicPartition(name, partition.index)] = None
                        self._news.set()

    def _may_report(self, partition: PartitionImage) -> bool:
        return partition.leader is None and not partition.rolled_back and self._node in partition.doubted

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            for name in list(self._names):
                try:
                    await self._report(name)
                    self._names.pop(name, None)
                except errors.TidelogError as problem:
                    log.warning("%s: how far its log reaches cannot be reported now: %s", name, problem)
                    self._news.set()
            if self._news.is_set():
                await asyncio.sleep(RETRY_S)

    async def _report(self, name: TopicPartition) -> None:
        # Not through the partition: a log that has lost the id of its topic has none.
        replica = self._dirs.open(name) if name in self._dirs else None
        if replica is None:
            next_state = partial(reported_again, node=self._node, reach=lambda: NO_LOG)
        else:
            reach, damaged = partial(_reach, replica), bool(replica.damaged)
            next_state = partial(reported_again, node=self._node, reach=reach, damaged=damaged)
        if await self._metadata.report(name, next_state):
            log.info(
                "%s has no leader: its log reaches offset %d by now", name, replica.end if replica else 0
            )


def _reach(replica: Log) -> tuple[int, int]:
    return replica.epochs.latest, replica.end
