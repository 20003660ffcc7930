"""What a broker reports about its replicas when it starts, or when a disk fails.  Pure.

A replica in doubt may lack records that it acknowledged.  The doubt, and the end of the leadership of a broker that is
in doubt, are one change of the partition's state: a broker in doubt never leads."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from tidelog.metadata.elections import elections
from tidelog.metadata.image.image import PartitionImage
from tidelog.metadata.records import Cause, PartitionRecord, Tail
from tidelog.types import NodeId

NO_LOG = (-1, -1)
EMPTY_LOG = (-1, 0)
"""As far as a log reaches that is known to have nothing.  A report without an end (`NO_LOG`) is of one that may have all."""


class ReplicaCondition(NamedTuple):
    """The condition of a replica.  `cause`: why the replica is in doubt, None if it is not.  `reach`: returns the newest
    leader epoch and the log end offset; called only if they have to be compared with other replicas.  `last_epoch`: returns
    the leader epoch of the last record."""

    cause: Cause | None
    reach: Callable[[], tuple[int, int]]
    last_epoch: Callable[[], int] = lambda: NO_LOG[0]


def restarted(
    partition: PartitionImage, node: NodeId, condition: ReplicaCondition, unclean: bool
) -> PartitionRecord | None:
    """The partition's next state when `node` has started again; None when there is nothing to say.

    After a stop that was not clean (`unclean`) a broker that is not in doubt leads in a new epoch: other records may
    come to stand at offsets that readers have seen, and a new epoch is how they notice."""
    if partition.rolled_back:
        return None if condition.cause is Cause.OFFLINE else _reported_anew(partition, node, condition)
    if node not in partition.holders:
        return None
    before = next((tail for tail in partition.doubts if tail.node == node), None)
    cause = condition.cause
    if cause is None and before is not None and before.cause is not Cause.OFFLINE:
        # What it lost has not come back: where a log was missing, there is a new and empty one by now.
        cause = before.cause
    if cause is Cause.OFFLINE and before is not None and before.cause is not Cause.OFFLINE:
        return _went_offline(partition, before)
    if cause is not None:
        return in_doubt(partition, node, cause, condition.reach)
    if before is not None:  # its directory is there again
        doubts = tuple(tail for tail in partition.doubts if tail.node != node)
        return partition.record._replace(doubts=doubts, partition_epoch=partition.partition_epoch + 1)
    return elections.next_epoch(partition, node) if unclean and partition.leader == node else None


def _went_offline(partition: PartitionImage, before: Tail) -> PartitionRecord | None:
    """The log of a replica in doubt is in a directory that is not there now.  What it lost before stays lost when the
    directory is back."""
    unread = before._replace(epoch=NO_LOG[0], end=NO_LOG[1])
    if unread == before:
        return None
    doubts = tuple(unread if tail == before else tail for tail in partition.doubts)
    return partition.record._replace(doubts=doubts, partition_epoch=partition.partition_epoch + 1)


def _reported_anew(
    partition: PartitionImage, node: NodeId, condition: ReplicaCondition
) -> PartitionRecord | None:
    """After a rollback of the metadata, a replica's report may be gone, and so may the records that it had when it was
    elected.  Another elected replica keeps the leadership."""
    epoch, end = condition.reach()
    report = Tail(node, condition.last_epoch(), end, Cause.ROLLED_BACK)
    if report in partition.doubts or node not in partition.replicas:
        return None
    return _reported(partition, report, epoch, partition.leader if epoch > partition.leader_epoch else node)


def in_doubt(
    partition: PartitionImage, node: NodeId, cause: Cause, reach: Callable[[], tuple[int, int]]
) -> PartitionRecord | None:
    """`node` is in doubt from now on, and does not lead.  Where it is the only holder its log is the best there is, so
    it leads on, in a new epoch."""
    alone = partition.holders == (node,)
    tail = Tail(node, *(EMPTY_LOG if alone else reach()), cause)
    if not tail.has_log:
        tail = Tail(node, *NO_LOG, cause)
    if partition.leader not in (None, node):
        tail = tail._replace(followed=True)
    if tail in partition.doubts and partition.leader != node:
        return None
    others = tuple(other for other in partition.doubts if other.node != node)
    doubted = partition._replace(
        doubts=(*others, tail),
        leader=None if partition.leader == node else partition.leader,
        leader_epoch=partition.leader_epoch + (partition.leader == node),
    )
    if alone and elections.best_in_doubt(doubted) == node:
        return elections.next_epoch(doubted, node)
    return doubted.record._replace(partition_epoch=partition.partition_epoch + 1)


def rolled_back(
    partition: PartitionImage,
    node: NodeId,
    reach: Callable[[], tuple[int, int]],
    last_epoch: Callable[[], int],
    certain: bool = False,
) -> PartitionRecord | None:
    """The metadata are older than the log of a replica: the report of `node`, which holds one.  None when there is no
    sign of that and it is not `certain` for another reason, or `node` has reported already, or all have and one of them was
    elected.  The report has the epoch of the last record: an old replica may have led by the restored metadata, in a new
    epoch and without a record in it."""
    if node not in partition.replicas:
        return None
    epoch, end = reach()
    awaited = partition.rolled_back and partition.leader is None
    noticed = certain or epoch > partition.leader_epoch
    if not noticed and not awaited:
        return None
    # What the backup has of doubts, and of reports after an earlier restoration, was said of logs as they were then.  A
    # broker whose report goes here although it is new reports again: at once if it runs, otherwise when it starts.
    reports = partition if not noticed else partition._replace(doubts=())
    report = Tail(node, last_epoch(), end, Cause.ROLLED_BACK)
    if report in reports.doubts or (partition.leader is None and partition.doubts == (report,)):
        return None
    return _reported(reports, report, epoch, partition.leader)


def _reported(
    partition: PartitionImage, report: Tail, newest_epoch: int, deposed: NodeId | None
) -> PartitionRecord:
    """The leader epoch rises past every epoch that a log has seen, so that no epoch is given to two leaders."""
    ends = partition.leader is not None and partition.leader == deposed
    return partition.record._replace(
        leader=None if ends else partition.leader,
        leader_epoch=max(newest_epoch, partition.leader_epoch) + ends,
        doubts=(*(tail for tail in partition.doubts if tail.node != report.node), report),
        partition_epoch=partition.partition_epoch + 1,
    )


def reported_again(
    partition: PartitionImage, node: NodeId, reach: Callable[[], tuple[int, int]], damaged: bool = False
) -> PartitionRecord | None:
    """The report of a running replica in doubt that may have fetched from a leader since it reported, when the partition has
    no leader any more: it stays in doubt, and its log may now be the best.  None when there is nothing new to say."""
    before = next((tail for tail in partition.doubts if tail.node == node), None)
    if partition.leader is not None or partition.rolled_back or before is None or before.unread:
        return None
    epoch, end = reach()
    grown = end > 0 and (epoch, end) > (before.epoch, before.end)
    if not before.followed and (damaged or not grown):
        return None
    after = before._replace(followed=False)
    if damaged:
        after = Tail(node, epoch, end, Cause.DAMAGED)
    elif grown or before.has_log:  # to follow a leader may have cut the log, too
        after = Tail(node, epoch, end, before.cause if before.has_log else Cause.POWER)
    doubts = tuple(after if tail == before else tail for tail in partition.doubts)
    return partition.record._replace(doubts=doubts, partition_epoch=partition.partition_epoch + 1)


def handed_over(
    partition: PartitionImage,
    node: NodeId,
    cause: Cause,
    reach: Callable[[], tuple[int, int]],
    live: Collection[NodeId],
) -> PartitionRecord | None:
    """A running broker whose replica is not good any more is in doubt, and another holder that runs leads.  None when
    there is no other holder that could: then the replica stays what it is."""
    if node not in partition.holders or node in partition.doubted:
        return None
    others = frozenset(live) - {node}
    record = in_doubt(partition, node, cause, reach)
    if record is None:
        return None
    doubted = partition._replace(leader=record.leader, leader_epoch=record.leader_epoch, doubts=record.doubts)
    leader = elections.choose_leader(doubted, others, others)
    if leader is None or leader in doubted.doubted:
        return None
    if leader == partition.leader:
        return record
    return elections.next_epoch(partition._replace(doubts=record.doubts), leader)
