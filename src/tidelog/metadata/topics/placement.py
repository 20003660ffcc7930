"""Replica placement: which brokers hold a new partition, and the state that a new partition starts with.  Pure.

`topics.plans` calls this module for new topics and partitions; `elections` decides which replica leads later."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest

from tidelog import errors
from tidelog.metadata.image.image import BrokerImage
from tidelog.metadata.records import PartitionRecord, Replicas
from tidelog.types import NodeId


def place(brokers: Sequence[BrokerImage], count: int, replication: int, start: int) -> tuple[Replicas, ...]:
    """The replicas of `count` partitions, the preferred leader first.

    Leaders go round over racks and brokers.  A follower goes to a rack that the partition is not in yet, and there to the
    broker with the fewest replicas; never to a machine that has a replica.  `start` rotates the brokers, so that small
    topics do not all begin at one broker."""
    machines = replicas_max(brokers)
    if not brokers:
        raise errors.InvalidReplicationFactor(
            f"Unable to replicate the partition {replication} time(s): All brokers are currently fenced, or have all their "
            "log directories cordoned."
        )
    if replication > machines:
        registered = f"{len(brokers)} broker(s) are registered"
        if machines < len(brokers):
            registered = f"the {len(brokers)} registered brokers run on {machines} machine(s)"
        raise errors.InvalidReplicationFactor(
            f"Unable to replicate the partition {replication} time(s): The target replication factor of {replication} "
            f"cannot be reached because only {registered} or some brokers have all their log directories cordoned."
        )
    around = _alternating(brokers)
    size = len(around)
    load = dict.fromkeys((broker.node_id for broker in around), 0)
    placed = []
    for number in range(start, start + count):
        rotated = [around[(number + step) % size] for step in range(size)]
        chosen = [rotated[0]]
        load[rotated[0].node_id] += 1
        while len(chosen) < replication:
            racks = {broker.rack for broker in chosen}
            taken = {broker.place for broker in chosen}
            best = min(
                (broker for broker in rotated if broker.place not in taken),
                key=lambda broker: (broker.rack is not None and broker.rack in racks, load[broker.node_id]),
            )
            chosen.append(best)
            load[best.node_id] += 1
        placed.append(tuple(broker.node_id for broker in chosen))
    return tuple(placed)


def _alternating(brokers: Sequence[BrokerImage]) -> list[BrokerImage]:
    """The brokers in an order in which neighbours are in different racks, as far as possible."""
    racks: dict[str | None, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.node_id)):
        racks.setdefault(broker.rack, []).append(broker)
    rows = zip_longest(*racks.values())
    return [broker for row in rows for broker in row if broker is not None]


def replicas_max(brokers: Iterable[BrokerImage]) -> int:
    """How many replicas of one partition the brokers can hold: one on each machine."""
    return len({broker.place for broker in brokers})


def check_replicas(replicas: Sequence[int], brokers: Mapping[NodeId, BrokerImage]) -> None:
    """Checks the replicas that a client has chosen for one partition."""
    refuse = errors.InvalidReplicaAssignment
    if not replicas:
        raise refuse("The manual partition assignment includes an empty replica list.")
    places: dict[str | NodeId, int] = {}
    for at, node in enumerate(replicas):
        broker = brokers.get(NodeId(node))
        if broker is None:
            raise refuse(
                f"The manual partition assignment includes broker {node}, but no such broker is registered."
            )
        if node in replicas[:at]:
            raise refuse(f"The manual partition assignment includes the broker {node} more than once.")
        if broker.place in places:
            raise refuse(
                f"The manual partition assignment includes the brokers {places[broker.place]} and {node}, which run on the "
                f"same machine, {broker.machine}: both replicas would be lost with it."
            )
        places[broker.place] = node


def check_assignment(
    assignment: Mapping[int, Sequence[int]], first: int, brokers: Mapping[NodeId, BrokerImage]
) -> None:
    """Checks the replicas that a client has chosen for the partitions from `first` on."""
    refuse = errors.InvalidReplicaAssignment
    if sorted(assignment) != list(range(first, first + len(assignment))):
        raise refuse("partitions should be a consecutive 0-based integer sequence")
    for index, replicas in assignment.items():
        check_replicas(replicas, brokers)
        if len(replicas) != len(assignment[first]):
            raise refuse(
                f"Partition {index} has {len(replicas)} replicas in the assignment, and partition {first} has "
                f"{len(assignment[first])}: give all partitions the same number."
            )


def first_state(replicas: Replicas, live: Collection[NodeId]) -> PartitionRecord | None:
    """The state of a new partition that must be stored; None if nothing need be stored, because all replicas run."""
    alive = tuple(node for node in replicas if node in live)
    if alive == replicas:
        return None
    if not alive:
        raise errors.InvalidReplicaAssignment(f"None of the brokers {list(replicas)} is running.")
    return PartitionRecord(alive[0], 0, alive, 0)
