"""GetTelemetrySubscriptions (api 71) and PushTelemetry (api 72), version 0.

Clients ask for the metrics that the broker wants.  This broker subscribes to none: clients get an id and a long interval,
and push nothing.  The handler checks and drops pushed metrics, as Kafka does without a metrics receiver."""

from __future__ import annotations

import zlib
from uuid import UUID

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidelog.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

PUSH_INTERVAL_MS = 300_000
_CODECS = [4, 3, 1, 2]  # zstd, lz4, gzip, snappy: in the order we would rather have them
_NO_ID = UUID(int=0)


def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: Context
) -> GetTelemetrySubscriptionsResponse:
    client = request.client_instance_id
    if client == _NO_ID:
        client = UUID(int=context.services.random.getrandbits(128), version=4)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client,
        subscription_id=_subscription(client),
        accepted_compression_types=_CODECS,
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=context.services.config().telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=[],
    )


def push_telemetry(request: PushTelemetryRequest, context: Context) -> PushTelemetryResponse:
    client = request.client_instance_id
    problem = 0
    if client == _NO_ID:
        problem = errors.InvalidRequest.code
    elif request.subscription_id != _subscription(client):
        problem = errors.UnknownSubscriptionId.code
    elif request.compression_type not in (0, *_CODECS):
        problem = errors.UnsupportedCompressionType.code
    elif len(request.metrics or b"") > context.services.config().telemetry_max_bytes:
        problem = errors.TelemetryTooLarge.code
    return PushTelemetryResponse(error_code=problem)


def _subscription(client: UUID) -> int:
    """The same for a client whichever broker it asks, so nothing has to be remembered."""
    return zlib.crc32(client.bytes) & 0x7FFFFFFF
