"""How far followers are, and what that commits: dictionaries and sets instead of a native table."""

from __future__ import annotations

from collections.abc import Set


class ReferenceReplicaState:
    def __init__(self, node: int, committed: int, end: int) -> None:
        self.node, self.committed, self.end = node, committed, end
        self.enough_members = self.is_alone = False
        self.counted: Set[int] = frozenset()
        self.ends: dict[int, int] = {}
        self.caught_up_ms: dict[int, int] = {}
        self.last_fetch: dict[int, tuple[int, int]] = {}  # when, and where the leader's log ended then

    def appended(self, end: int) -> bool:
        self.end = end
        if self.is_alone:
            self.committed = end
            return True
        return self.advance()

    def follower_fetched(self, node: int, end: int, now_ms: int) -> bool:
        fetched_ms, leader_end_then = self.last_fetch.get(node, (now_ms, self.end))
        if end >= self.end:
            self.caught_up_ms[node] = now_ms
        elif end >= leader_end_then:
            self.caught_up_ms[node] = max(self.caught_up_ms.get(node, fetched_ms), fetched_ms)
        self.ends[node] = end
        self.last_fetch[node] = now_ms, self.end
        return self.advance()

    def follower_end(self, node: int) -> int | None:
        return self.ends.get(node)

    def behind_ms(self, node: int, now_ms: int) -> int:
        if self.ends.get(node, 0) >= self.end:
            return 0
        return max(now_ms - self.caught_up_ms.get(node, now_ms), 0)

    def is_lagging(self, node: int, now_ms: int, lag_ms_max: int) -> bool:
        if self.ends.get(node, 0) >= self.end:
            return False
        return now_ms - self.caught_up_ms.setdefault(node, now_ms) > lag_ms_max

    def forget_followers(self) -> None:
        self.ends.clear()
        self.caught_up_ms.clear()
        self.last_fetch.clear()

    def count(self, counted: Set[int], enough_members: bool) -> bool:
        self.counted, self.enough_members = counted, enough_members
        self.is_alone = enough_members and counted == {self.node}
        return self.advance()

    def stop_leading(self) -> None:
        self.forget_followers()
        self.is_alone = self.enough_members = False

    def advance(self) -> bool:
        if not self.enough_members or not self.counted:
            return False
        held = [self.end if node == self.node else self.ends.get(node, 0) for node in self.counted]
        held_by_all = min(*held, self.end)
        moved = held_by_all > self.committed
        self.committed = max(held_by_all, self.committed)
        return moved
