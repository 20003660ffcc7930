"""Figures of the last minutes, of topics, groups and the cluster, one point for each poll.  Pure.

Bounded: at most `POINTS_MAX` points, and `LINES_MAX` topics and groups with a series of their own; those beyond the bound
count in the totals only."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

POINTS_MAX = 180
LINES_MAX = 2_000
MISSING = -1
RECENT_MS = 60_000


class Series:
    """A series of numbers for each name, all of the same length; a name without a number at a time has a gap."""

    def __init__(self, points_max: int = POINTS_MAX, lines_max: int = LINES_MAX) -> None:
        self._points_max = points_max
        self._lines_max = lines_max
        self._lines: dict[str, array[int]] = {}
        self._length = 0

    def add(self, values: Mapping[str, int]) -> None:
        for name in values:
            if name not in self._lines and len(self._lines) < self._lines_max:
                self._lines[name] = array("q", [MISSING]) * self._length
        for name, line in list(self._lines.items()):
            line.append(values.get(name, MISSING))
            if len(line) > self._points_max:
                del line[0]
                if all(value == MISSING for value in line):
                    del self._lines[name]
        self._length = min(self._length + 1, self._points_max)

    def of(self, name: str) -> list[int | None]:
        line = self._lines.get(name)
        if line is None:
            return [None] * self._length
        return [None if value == MISSING else value for value in line]


class ClusterHistory:
    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self._points_max = points_max
        self.times_ms: list[int] = []
        self.ends = Series(points_max)
        """By topic: the sum of the end offsets of its partitions."""
        self.lags = Series(points_max)
        """By group."""
        self.topic_lags = Series(points_max)
        """By group and topic, as `lag_name` joins them."""
        self.totals = Series(points_max)
        """By name of the figure, of the whole cluster."""

    def add(
        self,
        now_ms: int,
        ends: Mapping[str, int],
        lags: Mapping[tuple[str, str], int],
        totals: Mapping[str, int],
    ) -> None:
        """`lags`: by group and topic."""
        self.times_ms.append(now_ms)
        del self.times_ms[: -self._points_max]
        self.ends.add(ends)
        by_group: dict[str, int] = {}
        for (group, _), lag in lags.items():
            by_group[group] = by_group.get(group, 0) + lag
        self.lags.add(by_group)
        self.topic_lags.add({lag_name(*key): lag for key, lag in lags.items()})
        self.totals.add(totals)

    def lag_growth(self, group: str, topic: str, over_ms: int) -> int | None:
        """The growth of a lag since the last point that is at least `over_ms` old; None without such a point."""
        points = [
            (time, lag)
            for time, lag in zip(self.times_ms, self.topic_lags.of(lag_name(group, topic)), strict=True)
            if lag is not None
        ]
        before = [lag for time, lag in points if time <= self.times_ms[-1] - over_ms]
        return points[-1][1] - before[-1] if before else None

    def rates(self, counts: Sequence[int | None]) -> list[float | None]:
        """The growth of a counter per second, at each point."""
        return rates(self.times_ms, counts)

    def recent_rate(self, counts: Sequence[int | None]) -> float | None:
        """The growth of a counter per second over the last minute; None with fewer than two points."""
        if not self.times_ms:
            return None
        since = self.times_ms[-1] - RECENT_MS
        points = [
            (time, count)
            for time, count in zip(self.times_ms, counts, strict=True)
            if time >= since and count is not None
        ]
        if len(points) < 2:
            return None
        return max(0, points[-1][1] - points[0][1]) / ((points[-1][0] - points[0][0]) / 1000)


def lag_name(group: str, topic: str) -> str:
    return f"{topic}/{group}"  # names of topics have no slash


def rates(times_ms: Sequence[int], counts: Sequence[int | None]) -> list[float | None]:
    """The first point has no rate; a counter that shrank was reset, which counts as no growth."""
    growth: list[float | None] = [None] if counts else []
    for at in range(1, len(counts)):
        before, now = counts[at - 1], counts[at]
        seconds = (times_ms[at] - times_ms[at - 1]) / 1000
        if before is None or now is None or seconds <= 0:
            growth.append(None)
        else:
            growth.append(max(0, now - before) / seconds)
    return growth


def quantile(share: float, bounds: Sequence[float], counts: Sequence[int]) -> float | None:
    """The quantile of a histogram.  `counts`: cumulative, for each of the bounds, then in all.  Values between two bounds
    are taken as evenly spread; None when nothing was counted."""
    if not counts or counts[-1] <= 0:
        return None
    wanted, below, low = share * counts[-1], 0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count >= wanted and count > below:
            return low + (bound - low) * (wanted - below) / (count - below)
        below, low = count, bound
    return low
