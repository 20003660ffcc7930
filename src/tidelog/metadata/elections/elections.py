"""Leader elections by the controller, preferred and unclean leader election, and the completion of reassignments.

Pure: a partition's state and the running brokers in, the partition's next state out.  The rules:

- A leader is elected from the holders (in-sync set and eligible leader replicas) that are not in doubt.
- When the metadata turn out to be older than the logs (the store was restored from a backup), the ISR is unknown: all
  replicas report, and the best log leads.
- When every holder is in doubt and all of them have reported since the last leader, the log with the newest leader epoch,
  then the longest one, is the best there is.  A replica without a log is elected only if no replica can have one.
- An election never shrinks the ISR and never drops a doubt: only a running leader does that (`in_sync_changes`).
  So the election of a leader that turns out to be dead or in doubt does no harm.

`active_controller` stores the results by compare-and-swap, so a decision made on an old image does no harm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.metadata.image.image import Image, PartitionImage, TopicImage
from tidelog.metadata.records import Cause, PartitionRecord, Replicas, Tail
from tidelog.types import NodeId, TopicPartition

EPOCHS_LEFT_OUT = 1 << 20


class NextState(NamedTuple):
    """What is to be stored for a partition, and the revision of the state that it replaces."""

    topic_id: UUID
    index: int  # type: ignore[assignment]  # tuples have a method of this name, of no use here
    record: PartitionRecord
    revision: int


def due(image: Image, topics: Iterable[TopicImage], unclean: Callable[[str], bool]) -> Iterator[NextState]:
    """The next states of those partitions of `topics` that need one; `unclean` tells whether a topic prefers to lose
    records over having no leader."""
    live = frozenset(broker.node_id for broker in image.live_brokers)
    reachable = frozenset(broker.node_id for broker in image.reachable_brokers)
    for topic in topics:
        for partition in topic.partitions:
            record = next_state(partition, live, reachable, lambda name=topic.name: unclean(name))  # type: ignore[misc]
            if record is not None:
                yield NextState(topic.id, partition.index, record, partition.revision)


def next_state(
    partition: PartitionImage,
    live: Collection[NodeId],
    reachable: Collection[NodeId],
    unclean: Callable[[], bool],
) -> PartitionRecord | None:
    """None when the state can stay.  `live` brokers may lead; `reachable` ones run too, but some are about to stop."""
    if partition.leader in live and not (partition.doubts or partition.adding or partition.removing):
        return None
    moved = _move_ended(partition, reachable)
    current = partition if moved is None else moved
    leader = choose_leader(current, live, reachable)
    record = current.record
    if leader is not None:
        record = _led_by(current, leader)
    elif unclean() and (chosen := unclean_choice(current, live)) is not None:
        leader = chosen
        record = _given_up(current, leader)
    if leader == partition.leader and moved is None:
        return None
    return record._replace(
        leader=leader,
        leader_epoch=record.leader_epoch + (leader != partition.leader),
        partition_epoch=partition.partition_epoch + 1,
    )


def choose_leader(
    partition: PartitionImage, live: Collection[NodeId], reachable: Collection[NodeId]
) -> NodeId | None:
    """The replica that leads without a loss that could be avoided; None when the partition has to wait."""
    if partition.rolled_back and partition.leader is not None and partition.leader in live:
        return partition.leader  # elected by the reports of all: it drops them when it runs
    sure = _sure(partition)
    if partition.leader in sure and partition.leader in live:
        return partition.leader
    for members in (partition.in_sync, partition.eligible):
        for node in partition.replicas:
            if node in members and node in sure and node in live:
                return node
    if partition.leader in sure and partition.leader in reachable:
        return partition.leader  # it is about to stop, and leads as long as it can when there is nobody else
    if sure:
        return None
    best = best_in_doubt(partition)
    return best if best in live else None


def _sure(partition: PartitionImage) -> Replicas:
    """Holders that are not in doubt."""
    if partition.rolled_back:
        return ()
    doubted = partition.doubted
    return tuple(node for node in partition.holders if node not in doubted)


def best_in_doubt(partition: PartitionImage) -> NodeId | None:
    """When all holders have reported a doubt: the one whose log reaches furthest.  None while one has not reported since the
    last leader, from whom it may have fetched, or when an operator has to decide, because no holder has a log and another
    replica may have an old one."""
    holders = partition.replicas if partition.rolled_back else partition.holders
    tails = [
        tail for tail in partition.doubts if tail.node in holders and not tail.unread and not tail.followed
    ]
    if len(tails) < len(holders):
        return None
    logs = [tail for tail in tails if tail.has_log]
    if logs:
        return max(logs, key=_reach).node
    never_made = all(tail.cause is Cause.MISSING for tail in tails)
    return partition.replicas[0] if never_made and len(tails) == len(partition.replicas) else None


def _reach(tail: Tail) -> tuple[int, int, bool]:
    return tail.epoch, tail.end, tail.cause is not Cause.DAMAGED


def unclean_choice(partition: PartitionImage, live: Collection[NodeId]) -> NodeId | None:
    """The live replica that probably loses least: a holder in doubt with the longest log, then any other replica, then
    one without a log."""
    logs = [tail for tail in partition.doubts if tail.has_log and tail.node in live]
    if logs:
        return max(logs, key=_reach).node
    without_log = {tail.node for tail in partition.doubts}
    running = [node for node in partition.replicas if node in live]
    return min(running, key=lambda node: node in without_log, default=None)


def awaited(partition: PartitionImage, live: Collection[NodeId]) -> Replicas:
    """The brokers whose return, or the return of whose directory, lets a partition without a leader have one again; empty
    when there is a leader, or when only an operator can decide."""
    if partition.leader is not None:
        return ()
    best = best_in_doubt(partition)
    unread = tuple(
        tail.node for tail in partition.doubts if tail.unread or (tail.followed and tail.node not in live)
    )
    if partition.rolled_back and best is None:
        doubted = partition.doubted
        return tuple(node for node in partition.replicas if node not in doubted) + unread
    waited_for = _sure(partition) or (() if best is None else (best,))
    return tuple(node for node in waited_for if node not in live) + unread


def elect_preferred(partition: PartitionImage, live: Collection[NodeId]) -> PartitionRecord:
    """The first replica takes over, when it runs, is in sync and is not in doubt."""
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise errors.ElectionNotNeeded("Leader election not needed for topic partition.")
    if not can_be_preferred(partition, live):
        raise errors.PreferredLeaderNotAvailable(
            f"The preferred leader, broker {preferred}, is not running or not in sync."
        )
    return next_epoch(partition, preferred)


def can_be_preferred(partition: PartitionImage, live: Collection[NodeId]) -> bool:
    preferred = partition.replicas[0]
    if partition.rolled_back:
        return False  # who was in sync when a backup was made says nothing
    return preferred in live and preferred in partition.in_sync and preferred not in partition.doubted


def elect_unclean(
    partition: PartitionImage, live: Collection[NodeId], chosen: NodeId | None = None
) -> PartitionRecord:
    """A live replica takes over from nobody: without loss if that is possible, else `chosen`, or the one that probably
    loses least."""
    if partition.leader is not None and partition.leader in live:
        raise errors.ElectionNotNeeded("Leader election not needed for topic partition.")
    if chosen is not None and (chosen not in partition.replicas or chosen not in live):
        raise errors.EligibleLeadersNotAvailable(f"Broker {chosen} has no replica, or is not running.")
    clean = choose_leader(partition, live, live)
    if clean is not None and chosen in (None, clean):
        return next_epoch(partition, clean)
    leader = unclean_choice(partition, live) if chosen is None else chosen
    if leader is None:
        raise errors.EligibleLeadersNotAvailable(
            f"None of the brokers {list(partition.replicas)} is running."
        )
    record = _given_up(partition, leader)
    return record._replace(
        leader=leader,
        leader_epoch=record.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )


def next_epoch(partition: PartitionImage, leader: NodeId | None) -> PartitionRecord:
    """`leader` leads in the next epoch; None: nobody does."""
    record = partition.record if leader is None else _led_by(partition, leader)
    return record._replace(
        leader=leader,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )


def _led_by(partition: PartitionImage, leader: NodeId) -> PartitionRecord:
    """A leader is a member of the in-sync set and not in doubt; all else stays until it changes the set itself.  Of metadata
    that were rolled back only the reports count: those of the others stay, should it not run."""
    record = partition.record
    doubts = tuple(tail for tail in record.doubts if tail.node != leader)
    if partition.rolled_back:
        return record._replace(in_sync=(leader,), eligible=(), doubts=doubts)
    doubts = tuple(tail._replace(followed=True) for tail in doubts)
    in_sync = record.in_sync if leader in record.in_sync else (*record.in_sync, leader)
    eligible = tuple(node for node in record.eligible if node != leader)
    return record._replace(in_sync=in_sync, eligible=eligible, doubts=doubts)


def _given_up(partition: PartitionImage, leader: NodeId) -> PartitionRecord:
    """After an unclean election: what others may have is given up.  Where the metadata were older than the logs, a replica
    that did not report may have records of later epochs than all that are known.  These epochs are left out: should it
    return, its log must not seem newer than what is acknowledged from here on."""
    epochs = EPOCHS_LEFT_OUT if partition.rolled_back else 0
    return partition.record._replace(
        leader_epoch=partition.leader_epoch + epochs, in_sync=(leader,), eligible=(), doubts=()
    )


def _move_ended(partition: PartitionImage, reachable: Collection[NodeId]) -> PartitionImage | None:
    """The partition on its new replicas alone, if all of them run, are in sync, and none is in doubt.  One that does not
    run may have lost its power, and is in doubt when it is back: the old replicas have to be there until then."""
    if not (partition.adding or partition.removing) or partition.rolled_back:
        return None
    target = tuple(node for node in partition.replicas if node not in partition.removing)
    sure = frozenset(partition.in_sync) & frozenset(reachable) - partition.doubted
    if not sure.issuperset(target):
        return None
    return partition._replace(
        replicas=target,
        moved=target,
        in_sync=tuple(node for node in partition.in_sync if node in target),
        eligible=tuple(node for node in partition.eligible if node in target),
        doubts=tuple(tail for tail in partition.doubts if tail.node in target),
        adding=(),
        removing=(),
    )


def unknown_partition(name: TopicPartition, topic_exists: bool) -> errors.TidelogError:
    missing = f"partition as {name}" if topic_exists else f"topic as {name.topic}"
    return errors.UnknownTopicOrPartition(f"No such {missing}")
