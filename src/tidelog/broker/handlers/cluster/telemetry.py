"""GetTelemetrySubscriptions (api 71) and PushTelemetry (api 72), version 0 (KIP-714).

Clients ask for the metrics that the broker wants, and push them as OpenTelemetry metrics, which `/metrics` shows.  The
broker advertises both APIs while the cluster has a subscription."""

from __future__ import annotations

import asyncio
from uuid import UUID

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.broker.telemetry.client_metrics import CODECS, NO_ID, SERIES_MAX
from tidelog.broker.telemetry.otlp import MetricPoint, read_metrics
from tidelog.broker.telemetry.subscriptions import ClientIdentity
from tidelog.record.codecs import decompress
from tidelog.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidelog.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

EXPANSION_MAX = 32
"""How many times larger than `telemetry.max.bytes` metrics may be when they are decompressed."""
POINTS_MAX = 4 * SERIES_MAX
LARGE_BYTES = 64 * 1024
"""Larger metrics are decompressed and read beside the event loop."""


def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: Context
) -> GetTelemetrySubscriptionsResponse:
    instance = request.client_instance_id
    if instance == NO_ID:
        instance = UUID(int=context.services.random.getrandbits(128), version=4)
    metrics = context.services.client_metrics
    metrics.subscribed(context.services.image().client_metrics)
    try:
        wanted = metrics.asks(_identity(instance, context), context.services.clock.monotonic_ms())
    except errors.TidelogError as problem:
        return GetTelemetrySubscriptionsResponse(error_code=problem.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=list(CODECS),
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=context.services.config().telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(wanted.metrics),
    )


async def push_telemetry(request: PushTelemetryRequest, context: Context) -> PushTelemetryResponse:
    metrics, size_max = context.services.client_metrics, context.services.config().telemetry_max_bytes
    metrics.subscribed(context.services.image().client_metrics)
    data = request.metrics or b""
    try:
        client = metrics.check_push(
            _identity(request.client_instance_id, context),
            request.subscription_id,
            request.compression_type,
            len(data),
            size_max,
            request.terminating,
            context.services.clock.monotonic_ms(),
        )
    except errors.TidelogError as problem:
        return PushTelemetryResponse(error_code=problem.code)
    try:
        if data:
            beside = request.compression_type != 0 or len(data) > LARGE_BYTES
            arguments = (request.compression_type, bytes(data), size_max * EXPANSION_MAX)
            plain, points = await asyncio.to_thread(_read, *arguments) if beside else _read(*arguments)
            metrics.pushed(client, points, len(data))
            if (exporter := context.services.otlp_exporter) is not None:
                exporter.put(plain, _attributes(client.identity, context))
    except errors.InvalidRecord as problem:
        metrics.damaged(client)
        return PushTelemetryResponse(error_code=problem.code)
    return PushTelemetryResponse()


def _read(codec: int, data: bytes, size_max: int) -> tuple[bytes | memoryview, list[MetricPoint]]:
    """The metrics as the client encoded them, and read."""
    plain = decompress(codec, data, size_max)
    return plain, read_metrics(plain, POINTS_MAX)


def _attributes(identity: ClientIdentity, context: Context) -> dict[str, str]:
    """What is told of the client where its metrics are forwarded; the names are those of KIP-714."""
    attributes = {name: str(value) for name, value in identity._asdict().items()}
    return attributes | {"principal": context.principal, "broker_id": str(context.services.node_id)}


def _identity(instance: UUID, context: Context) -> ClientIdentity:
    host, _, port = context.peer.rpartition(":")
    session = context.session
    return ClientIdentity(
        instance,
        context.client_id or "",
        session.software_name,
        session.software_version,
        host.strip("[]"),
        port,
    )
