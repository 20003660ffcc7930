"""A group over three brokers that are killed, stopped, frozen and cut off: its coordinator moves, no offset goes back."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.cluster.test_planted_mistakes import a_write_is_acknowledged_before_it_is_replicated
from tests.simulation.cluster.trouble import (
    broker_is_killed,
    broker_stands_still,
    broker_stops_in_order,
)
from tests.simulation.cluster.world import Cluster, host
from tests.simulation.grouped import GROUP, PARTITIONS, TOPIC, GroupMember, Promises, committed
from tests.simulation.invariants import Violated
from tests.simulation.play import raise_first
from tests.simulation.test_groups import check
from tidelog import errors
from tidelog.net.requester import Requester
from tidelog.testing import run, seeds
from tidelog.types import TopicPartition
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

pytestmark = pytest.mark.simulated

SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "3000",
    "leader.imbalance.check.interval.seconds": "2",
}
WORK_S_MAX = 25
PROGRESS_S_MAX = 120


async def coordinator_is_alone(cluster: Cluster, random: Random) -> None:
    """Members reach it, and nobody else does: what it says then must not count for more than what others say."""
    stored = cluster.stored(TopicPartition("__consumer_offsets", 0))
    if stored is None or stored.leader is None:
        return
    alone = host(stored.leader)
    for node in cluster.machines:
        if host(node) != alone:
            cluster.network.cut(alone, host(node))
    cluster.metadata.cut_off(alone)
    await asyncio.sleep(random.random() * 8)
    cluster.network.heal()
    cluster.metadata.reconnect(alone)


TROUBLES = (
    broker_is_killed,
    broker_stops_in_order,
    broker_stands_still,
    coordinator_is_alone,
    coordinator_is_alone,
)


class Coordinator:
    """Where members find it now."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def connect(self, client_id: str) -> Requester:
        anyone = await self._cluster.connect_any(client_id)
        try:
            request = FindCoordinatorRequest(coordinator_keys=[GROUP])
            found = (await anyone.ask(request, FindCoordinatorResponse, version=4)).coordinators[0]
        finally:
            anyone.close()
        if found.error_code != errors.NONE:
            raise errors.by_code(found.error_code)()
        return await self._cluster.connect(found.node_id, client_id)


class Play:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.cluster = Cluster(random, 3, SETTINGS)
        self.promises = Promises()
        coordinator = Coordinator(self.cluster)
        self.members = [
            GroupMember(coordinator, Random(random.getrandbits(64)), f"member-{number}", self.promises)
            for number in range(random.choice((1, 2, 3)))
        ]
        self.coordinator = coordinator

    async def run(self) -> None:
        cluster, random, promises = self.cluster, self.random, self.promises
        await cluster.start_all()
        await cluster.create_topic(TOPIC, PARTITIONS, {})
        tasks = [asyncio.ensure_future(member.run()) for member in self.members]
        try:
            deadline = cluster.clock.monotonic_ms() + random.randint(5, WORK_S_MAX) * 1_000
            while cluster.clock.monotonic_ms() < deadline:
                await asyncio.sleep(random.random() * 3)
                await random.choice(TROUBLES)(cluster, random)
                raise_first(tasks)
            await self._recover()
            before, deadline = promises.commits, cluster.clock.monotonic_ms() + PROGRESS_S_MAX * 1_000
            while promises.commits < before + 2 * PARTITIONS:
                assert cluster.clock.monotonic_ms() < deadline, "the group does not work any more"
                await asyncio.sleep(0.2)
                raise_first(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        raise_first(tasks)
        await check(self.coordinator, promises)

    async def _recover(self) -> None:
        self.cluster.network.heal()
        for node, machine in self.cluster.machines.items():
            self.cluster.metadata.reconnect(host(node))
            machine.go_on()
            if node not in self.cluster.brokers:
                machine.kill()
                await self.cluster.restart(node)


async def played(random: Random) -> Play:
    play = Play(random)
    await play.run()
    return play


def play(seed: int) -> Play:
    return run(played, seed)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_group_keeps_its_offsets_over_brokers_that_come_and_go(seed: int) -> None:
    play(seed)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(500, start=1000))
def test_a_group_keeps_its_offsets_over_brokers_for_longer(seed: int) -> None:
    play(seed)


def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets are records like any others: what is said of them too early goes back with the coordinator."""
    a_write_is_acknowledged_before_it_is_replicated(monkeypatch)
    for seed in range(40):
        try:
            play(seed)
        except Violated as problem:
            if "GroupOffsetsNeverBack" in problem.names:
                return
    pytest.fail("not found in 40 seeds")


async def test_a_coordinator_that_cannot_read_its_log_leaves_the_group_to_another_broker(
    random: Random,
) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(TOPIC, PARTITIONS, {})
    group = await Coordinator(cluster).connect("member")
    part = OffsetCommitRequestPartition(0, 7)
    topic = OffsetCommitRequestTopic(TOPIC, partitions=[part])
    while True:
        answer = await group.ask(OffsetCommitRequest(GROUP, topics=[topic]), OffsetCommitResponse, version=9)
        if answer.topics[0].partitions[0].error_code == errors.NONE:
            break
        await asyncio.sleep(0.1)
    stored = cluster.stored(TopicPartition("__consumer_offsets", 0))
    assert stored is not None and stored.leader is not None
    cluster.kill(stored.leader)
    survivors = [node for node in stored.replicas if node != stored.leader]
    cluster.machines[survivors[0]].disk.fail("read", "*__consumer_offsets*.log")
    for _ in range(600):
        await asyncio.sleep(0.1)
        try:
            group = await Coordinator(cluster).connect("member")
            assert await committed(group, 0) == 7
            break
        except (OSError, errors.TidelogError):
            continue
    else:
        pytest.fail("nobody coordinates the group any more")
    assert cluster.disks_failed(survivors[0])
