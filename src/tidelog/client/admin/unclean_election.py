"""Unclean leader election: the records that electing each replica of a partition without a leader would lose, as far
as that is known.  Pure.

Records of a newer leader epoch count as more than records of an older one: records that a log has beyond the start of
a newer epoch were truncated, or will be.  A replica that has not reported since it stopped may have any records: the
result says so and does not guess."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tidelog.client.admin.replica_states import UNKNOWN, PartitionState, ReplicaDoubt, ReplicaLog

EPOCHS_TOLD_MAX = 32
NO_LOG = ReplicaLog(0, 0, 0, ())
WITHOUT_LOG = frozenset(("missing", "new-directory"))


@dataclass(frozen=True, slots=True)
class Replica:
    """`log`: the answer of its running broker; `doubt`: its report when it started, if the replica was in doubt."""

    node: int
    running: bool
    in_sync: bool
    log: ReplicaLog | None
    doubt: ReplicaDoubt | None

    @property
    def reach(self) -> ReplicaLog | None:
        """How far its log reaches; None when that is unknown."""
        if self.log is not None or self.doubt is None:
            return self.log
        if self.doubt.cause in WITHOUT_LOG:
            return NO_LOG
        if self.doubt.log_end_offset == UNKNOWN:
            return None
        return ReplicaLog(self.doubt.log_end_offset, UNKNOWN, 0, ((self.doubt.leader_epoch, UNKNOWN),))


@dataclass(frozen=True, slots=True)
class ElectionLoss:
    """The loss of electing a replica: `offsets` that another replica is known to have beyond it, `committed` of them
    below a high watermark.  `at_least`: there are more offsets, of unknown number.  `unknown`: replicas that may have
    more."""

    offsets: int
    committed: int
    at_least: bool
    unknown: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ElectionChoices:
    """The replicas of a partition without a leader, what each that can be elected would lose, and the best one."""

    state: PartitionState
    replicas: tuple[Replica, ...]
    losses: Mapping[int, ElectionLoss]
    best: int | None


def choices(
    state: PartitionState, running: Collection[int], logs: Mapping[int, ReplicaLog | None]
) -> ElectionChoices:
    """`logs`: by broker, the answer of each running broker."""
    holders = {*state.in_sync, *state.eligible}
    doubts = {doubt.node: doubt for doubt in state.doubts}
    replicas = tuple(
        Replica(node, node in running, node in holders, logs.get(node), doubts.get(node))
        for node in state.replicas
    )
    losses = {
        replica.node: loss(replica.log, [other for other in replicas if other is not replica])
        for replica in replicas
        if replica.running and replica.log is not None
    }
    return ElectionChoices(state, replicas, losses, _best(replicas, losses))


def loss(elected: ReplicaLog, others: Iterable[Replica]) -> ElectionLoss:
    offsets = committed = 0
    at_least = False
    unknown: list[int] = []
    for other in others:
        reach = other.reach
        if reach is None:
            unknown.append(other.node)
        elif reach.leader_epoch >= elected.leader_epoch:
            shared, exact = _shared_end(elected, reach)
            offsets = max(offsets, reach.log_end_offset - shared)
            committed = max(committed, reach.high_watermark - shared)
            at_least = at_least or not exact
    return ElectionLoss(offsets, committed, at_least, tuple(unknown))


def _shared_end(elected: ReplicaLog, other: ReplicaLog) -> tuple[int, bool]:
    """Up to where `other`, whose newest epoch is not older, has what `elected` has; whether that is exact."""
    newer = [start for epoch, start in other.epochs if epoch > elected.leader_epoch]
    if not newer:
        return elected.log_end_offset, True
    if newer[0] == UNKNOWN:
        return elected.log_end_offset, False
    # What `other` does not have any more itself, because of its retention, is not lost.
    first = other.epochs[0][1]
    whole = len(newer) < len(other.epochs) or len(other.epochs) < EPOCHS_TOLD_MAX
    return max(min(elected.log_end_offset, newer[0]), first), whole


def _best(replicas: Iterable[Replica], losses: Mapping[int, ElectionLoss]) -> int | None:
    """None when no replica that runs has records, and one that does not run may have some."""
    running = [replica for replica in replicas if replica.node in losses and replica.log is not None]
    if not running:
        return None

    def cost(replica: Replica) -> tuple[int, bool, bool, bool]:
        lost, log = losses[replica.node], replica.log
        return lost.offsets, lost.at_least, log is not None and bool(log.damaged_ranges), not replica.in_sync

    best = min(running, key=cost)
    nothing = best.log is not None and best.log.log_end_offset == 0
    return None if nothing and losses[best.node].unknown else best.node
