"""One simulated run of a cluster: rounds of clients at work and trouble, then quiet, recovery and a check of everything."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from tests.simulation import invariants
from tests.simulation.cluster.invariants import (
    CommittedIsHeldByAll,
    LogsAgree,
    OneLeaderPerEpoch,
    QuietIsQuiet,
)
from tests.simulation.cluster.trouble import KINDS, Trouble
from tests.simulation.cluster.world import WEATHER, Cluster, Crashed, LeaderOf
from tests.simulation.history import Found
from tests.simulation.play import raise_first
from tests.simulation.producers import BATCH_SIZES, Producer
from tests.simulation.readers import Unreadable, follow, read_all
from tidelog import errors
from tidelog.testing import run
from tidelog.types import TopicPartition

WORK_S_MAX = 12
RECOVERY_S_MAX = 120
REST_S = 3
SCRUB_S = 6  # until a scrubber has read all, twice

SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "log.cleaner.backoff.ms": "500",
    "leader.imbalance.check.interval.seconds": "2",
}
ROLLING = {
    "min.insync.replicas": "2",
    "segment.index.bytes": "120",
    "index.interval.bytes": "300",
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": str(1 << 62),
}
TOPICS = {
    "plain": ROLLING,
    "synced": {**ROLLING, "flush.messages": "1"},
    "one": {**ROLLING, "min.insync.replicas": "1"},
}


@dataclass(frozen=True, slots=True)
class Profile:
    """What a run is made of."""

    rounds: int = 2
    troubles: tuple[Trouble, ...] = KINDS
    topics: tuple[str, ...] = tuple(TOPICS)
    size: int = 3
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    settings: tuple[tuple[str, str], ...] = ()


class Play:
    def __init__(self, random: Random, profile: Profile) -> None:
        self.random = random
        self.profile = profile
        self.cluster = Cluster(random, profile.size, {**SETTINGS, **dict(profile.settings)})
        self.producers: list[Producer] = []
        self._always = (OneLeaderPerEpoch(), CommittedIsHeldByAll())

    async def run(self) -> None:
        cluster, random = self.cluster, self.random
        await cluster.start_all()
        topic = random.choice(self.profile.topics)
        await cluster.create_topic(topic, random.choice((1, 2)), TOPICS[topic])
        for history in cluster.partitions.values():
            for _ in range(random.choice((1, 2))):
                producer = Producer(
                    LeaderOf(cluster, history.name),
                    Random(random.getrandbits(64)),
                    len(self.producers),
                    history,
                    idempotent=random.random() < 0.7,
                    acks=-1,
                    batch_sizes=self.profile.batch_sizes,
                )
                self.producers.append(producer)
        for _ in range(self.profile.rounds):
            await self._traffic()
            await self._recover()
            await self._rest()
            await self._check()

    async def _traffic(self) -> None:
        cluster, random = self.cluster, self.random
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        for name, history in cluster.partitions.items():
            reader = follow(LeaderOf(cluster, name), Random(random.getrandbits(64)), history)
            tasks.append(asyncio.ensure_future(reader))
        tasks.append(asyncio.ensure_future(self._troubles(Random(random.getrandbits(64)))))
        deadline = cluster.clock.monotonic_ms() + random.randint(1_000, WORK_S_MAX * 1_000)
        try:
            while cluster.clock.monotonic_ms() < deadline:
                await asyncio.sleep(0.02)
                self._look()
                raise_first(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        raise_first(tasks)

    async def _troubles(self, random: Random) -> None:
        while True:
            await asyncio.sleep(random.random())
            await random.choice(self.profile.troubles)(self.cluster, random)

    def _look(self) -> None:
        problems = [problem for one in self._always for problem in one.look(self.cluster)]
        if problems:
            raise invariants.Violated(problems)

    async def _recover(self) -> None:
        """Nobody helps: trouble ends, machines are switched on, and all replicas are in sync again."""
        cluster = self.cluster
        cluster.network.heal()
        cluster.metadata.come_back()
        cluster.metadata.weather = WEATHER
        for node, machine in cluster.machines.items():
            cluster.metadata.reconnect(f"broker-{node}")
            machine.disk.heal()
            machine.disk.run_delay_s_max = 0.001
            machine.go_on()
            if node in cluster.brokers and cluster.disks_failed(node):
                cluster.kill(node)
            cluster.failing.discard(node)
            if node not in cluster.brokers:
                machine.kill()
                try:
                    await cluster.restart(node)
                except (Crashed, errors.TidelogError) as problem:
                    raise invariants.Violated([("Restarts", repr(problem))]) from problem
        if any(history.may_rot for history in cluster.partitions.values()):
            await asyncio.sleep(SCRUB_S)
        deadline = cluster.clock.monotonic_ms() + RECOVERY_S_MAX * 1_000
        while waiting := self._not_in_sync():
            if cluster.clock.monotonic_ms() > deadline:
                raise invariants.Violated([("Progress", problem) for problem in waiting])
            await asyncio.sleep(0.2)
            self._look()
            for node in list(cluster.brokers):
                if cluster.disks_failed(node):  # by what was on its way to a slow disk when trouble ended
                    cluster.kill(node)
                    await cluster.restart(node)

    async def _rest(self) -> None:
        quiet = QuietIsQuiet(self.cluster)
        await asyncio.sleep(REST_S)
        if problems := quiet.look(self.cluster):
            raise invariants.Violated(problems)

    def _not_in_sync(self) -> list[str]:
        waiting = []
        for name in self.cluster.partitions:
            stored, held = self.cluster.stored(name), dict(self.cluster.replicas(name))
            if stored is None or stored.leader is None or len(stored.in_sync) < len(self.cluster.machines):
                waiting.append(f"{name}: {stored}")
                continue
            if any(one.log.damaged for one in held.values()):
                waiting.append(
                    f"{name} is damaged: { {node: one.log.damaged for node, one in held.items()} }"
                )
                continue
            ends = {one.log.end for one in held.values()} | {one.state.committed for one in held.values()}
            if len(held) < len(self.cluster.machines) or len(ends) > 1 or stored.doubts:
                told = {node: (one.log.end, one.state.committed, one.leader) for node, one in held.items()}
                waiting.append(f"{name}: {stored}, (end, committed, leader) are {told}")
        return waiting

    async def _check(self) -> None:
        problems: list[tuple[str, str]] = LogsAgree().look(self.cluster)
        for name, history in self.cluster.partitions.items():
            found = await self._read(name)
            problems += invariants.check(history, found)
            for offset, value in found.records:
                history.was_shown(offset, value, history.power_losses)
            history.end_was_told(found.end, history.power_losses)
        if problems:
            raise invariants.Violated(problems)

    async def _read(self, name: TopicPartition) -> Found:
        try:
            return await read_all(LeaderOf(self.cluster, name), self.random, name)
        except errors.TidelogError as problem:
            raise Unreadable(f"{name}: {problem}") from problem


async def played(random: Random, profile: Profile) -> Play:
    play = Play(random, profile)
    await play.run()
    return play


def play(seed: int, profile: Profile = Profile()) -> Play:  # noqa: B008 - immutable
    return run(lambda random: played(random, profile), seed)
