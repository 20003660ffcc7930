"""What can go wrong in a cluster while clients are at work, chosen by chance."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from random import Random

from tests.simulation.cluster.world import CLIENT, Cluster, Crashed, host
from tidelog import errors
from tidelog.storage.log import is_unfit
from tidelog.testing.metadata import Weather

Trouble = Callable[[Cluster, Random], Awaitable[None]]


def _someone(cluster: Cluster, random: Random) -> int | None:
    up = [
        node for node, machine in cluster.machines.items() if not machine.is_down and node in cluster.brokers
    ]
    return random.choice(up) if up else None


async def _back(cluster: Cluster, node: int) -> None:
    try:
        await cluster.restart(node)
    except Crashed:
        pass  # struck again while it started: whoever did it brings it back
    except (OSError, errors.TidelogError):
        if node not in cluster.failing:
            raise
        cluster.machines[node].kill()  # it cannot start with this disk: it stays down until that is repaired


async def broker_is_killed(cluster: Cluster, random: Random) -> None:
    node = _someone(cluster, random)
    if node is not None:
        cluster.kill(node)
        await asyncio.sleep(random.choice((0.01, 1, 4)))
        await _back(cluster, node)


async def machine_loses_power(cluster: Cluster, random: Random) -> None:
    node = _someone(cluster, random)
    if node is not None:
        cluster.kill(node, power=True)
        await asyncio.sleep(random.choice((0.01, 1, 4)))
        await _back(cluster, node)


async def broker_stops_in_order(cluster: Cluster, random: Random) -> None:
    node = _someone(cluster, random)
    if node is not None:
        try:
            await cluster.stop(node)
        except Crashed:
            return
        await asyncio.sleep(random.random())
        await _back(cluster, node)


async def broker_stands_still(cluster: Cluster, random: Random) -> None:
    """For longer than its lease, perhaps: when it goes on, it does not know yet that others lead."""
    node = _someone(cluster, random)
    if node is not None:
        cluster.machines[node].pause()
        await asyncio.sleep(random.choice((0.3, 2.5, 6)))
        cluster.machines[node].go_on()


async def brokers_are_cut_apart(cluster: Cluster, random: Random) -> None:
    one, other = random.sample(list(cluster.machines), 2)
    cluster.network.cut(host(one), host(other), one_way=random.random() < 0.5)
    await asyncio.sleep(random.random() * 6)
    cluster.network.mend(host(one), host(other))


async def broker_is_cut_off(cluster: Cluster, random: Random) -> None:
    """From all others, perhaps from the store, perhaps from clients."""
    node = random.choice(list(cluster.machines))
    for other in cluster.machines:
        if other != node:
            cluster.network.cut(host(node), host(other))
    if random.random() < 0.5:
        cluster.network.cut(host(node), CLIENT)
    if random.random() < 0.7:
        cluster.metadata.cut_off(host(node))
    await asyncio.sleep(random.random() * 8)
    for peer in (CLIENT, *map(host, cluster.machines)):
        cluster.network.mend(host(node), peer)
    cluster.metadata.reconnect(host(node))


async def store_is_cut_off(cluster: Cluster, random: Random) -> None:
    """A leader goes on without its lease, and others lead: it must not acknowledge what they do not have."""
    node = random.choice(list(cluster.machines))
    cluster.metadata.cut_off(host(node))
    await asyncio.sleep(random.random() * 8)
    cluster.metadata.reconnect(host(node))


async def store_is_away(cluster: Cluster, random: Random) -> None:
    cluster.metadata.go_away()
    await asyncio.sleep(random.random() * 5)
    cluster.metadata.come_back()


async def store_forgets_changes(cluster: Cluster, random: Random) -> None:
    cluster.metadata.compact()


async def answers_are_lost(cluster: Cluster, random: Random) -> None:
    cluster.metadata.weather = Weather(
        delay_ms_max=random.choice((5, 300)),
        lost_requests=0.1,
        lost_answers=0.2,
        late_ms_max=random.choice((0, 5_000)),
        patience_ms=500,
    )
    await asyncio.sleep(random.random() * 5)
    cluster.metadata.weather = Weather(delay_ms_max=5, patience_ms=2_000)


async def connections_reset(cluster: Cluster, random: Random) -> None:
    cluster.network.reset(chance=random.random())


async def disk_is_full(cluster: Cluster, random: Random) -> None:
    machine = random.choice(list(cluster.machines.values()))
    machine.disk.limit_free(random.choice((0, 500, 10_000)))
    await asyncio.sleep(random.random() * 2)
    machine.disk.limit_free(None)


async def disk_is_slow(cluster: Cluster, random: Random) -> None:
    machine = random.choice(list(cluster.machines.values()))
    machine.disk.run_delay_s_max = random.choice((0.05, 2.0))
    await asyncio.sleep(random.random() * 3)
    machine.disk.run_delay_s_max = 0.001


async def disk_fails(cluster: Cluster, random: Random) -> None:
    """The broker puts it aside, and others have to do without that replica until somebody repairs it."""
    node = random.choice(list(cluster.machines))
    operation = random.choice(("open", "read", "write", "resize", "sync", "name"))
    pattern = random.choice(("*", "*.log", "*index", "*.snapshot", "*checkpoint*"))
    cluster.failing.add(node)
    cluster.machines[node].disk.fail(operation, pattern, errno.EIO, random.choice((1, 5)))


async def bytes_rot(cluster: Cluster, random: Random) -> None:
    """A byte of a batch that all replicas have on disk changes on one of them, always the same one: what it has lost the
    others have.  Not one of KINDS, for it takes a scrubber that is fast."""
    name = random.choice(list(cluster.partitions))
    stored, held = cluster.stored(name), dict(cluster.replicas(name))
    if (
        stored is None
        or len(stored.in_sync) < len(cluster.machines)
        or stored.doubts
        or len(held) < len(cluster.machines)
    ):
        return
    node = max(held)
    if is_unfit(held[node].log):
        return
    durable = min(partition.log.recovery_point for partition in held.values())
    sealed = [segment for segment in held[node].log.segments if segment.end <= durable and segment.size]
    if sealed:
        segment = random.choice(sealed)
        at, header = random.choice(list(segment.headers(0)))
        # No checksum covers base offset and leader epoch.
        cluster.partitions[name].may_rot = True
        cluster.machines[node].disk.rot(segment.path, at + random.randrange(16, header.size))
    await asyncio.sleep(random.random() * 3)


KINDS: tuple[Trouble, ...] = (
    broker_is_killed,
    broker_is_killed,
    machine_loses_power,
    broker_stops_in_order,
    brokers_are_cut_apart,
    broker_is_cut_off,
    broker_is_cut_off,
    store_is_cut_off,
    store_is_away,
    store_forgets_changes,
    answers_are_lost,
    connections_reset,
    disk_is_full,
    disk_is_slow,
    disk_fails,
    broker_stands_still,
)
