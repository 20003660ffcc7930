"""How often a member of a classic group sends heartbeats of its own accord, as far as it can be seen from here.

Some clients (aiokafka) look between two heartbeats whether their application still polls, so none is held for longer
than its client would have waited for the next one.  A client whose interval is over while its heartbeat is held sends
the next at once: that one is answered at once too, and the time until the one after it is the interval.  Pure."""

from __future__ import annotations

AT_ONCE_S = 0.05
INTERVAL_MS_MIN = 100


class HeartbeatCadence:
    __slots__ = ("_answered_s", "_asking", "_interval_ms")

    def __init__(self) -> None:
        self._answered_s: float | None = None  # None: not of use
        self._asking = False
        self._interval_ms: int | None = None

    def expired(self, now_s: float) -> None:
        """A heartbeat was held for as long as it may be, and answered."""
        if self._interval_ms is None:
            self._answered_s = now_s

    def hold_ms(self, most_ms: int, now_s: float) -> int:
        """For a heartbeat that comes now; 0 when it is to be answered at once."""
        if self._interval_ms is not None:
            return min(self._interval_ms, most_ms)
        if self._answered_s is None:
            return most_ms
        gap_s, self._answered_s = now_s - self._answered_s, None
        if self._asking:
            self._interval_ms = max(int(gap_s * 1000), INTERVAL_MS_MIN)
            return min(self._interval_ms, most_ms)
        if gap_s > AT_ONCE_S:
            return most_ms
        self._asking, self._answered_s = True, now_s
        return 0
