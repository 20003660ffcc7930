"""Trouble with machines and processes: power cuts of one, some or all, kills, pauses, restarts one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from tests.simulation.cluster.world import Cluster, Crashed
from tidelog import errors

# A lease lasts two seconds: machines are back long before it ends, shortly before, shortly after, long after.
BACK_S = (0.01, 0.3, 1.0, 1.9, 2.2, 4.0, 7.0)
STARTS_MAX = 40


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """All at the same time; what one of them raises ends the others and is raised as it is."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def running(cluster: Cluster) -> list[int]:
    return [
        node for node, machine in cluster.machines.items() if not machine.is_down and node in cluster.brokers
    ]


async def back(cluster: Cluster, node: int) -> None:
    """As an init system does it: the broker is started until it stays up, or until somebody else strikes it."""
    for _ in range(STARTS_MAX):
        if not cluster.machines[node].is_down:
            return
        try:
            await cluster.restart(node)
            return
        except Crashed:
            return  # struck again while it started: whoever did it brings it back
        except (OSError, errors.TidelogError):
            cluster.machines[node].kill()
            await asyncio.sleep(0.5)


async def _down_and_back(cluster: Cluster, node: int, random: Random, power: bool) -> None:
    cluster.kill(node, power=power)
    await asyncio.sleep(random.choice(BACK_S) * random.uniform(0.8, 1.2))
    await back(cluster, node)


async def _some_go_down(cluster: Cluster, random: Random, nodes: list[int], power: bool) -> None:
    """All at once or one after the other; each is back after a time of its own."""
    apart_s = random.choice((0.0, 0.0, 0.2, 1.0))
    waits_s = [apart_s * random.random() for _ in nodes]
    starts_s = [sum(waits_s[:count]) for count in range(len(nodes))]
    await together(
        *(_goes_down_later(cluster, *one, random, power) for one in zip(nodes, starts_s, strict=True))
    )


async def _goes_down_later(cluster: Cluster, node: int, after_s: float, random: Random, power: bool) -> None:
    await asyncio.sleep(after_s)
    if not cluster.machines[node].is_down:
        await _down_and_back(cluster, node, random, power)


async def machine_loses_power(cluster: Cluster, random: Random) -> None:
    if nodes := running(cluster):
        await _down_and_back(cluster, random.choice(nodes), random, power=True)


async def some_machines_lose_power(cluster: Cluster, random: Random) -> None:
    nodes = running(cluster)
    await _some_go_down(cluster, random, random.sample(nodes, min(2, len(nodes))), power=True)


async def all_machines_lose_power(cluster: Cluster, random: Random) -> None:
    nodes = running(cluster)
    random.shuffle(nodes)
    await _some_go_down(cluster, random, nodes, power=True)


async def leader_loses_power(cluster: Cluster, random: Random) -> None:
    leaders = {stored.leader for name in cluster.partitions if (stored := cluster.stored(name)) is not None}
    if nodes := [node for node in running(cluster) if node in leaders]:
        await _down_and_back(cluster, random.choice(nodes), random, power=True)


async def some_brokers_are_killed(cluster: Cluster, random: Random) -> None:
    nodes = running(cluster)
    await _some_go_down(
        cluster, random, random.sample(nodes, min(random.choice((1, 2)), len(nodes))), power=False
    )


async def _stands_still(cluster: Cluster, node: int, random: Random) -> None:
    machine = cluster.machines[node]
    process = machine.process
    machine.pause()
    await asyncio.sleep(random.choice((0.3, 1.5, 2.5, 6)))
    if machine.process is process:
        machine.go_on()


async def broker_stands_still(cluster: Cluster, random: Random) -> None:
    if nodes := running(cluster):
        await _stands_still(cluster, random.choice(nodes), random)


async def controller_stands_still(cluster: Cluster, random: Random) -> None:
    node = cluster.survivors.image.controller
    if node is not None and node in running(cluster):
        await _stands_still(cluster, node, random)


async def broker_is_restarted(cluster: Cluster, random: Random) -> None:
    if nodes := running(cluster):
        await _restart(cluster, random.choice(nodes), random)


async def brokers_are_restarted_in_turn(cluster: Cluster, random: Random) -> None:
    for node in random.sample(list(cluster.machines), len(cluster.machines)):
        if node in running(cluster):
            await _restart(cluster, node, random)
            await asyncio.sleep(random.random())


async def _restart(cluster: Cluster, node: int, random: Random) -> None:
    try:
        await cluster.stop(node)
    except Crashed:
        return
    except (OSError, errors.TidelogError):
        cluster.machines[node].kill()  # it could not end in order, and is gone all the same
    await asyncio.sleep(random.random())
    await back(cluster, node)
