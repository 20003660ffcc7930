"""How the leader of a partition shrinks and expands its in-sync set (ISR).  Pure.

Only a running leader changes the ISR.  Each change brings the whole set up to date: members that no longer run, are
about to stop, or are in doubt leave along with the members that lag, and the doubts are dropped, because the leader has
every committed record.  Members that leave an ISR smaller than `min.insync.replicas` stay eligible leaders (ELR)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from tidelog.metadata.image.image import Image, PartitionImage
from tidelog.metadata.records import PartitionRecord
from tidelog.types import NodeId, TopicPartition


class Joining(NamedTuple):
    """A follower that has caught up, and the epoch of its broker's registration."""

    node: NodeId
    broker_epoch: int


class InSyncChange(NamedTuple):
    """The wish of the leader in `leader_epoch`: the lagging followers leave, a follower that has caught up joins.  Without
    either, the change only removes members that no leader keeps."""

    name: TopicPartition
    topic_id: UUID
    leader_epoch: int
    in_sync_min: int
    """min.insync.replicas, at most the number of replicas."""
    lagging: frozenset[NodeId] = frozenset()
    joining: Joining | None = None


def next_in_sync(image: Image, node: NodeId, change: InSyncChange) -> PartitionRecord | None:
    """The state to store; None if `node` no longer leads in that epoch, or if nothing would change."""
    topic, partition = image.topics.get(change.name.topic), image.partition(*change.name)
    if (
        topic is None
        or partition is None
        or topic.id != change.topic_id
        or (partition.leader, partition.leader_epoch) != (node, change.leader_epoch)
    ):
        return None
    live = frozenset(broker.node_id for broker in image.live_brokers)
    gone = change.lagging | leaving(partition, node, live)
    members = frozenset(partition.in_sync) - gone
    if change.joining is not None and _may_join(image, change.joining):
        members |= {change.joining.node}
    record = _with_members(partition, members, change.in_sync_min)
    if record == partition.record:
        return None
    return record._replace(partition_epoch=partition.partition_epoch + 1)


def leaving(partition: PartitionImage, leader: NodeId, live: Collection[NodeId]) -> frozenset[NodeId]:
    """The members that no leader keeps: they do not run, are about to stop, or are in doubt."""
    doubted = partition.doubted
    return frozenset(
        node for node in partition.in_sync if node != leader and (node not in live or node in doubted)
    )


def out_of_date(
    partition: PartitionImage, leader: NodeId, live: Collection[NodeId], in_sync_min: int
) -> bool:
    """True if the leader has to change the ISR, whether or not a follower lags or has caught up."""
    return bool(
        partition.doubts
        or leaving(partition, leader, live)
        or (partition.eligible and len(partition.in_sync) >= in_sync_min)
    )


def _may_join(image: Image, joining: Joining) -> bool:
    broker = image.brokers.get(joining.node)
    return (
        broker is not None
        and broker.epoch == joining.broker_epoch
        and not broker.fenced
        and not broker.leaving
    )


def _with_members(partition: PartitionImage, members: frozenset[NodeId], in_sync_min: int) -> PartitionRecord:
    in_sync = tuple(node for node in partition.replicas if node in members)
    # Every holder has all committed records, and nothing more is committed while the ISR is too small.
    holders = frozenset(partition.holders) - partition.doubted - members
    eligible = tuple(node for node in partition.replicas if node in holders)
    return partition.record._replace(
        in_sync=in_sync,
        eligible=eligible if len(in_sync) < in_sync_min else (),
        doubts=(),
    )
