"""Durations of the last half minute: their average and maximum.  Pure: the time is passed in."""

from __future__ import annotations

from collections import deque

WINDOW_S = 30


class _SecondOfTimes:
    __slots__ = ("count", "max_ms", "second", "sum_ms")

    def __init__(self, second: int) -> None:
        self.second = second
        self.count = 0
        self.sum_ms = self.max_ms = 0.0


class RecentTimes:
    """Also counts all durations since the start."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self._seconds: deque[_SecondOfTimes] = deque(maxlen=WINDOW_S)

    def add(self, now_s: float, took_ms: float) -> None:
        if not self._seconds or self._seconds[-1].second != int(now_s):
            self._seconds.append(_SecondOfTimes(int(now_s)))
        second = self._seconds[-1]
        second.count += 1
        second.sum_ms += took_ms
        second.max_ms = max(second.max_ms, took_ms)
        self.count += 1
        self.sum_ms += took_ms

    def recent(self, now_s: float) -> int:
        """How many durations are in the window."""
        return sum(second.count for second in self._seen(now_s))

    def average_ms(self, now_s: float) -> float:
        """0 without any duration in the window."""
        count = self.recent(now_s)
        return sum(second.sum_ms for second in self._seen(now_s)) / count if count else 0.0

    def max_ms(self, now_s: float) -> float:
        return max((second.max_ms for second in self._seen(now_s)), default=0.0)

    def _seen(self, now_s: float) -> list[_SecondOfTimes]:
        # A copy: another thread may call this.
        return [second for second in list(self._seconds) if second.second > int(now_s) - WINDOW_S]
