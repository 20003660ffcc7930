"""Subscriptions of client metrics (KIP-714): which clients are asked for which metrics, and how often.

A subscription is a set of settings under a name; `kafka-client-metrics.sh` writes them.  All subscriptions that match a
client count: it pushes all their metrics, at the shortest of their intervals.  Pure; RE2 loads at first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID
from zlib import crc32

from tidelog import errors
from tidelog.config.setting import find
from tidelog.config.tables.groups import CLIENT_METRICS_SETTINGS

INTERVAL_MS = 300_000  # of a client that no subscription matches
ALL_METRICS = "*"
MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
PATTERNS_MAX = 100


class ClientIdentity(NamedTuple):
    """What a subscription can match a client by."""

    client_instance_id: UUID
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class MetricsSubscription(NamedTuple):
    metrics: frozenset[str]
    interval_ms: int
    patterns: Mapping[str, Any]

    def matches(self, client: ClientIdentity) -> bool:
        """True if each pattern matches the whole value."""
        values = client._asdict()
        return all(pattern.fullmatch(str(values[name])) for name, pattern in self.patterns.items())


class WantedMetrics(NamedTuple):
    """What one client is asked for."""

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int

    def wants(self, metric: str) -> bool:
        return any(prefix in (ALL_METRICS, "") or metric.startswith(prefix) for prefix in self.metrics)


def check_subscription(values: Mapping[str, str]) -> None:
    """Raises Kafka's errors for settings that are unknown or wrong."""
    for name, text in values.items():
        if name not in CLIENT_METRICS_SETTINGS:
            raise errors.InvalidRequest(f"Unknown client metrics configuration: {name}")
        try:
            find(CLIENT_METRICS_SETTINGS, name, "client metrics setting").parse(text)
        except errors.InvalidConfig:
            if name != "interval.ms" or not text.strip().lstrip("-").isdecimal():
                raise
            raise errors.InvalidRequest(
                f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            ) from None
    subscription_of(values)


def subscription_of(values: Mapping[str, str]) -> MetricsSubscription:
    return MetricsSubscription(
        frozenset(_entries(values.get("metrics", ""))),
        int(values.get("interval.ms", INTERVAL_MS)),
        _patterns(_entries(values.get("match", ""))),
    )


def wanted_metrics(client: ClientIdentity, subscriptions: Iterable[MetricsSubscription]) -> WantedMetrics:
    metrics: set[str] = set()
    interval_ms = INTERVAL_MS
    for subscription in subscriptions:
        if subscription.matches(client):
            metrics |= subscription.metrics
            interval_ms = min(interval_ms, subscription.interval_ms)
    named = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
    # The same on every broker: a client may ask one of them and push to another.
    checksum = crc32(f"{','.join(named)}/{interval_ms}".encode() + client.client_instance_id.bytes)
    return WantedMetrics(named, interval_ms, checksum & 0x7FFFFFFF)


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _patterns(entries: list[str]) -> dict[str, Any]:
    if len(entries) > PATTERNS_MAX:
        raise errors.InvalidConfig(f"match has {len(entries)} patterns: {PATTERNS_MAX} are allowed")
    patterns = {}
    for entry in entries:
        name, _, pattern = (part.strip() for part in entry.partition("="))
        if name not in MATCHED or not pattern or "=" in pattern:
            raise errors.InvalidConfig(f"Illegal client matching pattern: {entry}")
        patterns[name] = _compiled(entry, pattern)
    return patterns


def _compiled(entry: str, pattern: str) -> Any:
    import re2  # a native library that few brokers need

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise errors.InvalidConfig(f"Illegal client matching pattern: {entry}") from None
