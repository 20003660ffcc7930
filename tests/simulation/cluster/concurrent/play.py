"""One simulated run of a cluster in which several troubles strike at the same time, while all kinds of clients are at work.

Trouble and work, then recovery without help, then work without trouble, then a check of everything."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from tests.simulation import invariants
from tests.simulation.cluster.concurrent import invariants as rules
from tests.simulation.cluster.concurrent.clients import Clients
from tests.simulation.cluster.concurrent.machines import back
from tests.simulation.cluster.concurrent.operators import (
    UNCLEAN,
    elect,
    set_in_sync_minimum,
)
from tests.simulation.cluster.concurrent.troubles import (
    ALL,
    AT_ONCE_MAX,
    AT_ONCE_MIN,
    ROT,
    TWO_DISKS,
    some_kinds,
    strike,
)
from tests.simulation.cluster.invariants import CommittedIsHeldByAll, LogsAgree, OneLeaderPerEpoch
from tests.simulation.cluster.survivors import DIRECTORIES, Problems
from tests.simulation.cluster.trouble import Trouble
from tests.simulation.cluster.world import WEATHER, Cluster, host
from tests.simulation.play import raise_first
from tidelog.metadata.store import Changes
from tidelog.testing import run
from tidelog.types import TopicPartition

WORK_S_MAX = 12
RECOVERY_S_MAX = 120
SCRUB_S = 6  # until a scrubber has read all, twice
SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "log.cleaner.backoff.ms": "500",
    "leader.imbalance.check.interval.seconds": "2",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "group.share.max.delivery.count.limit": "25",
}


@dataclass(frozen=True, slots=True)
class Profile:
    """What a run is made of."""

    rounds: int = 1
    troubles: tuple[tuple[Trouble, ...], ...] = ALL
    clients: tuple[str, ...] = ("group", "transactions", "share", "offsets", "fleeting")
    """Beside producers and readers; which of them are at work in a run is chance."""
    client_chance: float = 0.35
    sync_chance: float = 0.35
    """How often brokers sync before they answer: then a power cut of all machines takes nothing."""
    judge_full_disks: bool = False
    judge_changes: bool = True
    """Whether what is stored, and who leads, is judged too, and not only what clients see."""


class Play:
    def __init__(self, random: Random, profile: Profile) -> None:
        self.random = random
        self.profile = profile
        self.synced = random.random() < profile.sync_chance
        self.kinds = some_kinds(random, profile.troubles)
        self.lanes = random.randint(AT_ONCE_MIN, AT_ONCE_MAX)
        settings = {**SETTINGS, **({"log.flush.interval.messages": "1"} if self.synced else {})}
        if not set(TWO_DISKS).isdisjoint(self.kinds):
            settings["log.dirs"] = ",".join(DIRECTORIES)
        if ROT in profile.troubles:
            settings["tidelog.scrub.period.ms"] = "1000"
        self.cluster = Cluster(random, random.choice((3, 3, 4)), settings)
        kinds = tuple(kind for kind in profile.clients if random.random() < profile.client_chance)
        self.clients = Clients(self.cluster, random, kinds, self.synced)
        self._always: list[rules.AtEveryMoment] = [OneLeaderPerEpoch()]
        if profile.judge_changes:
            self._always += [*(rule() for rule in rules.ALWAYS), CommittedIsHeldByAll()]
        if profile.judge_full_disks:
            self._always.append(rules.FullDisksStayOnline())
        self._changes = [rule() for rule in rules.CHANGES]
        self._problems = self.cluster.survivors.problems
        self.cluster.metadata.observers[:] = [self._stored]

    def __str__(self) -> str:
        kinds = ", ".join(sorted({kind.__name__ for kind in self.kinds}))
        synced = "synced" if self.synced else "not synced"
        return f"{len(self.cluster.machines)} brokers, {synced}, {self.lanes} at once of: {kinds}"

    async def run(self) -> None:
        await self.cluster.start_all()
        await self.clients.hire()
        for _ in range(self.profile.rounds):
            await self._traffic()
            await self._recover()
            await self._quiet()
            await self._check()

    def _stored(self, happened: Changes) -> None:
        chosen = set(self.cluster.survivors.operators_choice)
        for name, before, after in self.cluster.survivors.stored(happened, self.cluster.metadata.author):
            for rule in self._changes if name not in chosen else ():
                self._problems.extend(rule.stored(self.cluster, name, before, after))

    async def _traffic(self) -> None:
        cluster, random = self.cluster, self.random
        tasks = self.clients.start()
        tasks.append(
            asyncio.ensure_future(strike(cluster, Random(random.getrandbits(64)), self.kinds, self.lanes))
        )
        deadline = cluster.clock.monotonic_ms() + random.randint(3_000, WORK_S_MAX * 1_000)
        try:
            while cluster.clock.monotonic_ms() < deadline:
                await asyncio.sleep(0.02)
                self._look()
                raise_first(tasks)
        finally:
            await _end(tasks)
        raise_first(tasks)

    def _look(self) -> None:
        problems = [problem for rule in self._always for problem in rule.look(self.cluster)]
        if self.profile.judge_changes:
            problems += self._problems
        if problems:
            raise invariants.Violated(problems)

    async def _recover(self) -> None:
        """Trouble ends, machines are switched on, and all replicas are in sync again.  Nobody helps, but where every disk
        that had the data was replaced."""
        cluster = self.cluster
        cluster.network.heal()
        cluster.metadata.come_back()
        cluster.metadata.weather = WEATHER
        for node, machine in cluster.machines.items():
            cluster.metadata.reconnect(host(node))
            cluster.metadata.resume_watch(host(node))
            machine.disk.heal()
            machine.disk.run_delay_s_max = 0.001
            machine.go_on()
            if node in cluster.brokers and (cluster.disks_failed(node) or node in cluster.told_restored):
                cluster.kill(node)
            if node not in cluster.brokers:
                machine.kill()
        down = [node for node in cluster.machines if node not in cluster.brokers]
        await asyncio.gather(*(back(cluster, node) for node in down))
        if down := [node for node in cluster.machines if node not in cluster.brokers]:
            raise invariants.Violated([("Restarts", f"brokers {down} do not start")])
        cluster.failing.clear()
        await self._until_in_sync()

    async def _until_in_sync(self) -> None:
        cluster = self.cluster
        deadline = cluster.clock.monotonic_ms() + RECOVERY_S_MAX * 1_000
        while waiting := self._not_in_sync():
            if cluster.clock.monotonic_ms() > deadline:
                raise invariants.Violated(waiting)
            await asyncio.sleep(0.2)
            self._look()
            for node in [node for node in cluster.brokers if cluster.disks_failed(node)]:
                cluster.kill(node)  # its disk failed by what was on its way when trouble ended
                await back(cluster, node)
            for name, _ in list(cluster.survivors.partitions()):
                if self._is_lost(name):
                    cluster.survivors.operators_choice.add(name)
                    await elect(cluster, name, UNCLEAN)

    def _is_lost(self, name: TopicPartition) -> bool:
        """Nobody leads, and no holder has anything, as all have reported: an operator has to choose among the others."""
        stored, survivors = self.cluster.stored(name), self.cluster.survivors
        if stored is None or stored.leader is not None:
            return False
        nodes = rules.holders(stored)
        reported = {tail.node for tail in stored.doubts if not tail.has_log}
        return nodes <= reported and all(survivors.is_empty(name, node) for node in nodes)

    def _not_in_sync(self) -> Problems:
        waiting: Problems = []
        for name, stored in self.cluster.survivors.partitions():
            held = {node: part for node, part in self.cluster.replicas(name) if node in stored.replicas}
            ends = {part.log.end for part in held.values()} | {part.state.committed for part in held.values()}
            full = set(stored.in_sync) == set(stored.replicas) == held.keys()
            if (
                stored.leader != stored.replicas[0]
                or not full
                or stored.adding
                or rules.doubted_nodes(stored)
            ):
                waiting.append(("Progress", f"{name}: {stored}"))
            elif len(ends) > 1:
                told = {node: (part.log.end, part.state.committed) for node, part in held.items()}
                waiting.append(("Progress", f"{name}: {stored}, (end, committed) are {told}"))
            waiting += [
                ("DamagedNotInSync", f"{name}: broker {node} is in sync with {part.log.damaged}")
                for node, part in held.items()
                if part.log.damaged
            ]
        return waiting

    async def _quiet(self) -> None:
        """Without trouble, every client gets on."""
        cluster = self.cluster
        for topic in sorted({name.topic for name in cluster.partitions}):
            await set_in_sync_minimum(cluster, topic, 2)
        tasks = self.clients.start()
        self.clients.note_progress()
        deadline = cluster.clock.monotonic_ms() + RECOVERY_S_MAX * 1_000
        try:
            while stuck := self.clients.stuck():
                if cluster.clock.monotonic_ms() > deadline:
                    raise invariants.Violated([("Progress", f"{client} does not get on") for client in stuck])
                await asyncio.sleep(0.1)
                self._look()
                raise_first(tasks)
        finally:
            await _end(tasks)
        raise_first(tasks)
        if any(history.may_rot for history in cluster.partitions.values()):
            await asyncio.sleep(SCRUB_S)
        await self._until_in_sync()

    async def _check(self) -> None:
        problems = LogsAgree().look(self.cluster)
        problems += await self.clients.check()
        if problems:
            raise invariants.Violated(problems)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def played(random: Random, profile: Profile) -> Play:
    play = Play(random, profile)
    try:
        await play.run()
    except BaseException as problem:
        problem.add_note(str(play))
        raise
    return play


def play(seed: int, profile: Profile = Profile()) -> Play:  # noqa: B008 - immutable
    return run(lambda random: played(random, profile), seed)
