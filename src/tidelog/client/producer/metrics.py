"""Metrics of a producer: totals, and rates and averages of the last half minute.  Pure: the time is
passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tidelog.client.telemetry.recent_times import WINDOW_S, RecentTimes


@dataclass(frozen=True, slots=True)
class ProducerMetrics:
    """Plain values, as of now; names and meanings are also those of `prometheus`."""

    records_sent_total: int
    """Records that brokers have acknowledged."""
    records_failed_total: int
    """Records that were given up."""
    records_retried_total: int
    """Records that were sent more than once, counted every time."""
    bytes_sent_total: int
    """Bytes of acknowledged batches, as they were sent."""
    batches_sent_total: int
    requests_total: int
    """Produce requests that were answered."""
    record_send_rate: float
    """Acknowledged records a second."""
    record_error_rate: float
    """Failed records a second."""
    byte_rate: float
    """Acknowledged bytes a second."""
    batch_size_avg: float
    """Bytes of a batch, as it was sent."""
    records_per_batch_avg: float
    request_latency_avg_ms: float
    """From the last byte handed to the system to the answer."""
    request_latency_max_ms: float
    requests_throttled_total: int
    """Produce requests after which the broker wanted none for a while, because of a quota."""
    throttle_time_ms_total: float
    """For how long, in all."""
    throttle_time_avg_ms: float
    """Of an answered request; 0 without a quota."""
    throttle_time_max_ms: float
    record_queue_time_avg_ms: float
    """From the first record of a batch until the batch was sent."""
    record_queue_time_max_ms: float
    records_waiting: int
    """Records that are not acknowledged yet."""
    requests_in_flight: int
    buffer_used_bytes: int
    buffer_total_bytes: int

    def prometheus(self, labels: Mapping[str, str] | None = None, prefix: str = "tidelog_producer_") -> str:
        """In Prometheus' text format."""
        shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in (labels or {}).items())
        lines = []
        for field in fields(self):
            name = prefix + field.name
            kind = "counter" if field.name.endswith("_total") else "gauge"
            lines.append(f"# TYPE {name} {kind}\n{name}{{{shown}}} {getattr(self, field.name)}\n")
        return "".join(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class _ProducerSecond:
    __slots__ = ("batches", "bytes", "failed", "latency_max_s", "latency_s", "records", "requests", "second")

    def __init__(self, second: int) -> None:
        self.second = second
        self.records = self.failed = self.bytes = self.batches = self.requests = 0
        self.latency_s = self.latency_max_s = 0.0


class ProducerCounters:
    def __init__(self, now_s: float) -> None:
        self._begun_s = now_s
        self._seconds: deque[_ProducerSecond] = deque(maxlen=WINDOW_S)
        self.records = self.failed_records = self.retried_records = self.bytes = self.batches = 0
        self.requests = 0
        self.throttled = 0
        self.throttle_ms = 0
        self._throttles = RecentTimes()
        self._queue_times = RecentTimes()

    def sent(self, now_s: float, queued_ms: float) -> None:
        """A batch was sent for the first time, `queued_ms` after its first record."""
        self._queue_times.add(now_s, queued_ms)

    def throttle(self, now_s: float, throttle_ms: int) -> None:
        self._throttles.add(now_s, throttle_ms)
        if throttle_ms > 0:
            self.throttled += 1
            self.throttle_ms += throttle_ms

    def acknowledged(self, now_s: float, records: int, size: int) -> None:
        self.records += records
        self.bytes += size
        self.batches += 1
        second = self._second(now_s)
        second.records += records
        second.bytes += size
        second.batches += 1

    def failed(self, now_s: float, records: int) -> None:
        self.failed_records += records
        self._second(now_s).failed += records

    def retried(self, records: int) -> None:
        self.retried_records += records

    def answered(self, now_s: float, latency_s: float) -> None:
        self.requests += 1
        second = self._second(now_s)
        second.requests += 1
        second.latency_s += latency_s
        second.latency_max_s = max(second.latency_max_s, latency_s)

    def _second(self, now_s: float) -> _ProducerSecond:
        if not self._seconds or self._seconds[-1].second != int(now_s):
            self._seconds.append(_ProducerSecond(int(now_s)))
        return self._seconds[-1]

    def metrics(
        self, now_s: float, *, waiting: int, in_flight: int, buffer_used: int, buffer_total: int
    ) -> ProducerMetrics:
        # A copy: another thread may call this.
        seen = [second for second in list(self._seconds) if second.second > int(now_s) - WINDOW_S]
        span_s = min(WINDOW_S, max(1.0, now_s - self._begun_s))
        batches, requests = sum(second.batches for second in seen), sum(second.requests for second in seen)
        records, size = sum(second.records for second in seen), sum(second.bytes for second in seen)
        return ProducerMetrics(
            records_sent_total=self.records,
            records_failed_total=self.failed_records,
            records_retried_total=self.retried_records,
            bytes_sent_total=self.bytes,
            batches_sent_total=self.batches,
            requests_total=self.requests,
            record_send_rate=records / span_s,
            record_error_rate=sum(second.failed for second in seen) / span_s,
            byte_rate=size / span_s,
            batch_size_avg=size / batches if batches else 0.0,
            records_per_batch_avg=records / batches if batches else 0.0,
            request_latency_avg_ms=1000 * sum(second.latency_s for second in seen) / requests
            if requests
            else 0.0,
            request_latency_max_ms=1000 * max((second.latency_max_s for second in seen), default=0.0),
            requests_throttled_total=self.throttled,
            throttle_time_ms_total=self.throttle_ms,
            throttle_time_avg_ms=self._throttles.average_ms(now_s),
            throttle_time_max_ms=self._throttles.max_ms(now_s),
            record_queue_time_avg_ms=self._queue_times.average_ms(now_s),
            record_queue_time_max_ms=self._queue_times.max_ms(now_s),
            records_waiting=waiting,
            requests_in_flight=in_flight,
            buffer_used_bytes=buffer_used,
            buffer_total_bytes=buffer_total,
        )
