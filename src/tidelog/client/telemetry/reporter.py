"""Pushes the metrics of one client to its cluster, while the cluster asks for them (KIP-714).

Producer, consumer and share consumer have one each, unless `enable_metrics_push` is off.  A timer starts each request, so
that a client to which no cluster subscribes has no task; failures of telemetry never reach the application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import tidelog
from tidelog import errors
from tidelog.client.telemetry.otlp_encoder import ClientMetric, encode_metrics
from tidelog.client.telemetry.standard_metrics import connection_metrics
from tidelog.client.telemetry.subscription import ASK_AGAIN_MS, TelemetrySubscription
from tidelog.record.codecs import compress
from tidelog.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidelog.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from tidelog.client.cluster.cluster import Cluster
    from tidelog.net.requester import Requester

log = logging.getLogger("tidelog.client")

LAST_PUSH_S = 1.0
"""How long `close` waits for the last push."""


class TelemetryReporter:
    def __init__(
        self,
        cluster: Cluster,
        kind: str,
        metrics: Callable[[], Sequence[ClientMetric]],
        labels: Callable[[], Mapping[str, str]],
    ) -> None:
        """`kind`: producer, consumer, or consumer.share; `metrics`: those besides the metrics of connections; `labels`: what
        requests do not tell of the client, such as its group or its transactional id."""
        self._cluster = cluster
        self._kind = kind
        self._metrics = metrics
        self._labels = labels
        self._subscription = TelemetrySubscription(self._now_ns())
        self._connection: Requester | None = None
        self._looked_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Call it in the loop of the client, when the cluster is open."""
        if self._cluster.options.enable_metrics_push:
            self._looked_ms = self._cluster.environment.clock.monotonic_ms()
            connection = self._cluster.open_connection()
            self._schedule(0 if connection is not None and _serves(connection) else ASK_AGAIN_MS)

    async def close(self, last_push: bool) -> None:
        """`last_push`: pushes once more, within a second, if the cluster asked for metrics.  Later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        connection = self._connection
        if not last_push or connection is None or connection.broken is not None:
            return
        if not self._subscription.wants_metrics:
            return
        try:
            async with asyncio.timeout(LAST_PUSH_S):
                await self._push(connection, terminating=True)
        except (errors.TidelogError, TimeoutError) as problem:
            log.debug("the last metrics were not pushed: %s", problem)

    def _schedule(self, wait_ms: int) -> None:
        if not self._closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(wait_ms / 1000, self._due)

    def _due(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._turn(), name="telemetry")

    async def _turn(self) -> None:
        wait_ms: int | None = ASK_AGAIN_MS
        try:
            wait_ms = await self._next_request()
        except errors.TidelogError as problem:
            log.debug("metrics were not pushed: %s", problem)
            self._connection = None
            if self._subscription.known:
                wait_ms = self._subscription.interval_ms
        except Exception:
            log.exception("telemetry failed: this client pushes no more metrics")
            wait_ms = None
        if wait_ms is not None:
            self._schedule(wait_ms)

    async def _next_request(self) -> int | None:
        """The wait before the next request in milliseconds; None: never again."""
        connection = await self._connected()
        if connection is None:
            return ASK_AGAIN_MS
        if self._subscription.wants_metrics:
            return await self._push(connection, terminating=False)
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self._subscription.client_instance_id)
        answer = await connection.ask(request, GetTelemetrySubscriptionsResponse)
        return self._subscription.told(answer, self._cluster.environment.random.random())

    async def _connected(self) -> Requester | None:
        """A connection to a broker that takes metrics: the same as long as it lasts.  None: brokers take none now."""
        if self._connection is not None and self._connection.broken is None:
            return self._connection
        self._connection = None
        connection = await self._cluster.any()
        now_ms = self._cluster.environment.clock.monotonic_ms()
        if not _serves(connection) and now_ms - self._looked_ms >= ASK_AGAIN_MS:
            # The cluster may have got a subscription since the connection was opened.
            self._looked_ms = now_ms
            await connection.negotiate(tidelog.__version__)
        if not _serves(connection):
            return None
        self._connection = connection
        return connection

    async def _push(self, connection: Requester, terminating: bool) -> int | None:
        subscription, now_ns = self._subscription, self._now_ns()
        wanted, interval = subscription.chosen(self._all_metrics(), now_ns)
        plain = encode_metrics(wanted, self._labels(), tidelog.__version__, interval)
        codec, data = subscription.compressed(plain, lambda codec, data: bytes(compress(codec, data)))
        if len(data) > subscription.bytes_max:
            log.warning(
                "metrics were not pushed: they have %d bytes, and the cluster takes %d (telemetry.max.bytes)",
                len(data),
                subscription.bytes_max,
            )
            return subscription.interval_ms
        request = PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=terminating,
            compression_type=codec,
            metrics=data,
        )
        answer = await connection.ask(request, PushTelemetryResponse)
        return subscription.pushed(answer.error_code, now_ns)

    def _all_metrics(self) -> list[ClientMetric]:
        now_s = asyncio.get_running_loop().time()
        connections = self._cluster.times.metrics(self._cluster.topology, now_s)
        return [*connection_metrics(self._kind, connections), *self._metrics()]

    def _now_ns(self) -> int:
        return self._cluster.environment.clock.now_ms() * 1_000_000


def _serves(connection: Requester) -> bool:
    apis = GetTelemetrySubscriptionsRequest.API_KEY, PushTelemetryRequest.API_KEY
    return all(api in connection.versions for api in apis)
