"""What the controller changes about a partition when brokers come and go: who leads, who is in sync, which move is done.

Pure: a partition's state and the brokers that run in, its next state out.  One function for all reasons, so that a
broker that dies while a move ends and its machine lost records is no special case.  `steward` stores what comes out,
by compare-and-swap, so deciding on an old image does no harm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from tidelog.metadata.decisions import Raised
from tidelog.metadata.image import Image, Partition, Topic
from tidelog.metadata.records import PartitionRecord, Replicas
from tidelog.types import NodeId


def due(image: Image, topics: Iterable[Topic], unclean: Callable[[str], bool]) -> Iterator[Raised]:
    """The next states of those partitions of `topics` that need one; `unclean` tells of a topic whether it would rather
    lose records than wait."""
    live = frozenset(broker.node_id for broker in image.live_brokers)
    here = frozenset(broker.node_id for broker in image.reachable_brokers)
    for topic in topics:
        for partition in topic.partitions:
            record = next_state(partition, live, here, lambda name=topic.name: unclean(name))  # type: ignore[misc]
            if record is not None:
                yield Raised(topic.id, partition.index, record, partition.revision)


def next_state(
    partition: Partition, live: Collection[NodeId], here: Collection[NodeId], unclean: Callable[[], bool]
) -> PartitionRecord | None:
    """None when all is as it should be.  `live` may lead; those `here` run too, but some are about to stop."""
    if (
        partition.leader in live
        and not partition.unsure
        and not partition.adding
        and not partition.removing
        and all(node in live for node in partition.in_sync)
    ):
        return None
    replicas, in_sync, ended = partition.replicas, _trusted(partition), False
    if partition.adding or partition.removing:
        target = tuple(node for node in replicas if node not in partition.removing)
        if all(node in in_sync for node in target):
            replicas, in_sync, ended = target, tuple(node for node in in_sync if node in target), True
    # The last members stay, dead or alive: they alone have all that was acknowledged.
    in_sync = tuple(node for node in in_sync if node in live) or in_sync
    leader = _leader(partition, replicas, in_sync, live, here)
    if leader is None and unclean():
        leader = next((node for node in replicas if node in live), None)
        in_sync = in_sync if leader is None else (leader,)
    if leader == partition.leader and in_sync == partition.in_sync and not ended and not partition.unsure:
        return None
    # After a power cut the same leader may go on with other records at the same offsets: only a new epoch tells.
    fresh = leader != partition.leader or bool(partition.unsure)
    return PartitionRecord(
        leader,
        partition.leader_epoch + fresh,
        in_sync,
        partition.partition_epoch + 1,
        (),
        replicas if ended else partition.moved,
        () if ended else partition.adding,
        () if ended else partition.removing,
    )


def _trusted(partition: Partition) -> Replicas:
    """The in-sync members that surely have all that was acknowledged.  When every one may have lost its end, the log
    that reaches furthest, newest epoch first, is the best there is."""
    if not partition.unsure:
        return partition.in_sync
    tails = {tail.node: tail for tail in partition.unsure}
    sure = tuple(node for node in partition.in_sync if node not in tails)
    if sure:
        return sure
    known = [tails[node] for node in partition.in_sync]
    best = max(known, key=lambda tail: (tail.epoch, tail.end))
    return (best.node,)


def _leader(
    partition: Partition,
    replicas: Replicas,
    in_sync: Replicas,
    live: Collection[NodeId],
    here: Collection[NodeId],
) -> NodeId | None:
    if partition.leader in live and partition.leader in in_sync and partition.leader in replicas:
        return partition.leader
    for node in replicas:
        if node in in_sync and node in live:
            return node
    # One that is about to stop leads as long as it can when there is nobody else.
    if partition.leader in here and partition.leader in in_sync and partition.leader in replicas:
        return partition.leader
    return None
