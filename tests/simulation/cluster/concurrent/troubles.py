"""All kinds of trouble, by name.  A run takes some of them, and lets two to four strike at the same time."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.cluster import trouble
from tests.simulation.cluster.concurrent import joins, machines, operators, surroundings
from tests.simulation.cluster.trouble import Trouble
from tests.simulation.cluster.world import Cluster

POWER: tuple[Trouble, ...] = (
    machines.machine_loses_power,
    machines.some_machines_lose_power,
    machines.all_machines_lose_power,
    machines.leader_loses_power,
)
PROCESSES: tuple[Trouble, ...] = (
    machines.some_brokers_are_killed,
    machines.broker_stands_still,
    machines.controller_stands_still,
    machines.broker_is_restarted,
    machines.brokers_are_restarted_in_turn,
)
LINES: tuple[Trouble, ...] = (
    trouble.brokers_are_cut_apart,
    trouble.broker_is_cut_off,
    trouble.connections_reset,
    surroundings.controller_is_cut_off,
    surroundings.leader_is_alone_with_its_clients,
    surroundings.lines_hang,
)
DISKS: tuple[Trouble, ...] = (
    trouble.disk_is_full,
    trouble.disk_is_slow,
    trouble.disk_fails,
    surroundings.disk_is_replaced,
)
STORE: tuple[Trouble, ...] = (
    trouble.store_is_cut_off,
    trouble.store_is_away,
    trouble.store_forgets_changes,
    trouble.answers_are_lost,
    surroundings.watch_is_late,
    surroundings.requests_are_done_twice_or_late,
    surroundings.store_is_restored,
    joins.follower_loses_power_while_it_joins,
    joins.leader_is_late_to_learn_of_a_join,
)
OPERATORS: tuple[Trouble, ...] = (
    operators.partition_is_moved,
    operators.preferred_leader_is_elected,
    operators.in_sync_minimum_is_changed,
    surroundings.clock_jumps,
)
ROT: tuple[Trouble, ...] = (trouble.bytes_rot,)
"""Not one of all: what rots is lost where the other replicas are lost as well, and it takes a scrubber that is fast."""
MOVES: tuple[Trouble, ...] = (operators.log_is_moved,)
TWO_DISKS: tuple[Trouble, ...] = (operators.log_is_moved, surroundings.one_of_two_disks_is_replaced)
"""Not of all: brokers have two directories where these strike."""
UNCLEAN: tuple[Trouble, ...] = (operators.unclean_leader_is_elected,)
"""Not one of all: an operator gives up records."""
CLOCKS: tuple[Trouble, ...] = (surroundings.clock_jumps, surroundings.monotonic_clock_jumps)
RESTORED: tuple[Trouble, ...] = (surroundings.store_is_restored,)
REASSIGNED: tuple[Trouble, ...] = (operators.partition_is_moved, operators.preferred_leader_is_elected)
ALL: tuple[tuple[Trouble, ...], ...] = (POWER, PROCESSES, LINES, DISKS, STORE, OPERATORS)

AT_ONCE_MIN, AT_ONCE_MAX = 2, 4
PAUSES_S = (0.0, 0.3, 1.0, 3.0)


def some_kinds(random: Random, groups: tuple[tuple[Trouble, ...], ...] = ALL) -> list[Trouble]:
    """A run with a few kinds of trouble goes deeper than one with a little of everything."""
    chosen = random.sample(groups, min(random.choice((2, 3, 4)), len(groups)))
    kinds = [
        kind for group in chosen for kind in random.sample(group, min(random.choice((1, 2)), len(group)))
    ]
    if random.random() < 0.5 and POWER in groups:
        kinds.append(random.choice(POWER))
    return kinds


async def strike(cluster: Cluster, random: Random, kinds: list[Trouble], lanes: int) -> None:
    """Until cancelled: in each lane one trouble after the other, and the lanes at the same time."""
    lane_randoms = [Random(random.getrandbits(64)) for _ in range(lanes)]
    await machines.together(*(_lane(cluster, lane_random, kinds) for lane_random in lane_randoms))


async def _lane(cluster: Cluster, random: Random, kinds: list[Trouble]) -> None:
    while True:
        await asyncio.sleep(random.choice(PAUSES_S) * random.random() + 0.01)
        await random.choice(kinds)(cluster, random)
