"""Moving partitions to other brokers: what is stored when a move begins or is called off.  Pure.

While a move is under way the partition has old and new replicas alike; `elections` ends it when all new ones are in sync.
Errors and their order are Kafka's."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidelog import errors
from tidelog.metadata.image import Partition
from tidelog.metadata.records import PartitionRecord
from tidelog.types import NodeId


def begin(
    partition: Partition, target: Sequence[int], known: Collection[NodeId], same_number: bool
) -> PartitionRecord | None:
    """`target`: the brokers that shall hold it, the one to lead first; None when it is so already.  A move that is
    under way is replaced.  `same_number`: refuse one that changes how many replicas there are."""
    _check(target, known)
    wanted = tuple(NodeId(node) for node in target)
    had = tuple(node for node in partition.replicas if node not in partition.adding)
    if same_number and len(wanted) != len(had):
        raise errors.InvalidReplicationFactor(
            f"partition {partition.index} has {len(had)} replicas, and the move would leave it {len(wanted)}"
        )
    if wanted == had and not partition.adding and not partition.removing:
        return None
    leaving = tuple(node for node in had if node not in wanted)
    replicas = wanted + leaving
    in_sync = tuple(node for node in partition.in_sync if node in replicas)
    if partition.doubted.issuperset(in_sync):
        raise errors.InvalidReplicaAssignment(
            f"no replica of partition {partition.index} that is in sync would be left"
        )
    return _changed(
        partition,
        in_sync=in_sync,
        replicas=replicas,
        adding=tuple(node for node in wanted if node not in had),
        removing=leaving,
    )


def cancel(partition: Partition) -> PartitionRecord:
    """Back to the replicas it had."""
    if not partition.adding and not partition.removing:
        raise errors.NoReassignmentInProgress(f"partition {partition.index} is not being moved")
    had = tuple(node for node in partition.replicas if node not in partition.adding)
    in_sync = tuple(node for node in partition.in_sync if node in had)
    if partition.doubted.issuperset(in_sync):
        raise errors.InvalidReplicaAssignment(
            f"the move of partition {partition.index} cannot be called off: only new replicas are in sync"
        )
    return _changed(partition, in_sync=in_sync, replicas=had, adding=(), removing=())


def _check(target: Sequence[int], known: Collection[NodeId]) -> None:
    if not target:
        raise errors.InvalidReplicaAssignment("a partition needs at least one replica")
    if len(set(target)) != len(target):
        raise errors.InvalidReplicaAssignment(f"a broker stands there twice: {list(target)}")
    missing = [node for node in target if node not in known]
    if missing:
        raise errors.InvalidReplicaAssignment(f"broker {missing[0]} is not registered")


def _changed(
    partition: Partition,
    *,
    in_sync: tuple[NodeId, ...],
    replicas: tuple[NodeId, ...],
    adding: tuple[NodeId, ...],
    removing: tuple[NodeId, ...],
) -> PartitionRecord:
    leader = partition.leader if partition.leader in in_sync else None
    return partition.record._replace(
        leader=leader,
        # Without its leader in the set nobody leads, for as long as the controller takes to see it.
        leader_epoch=partition.leader_epoch + (leader != partition.leader),
        in_sync=in_sync,
        partition_epoch=partition.partition_epoch + 1,
        replicas=replicas,
        adding=adding,
        removing=removing,
        eligible=tuple(node for node in partition.eligible if node in replicas),
        doubts=tuple(tail for tail in partition.doubts if tail.node in replicas),
    )
