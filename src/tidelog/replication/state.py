"""What the leader of a partition knows of its replicas, and how far records are committed.

Pure: facts in, decisions out.  A record is committed when every in-sync member holds it; only committed records are
shown to consumers and acknowledged to producers that asked for all.  Called by `Partition` alone."""

from __future__ import annotations

from tidelog.types import Epoch, NodeId, Offset

NOTHING = Offset(0)


class ReplicaState:
    __slots__ = ("_alone", "_caught_up_ms", "_ends", "committed", "end", "epoch", "in_sync", "node")

    def __init__(self, node: NodeId, committed: Offset, end: Offset) -> None:
        self.node = node
        self.epoch = Epoch(-1)
        self.in_sync: frozenset[NodeId] = frozenset()
        self.committed = committed
        self.end = end
        self._alone = False
        self._ends: dict[NodeId, Offset] = {}
        self._caught_up_ms: dict[NodeId, int] = {}

    def led(self, epoch: Epoch, in_sync: frozenset[NodeId]) -> bool:
        """This node leads from `epoch` on; true if `committed` moved."""
        assert epoch >= self.epoch
        if epoch > self.epoch:
            self._ends.clear()
            self._caught_up_ms.clear()
        self.epoch = epoch
        return self.in_sync_changed(in_sync)

    def in_sync_changed(self, in_sync: frozenset[NodeId]) -> bool:
        self.in_sync = in_sync
        self._alone = in_sync == {self.node}
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
        return self._advance()

    def follower_end(self, node: NodeId) -> Offset | None:
        """None when the follower has not fetched in this epoch."""
        return self._ends.get(node)

    def lagging(self, now_ms: int, lag_ms_max: int) -> frozenset[NodeId]:
        """In-sync followers that have not held the whole log for longer than allowed."""
        return frozenset(
            node
            for node in self.in_sync
            if node != self.node
            and self._ends.get(node, NOTHING) < self.end
            and now_ms - self._caught_up_ms.get(node, 0) > lag_ms_max
        )

    def truncated(self, end: Offset) -> None:
        """The log was cut: a follower that joined a newer epoch, or a log opened anew."""
        self.end = end
        self.committed = min(self.committed, end)

    def _advance(self) -> bool:
        if self._alone:
            held_by_all = self.end
        else:
            # A follower that has not fetched in this epoch counts as holding nothing: its old position may lie
            # past the point where its log and ours part ways.
            held_by_all = min(
                (self.end if node == self.node else self._ends.get(node, NOTHING) for node in self.in_sync),
                default=NOTHING,
            )
        if held_by_all <= self.committed:
            return False
        self.committed = min(held_by_all, self.end)
        return True
