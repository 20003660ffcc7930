"""The clients that push metrics to this broker (KIP-714): what they were asked for, and what they said last.

Bounded: the clients heard of last are kept, each with a number of series.  Checks and their order are Kafka's.  Pure."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tidelog import errors
from tidelog.broker.telemetry.otlp import MetricPoint
from tidelog.broker.telemetry.subscriptions import (
    ClientIdentity,
    MetricsSubscription,
    WantedMetrics,
    subscription_of,
    wanted_metrics,
)
from tidelog.metadata.image.image import Configs

CLIENTS_MAX = 4096
SERIES_MAX = 500  # of one client
CODECS = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy: in the order that clients should prefer
NO_ID = UUID(int=0)
NEVER = -1 << 62

Series = tuple[str, tuple[tuple[str, str], ...]]
"""(metric, attributes)"""


@dataclass(slots=True)
class TelemetryClient:
    identity: ClientIdentity
    wanted: WantedMetrics
    asked_by: object
    """The subscriptions that `wanted` was worked out from."""
    asked_ms: int = NEVER
    pushed_ms: int = NEVER
    heard_ms: int = NEVER
    terminating: bool = False
    problem: int = 0
    series: dict[Series, float] = field(default_factory=dict)
    left_out: int = 0


class ClientMetrics:
    def __init__(self) -> None:
        self._clients: OrderedDict[UUID, TelemetryClient] = OrderedDict()
        self._stored: Mapping[str, Configs] | None = None
        self._subscriptions: Sequence[MetricsSubscription] = ()
        self.pushes = 0
        self.pushed_bytes = 0
        self.problems: Counter[int] = Counter()
        """Refused requests by error code."""

    @property
    def clients(self) -> list[TelemetryClient]:
        """The one heard of last at the end."""
        return list(self._clients.values())

    def subscribed(self, stored: Mapping[str, Configs]) -> None:
        """Takes the subscriptions of the cluster; each request comes with them."""
        if stored is not self._stored:
            self._stored = stored
            self._subscriptions = [subscription_of(configs.values) for configs in stored.values()]

    def asks(self, identity: ClientIdentity, now_ms: int) -> WantedMetrics:
        """GetTelemetrySubscriptions; raises ThrottlingQuotaExceeded for a client that asks too soon."""
        client = self._client(identity, now_ms)
        elapsed_ms = now_ms - max(client.asked_ms, client.pushed_ms)
        told_to_ask = client.problem in (
            errors.UnknownSubscriptionId.code,
            errors.UnsupportedCompressionType.code,
        )
        if elapsed_ms >= client.wanted.interval_ms:
            client.asked_ms = now_ms
        elif not told_to_ask:
            raise self._refused(
                client, errors.ThrottlingQuotaExceeded, "the request came before the next push interval"
            )
        client.problem = 0
        return client.wanted

    def check_push(
        self,
        identity: ClientIdentity,
        subscription_id: int,
        codec: int,
        size: int,
        size_max: int,
        terminating: bool,
        now_ms: int,
    ) -> TelemetryClient:
        """The client, if it may push this now; raises otherwise."""
        if identity.client_instance_id == NO_ID:
            self.problems[errors.InvalidRequest.code] += 1
            raise errors.InvalidRequest("the client instance id is empty")
        client = self._client(identity, now_ms)
        ended, client.terminating = client.terminating, terminating
        if ended:
            client.terminating = True
            raise self._refused(client, errors.InvalidRequest, "the client said that it terminates")
        due = client.asked_ms > client.pushed_ms or now_ms - client.pushed_ms >= client.wanted.interval_ms
        if due:
            client.pushed_ms = now_ms
        elif not terminating:
            raise self._refused(
                client, errors.ThrottlingQuotaExceeded, "the push came before the next push interval"
            )
        if subscription_id != client.wanted.subscription_id:
            raise self._refused(
                client, errors.UnknownSubscriptionId, f"there is no subscription {subscription_id}"
            )
        if codec not in (0, *CODECS):
            raise self._refused(
                client, errors.UnsupportedCompressionType, f"there is no compression type {codec}"
            )
        if size > size_max:
            raise self._refused(
                client, errors.TelemetryTooLarge, f"{size} bytes are more than telemetry.max.bytes"
            )
        client.problem = 0
        return client

    def pushed(self, client: TelemetryClient, points: Sequence[MetricPoint], size: int) -> None:
        self.pushes += 1
        self.pushed_bytes += size
        client.left_out = 0
        for point in points:
            if not client.wanted.wants(point.name):
                continue
            series = (point.name, point.attributes)
            if series not in client.series and len(client.series) >= SERIES_MAX:
                client.left_out += 1
                continue
            before = client.series.get(series, 0.0) if point.adds else 0.0
            client.series[series] = before + point.value

    def damaged(self, client: TelemetryClient) -> None:
        client.problem = errors.InvalidRecord.code
        self.problems[client.problem] += 1

    def _client(self, identity: ClientIdentity, now_ms: int) -> TelemetryClient:
        key = identity.client_instance_id
        client = self._clients.get(key)
        if client is None:
            client = TelemetryClient(
                identity, wanted_metrics(identity, self._subscriptions), self._subscriptions
            )
            self._clients[key] = client
            if len(self._clients) > CLIENTS_MAX:
                self._clients.popitem(last=False)
        elif client.asked_by is not self._subscriptions:
            # It learns of the change at once: earlier requests do not throttle it.
            client.wanted = wanted_metrics(identity, self._subscriptions)
            client.asked_by, client.asked_ms, client.pushed_ms = self._subscriptions, NEVER, NEVER
        client.identity, client.heard_ms = identity, now_ms
        self._clients.move_to_end(key)
        return client

    def _refused(
        self, client: TelemetryClient, kind: type[errors.TidelogError], why: str
    ) -> errors.TidelogError:
        client.problem = kind.code
        self.problems[kind.code] += 1
        return kind(f"client {client.identity.client_instance_id}: {why}")
