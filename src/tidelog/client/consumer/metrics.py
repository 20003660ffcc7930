"""Metrics of a consumer: totals, and rates and averages of the last half minute.  Pure: the time is
passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tidelog.client.producer.metrics import _escaped
from tidelog.client.telemetry.recent_times import WINDOW_S
from tidelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """Plain values, as of now; names and meanings are also those of `prometheus`."""

    records_consumed_total: int
    """Records that were handed out."""
    bytes_fetched_total: int
    fetches_total: int
    polls_total: int
    rebalances_total: int
    commits_total: int
    commits_failed_total: int
    record_consume_rate: float
    """Records a second."""
    fetch_latency_avg_ms: float
    """From a fetch to its answer, the wait for records at the broker included, in the last half minute."""
    fetch_latency_max_ms: float
    fetches_throttled_total: int
    """Fetches after which the broker wanted none for a while, because of a quota."""
    throttle_time_ms_total: float
    """For how long, in all."""
    rebalance_latency_avg_ms: float
    """From the first join, or from the news of another assignment, until the new partitions are in use: the wait for the
    other members, listeners and commits included."""
    rebalance_latency_max_ms: float
    rebalance_latency_ms_total: float
    processing_time_ratio: float
    """The part of the time that was spent between two polls."""
    processing_time_avg_ms: float
    """From a poll to the next one."""
    commit_success_ratio: float
    commit_latency_avg_ms: float
    commit_latency_max_ms: float
    partitions_assigned: int
    records_lag_max: int
    """Of all assigned partitions."""
    lag: Mapping[TopicPartition, int]
    """By partition: how far the position is behind the end, as of the last fetch."""

    def prometheus(self, labels: Mapping[str, str] | None = None, prefix: str = "tidelog_consumer_") -> str:
        """In Prometheus' text format."""
        label_pairs = [f'{name}="{_escaped(value)}"' for name, value in (labels or {}).items()]
        lines = []
        for field in fields(self):
            if field.name == "lag":
                continue
            name = prefix + field.name
            kind = "counter" if field.name.endswith("_total") else "gauge"
            lines.append(
                f"# TYPE {name} {kind}\n{name}{{{','.join(label_pairs)}}} {getattr(self, field.name)}\n"
            )
        name = prefix + "lag_records"
        lines.append(f"# TYPE {name} gauge\n")
        for partition, lag in sorted(self.lag.items()):
            where = [f'topic="{_escaped(partition.topic)}"', f'partition="{partition.partition}"']
            lines.append(f"{name}{{{','.join([*label_pairs, *where])}}} {lag}\n")
        return "".join(lines)


class _ConsumerSecond:
    __slots__ = ("busy_s", "polls", "records", "second")

    def __init__(self, second: int) -> None:
        self.second = second
        self.records = self.polls = 0
        self.busy_s = 0.0


class ConsumerCounters:
    def __init__(self, now_s: float) -> None:
        self._begun_s = now_s
        self._returned_s: float | None = None
        self._seconds: deque[_ConsumerSecond] = deque(maxlen=WINDOW_S)
        self.records = self.polls = 0

    def polled(self, now_s: float) -> None:
        """The application has polled."""
        self.polls += 1
        second = self._second(now_s)
        if self._returned_s is not None:
            second.busy_s += now_s - self._returned_s
            second.polls += 1

    def handed_out(self, now_s: float, count: int) -> None:
        self._returned_s = now_s
        if count:
            self.records += count
            self._second(now_s).records += count

    def _second(self, now_s: float) -> _ConsumerSecond:
        if not self._seconds or self._seconds[-1].second != int(now_s):
            self._seconds.append(_ConsumerSecond(int(now_s)))
        return self._seconds[-1]

    def rates(self, now_s: float) -> tuple[float, float, float]:
        """Records a second, the part of the time between polls, and its average in milliseconds."""
        seen = [second for second in list(self._seconds) if second.second > int(now_s) - WINDOW_S]
        span_s = min(WINDOW_S, max(1.0, now_s - self._begun_s))
        busy_s, polls = sum(second.busy_s for second in seen), sum(second.polls for second in seen)
        records = sum(second.records for second in seen)
        return records / span_s, min(1.0, busy_s / span_s), 1000 * busy_s / polls if polls else 0.0
