"""The metrics of our clients under the names that KIP-714 and the Java client give them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client.consumer.metrics import ConsumerMetrics
from tidelog.client.producer.metrics import ProducerMetrics
from tidelog.client.telemetry.otlp_encoder import ClientMetric

PREFIX = "org.apache.kafka"


class NodeLatency(NamedTuple):
    average_ms: float
    max_ms: float


class ConnectionMetrics(NamedTuple):
    created: int
    """Connections since the start."""
    created_rate: float
    latencies: Mapping[str, NodeLatency]
    """Of requests, by broker id."""


def connection_metrics(kind: str, connections: ConnectionMetrics) -> list[ClientMetric]:
    """`kind`: producer, consumer, or consumer.share."""
    start = f"{PREFIX}.{kind}"
    metrics = [
        ClientMetric(f"{start}.connection.creation.total", connections.created, total=True),
        ClientMetric(f"{start}.connection.creation.rate", connections.created_rate),
    ]
    for node, latency in connections.latencies.items():
        attributes = (("node_id", node),)
        metrics += [
            ClientMetric(f"{start}.node.request.latency.avg", latency.average_ms, attributes),
            ClientMetric(f"{start}.node.request.latency.max", latency.max_ms, attributes),
        ]
    return metrics


def producer_metrics(now: ProducerMetrics) -> list[ClientMetric]:
    gauges = {
        "record.queue.time.avg": now.record_queue_time_avg_ms,
        "record.queue.time.max": now.record_queue_time_max_ms,
        "produce.throttle.time.avg": now.throttle_time_avg_ms,
        "produce.throttle.time.max": now.throttle_time_max_ms,
        "request.latency.avg": now.request_latency_avg_ms,
        "request.latency.max": now.request_latency_max_ms,
        "record.send.rate": now.record_send_rate,
        "record.error.rate": now.record_error_rate,
        "batch.size.avg": now.batch_size_avg,
        "requests.in.flight": now.requests_in_flight,
        "buffer.total.bytes": now.buffer_total_bytes,
        "buffer.available.bytes": now.buffer_total_bytes - now.buffer_used_bytes,
    }
    totals = {
        "record.send.total": now.records_sent_total,
        "record.error.total": now.records_failed_total,
        "record.retry.total": now.records_retried_total,
    }
    return _named(f"{PREFIX}.producer", gauges, totals)


def consumer_metrics(now: ConsumerMetrics) -> list[ClientMetric]:
    gauges = {
        "poll.idle.ratio.avg": 1 - now.processing_time_ratio,
        "coordinator.assigned.partitions": now.partitions_assigned,
        "coordinator.commit.latency.avg": now.commit_latency_avg_ms,
        "coordinator.commit.latency.max": now.commit_latency_max_ms,
        "coordinator.rebalance.latency.avg": now.rebalance_latency_avg_ms,
        "coordinator.rebalance.latency.max": now.rebalance_latency_max_ms,
        "fetch.manager.fetch.latency.avg": now.fetch_latency_avg_ms,
        "fetch.manager.fetch.latency.max": now.fetch_latency_max_ms,
        "fetch.manager.records.consumed.rate": now.record_consume_rate,
        "fetch.manager.records.lag.max": now.records_lag_max,
    }
    totals = {
        "coordinator.commit.total": now.commits_total,
        "coordinator.rebalance.total": now.rebalances_total,
        "coordinator.rebalance.latency.total": now.rebalance_latency_ms_total,
        "fetch.manager.fetch.total": now.fetches_total,
        "fetch.manager.bytes.consumed.total": now.bytes_fetched_total,
        "fetch.manager.records.consumed.total": now.records_consumed_total,
    }
    return _named(f"{PREFIX}.consumer", gauges, totals)


def _named(start: str, gauges: Mapping[str, float], totals: Mapping[str, float]) -> list[ClientMetric]:
    return [
        *(ClientMetric(f"{start}.{name}", value) for name, value in gauges.items()),
        *(ClientMetric(f"{start}.{name}", value, total=True) for name, value in totals.items()),
    ]
