"""How long rebalances took: from the moment at which a group had to rebalance until it was stable again.  Pure."""

from __future__ import annotations

from tidelog._speed.log.request_metrics import Histogram

BOUNDS_MS = (10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000, 300_000)
OPEN_MAX = 100_000
STABLE = "Stable"
ENDED = frozenset({"Empty", "Dead"})
"""Members have left: nobody waits for the end of the rebalance."""


class RebalanceTimes:
    """Of the classic and consumer groups that one broker coordinates."""

    def __init__(self) -> None:
        self.times_ms = Histogram(BOUNDS_MS)
        self._began_ms: dict[str, int] = {}

    def observe(self, group_id: str, state: str, now_ms: int) -> None:
        """The group is in this state now; call it after each change."""
        if state == STABLE:
            began_ms = self._began_ms.pop(group_id, None)
            if began_ms is not None:
                self.times_ms.observe(max(0, now_ms - began_ms))
        elif state in ENDED:
            self.forget(group_id)
        elif group_id not in self._began_ms and len(self._began_ms) < OPEN_MAX:
            self._began_ms[group_id] = now_ms

    def forget(self, group_id: str) -> None:
        """Another broker coordinates the group from now on, or it is gone."""
        self._began_ms.pop(group_id, None)
