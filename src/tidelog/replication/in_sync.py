"""The in-sync sets (ISR) of the partitions that this broker leads: shrinks them by followers that lag, end or are in doubt,
expands them by followers that have caught up.

Changes go to the metadata by compare-and-swap, all changes of one moment together.  From the proposal of a join until its
outcome is known, the members of both the old and the new set count.  So a lost answer does no harm: every member of the
stored set has all acknowledged records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from uuid import UUID

from tidelog import errors
from tidelog.clock import Clock
from tidelog.metadata.image import image as metadata
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image, TopicImage, changed_partitions
from tidelog.metadata.in_sync_changes import InSyncChange, Joining, out_of_date
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.storage.log import is_offline
from tidelog.types import NodeId, TopicPartition

log = logging.getLogger("tidelog.in_sync")

RETRY_S = 0.5


class InSyncMetadata(Protocol):
    @property
    def image(self) -> Image: ...

    async def change_in_sync(self, changes: Sequence[InSyncChange]) -> None: ...


class InSync:
    def __init__(
        self,
        node: NodeId,
        partitions: Partitions,
        metadata: InSyncMetadata,
        clock: Clock,
        lag_ms_max: Callable[[], int],
        in_sync_min: Callable[[str], int],
    ) -> None:
        """`in_sync_min`: min.insync.replicas of a topic."""
        self._node = node
        self._partitions = partitions
        self._metadata = metadata
        self._clock = clock
        self._lag_ms_max = lag_ms_max
        self._in_sync_min = in_sync_min
        self._queued: dict[TopicPartition, InSyncChange] = {}
        self._changing: set[TopicPartition] = set()
        self._tasks: dict[asyncio.Task[None], None] = {}

    def caught_up(self, partition: HostedPartition, node: NodeId, broker_epoch: int) -> None:
        """A follower that is not in sync has what is committed: it may join."""
        name, state = partition.name, partition.state
        if name in self._changing or state.proposed is not None:
            return
        partition.propose(state.in_sync | {node})
        self._change(
            InSyncChange(
                name,
                UUID(bytes=partition.topic_id),
                state.epoch,
                self._least(name.topic, partition.replica_count),
                joining=Joining(node, broker_epoch),
            )
        )

    def learned(self, update: Update) -> None:
        """Every update of the metadata, after it was applied: members that must not stay are dropped at once."""
        image = update.image
        if update.brokers or update.broker_configs:
            for topic in image.topics.values():
                self._drop(image, topic, topic.partitions)
            return
        for topic in _topics(image, update.topics):
            changed = changed_partitions(update.before.topics.get(topic.name), topic)
            self._drop(image, topic, (partition for _, partition in changed))
        for topic in _topics(image, update.topic_configs):
            self._drop(image, topic, topic.partitions)

    def _drop(self, image: Image, topic: TopicImage, partitions: Iterable[metadata.PartitionImage]) -> None:
        live: frozenset[NodeId] | None = None
        for partition in partitions:
            if partition.leader != self._node or len(partition.replicas) == 1:
                continue
            name = TopicPartition(topic.name, partition.index)
            if name in self._changing:
                continue
            if live is None:
                live = frozenset(broker.node_id for broker in image.live_brokers)
                least = self._in_sync_min(topic.name)
            in_sync_min = min(least, len(partition.replicas))
            if out_of_date(partition, self._node, live, in_sync_min):
                self._change(InSyncChange(name, topic.id, partition.leader_epoch, in_sync_min))

    async def run(self) -> None:
        """For ever: looks for followers that fall behind."""
        while True:
            await asyncio.sleep(self._lag_ms_max() / 2000)
            if len(self._metadata.image.brokers) > 1:
                self._drop_lagging()

    def _drop_lagging(self) -> None:
        now, lag = self._clock.monotonic_ms(), self._lag_ms_max()
        for partition in self._partitions.open_ones():
            state, name = partition.state, partition.name
            if partition.leader != self._node or len(state.in_sync) < 2 or name in self._changing:
                continue
            if is_offline(partition.log):
                continue  # it is this broker that has fallen behind
            lagging = state.lagging(now, lag)
            if lagging:
                log.info("%s: brokers %s have fallen behind", name, sorted(lagging))
                least = self._least(name.topic, partition.replica_count)
                topic_id = UUID(bytes=partition.topic_id)
                self._change(InSyncChange(name, topic_id, state.epoch, least, lagging))

    def _least(self, topic: str, replicas: int) -> int:
        return min(self._in_sync_min(topic), replicas)

    def _change(self, change: InSyncChange) -> None:
        """Stored together with all others of this moment."""
        self._changing.add(change.name)
        if not self._queued:
            asyncio.get_running_loop().call_soon(self._flush)
        self._queued[change.name] = change

    def _flush(self) -> None:
        changes, self._queued = list(self._queued.values()), {}
        task = asyncio.get_running_loop().create_task(self._store(changes))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _store(self, changes: list[InSyncChange]) -> None:
        try:
            while changes := [change for change in changes if self._leads(change)]:
                try:
                    await self._metadata.change_in_sync(changes)
                    break
                except errors.TidelogError as problem:
                    # Nobody knows whether they were stored: both sets count until somebody does.
                    names = ", ".join(str(change.name) for change in changes[:3])
                    log.warning("in-sync sets cannot be changed now (%s): %s", names, problem)
                    await asyncio.sleep(RETRY_S)
        finally:
            self._changing.difference_update([change.name for change in changes])
        for change in changes:
            self._settled(change)

    def _leads(self, change: InSyncChange) -> bool:
        """A change that is given up here is settled by the epoch that made it pointless."""
        partition = self._metadata.image.partition(*change.name)
        leads = partition is not None and (partition.leader, partition.leader_epoch) == (
            self._node,
            change.leader_epoch,
        )
        if not leads:
            self._changing.discard(change.name)
            self._look_again(change.name)  # this broker may lead in a later epoch by now
        return leads

    def _settled(self, change: InSyncChange) -> None:
        partition = self._partitions.held.get(change.name)
        if partition is not None and partition.state.epoch == change.leader_epoch:
            partition.settled()
        self._look_again(change.name)

    def _look_again(self, name: TopicPartition) -> None:
        """What changed meanwhile was left for now."""
        image = self._metadata.image
        topic, partition_image = image.topics.get(name.topic), image.partition(*name)
        if topic is not None and partition_image is not None:
            self._drop(image, topic, [partition_image])

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _topics(image: Image, names: Iterable[str]) -> list[TopicImage]:
    return [image.topics[name] for name in names if name in image.topics]
