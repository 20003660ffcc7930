"""Brokers with a queue, on virtual time: one broker, or three of which one leads."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.cluster.world import Cluster
from tidelog.queues.message import Delivery, Published, QueueMessage
from tidelog.queues.service import Queues
from tidelog.queues.session import QueueSession
from tidelog.types import TopicPartition

QUEUE = "jobs"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "3000",
}


class QueueCluster:
    def __init__(self, random: Random, size: int = 1, **settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.cluster = Cluster(random, size, {**SETTINGS, **given})

    async def start(self, partitions: int = 1, **settings: str) -> QueueCluster:
        await self.cluster.start_all()
        await self.make(QUEUE, partitions, **settings)
        return self

    async def make(self, name: str, partitions: int = 1, **settings: str) -> None:
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        await self.cluster.create_topic(name, partitions, {"queue.groups": name, **configs}, watched=False)
        while any(name not in broker._controller.image.topics for broker in self.cluster.brokers.values()):
            await asyncio.sleep(0.01)

    async def configure(self, name: str = QUEUE, **settings: str) -> None:
        """Of the group."""
        changes = {key.replace("_", "."): value for key, value in settings.items()}
        broker = next(iter(self.cluster.brokers.values()))
        await broker._controller.alter_group_configs(name, lambda before: {**before, **changes}, False)
        while any(
            dict(changes).items() - dict(other._controller.image.group_overrides(name)).items()
            for other in self.cluster.brokers.values()
        ):
            await asyncio.sleep(0.01)

    def leader(self, name: str = QUEUE, index: int = 0) -> int:
        stored = self.cluster.stored(TopicPartition(name, index))
        assert stored is not None and stored.leader is not None
        return stored.leader

    def elsewhere(self, name: str = QUEUE, index: int = 0) -> int:
        """A broker that does not lead."""
        return next(node for node in self.cluster.brokers if node != self.leader(name, index))

    def queues(self, node: int | None = None) -> Queues:
        return self.cluster.brokers[node or self.leader()]._queues

    def session(self, node: int | None = None, name: str = QUEUE) -> QueueSession:
        return self.queues(node).session(name, name)

    async def publish(self, *values: bytes, node: int | None = None, name: str = QUEUE) -> list[Published]:
        queues = self.queues(node)
        return await asyncio.gather(*(queues.publish(name, QueueMessage(value)) for value in values))

    async def crash(self, node: int | None = None) -> None:
        """kill -9, and a start."""
        chosen = node or self.leader()
        self.cluster.kill(chosen)
        await self.cluster.restart(chosen)


def values(deliveries: list[Delivery]) -> list[bytes | None]:
    return [delivery.value for delivery in deliveries]


def positions(deliveries: list[Delivery]) -> list[tuple[int, int]]:
    return [delivery.position for delivery in deliveries]
