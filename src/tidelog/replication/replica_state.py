"""The high watermark of a partition, and the log end offset (LEO) of each of its replicas, as the leader knows them.

Pure: facts in, decisions out.  A record is committed when every in-sync member holds it, and there are as many of them as
the topic asks for; only committed records are shown to consumers and acknowledged to producers that asked for all.  The
high watermark is called `committed` here.  How far each follower is, and what that commits, is native
(`_speed/log/replica_state.pyx`).  Called by `Partition` alone."""

from __future__ import annotations

from tidelog._speed.log.replica_state import NativeReplicaState
from tidelog.types import Epoch, NodeId, Offset


class ReplicaState(NativeReplicaState):
    __slots__ = (
        "_doubted",
        "_leads",
        "_members_min",
        "_others_eligible",
        "epoch_start",
        "in_sync",
        "proposed",
    )

    node: NodeId
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
        self._leads = False
        self._members_min = 1
        self._doubted: frozenset[NodeId] = frozenset()
        self._others_eligible = False

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
        self._leads = True
        if epoch > self.epoch:
            self.forget_followers()
            self.proposed = None
            self.epoch_start = self.end
        self.epoch = epoch
        self._doubted = doubted
        self._others_eligible = others_eligible
        return self.in_sync_changed(in_sync)

    def followed(self, epoch: Epoch) -> None:
        """Another node leads from `epoch` on."""
        self.epoch = max(self.epoch, epoch)
        self._leads = False
        self.stop_leading()
        self.proposed = None

    def in_sync_changed(self, in_sync: frozenset[NodeId]) -> bool:
        """What is stored says so; true if `committed` moved."""
        self.in_sync = in_sync
        return self._count()

    def propose(self, in_sync: frozenset[NodeId]) -> bool:
        """This set is about to be stored.  Until the outcome is known, every member of both sets counts: a leader elected
        from either set must have all committed records.  True if `committed` moved."""
        self.proposed = in_sync
        return self._count()

    def settled(self) -> bool:
        """The proposal is stored, as `in_sync` shows, or never will be; true if `committed` moved."""
        self.proposed = None
        return self._count()

    def need(self, members_min: int) -> bool:
        """Nothing is committed by fewer in-sync members, also of what came while there were more: the set may shrink
        between an append and its acknowledgement.  True if `committed` moved."""
        self._members_min = members_min
        return self._count()

    def _has_enough_members(self) -> bool:
        return not self._others_eligible and len(self.in_sync - self._doubted) >= self._members_min

    def _count(self) -> bool:
        if not self._leads:
            return False  # what is committed is for the leader to say
        counted = self.in_sync if self.proposed is None else self.in_sync | self.proposed
        return self.count(counted, self._has_enough_members())

    @property
    def knows_committed(self) -> bool:
        """False for a new leader until all that was there when its epoch began is committed again."""
        return self.committed >= self.epoch_start

    def caught_up(self, node: NodeId) -> bool:
        """A follower outside of the in-sync set that has all that is committed, and was here in this epoch long enough
        to have dropped what an older one left it."""
        end = self.follower_end(node)
        return (
            end is not None and node not in self.in_sync and end >= self.committed and end >= self.epoch_start
        )

    def lagging(self, now_ms: int, lag_ms_max: int) -> frozenset[NodeId]:
        """In-sync followers that have not held the whole log for longer than allowed."""
        return frozenset(
            node for node in self.in_sync if node != self.node and self.is_lagging(node, now_ms, lag_ms_max)
        )

    def truncated(self, end: Offset) -> None:
        """The log was cut: a follower that joined a newer epoch, or a log opened anew."""
        self.end = end
        self.committed = min(self.committed, end)
