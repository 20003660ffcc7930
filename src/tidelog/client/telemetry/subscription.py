"""What the cluster wants to hear from this client (KIP-714), and when the next request is due.  Pure: time and random
numbers are passed in.

Each method takes an answer and returns the wait before the next request in milliseconds; None: never again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from tidelog import errors
from tidelog.client.telemetry.otlp_encoder import ClientMetric, SumInterval
from tidelog.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

NO_ID = UUID(int=0)
ASK_AGAIN_MS = 300_000  # after a failure, and while brokers serve no telemetry
INTERVAL_MS_MIN = 100  # as Kafka bounds it
FIRST_PUSH = 0.5, 1.5
"""Of the push interval: clients that start together do not push together."""
ALL_METRICS = frozenset({"*", ""})
_FOR_GOOD = frozenset(
    {
        errors.InvalidRequest.code,
        errors.UnsupportedVersion.code,
        errors.InvalidConfig.code,
        errors.ClusterAuthorizationFailed.code,
    }
)
_ASK_NOW = frozenset({errors.UnknownSubscriptionId.code, errors.UnsupportedCompressionType.code})


class TelemetrySubscription:
    def __init__(self, begin_ns: int) -> None:
        self.client_instance_id = NO_ID
        self.subscription_id = 0
        self.metrics: tuple[str, ...] = ()
        self.codecs: tuple[int, ...] = ()
        self.bytes_max = 0
        self.interval_ms = ASK_AGAIN_MS
        self.known = False
        """The cluster has told this client what to push."""
        self._delta = True
        self._begin_ns = self._pushed_ns = begin_ns
        self._pushed_totals: dict[tuple[str, object], float] = {}
        self._totals: dict[tuple[str, object], float] = {}

    @property
    def wants_metrics(self) -> bool:
        return self.known and bool(self.metrics)

    def told(self, answer: GetTelemetrySubscriptionsResponse, chance: float) -> int | None:
        """The answer to GetTelemetrySubscriptions.  `chance`, from 0 to 1, spreads the first pushes."""
        if answer.error_code in _FOR_GOOD:
            return None
        if answer.error_code:
            return ASK_AGAIN_MS
        first = not self.known or answer.subscription_id != self.subscription_id
        self.client_instance_id = answer.client_instance_id
        self.subscription_id = answer.subscription_id
        self.metrics = tuple(answer.requested_metrics)
        self.codecs = tuple(answer.accepted_compression_types)
        self.bytes_max = answer.telemetry_max_bytes
        self.interval_ms = max(INTERVAL_MS_MIN, answer.push_interval_ms)
        self._delta = answer.delta_temporality
        self.known = True
        low, high = FIRST_PUSH
        return int(self.interval_ms * (low + (high - low) * chance)) if first else self.interval_ms

    def chosen(self, metrics: Iterable[ClientMetric], now_ns: int) -> tuple[list[ClientMetric], SumInterval]:
        """The metrics that the cluster wants, as a push carries them.  `pushed` makes their totals the start of the next
        interval."""
        everything = not ALL_METRICS.isdisjoint(self.metrics)
        self._totals = {}
        wanted = []
        for metric in metrics:
            if not everything and not metric.name.startswith(self.metrics):
                continue
            if metric.total:
                series = metric.name, metric.attributes
                self._totals[series] = metric.value
                if self._delta:
                    metric = metric._replace(value=metric.value - self._pushed_totals.get(series, 0))
            wanted.append(metric)
        begin_ns = self._pushed_ns if self._delta else self._begin_ns
        return wanted, SumInterval(begin_ns, max(now_ns, begin_ns), self._delta)

    def compressed(self, data: bytes, compress: Callable[[int, bytes], bytes]) -> tuple[int, bytes]:
        """The codec and the bytes, in the first codec of the broker that works here."""
        for codec in self.codecs:
            try:
                return codec, compress(codec, data)
            except (errors.TidelogError, ImportError):
                continue
        return 0, data

    def pushed(self, error_code: int, now_ns: int) -> int | None:
        """The answer to PushTelemetry.  What was refused is a part of the next push."""
        if error_code in _FOR_GOOD:
            return None
        if error_code in _ASK_NOW:
            self.known = False
            return 0
        if not error_code:
            self._pushed_totals.update(self._totals)
            self._pushed_ns = now_ns
        return self.interval_ms
