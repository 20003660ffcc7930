"""What the leader of a partition knows of its replicas, and how far records are committed.

Pure: facts in, decisions out.  A record is committed when every in-sync member holds it, and there are as many of them as
the topic asks for; only committed records are shown to consumers and acknowledged to producers that asked for all.
Called by `Partition` alone."""

from __future__ import annotations

from tidelog._speed.tail import ReplicaTail
from tidelog.types import Epoch, NodeId, Offset

NOTHING = Offset(0)


class ReplicaState(ReplicaTail):
    __slots__ = (
        "_asked",
        "_caught_up_ms",
        "_counted",
        "_doubted",
        "_ends",
        "_members_min",
        "_others_eligible",
        "epoch_start",
        "in_sync",
        "node",
        "proposed",
    )

    committed: Offset
    end: Offset
    epoch: Epoch

    def __init__(self, node: NodeId, committed: Offset, end: Offset) -> None:
        self.node = node
        self.epoch = Epoch(-1)
        self.epoch_start = end
        self.in_sync: frozenset[NodeId] = frozenset()
        self.proposed: frozenset[NodeId] | None = None
        self.committed = committed
        self.end = end
        self._counted: frozenset[NodeId] = frozenset()
        self._members_min = 1
        self._doubted: frozenset[NodeId] = frozenset()
        self._others_eligible = False
        self._alone = False
        self._ends: dict[NodeId, Offset] = {}
        self._asked: dict[NodeId, tuple[int, Offset]] = {}
        self._caught_up_ms: dict[NodeId, int] = {}

    def led(
        self,
        epoch: Epoch,
        in_sync: frozenset[NodeId],
        doubted: frozenset[NodeId] = frozenset(),
        others_eligible: bool = False,
    ) -> bool:
        """This node leads from `epoch` on; true if `committed` moved.  Members in doubt do not count as members.  While
        replicas outside of the in-sync set are eligible leaders (`others_eligible`), nothing more is committed: one of
        them may be the next leader, and has what is committed now."""
        assert epoch >= self.epoch
        if epoch > self.epoch:
            self._forget_followers()
            self.epoch_start = self.end
        self.epoch = epoch
        self._doubted = doubted
        self._others_eligible = others_eligible
        return self.in_sync_changed(in_sync)

    def followed(self, epoch: Epoch) -> None:
        """Another node leads from `epoch` on."""
        self.epoch = max(self.epoch, epoch)
        self._forget_followers()
        self._alone = False

    def _forget_followers(self) -> None:
        self._asked.clear()
        self._ends.clear()
        self._caught_up_ms.clear()
        self.proposed = None

    def in_sync_changed(self, in_sync: frozenset[NodeId]) -> bool:
        """What is stored says so; true if `committed` moved."""
        self.in_sync = in_sync
        return self._count()

    def propose(self, in_sync: frozenset[NodeId]) -> bool:
        """This set is about to be stored.  Until it is known whether it was, every member of either counts: whoever is
        elected from the one or the other must have what is committed.  True if `committed` moved."""
        self.proposed = in_sync
        return self._count()

    def settled(self) -> bool:
        """What was proposed is stored, and `in_sync` tells, or it never will be; true if `committed` moved."""
        self.proposed = None
        return self._count()

    def need(self, members_min: int) -> bool:
        """Nothing is committed by fewer in-sync members, also of what came while there were more: the set may shrink
        between an append and its acknowledgement.  True if `committed` moved."""
        self._members_min = members_min
        return self._count()

    @property
    def enough_members(self) -> bool:
        return not self._others_eligible and len(self.in_sync - self._doubted) >= self._members_min

    def _count(self) -> bool:
        self._counted = self.in_sync if self.proposed is None else self.in_sync | self.proposed
        self._alone = self.enough_members and self._counted == {self.node}
        return self._advance()

    def appended(self, end: Offset) -> bool:
        """The leader's own log reaches to `end`; true if `committed` moved."""
        self.end = end
        if self._alone:
            self.committed = end
            return True
        return self._advance()

    def follower_fetched(self, node: NodeId, end: Offset, now_ms: int) -> bool:
        """`node` asked for `end`, so it holds every record below it; true if `committed` moved."""
        self._ends[node] = end
        if end >= self.end:
            self._caught_up_ms[node] = now_ms
        else:
            # On a busy partition a follower is never quite at the end: what counts is that it has what was there when
            # it asked before.
            asked_ms, end_then = self._asked.get(node, (now_ms, self.end))
            if end >= end_then:
                self._caught_up_ms[node] = max(self._caught_up_ms.get(node, asked_ms), asked_ms)
        self._asked[node] = now_ms, self.end
        return self._advance()

    @property
    def knows_committed(self) -> bool:
        """False for a new leader until all that was there when its epoch began is committed again."""
        return self.committed >= self.epoch_start

    def follower_end(self, node: NodeId) -> Offset | None:
        """None when the follower has not fetched in this epoch."""
        return self._ends.get(node)

    def caught_up(self, node: NodeId) -> bool:
        """A follower outside of the in-sync set that has all that is committed, and was here in this epoch long enough
        to have dropped what an older one left it."""
        end = self._ends.get(node)
        return (
            end is not None and node not in self.in_sync and end >= self.committed and end >= self.epoch_start
        )

    def lagging(self, now_ms: int, lag_ms_max: int) -> frozenset[NodeId]:
        """In-sync followers that have not held the whole log for longer than allowed."""
        return frozenset(
            node
            for node in self.in_sync
            if node != self.node
            and self._ends.get(node, NOTHING) < self.end
            and now_ms - self._caught_up_ms.setdefault(node, now_ms) > lag_ms_max
        )

    def behind_ms(self, node: NodeId, now_ms: int) -> int:
        """For how long a follower has not held the whole log; 0 when it does, or was not heard of in this epoch."""
        if self._ends.get(node, NOTHING) >= self.end:
            return 0
        return max(now_ms - self._caught_up_ms.get(node, now_ms), 0)

    def truncated(self, end: Offset) -> None:
        """The log was cut: a follower that joined a newer epoch, or a log opened anew."""
        self.end = end
        self.committed = min(self.committed, end)

    def _advance(self) -> bool:
        if self._alone:
            held_by_all = self.end
        elif not self.enough_members:
            return False
        else:
            # A follower that has not fetched in this epoch counts as holding nothing: its old position may lie
            # past the point where its log and ours part ways.
            held_by_all = min(
                (self.end if node == self.node else self._ends.get(node, NOTHING) for node in self._counted),
                default=NOTHING,
            )
        if held_by_all <= self.committed:
            return False
        self.committed = min(held_by_all, self.end)
        return True
