"""Times in buckets that grow by one percent: however many are counted, they take the same little memory.  Pure."""

from __future__ import annotations

import math

GROWTH = math.log(1.01)
PERCENTILES = (50.0, 95.0, 99.0, 99.9)


class Latencies:
    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, ms: float) -> None:
        self.count += 1
        self.total_ms += ms
        self.max_ms = max(self.max_ms, ms)
        bucket = math.ceil(math.log(max(ms, 1e-3)) / GROWTH)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def percentile_ms(self, percent: float) -> float:
        """No more than one percent above the true value."""
        rank = math.ceil(self.count * percent / 100)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                return min(math.exp(bucket * GROWTH), self.max_ms)
        return self.max_ms

    def figures(self) -> dict[str, float]:
        """As JSON has them: `p50_ms` and so on; empty when nothing was counted."""
        if not self.count:
            return {}
        percentiles = {f"p{percent:g}_ms": round(self.percentile_ms(percent), 3) for percent in PERCENTILES}
        return {
            "mean_ms": round(self.total_ms / self.count, 3),
            **percentiles,
            "max_ms": round(self.max_ms, 3),
        }
