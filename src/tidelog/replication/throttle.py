"""Replication throttles (`leader.` and `follower.replication.throttled.rate`): quotas for replicas that are behind.  Pure.

A replica in sync is never throttled, since producers wait for it; its bytes count all the same, as in Kafka.  The fetch
handler uses the leader's throttle, `replica_fetcher` the follower's, and `partitions` one for moves between directories."""

from __future__ import annotations

from collections.abc import Callable, Collection

NO_LIMIT = (1 << 63) - 1
WAIT_MS_MAX = 1_000  # the rate may change meanwhile
EVERY_REPLICA = "*"


def throttled(listed: Collection[str], index: int, node: int) -> bool:
    """Whether a topic's list of throttled replicas (`partition:broker`, or `*` for all) has this one."""
    return bool(listed) and (EVERY_REPLICA in listed or f"{index}:{node}" in listed)


class Throttle:
    """A budget of bytes that fills at `rate` a second, up to the bytes of one second.  One caller may overdraw the budget
    by a single amount; then all callers wait until the budget is positive again."""

    def __init__(self, rate: Callable[[], int]) -> None:
        self._rate = rate
        self._balance = 0.0
        self._at_ms: int | None = None

    def left(self, now_ms: int) -> int:
        """Bytes that may be taken now; none when it is not above zero."""
        rate = self._rate()
        if rate >= NO_LIMIT:
            self._at_ms = None
            return NO_LIMIT
        if self._at_ms is None:
            self._balance = float(rate)
        else:
            self._balance = min(self._balance + (now_ms - self._at_ms) * rate / 1000, float(rate))
        self._at_ms = now_ms
        return int(self._balance)

    def took(self, count: int, now_ms: int) -> None:
        if self.left(now_ms) < NO_LIMIT:
            self._balance -= count

    def wait_ms(self, now_ms: int) -> int:
        """Until it is worth asking again."""
        left = self.left(now_ms)
        if left > 0:
            return 0
        rate = self._rate()
        return WAIT_MS_MAX if rate <= 0 else min(int((1 - self._balance) * 1000 / rate) + 1, WAIT_MS_MAX)
