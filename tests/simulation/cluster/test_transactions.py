"""Transactions over three brokers that are killed, stopped and cut apart: coordinators and leaders move, promises stay."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation import transaction_invariants
from tests.simulation.cluster.trouble import broker_is_killed, broker_stops_in_order, brokers_are_cut_apart
from tests.simulation.cluster.world import Cluster
from tests.simulation.invariants import Violated
from tests.simulation.transactional import (
    PROGRESS_S_MAX,
    CommittedReader,
    Refused,
    TransactionalProducer,
    find_coordinator,
)
from tidelog import errors
from tidelog.net.requester import Requester
from tidelog.testing import run, seeds
from tidelog.types import TopicPartition

SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "leader.imbalance.check.interval.seconds": "2",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
REPLICATED = {"min.insync.replicas": "2", "retention.ms": "-1"}
TROUBLES = (broker_is_killed, broker_stops_in_order, brokers_are_cut_apart)


class ManyBrokers:
    def __init__(self, cluster: Cluster) -> None:
        self.clock = cluster.clock
        self._cluster = cluster

    async def coordinator(self, transactional_id: str) -> Requester:
        anyone = await self._cluster.connect_any(transactional_id)
        try:
            node = await find_coordinator(anyone, transactional_id)
        finally:
            anyone.close()
        return await self._cluster.connect(node, transactional_id)

    async def leader(self, name: TopicPartition, client_id: str) -> Requester:
        return await self._cluster.connect_leader(name, client_id)


class Play:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.cluster = Cluster(random, 3, SETTINGS)
        self.brokers = ManyBrokers(self.cluster)
        names = [TopicPartition("data", index) for index in range(3)]
        self.producers = [
            TransactionalProducer(
                self.brokers, Random(random.getrandbits(64)), number, names, number % 2 == 0
            )
            for number in range(2)
        ]
        self.readers = [CommittedReader(name, leaders_change=True) for name in names]

    async def run(self) -> None:
        await self.cluster.start_all()
        await self.cluster.create_topic("data", len(self.readers), REPLICATED)
        await self._traffic(trouble=True)
        await self._recover()
        await self._traffic(trouble=False)
        await self._check()

    async def _traffic(self, trouble: bool) -> None:
        random, clock = self.random, self.cluster.clock
        before = [producer.completed for producer in self.producers]
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        tasks += [
            asyncio.ensure_future(reader.follow(self.brokers, Random(random.getrandbits(64))))
            for reader in self.readers
        ]
        deadline = clock.monotonic_ms() + (random.randint(1, 10) if trouble else PROGRESS_S_MAX) * 1_000
        while clock.monotonic_ms() < deadline:
            await asyncio.sleep(0.2)
            if trouble and random.random() < 0.1:
                await random.choice(TROUBLES)(self.cluster, random)
            _raise_first(tasks)
            if not trouble and all(
                now.completed > then for now, then in zip(self.producers, before, strict=True)
            ):
                break
        else:
            assert trouble, "somebody does not get on"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        _raise_first(tasks)

    async def _recover(self) -> None:
        self.cluster.network.heal()
        for node in self.cluster.machines:
            if node not in self.cluster.brokers:
                self.cluster.machines[node].kill()
                await self.cluster.restart(node)

    async def _begin(self, producer: TransactionalProducer) -> None:
        """Its coordinator may be on the way back to where it belongs."""
        deadline = self.cluster.clock.monotonic_ms() + PROGRESS_S_MAX * 1_000
        while True:
            try:
                return await producer.begin()
            except (OSError, errors.TidelogError, Refused):
                assert self.cluster.clock.monotonic_ms() < deadline, "no coordinator is found"
                await asyncio.sleep(0.2)

    async def _check(self) -> None:
        for producer in self.producers:
            await self._begin(producer)
        await asyncio.sleep(10)  # markers that had to wait
        found = {}
        for reader in self.readers:
            requester = await self.brokers.leader(reader.name, "last")
            fresh = CommittedReader(reader.name)
            offset, before = 0, -1
            while offset != before:
                before, offset = offset, await fresh.step(requester, self.random, offset)
            requester.close()
            if not reader.found.items() <= fresh.found.items():
                raise Violated([("ShownStays", f"{reader.name}: what was read is gone")])
            found[reader.name] = list(fresh.found.values())
        problems = transaction_invariants.check(self.producers, found)
        if problems:
            raise Violated(problems)


def _raise_first(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled():
            problem = task.exception()
            if problem is not None and not isinstance(problem, OSError | errors.TidelogError | Refused):
                raise problem


async def played(random: Random) -> Play:
    play = Play(random)
    await play.run()
    return play


def play(seed: int) -> Play:
    return run(played, seed)


@pytest.mark.parametrize("seed", seeds(15))
def test_transactions_keep_their_promises_over_brokers_that_come_and_go(seed: int) -> None:
    play(seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(500, start=1000))
def test_transactions_keep_their_promises_over_brokers_for_longer(seed: int) -> None:
    play(seed)
