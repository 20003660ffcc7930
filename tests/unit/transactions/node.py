"""A node with topics, a ledger in an internal topic, and a coordinator of transactions over both; no server."""

from __future__ import annotations

import asyncio
from random import Random

from tests.unit.coordination.node import NODE, TOPIC, Ledger, Node
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.metadata.producer_ids import ProducerIdAllocator
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.record import BatchBuilder
from tidelog.replication.partition import Enlisted, HostedPartition
from tidelog.replication.peers import Peers
from tidelog.testing import VirtualNetwork
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.transactions.markers import TransactionMarkers
from tidelog.transactions.transaction import ProducerIdAndEpoch
from tidelog.types import TopicPartition

DATA = TopicPartition("data", 0)
OTHER = TopicPartition("data", 1)
LEDGER = TopicPartition(TOPIC, 0)


class TransactionNode(Node):
    transactions: TransactionCoordinator

    async def start(self) -> CoordinatorRuntime[Ledger]:
        coordinator = await super().start()
        peers = Peers(
            NODE, VirtualNetwork(Random(1)).host("here"), lambda: self.controller.image, "PLAINTEXT"
        )
        markers = TransactionMarkers(NODE, self.partitions, {TOPIC: coordinator}, self.clock, peers)
        self.transactions = TransactionCoordinator(
            NODE,
            self.controller,
            self.partitions,
            self.clock,
            ProducerIdAllocator(self._store),
            markers,
            peers,
        )
        self.transactions.start()
        await self.transactions.topic.ensure()
        await coordinator.topic.ensure()
        if "data" not in self.controller.image.topics:
            await self.controller.create_topics([TopicSpec("data", 2, 1)])
        while self.transactions.coordinator.loading or coordinator.loading:
            await asyncio.sleep(0.01)
        return coordinator

    async def _follow(self) -> None:
        async for update in self.controller.follow():
            await self.partitions.apply(update)
            self.coordinator.apply(update)
            if hasattr(self, "transactions"):
                self.transactions.apply(update)

    async def crash(self) -> None:
        await self.transactions.stop()
        del self.transactions
        await super().crash()

    def partition(self, name: TopicPartition = DATA) -> HostedPartition:
        return self.partitions.led_here(*name)

    async def write(
        self, instance: ProducerIdAndEpoch, name: TopicPartition = DATA, sequence: int = 0
    ) -> int:
        """One record in the producer's transaction, as a request of version 12 does it; its offset."""
        wait = self.transactions.enlist("t", instance, name, True)
        if wait is not None:
            await wait.wait()
        builder = BatchBuilder()
        builder.add(b"k", b"v", self.clock.now_ms())
        batch = builder.build(
            producer_id=instance.producer_id,
            producer_epoch=instance.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        appended = self.partition(name).append(
            memoryview(bytearray(batch)), self.clock.now_ms(), True, Enlisted(True)
        )
        return appended.base
