"""How far the followers of a partition are in the leader's epoch, and how far records are committed by that."""

from collections.abc import Set
from typing import Any

class NativeReplicaState:
    node: Any
    epoch: Any
    committed: Any
    end: Any
    @property
    def enough_members(self) -> bool: ...
    @property
    def is_alone(self) -> bool:
        """What this node appends is committed at once."""

    def appended(self, end: int) -> bool:
        """The leader's own log reaches to `end`; true if `committed` moved."""

    def follower_fetched(self, node: int, end: int, now_ms: int) -> bool:
        """`node` asked for `end`, so it holds every record below it; true if `committed` moved."""

    def follower_end(self, node: int) -> Any:
        """None when the follower has not fetched in this epoch."""

    def behind_ms(self, node: int, now_ms: int) -> int:
        """For how long a follower has not held the whole log; 0 when it does, or has not fetched in this epoch."""

    def is_lagging(self, node: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether a follower has not held the whole log for longer than allowed.  The time of a follower that was never
        seen at the end begins when somebody asks first."""

    def forget_followers(self) -> None:
        """A new epoch: positions from an older one may lie past the point where the logs part ways."""

    def count(self, counted: Set[int], enough_members: bool) -> bool:
        """From now on a record is committed when every member of `counted` holds it, and not at all unless there are
        enough members; true if `committed` moved."""

    def stop_leading(self) -> None:
        """Nothing is committed by this node's own appends."""
