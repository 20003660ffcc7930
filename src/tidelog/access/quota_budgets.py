"""What all sessions under one quota have used together, and how long they wait.  Pure: the clock is passed in.

Each quota in use has one budget.  A budget that was not used for as long as rates look back is as good as a new one, so it
is dropped; how many there are is bounded, since clients choose their ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tidelog.access.quotas import QuotaBudget, QuotaLimit, QuotaRate, QuotaWindows, TokenBucket

BUDGETS_MAX = 10_000
GRANT_SHARE = 8
"""A session gets this part of what a budget has left to use without asking again."""


class GrantHolder(Protocol):
    produce_bytes_left: int


class QuotaUse(Protocol):
    used_ms: int

    def change(self, per_second: float, now_ms: int) -> None:
        """The quota is another one from now on; what was used so far counts."""


U = TypeVar("U", bound=QuotaUse)


class ByteBudget:
    """Bytes a second.  Parts of it are granted to sessions, whose hot path counts them down; `charge_holder` settles."""

    def __init__(self, per_second: float, windows: QuotaWindows) -> None:
        self.used_ms = 0
        self._budget = QuotaBudget(per_second, windows)
        self._holders: dict[GrantHolder, None] = {}
        # One request of this size can be paid within the windows.
        self._windows_s = max(1, windows.number - 1) * windows.size_ms / 1000

    @property
    def bytes_max(self) -> int:
        """What one answer may take, so that waiting for it ends within the time that rates look back."""
        return max(1, int((self._budget.limit or 0) * self._windows_s))

    def change(self, per_second: float, now_ms: int) -> None:
        self._take_back()
        self._budget.change(per_second, now_ms)

    def charge(self, size: int, now_ms: int) -> int:
        """Returns for how long the client is to be muted."""
        self.used_ms = now_ms
        self._budget.left -= size
        if self._budget.left >= 0:
            return 0
        self._take_back()
        return self._budget.settle(now_ms) if self._budget.left < 0 else 0

    def over_ms(self, now_ms: int) -> int:
        """How long until the rate is at the quota again; 0 when it is not above."""
        return self._budget.settle(now_ms) if self._budget.left <= 0 else 0

    def charge_holder(self, holder: GrantHolder, size: int, now_ms: int) -> int:
        """As `charge`; `holder` gets a new grant for what it does next."""
        self.leave(holder)
        throttle_ms = self.charge(size, now_ms)
        grant = self._budget.left // GRANT_SHARE
        if grant > 0:
            self._budget.left -= grant
            holder.produce_bytes_left = grant
            self._holders[holder] = None
        return throttle_ms

    def leave(self, holder: GrantHolder) -> None:
        """Takes back what the holder has not used of its grant."""
        if holder in self._holders:
            del self._holders[holder]
            self._budget.left += holder.produce_bytes_left
            holder.produce_bytes_left = 0

    def _take_back(self) -> None:
        # Otherwise grants that idle sessions hold would add up to a burst above the quota.
        for holder in tuple(self._holders):
            self.leave(holder)


class TimeBudget:
    """Percent of one thread's time."""

    def __init__(self, percent: float, windows: QuotaWindows) -> None:
        self.used_ms = 0
        self._rate = QuotaRate(windows)
        self._percent = percent
        self._throttle_ms_max = windows.size_ms

    def change(self, per_second: float, now_ms: int) -> None:
        self._percent = per_second

    def charge(self, time_ns: int, now_ms: int) -> int:
        """Returns for how long the client is to be muted: as in Kafka, for one window at most."""
        self.used_ms = now_ms
        self._rate.record(time_ns * 100 / 1e9, now_ms)
        return self._rate.throttle_ms(self._percent, now_ms, self._throttle_ms_max)


class MutationBudget:
    """Partitions created and deleted a second."""

    def __init__(self, per_second: float, windows: QuotaWindows, now_ms: int) -> None:
        self.used_ms = now_ms
        self._bucket = TokenBucket(per_second, now_ms, windows)

    def change(self, per_second: float, now_ms: int) -> None:
        self._bucket.change(per_second, now_ms)

    def charge(self, partitions: int, strict: bool, now_ms: int) -> int:
        """`strict`: nothing is taken unless this returns 0."""
        self.used_ms = now_ms
        if strict:
            return self._bucket.take(partitions, now_ms)
        return self._bucket.take_anyway(partitions, now_ms)


class ConnectionBudget:
    """New connections a second."""

    def __init__(self, per_second: float, windows: QuotaWindows) -> None:
        self.used_ms = 0
        self._rate = QuotaRate(windows)
        self._per_second = per_second
        self._throttle_ms_max = windows.number * windows.size_ms

    def change(self, per_second: float, now_ms: int) -> None:
        self._per_second = per_second

    def charge(self, now_ms: int, counts: bool) -> int:
        """Returns how long to wait.  `counts`: the connection counts although it came too soon."""
        self.used_ms = now_ms
        self._rate.record(1, now_ms)
        # A rate of 0 lets nobody in, and is nothing to divide by.
        limit = max(self._per_second, 1e-6)
        throttle_ms = self._rate.throttle_ms(limit, now_ms, self._throttle_ms_max)
        if throttle_ms and not counts:
            self._rate.record(-1, now_ms)
        return throttle_ms


class QuotaUses(Generic[U]):
    """The budgets of one kind, by what shares them."""

    def __init__(self, make: Callable[[float, int], U], budgets_max: int = BUDGETS_MAX) -> None:
        """`make(per_second, now_ms)`"""
        self._make = make
        self._budgets_max = budgets_max
        self._held: dict[tuple[str, str], _HeldUse[U]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def of(self, limit: QuotaLimit, now_ms: int, unused_ms: int) -> U:
        """The one budget of all that share this limit.  `unused_ms`: after this time a budget is as good as a new one."""
        shared_by = limit.shared_by
        held = self._held.get(shared_by)
        if held is None:
            if len(self._held) >= self._budgets_max:
                self._forget(now_ms - unused_ms)
            if len(self._held) >= self._budgets_max:
                # Clients with new ids by the thousand share what one of them would have.
                shared_by = ("", "")
                held = self._held.get(shared_by)
        if held is None:
            held = self._held[shared_by] = _HeldUse(self._make(limit.per_second, now_ms), limit.per_second)
        elif held.per_second != limit.per_second:
            held.budget.change(limit.per_second, now_ms)
            held.per_second = limit.per_second
        held.budget.used_ms = now_ms
        return held.budget

    def _forget(self, before_ms: int) -> None:
        for shared_by, held in tuple(self._held.items()):
            if held.budget.used_ms <= before_ms:
                del self._held[shared_by]


class _HeldUse(Generic[U]):
    __slots__ = ("budget", "per_second")

    def __init__(self, budget: U, per_second: float) -> None:
        self.budget = budget
        self.per_second = per_second
