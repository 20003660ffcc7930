"""Trouble with what brokers stand on: lines between machines, disks, clocks, and the metadata store."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.cluster.concurrent.machines import BACK_S, back, running
from tests.simulation.cluster.survivors import holders
from tests.simulation.cluster.world import WEATHER, Cluster, host
from tidelog.testing.metadata import Weather

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


async def disk_is_replaced(cluster: Cluster, random: Random) -> None:
    """The machine comes back with an empty directory.  Mostly another holder has everything at that time."""
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
    if nodes:
        node = random.choice(nodes)
        cluster.kill(node, power=True)
        cluster.machines[node].replace_disk()
        await asyncio.sleep(random.choice(BACK_S))
        await back(cluster, node)
