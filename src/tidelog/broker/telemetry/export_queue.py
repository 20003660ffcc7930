"""Pushed client metrics that wait for their way to an OTLP receiver, and what becomes of each answer.  Bounded in bytes: the
oldest metrics are given up for new ones.  Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.wire.protobuf import fields, message, messages, text

EXPORT_BYTES_MAX = 1 << 20
"""Of one request, unless one push is larger."""
RETRY_S, RETRY_S_MAX = 1.0, 30.0
RETRY_AFTER_S_MAX = 300.0
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""As OTLP defines them; any other failure is final for the metrics that were sent."""
QUEUE_FULL, REFUSED = "queue_full", "refused"
_RESOURCE_METRICS, _RESOURCE = 1, 1


class MetricsExport(NamedTuple):
    """The metrics of `pushes` pushes, one after the other: protobuf reads them as one message."""

    body: bytes
    pushes: int


class ExportQueue:
    def __init__(self) -> None:
        self._waiting: deque[MetricsExport] = deque()
        self.queued_bytes = 0
        self.exported = 0
        """Pushes that the receiver has accepted."""
        self.exported_bytes = 0
        self.retries = 0
        self.dropped: Counter[str] = Counter()
        """Pushes that were given up, by reason."""
        self._failures = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, metrics: bytes, bytes_max: int) -> None:
        """The metrics of one push."""
        self._waiting.append(MetricsExport(metrics, 1))
        self.queued_bytes += len(metrics)
        while self.queued_bytes > bytes_max:
            oldest = self._waiting.popleft()
            self.queued_bytes -= len(oldest.body)
            self.dropped[QUEUE_FULL] += oldest.pushes

    def take(self) -> MetricsExport:
        """The oldest metrics, for one request; call `accepted`, `refused` or `failed` next."""
        taken = [self._waiting.popleft()]
        size = len(taken[0].body)
        while self._waiting and size + len(self._waiting[0].body) <= EXPORT_BYTES_MAX:
            taken.append(self._waiting.popleft())
            size += len(taken[-1].body)
        self.queued_bytes -= size
        return MetricsExport(b"".join(part.body for part in taken), sum(part.pushes for part in taken))

    def accepted(self, export: MetricsExport) -> None:
        self._failures = 0
        self.exported += export.pushes
        self.exported_bytes += len(export.body)

    def refused(self, export: MetricsExport) -> None:
        """The receiver does not want these metrics, now or later."""
        self._failures = 0
        self.dropped[REFUSED] += export.pushes

    def failed(
        self, export: MetricsExport, bytes_max: int, chance: float, retry_after_s: float | None
    ) -> float:
        """The wait in seconds before the metrics are sent again.  They keep their place, unless newer ones took the room."""
        self.retries += 1
        if self.queued_bytes + len(export.body) > bytes_max:
            self.dropped[QUEUE_FULL] += export.pushes
        else:
            self._waiting.appendleft(export)
            self.queued_bytes += len(export.body)
        wait_s = min(RETRY_S_MAX, RETRY_S * 2.0**self._failures) * (0.5 + chance / 2)
        self._failures = min(self._failures + 1, 10)
        return wait_s if retry_after_s is None else min(max(wait_s, retry_after_s), RETRY_AFTER_S_MAX)


def with_attributes(metrics: bytes | memoryview, attributes: Mapping[str, str]) -> bytes:
    """The metrics, whose resources get the attributes as well; damaged bytes raise ValueError or IndexError."""
    added = b"".join(
        message(1, text(1, key) + message(2, text(1, value))) for key, value in attributes.items()
    )
    out = []
    for resource_metrics in messages(memoryview(metrics), _RESOURCE_METRICS):
        resource, others = b"", []
        for field, value in fields(resource_metrics):
            if not isinstance(value, memoryview):
                continue
            if field == _RESOURCE:
                resource += bytes(value)
            else:
                others.append(message(field, value))
        out.append(message(_RESOURCE_METRICS, message(_RESOURCE, resource + added) + b"".join(others)))
    return b"".join(out)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After; None without one, and for a date, after which nobody needs to hurry either."""
    value = headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None
