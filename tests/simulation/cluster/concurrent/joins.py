"""Trouble around a follower that is about to join the in-sync set, while nobody knows what became of the request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.simulation.cluster.concurrent.machines import back, running
from tests.simulation.cluster.world import WEATHER, Cluster, host
from tidelog.types import TopicPartition

LEAVES_S_MAX = 4.0
JOINS_S_MAX = 1.0
LOOK_S = 0.005
LATE = replace(WEATHER, late=1.0, late_ms_max=5_000)


async def follower_loses_power_while_it_joins(cluster: Cluster, random: Random) -> None:
    """The leader's request to let it join takes seconds on its way to the store.  Meanwhile the follower loses its power,
    and is back before the request arrives, with fewer records and no line to the leader."""
    chosen = _follower(cluster, random)
    if chosen is None:
        return
    name, leader, node = chosen
    await _leaves_and_is_back(cluster, name, leader, node)
    cluster.metadata.weather = LATE
    cluster.network.mend(host(leader), host(node))
    await _until(lambda: _lets_join(cluster, name, leader, node), JOINS_S_MAX)
    await asyncio.sleep(LOOK_S)  # until the request is on its way
    cluster.metadata.weather = WEATHER
    cluster.network.cut(host(leader), host(node))
    cluster.kill(node, power=True)
    await back(cluster, node)
    await asyncio.sleep(random.choice((0.5, 3.5)))
    cluster.network.mend(host(leader), host(node))


async def leader_is_late_to_learn_of_a_join(cluster: Cluster, random: Random) -> None:
    """The store has taken the follower in, and answered; the leader's watch tells so seconds later, and meanwhile the
    follower fetches nothing."""
    chosen = _follower(cluster, random)
    if chosen is None:
        return
    name, leader, node = chosen
    await _leaves_and_is_back(cluster, name, leader, node)
    cluster.metadata.stall_watch(host(leader))
    cluster.network.mend(host(leader), host(node))
    await _until(lambda: node in _in_sync(cluster, name), JOINS_S_MAX)
    cluster.network.cut(host(leader), host(node))
    await asyncio.sleep(random.choice((0.2, 1.5)))
    cluster.metadata.resume_watch(host(leader))
    cluster.network.mend(host(leader), host(node))


async def _leaves_and_is_back(cluster: Cluster, name: TopicPartition, leader: int, node: int) -> None:
    """The follower is killed, leaves the in-sync set, and is started again, with no line to the leader."""
    cluster.kill(node)
    await _until(lambda: node not in _in_sync(cluster, name), LEAVES_S_MAX)
    cluster.network.cut(host(leader), host(node))
    await back(cluster, node)
    await _until(lambda: _knows(cluster, leader, node), JOINS_S_MAX)


def _follower(cluster: Cluster, random: Random) -> tuple[TopicPartition, int, int] | None:
    """A partition, its leader, and a broker in sync with it."""
    name = random.choice(list(cluster.partitions))
    stored, up = cluster.stored(name), running(cluster)
    if stored is None or stored.leader not in up:
        return None
    followers = [node for node in stored.in_sync if node != stored.leader and node in up]
    return (name, int(stored.leader), random.choice(followers)) if followers else None


def _in_sync(cluster: Cluster, name: TopicPartition) -> tuple[int, ...]:
    stored = cluster.stored(name)
    return () if stored is None else stored.in_sync


def _knows(cluster: Cluster, leader: int, node: int) -> bool:
    """The leader knows that the other broker is back."""
    broker, place = cluster.brokers.get(leader), cluster.survivors.image.brokers.get(node)
    known = None if broker is None else broker._controller.image.brokers.get(node)
    return known is not None and place is not None and known.epoch == place.epoch


def _lets_join(cluster: Cluster, name: TopicPartition, leader: int, node: int) -> bool:
    held = dict(cluster.replicas(name)).get(leader)
    return held is not None and node in (held.state.proposed or ())


async def _until(reached: Callable[[], bool], seconds: float) -> None:
    """Or until the time is over: others strike meanwhile."""

    async def wait() -> None:
        while not reached():
            await asyncio.sleep(LOOK_S)

    try:
        await asyncio.wait_for(wait(), seconds)
    except TimeoutError:
        pass
