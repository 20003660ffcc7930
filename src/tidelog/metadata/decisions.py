"""What the controller decides: where replicas go, who leads, which epoch follows.

Pure: facts in, records to store out.  `tidelog.metadata.controller` writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.metadata.image import Broker, Image, Partition
from tidelog.metadata.records import PartitionRecord, Replicas, Tail
from tidelog.types import NodeId, TopicPartition


class Raised(NamedTuple):
    """A partition's next state, and the one it replaces."""

    topic_id: UUID
    index: int  # type: ignore[assignment]  # tuples have a method of this name, of no use here
    record: PartitionRecord
    revision: int


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


def choose_leader(partition: Partition, live: Collection[NodeId], unclean: bool) -> PartitionRecord | None:
    """The next state when `live` are the brokers that run; None when the leader stays.

    In-sync replicas come first, in the order of the replicas.  With `unclean`, any live one may lead when no in-sync
    one is left; acknowledged records it does not have are lost.  Otherwise nobody leads until one comes back."""
    if partition.leader is not None and partition.leader in live:
        return None
    for node in partition.replicas:
        if node in partition.in_sync and node in live:
            return _led_by(partition, node, partition.in_sync)
    if unclean:
        for node in partition.replicas:
            if node in live:
                return _led_by(partition, node, (node,))
    return None if partition.leader is None else _led_by(partition, None, partition.in_sync)


def elect_preferred(partition: Partition, live: Collection[NodeId]) -> PartitionRecord:
    """The first replica takes over, when it runs and is in sync."""
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise errors.ElectionNotNeeded(f"broker {preferred} leads already")
    if preferred not in live or preferred not in partition.in_sync:
        raise errors.PreferredLeaderNotAvailable(f"broker {preferred} is not running or not in sync")
    return _led_by(partition, preferred, partition.in_sync)


def elect_unclean(partition: Partition, live: Collection[NodeId]) -> PartitionRecord:
    """Any live replica takes over from nobody."""
    if partition.leader is not None and partition.leader in live:
        raise errors.ElectionNotNeeded(f"broker {partition.leader} leads and is running")
    record = choose_leader(partition, live, unclean=True)
    if record is None or record.leader is None:
        raise errors.EligibleLeadersNotAvailable(f"none of the brokers {list(partition.replicas)} is running")
    return record


def raise_epochs(image: Image, node: NodeId) -> Iterator[Raised]:
    """After a stop that was not clean, what `node` leads it leads in a new epoch.

    The end of its logs may have been lost with the power, and other records may come to stand at the same offsets: a
    new epoch is how readers that went further notice.  After a clean stop nothing was lost and nothing changes."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader == node:
                record = _led_by(partition, node, partition.in_sync)
                yield Raised(topic.id, partition.index, record, partition.revision)


def unsure(image: Image, tails: Iterable[tuple[TopicPartition, Tail]]) -> Iterator[Raised]:
    """Replicas in sync that may have lost the ends of their logs are marked as such, with what they have left."""
    for name, tail in tails:
        topic, partition = image.topics.get(name.topic), image.partition(*name)
        if (
            topic is None
            or partition is None
            or tail.node not in partition.in_sync
            or tail in partition.unsure
        ):
            continue
        others = tuple(one for one in partition.unsure if one.node != tail.node)
        record = partition.record._replace(
            unsure=(*others, tail), partition_epoch=partition.partition_epoch + 1
        )
        yield Raised(topic.id, partition.index, record, partition.revision)


def _led_by(partition: Partition, leader: NodeId | None, in_sync: Replicas) -> PartitionRecord:
    return partition.record._replace(
        leader=leader,
        leader_epoch=partition.leader_epoch + 1,
        in_sync=in_sync,
        partition_epoch=partition.partition_epoch + 1,
    )
