"""Partition reassignments: the state that is stored when a reassignment begins or is cancelled.  Pure.

During a reassignment the partition has its old and its new replicas; `elections` completes the reassignment when all new
replicas are in the ISR.  Errors and their order are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog import errors
from tidelog.metadata.image.image import BrokerImage, PartitionImage
from tidelog.metadata.records import PartitionRecord
from tidelog.metadata.topics.placement import check_replicas
from tidelog.types import NodeId, TopicPartition


def begin(
    partition: PartitionImage,
    target: Sequence[int],
    registered: Mapping[NodeId, BrokerImage],
    same_number: bool,
) -> PartitionRecord | None:
    """Reassigns the partition to the brokers in `target`, the preferred leader first; None if they hold it already.  A
    reassignment in progress is replaced.  `same_number`: refuse a change of the replication factor."""
    check_replicas(target, registered)
    wanted = tuple(NodeId(node) for node in target)
    had = tuple(node for node in partition.replicas if node not in partition.adding)
    if same_number and len(wanted) != len(had):
        raise errors.InvalidReplicationFactor(
            f"Cannot reassign partition {partition.index}: it has {len(had)} replicas, and would have {len(wanted)}. "
            "Name as many brokers as it has replicas, or allow a change of the replication factor."
        )
    if wanted == had and not partition.adding and not partition.removing:
        return None
    leaving = tuple(node for node in had if node not in wanted)
    replicas = wanted + leaving
    in_sync = tuple(node for node in partition.in_sync if node in replicas)
    if partition.doubted.issuperset(in_sync):
        raise errors.InvalidReplicaAssignment(
            f"Cannot reassign partition {partition.index}: no in-sync replica would be left. "
            f"Keep one of the brokers {list(partition.in_sync)}, or wait until another replica is in sync."
        )
    return _changed(
        partition,
        in_sync=in_sync,
        replicas=replicas,
        adding=tuple(node for node in wanted if node not in had),
        removing=leaving,
    )


def cancel(partition: PartitionImage) -> PartitionRecord:
    """Returns to the replicas before the reassignment."""
    if not partition.adding and not partition.removing:
        raise errors.NoReassignmentInProgress(f"Partition {partition.index} is not being reassigned.")
    had = tuple(node for node in partition.replicas if node not in partition.adding)
    in_sync = tuple(node for node in partition.in_sync if node in had)
    if partition.doubted.issuperset(in_sync):
        raise errors.InvalidReplicaAssignment(
            f"Cannot cancel the reassignment of partition {partition.index}: only new replicas are in sync."
        )
    return _changed(partition, in_sync=in_sync, replicas=had, adding=(), removing=())


def _changed(
    partition: PartitionImage,
    *,
    in_sync: tuple[NodeId, ...],
    replicas: tuple[NodeId, ...],
    adding: tuple[NodeId, ...],
    removing: tuple[NodeId, ...],
) -> PartitionRecord:
    leader = partition.leader if partition.leader in in_sync else None
    return partition.record._replace(
        leader=leader,
        # If the leader leaves the ISR, the partition has no leader until the controller elects one.
        leader_epoch=partition.leader_epoch + (leader != partition.leader),
        in_sync=in_sync,
        partition_epoch=partition.partition_epoch + 1,
        replicas=replicas,
        adding=adding,
        removing=removing,
        eligible=tuple(node for node in partition.eligible if node in replicas),
        doubts=tuple(tail for tail in partition.doubts if tail.node in replicas),
    )


def unknown_partition(name: TopicPartition, topic_exists: bool) -> errors.TidelogError:
    missing = f"partition {name.topic}:{name.partition}" if topic_exists else f"a topic named {name.topic}"
    return errors.UnknownTopicOrPartition(f"Unable to find {missing}.")
