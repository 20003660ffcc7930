"""What the console shows of clients: one broker's counters, and the sum of all brokers."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tidelog.broker.metrics.counters import BrokerCounters
from tidelog.broker.telemetry.client_metrics import ClientMetrics
from tidelog.broker.telemetry.otlp import MetricPoint
from tidelog.broker.telemetry.subscriptions import ClientIdentity
from tidelog.gateways.console.cluster.client_figures import client_figures, merged
from tidelog.metadata.image.image import Configs

NOW_MS = 5_000
NODE_LATENCY = "org.apache.kafka.producer.node.request.latency"


def connection(client_id: str, version: str = "1.0", requests: int = 10) -> Any:
    session = SimpleNamespace(software_name="tidelog", software_version=version, host="10.0.0.9")
    return SimpleNamespace(client_id=client_id, session=session, frames=requests, bytes_in=100, bytes_out=200)


def broker(*connections: Any, pushed: dict[str, list[MetricPoint]] | None = None) -> Any:
    metrics = ClientMetrics()
    metrics.subscribed({"all": Configs({"metrics": "*", "interval.ms": "1000"}, 1)})
    for number, (name, points) in enumerate((pushed or {}).items()):
        identity = ClientIdentity(UUID(int=number + 1), name, "librdkafka", "2.14", "10.0.0.7", "4000")
        wanted = metrics.asks(identity, 0)
        client = metrics.check_push(identity, wanted.subscription_id, 0, 1, 100, False, 1_000)
        metrics.pushed(client, points, 1)
    counters = BrokerCounters(100)
    counters.clients.failed("billing", 3)
    return SimpleNamespace(
        services=SimpleNamespace(counters=counters, client_metrics=metrics),
        figures=SimpleNamespace(server=SimpleNamespace(connections=list(connections))),
        clock=SimpleNamespace(monotonic_ms=lambda: NOW_MS),
    )


def test_a_client_has_the_traffic_of_its_connections_and_its_errors() -> None:
    around = broker(connection("billing"), connection("billing", "1.1", 5), connection("web"))
    billing, web = client_figures(around)
    assert (billing["client_id"], billing["connections"], billing["requests"], billing["errors"]) == (
        "billing",
        2,
        15,
        3,
    )
    assert billing["software"] == ["tidelog 1.0", "tidelog 1.1"] and billing["hosts"] == ["10.0.0.9"]
    assert (web["requests"], web["errors"]) == (10, 0)
    assert [client["client_id"] for client in client_figures(around, "web")] == ["web"]
    assert client_figures(around, "nobody") == []


def test_a_client_that_pushes_has_its_latency_of_the_slowest_broker() -> None:
    points = [
        MetricPoint(f"{NODE_LATENCY}.avg", (("node_id", "1"),), 3.5, False),
        MetricPoint(f"{NODE_LATENCY}.avg", (("node_id", "2"),), 7.25, False),
        MetricPoint(f"{NODE_LATENCY}.avg", (("node_id", "3"),), math.nan, False),
        MetricPoint(f"{NODE_LATENCY}.max", (("node_id", "2"),), 90, False),
        MetricPoint("org.apache.kafka.producer.record.error.total", (), 4, False),
    ]
    (figures,) = client_figures(broker(pushed={"billing": points}), "billing")
    (instance,) = figures["instances"]
    assert (instance["latency_avg_ms"], instance["latency_max_ms"]) == (7.25, 90)
    assert (instance["failed_records"], instance["heard_ms_ago"]) == (4, NOW_MS - 1_000)
    assert instance["software"] == "librdkafka 2.14" and len(instance["series"]) == 4
    json.dumps(figures, allow_nan=False)  # other brokers get it as JSON


def test_clients_of_all_brokers_are_added_up() -> None:
    point = MetricPoint(f"{NODE_LATENCY}.avg", (), 3.5, False)
    one = client_figures(broker(connection("billing"), pushed={"billing": [point]}))
    two = client_figures(broker(connection("billing", "1.1"), connection("web")))
    older = [client | {"instances": [dict(client["instances"][0], heard_ms_ago=9_000)]} for client in one]
    billing, web = merged([older, two, one])
    assert (billing["connections"], billing["requests"], billing["errors"]) == (3, 30, 9)
    assert billing["software"] == ["tidelog 1.0", "tidelog 1.1"] and web["connections"] == 1
    assert [instance["heard_ms_ago"] for instance in billing["instances"]] == [NOW_MS - 1_000]
    assert one[0]["connections"] == 1  # the answers stay as they were
