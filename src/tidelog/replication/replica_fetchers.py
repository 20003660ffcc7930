"""The replica fetchers of this broker: which leaders it follows, and in which partitions.  Follows the metadata.

One `LeaderFetchers` for each broker that leads a partition of which this node has a replica; one that is not needed any more
is stopped.  `app.lifecycle` hands on every update, after the partitions have applied it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog import errors
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image, TopicImage, changed_partitions
from tidelog.replication.leader_fetchers import LeaderFetchers
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.types import Epoch, NodeId, TopicPartition

TURN = 64  # partitions opened before others on the loop get their turn
RETRY_S = 1.0


class Leadership(NamedTuple):
    leader: NodeId
    epoch: Epoch


class ReplicaFetchers:
    def __init__(
        self, node: NodeId, partitions: Partitions, make: Callable[[NodeId], LeaderFetchers]
    ) -> None:
        self._node = node
        self._partitions = partitions
        self._make = make
        self._by_leader: dict[NodeId, tuple[LeaderFetchers, asyncio.Task[None]]] = {}
        self._leader_of: dict[TopicPartition, tuple[NodeId, HostedPartition]] = {}
        self._not_opened: dict[TopicPartition, Leadership] = {}
        """Partitions whose log cannot be opened or made now: the disk may be full."""
        self._retrying: asyncio.Task[None] | None = None

    async def start(self, image: Image) -> None:
        await self._follow((None, topic) for topic in image.topics.values())

    async def apply(self, update: Update) -> None:
        image = update.image
        for name in update.topics:
            before, after = update.before.topics.get(name), image.topics.get(name)
            if before is not None and (after is None or after.id != before.id):
                for partition in before.partitions:
                    self._drop(TopicPartition(name, partition.index))
        changed = [name for name in update.topics if name in image.topics]
        await self._follow((update.before.topics.get(name), image.topics[name]) for name in changed)
        self._stop_idle()

    async def _follow(self, topics: Iterable[tuple[TopicImage | None, TopicImage]]) -> None:
        opened = 0
        for before, topic in topics:
            for _, partition in changed_partitions(before, topic):
                name = TopicPartition(topic.name, partition.index)
                if (
                    partition.leader is None
                    or partition.leader == self._node
                    or self._node not in partition.replicas
                ):
                    self._drop(name)
                    continue
                self._open(name, Leadership(partition.leader, Epoch(partition.leader_epoch)))
                opened += 1
                if opened % TURN == 0:
                    await asyncio.sleep(0)
        if self._not_opened and self._retrying is None:
            self._retrying = asyncio.get_running_loop().create_task(self._retry())

    def _open(self, name: TopicPartition, led: Leadership) -> None:
        try:
            partition = self._partitions.held_here(*name)
        except errors.KafkaStorageError:
            self._drop(name)  # told by who noticed
            self._not_opened[name] = led
        except errors.TidelogError:
            self._drop(name)
        else:
            self._not_opened.pop(name, None)
            self._set(name, led.leader, partition, led.epoch)

    async def _retry(self) -> None:
        """Until all are followed: a full disk gets space again, and the metadata need not change when it does."""
        while self._not_opened:
            await asyncio.sleep(RETRY_S)
            for at, (name, led) in enumerate(list(self._not_opened.items()), 1):
                if self._not_opened.get(name) == led:
                    self._open(name, led)
                if at % TURN == 0:
                    await asyncio.sleep(0)
        self._retrying = None

    def _set(self, name: TopicPartition, leader: NodeId, partition: HostedPartition, epoch: Epoch) -> None:
        held = self._leader_of.get(name)
        if held is not None and held != (leader, partition):
            self._drop(name)
        follower_and_task = self._by_leader.get(leader)
        if follower_and_task is None:
            follower = self._make(leader)
            task = asyncio.get_running_loop().create_task(follower.run())
            follower_and_task = self._by_leader[leader] = follower, task
        follower_and_task[0].follow(partition, epoch)
        self._leader_of[name] = leader, partition

    def _drop(self, name: TopicPartition) -> None:
        self._not_opened.pop(name, None)
        held = self._leader_of.pop(name, None)
        if held is None:
            return
        leader, partition = held
        if leader in self._by_leader:  # not when all of its partitions went offline here
            self._by_leader[leader][0].drop(partition)

    def _stop_idle(self) -> None:
        for leader, (follower, task) in list(self._by_leader.items()):
            if not len(follower):
                task.cancel()
                del self._by_leader[leader]

    async def stop(self) -> None:
        tasks = [task for _, task in self._by_leader.values()]
        if self._retrying is not None:
            tasks.append(self._retrying)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._by_leader.clear()
        self._leader_of.clear()
        self._not_opened.clear()
        self._retrying = None
