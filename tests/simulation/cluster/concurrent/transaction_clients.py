"""Transactional producers, and readers of what they committed."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation import transaction_invariants
from tests.simulation.cluster.survivors import Problems
from tests.simulation.cluster.test_transactions import ManyBrokers
from tests.simulation.cluster.world import Cluster
from tests.simulation.transactional import CommittedReader, Refused, TransactionalProducer
from tidelog import errors
from tidelog.types import TopicPartition

TOPIC = "data"
STATE = "__transaction_state"
PARTITIONS = 2
SETTINGS = {"min.insync.replicas": "2", "retention.ms": "-1", "message.timestamp.after.max.ms": str(1 << 62)}
PROGRESS_S_MAX = 120


class Transactions:
    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._brokers = ManyBrokers(cluster)
        names = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        self.producers = [
            TransactionalProducer(
                self._brokers, Random(random.getrandbits(64)), number, names, number % 2 == 0
            )
            for number in range(2)
        ]
        self.readers = [CommittedReader(name, leaders_change=True) for name in names]
        self._lost_some = False
        cluster.survivors.on_loss.append(self._lost)

    def _lost(self, name: TopicPartition) -> None:
        """Where records or the state of transactions were lost, some may stay open for ever: they are not judged."""
        if name.topic in (TOPIC, STATE):
            self._lost_some = True
            for reader in self.readers:
                reader.lost()

    async def hire(self) -> None:
        await self._cluster.create_topic(TOPIC, PARTITIONS, SETTINGS, watched=False)

    def start(self) -> list[asyncio.Task[None]]:
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        for reader in self.readers:
            following = reader.follow(self._brokers, Random(self._random.getrandbits(64)))
            tasks.append(asyncio.ensure_future(following))
        return tasks

    def progress(self) -> dict[str, int]:
        return {producer.name: producer.completed for producer in self.producers}

    async def check(self) -> Problems:
        if self._lost_some:
            return []
        for producer in self.producers:
            await self._begin(producer)
        await asyncio.sleep(5)  # markers that had to wait
        found, problems = {}, []
        for reader in self.readers:
            fresh = CommittedReader(reader.name)
            requester = await self._brokers.leader(reader.name, "last")
            offset, before = 0, -1
            while offset != before:
                before, offset = offset, await fresh.step(requester, self._random, offset)
            requester.close()
            gone = reader.found.items() - fresh.found.items()
            if gone:
                problems.append(("ShownStays", f"{reader.name}: {len(gone)} records that were read are gone"))
            found[reader.name] = list(fresh.found.values())
        return problems + transaction_invariants.check(self.producers, found)

    async def _begin(self, producer: TransactionalProducer) -> None:
        """Anew, which aborts what is open; its coordinator may be on the way back to where it belongs."""
        deadline = self._cluster.clock.monotonic_ms() + PROGRESS_S_MAX * 1_000
        while True:
            try:
                await producer.begin()
                return
            except (OSError, errors.TidelogError, Refused):
                assert self._cluster.clock.monotonic_ms() < deadline, "no coordinator is found"
                await asyncio.sleep(0.2)
