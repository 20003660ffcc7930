"""Trouble with what brokers stand on: lines between machines, disks, clocks, and the metadata store."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

from tests.simulation.cluster.concurrent.machines import BACK_S, back, running, together
from tests.simulation.cluster.survivors import DIRECTORIES, holders
from tests.simulation.cluster.world import WEATHER, Cluster, host
from tidelog.testing.metadata import Backup, Weather
from tidelog.types import TopicPartition

HOUR_MS = 3_600_000
OPERATOR_CHANCE = 0.15


async def controller_is_cut_off(cluster: Cluster, random: Random) -> None:
    """From all other brokers, perhaps one way only, and not from the store."""
    node = cluster.survivors.image.controller
    if node is None:
        return
    one_way = random.random() < 0.5
    others = [other for other in cluster.machines if other != node]
    for other in others:
        cluster.network.cut(host(node), host(other), one_way)
    await asyncio.sleep(random.random() * 6)
    for other in others:
        cluster.network.mend(host(node), host(other))


async def leader_is_alone_with_its_clients(cluster: Cluster, random: Random) -> None:
    """The other brokers and the store are on the other side of the cut, and mostly it is late to learn what it wrote: its
    disk is slow, as one is that many machines share."""
    leaders = [stored.leader for name in cluster.partitions if (stored := cluster.stored(name)) is not None]
    node = random.choice(leaders or [None])
    if node is None:
        return
    disk, others = cluster.machines[node].disk, [other for other in cluster.machines if other != node]
    for other in others:
        cluster.network.cut(host(node), host(other))
    cluster.metadata.cut_off(host(node))
    disk.run_delay_s_max = random.choice((0.001, 1.0, 3.0))
    await asyncio.sleep(random.choice((2.5, 4.0, 8.0)) * random.uniform(0.8, 1.2))
    disk.run_delay_s_max = 0.001
    for other in others:
        cluster.network.mend(host(node), host(other))
    cluster.metadata.reconnect(host(node))


async def lines_hang(cluster: Cluster, random: Random) -> None:
    """One way, and for less than anybody's patience: what waits arrives together, in any order."""
    for _ in range(random.choice((1, 3, 6))):
        one, other = random.sample(list(cluster.machines), 2)
        cluster.network.cut(host(one), host(other), one_way=True)
        await asyncio.sleep(random.choice((0.05, 0.3, 0.9)) * random.random())
        cluster.network.mend(host(one), host(other))


async def watch_is_late(cluster: Cluster, random: Random) -> None:
    """One broker learns of changes only seconds later; it may go on asking for some of its own."""
    name = host(random.choice(list(cluster.machines)))
    cluster.metadata.stall_watch(name)
    await asyncio.sleep(random.choice((0.5, 2.0, 5.0)))
    cluster.metadata.resume_watch(name)


async def requests_are_done_twice_or_late(cluster: Cluster, random: Random) -> None:
    cluster.metadata.weather = Weather(
        delay_ms_max=random.choice((5, 200)),
        lost_answers=random.choice((0.0, 0.3)),
        late=random.choice((0.1, 0.3)),
        twice=random.choice((0.0, 0.2, 0.6)),
        late_ms_max=random.choice((300, 5_000)),
        patience_ms=random.choice((300, 2_000)),
    )
    await asyncio.sleep(random.random() * 5)
    cluster.metadata.weather = WEATHER


async def clock_jumps(cluster: Cluster, random: Random) -> None:
    machine = random.choice(list(cluster.machines.values()))
    machine.clock.jump_ms(random.choice((-HOUR_MS, -3_000, 3_000, HOUR_MS)))


async def monotonic_clock_jumps(cluster: Cluster, random: Random) -> None:
    """Forward, on one machine alone: its broker may take its lease for ended, and its peers for silent."""
    machine = random.choice(list(cluster.machines.values()))
    machine.clock.jump_monotonic_ms(random.choice((300, 1_900, 3_000, 60_000, HOUR_MS)))
    await asyncio.sleep(random.random())


async def disk_is_replaced(cluster: Cluster, random: Random) -> None:
    """The machine comes back with an empty directory.  Mostly another holder has everything at that time."""
    node = _replaceable(cluster, random)
    if node is not None:
        cluster.kill(node, power=True)
        cluster.machines[node].replace_disk()
        await asyncio.sleep(random.choice(BACK_S))
        await back(cluster, node)


async def one_of_two_disks_is_replaced(cluster: Cluster, random: Random) -> None:
    """The other directory of the machine is as it was."""
    node = _replaceable(cluster, random)
    if node is not None:
        cluster.kill(node, power=True)
        cluster.machines[node].replace_folder(random.choice(DIRECTORIES))
        cluster.directories_lost.add(node)
        await asyncio.sleep(random.choice(BACK_S))
        await back(cluster, node)


def _replaceable(cluster: Cluster, random: Random) -> int | None:
    nodes = [
        node
        for node in running(cluster)
        if all(
            node not in holders(partition) or cluster.survivors.sure_holders(name) - {node}
            for name, partition in cluster.survivors.partitions()
        )
    ]
    if random.random() < OPERATOR_CHANCE:
        nodes = running(cluster)
    return random.choice(nodes) if nodes else None


async def store_is_restored(cluster: Cluster, random: Random) -> None:
    """From a backup of a moment ago, beneath brokers that run or before any of them does; then all are started anew."""
    backup, before = Backup(cluster.metadata), _replicas(cluster)
    await asyncio.sleep(random.choice((0.3, 2.0, 6.0)) * random.uniform(0.5, 1.0))
    if _replicas(cluster) != before:
        return  # of topics and moves since a backup nobody promises anything
    if random.random() < 0.5:
        for node in running(cluster):
            cluster.kill(node)
    cluster.restore(backup)
    await asyncio.sleep(random.choice((0.0, 0.3, 2.5)))
    nodes = random.sample(list(cluster.machines), len(cluster.machines))
    apart_s = random.choice((0.0, 0.0, 0.5, 2.0))
    await together(*(_started_anew(cluster, node, apart_s * place) for place, node in enumerate(nodes)))


async def _started_anew(cluster: Cluster, node: int, after_s: float) -> None:
    await asyncio.sleep(after_s)
    if node in cluster.told_restored and node in running(cluster):
        cluster.kill(node)
    if node not in cluster.brokers and cluster.machines[node].is_down:
        await back(cluster, node)


def _replicas(cluster: Cluster) -> dict[TopicPartition, tuple[UUID, frozenset[int]]]:
    topics = cluster.survivors.image.topics
    return {
        name: (topics[name.topic].id, frozenset(partition.replicas))
        for name, partition in cluster.survivors.partitions()
    }
