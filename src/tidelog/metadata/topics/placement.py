"""Where the replicas of new partitions go, and the state that a new partition starts with.

Pure.  `planning` calls it for new topics and partitions; who leads later is decided in `elections`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest

from tidelog import errors
from tidelog.metadata.image import Broker
from tidelog.metadata.records import PartitionRecord, Replicas
from tidelog.types import NodeId


def place(brokers: Sequence[Broker], count: int, replication: int, start: int) -> tuple[Replicas, ...]:
    """Replicas of `count` partitions, the one to lead first.

    Leaders go round over racks and brokers; followers go to racks the partition is not in yet, there to the broker
    with the fewest replicas.  `start` rotates the whole, so that small topics do not all begin at one broker."""
    if replication > len(brokers):
        raise errors.InvalidReplicationFactor(
            f"{replication} replicas need as many brokers, and there are {len(brokers)}"
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
            best = min(
                (broker for broker in rotated if broker not in chosen),
                key=lambda broker: (broker.rack is not None and broker.rack in racks, load[broker.node_id]),
            )
            chosen.append(best)
            load[best.node_id] += 1
        placed.append(tuple(broker.node_id for broker in chosen))
    return tuple(placed)


def _alternating(brokers: Sequence[Broker]) -> list[Broker]:
    """Neighbours in different racks, as far as that goes."""
    racks: dict[str | None, list[Broker]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.node_id)):
        racks.setdefault(broker.rack, []).append(broker)
    rows = zip_longest(*racks.values())
    return [broker for row in rows for broker in row if broker is not None]


def check_assignment(
    assignment: Mapping[int, Sequence[int]], first: int, brokers: Collection[NodeId]
) -> None:
    """Replicas that a client chose itself, for partitions from `first` on."""
    refuse = errors.InvalidReplicaAssignment
    if sorted(assignment) != list(range(first, first + len(assignment))):
        raise refuse(f"partitions must be numbered from {first} on without a gap, not {sorted(assignment)}")
    for index, replicas in assignment.items():
        if not replicas:
            raise refuse(f"partition {index} has no replicas")
        if len(set(replicas)) != len(replicas):
            raise refuse(f"partition {index} has a broker twice: {list(replicas)}")
        missing = [node for node in replicas if node not in brokers]
        if missing:
            raise refuse(f"partition {index} is assigned to broker {missing[0]}, which is not registered")
        if len(replicas) != len(assignment[first]):
            raise refuse(f"partition {index} has another number of replicas than partition {first}")


def first_state(replicas: Replicas, live: Collection[NodeId]) -> PartitionRecord | None:
    """What a new partition starts with; None when that is what holds without anything stored."""
    alive = tuple(node for node in replicas if node in live)
    if alive == replicas:
        return None
    if not alive:
        raise errors.InvalidReplicaAssignment(f"none of the brokers {list(replicas)} is running")
    return PartitionRecord(alive[0], 0, alive, 0)
