"""Our own client pushes its metrics as KIP-714 says, to a real broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import tidelog.aio
from tests.conformance.raw import API_KEYS, Connection
from tests.conformance.test_client_telemetry import (  # noqa: F401
    SET,
    advertised,
    alter,
    connected,
    page,
    telemetry_broker,
    wait_until,
)
from tidelog import Consumer, Producer, ShareConsumer
from tidelog.client.telemetry import reporter
from tidelog.client.telemetry.subscription import TelemetrySubscription


def subscribe(connection: Connection, **values: str) -> None:
    alter(connection, "all", SET, {"metrics": "*", "interval.ms": "200"} | values)
    wait_until(lambda: API_KEYS["push_telemetry"] in advertised(connection), "telemetry is advertised")


def shown(broker: Any, client_id: str) -> dict[str, float]:
    """The metrics that a client pushed, by name."""
    pattern = rf'mq_client_metric{{client_id="{client_id}".*metric="([^"]+)".*}} (\S+)'
    return {name: float(value) for name, value in re.findall(pattern, page(broker))}


def metric(broker: Any, client_id: str, name: str) -> Callable[[], bool]:
    return lambda: f"org.apache.kafka.{name}" in shown(broker, client_id)


def test_a_blocking_producer_and_consumer_push_standard_metrics(
    telemetry_broker: Any,  # noqa: F811
    connected: Connection,  # noqa: F811
) -> None:
    subscribe(connected)
    with Producer(bootstrap_servers=telemetry_broker.bootstrap, client_id="biller") as producer:
        for _ in range(7):
            producer.send("orders", b"x").get(timeout=30)
        wait_until(metric(telemetry_broker, "biller", "producer.record.send.total"), "the producer pushes")
        for _ in range(3):
            producer.send("orders", b"x")
    pushed = shown(telemetry_broker, "biller")
    # The last push, at the close, has the last three records; increments add up.
    assert pushed["org.apache.kafka.producer.record.send.total"] == 10
    for name in (
        "connection.creation.total",
        "connection.creation.rate",
        "node.request.latency.avg",
        "node.request.latency.max",
        "produce.throttle.time.avg",
        "produce.throttle.time.max",
        "record.queue.time.avg",
        "record.queue.time.max",
    ):
        assert f"org.apache.kafka.producer.{name}" in pushed, name
    with Consumer(
        "orders",
        bootstrap_servers=telemetry_broker.bootstrap,
        client_id="kitchen",
        group_id=f"g-{uuid4().hex}",
        auto_offset_reset="earliest",
    ) as consumer:
        read = 0
        while read < 10:
            read += len(consumer.poll(timeout_ms=500))
        consumer.commit()
        wait_until(
            lambda: (
                shown(telemetry_broker, "kitchen").get(
                    "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
                )
                == 10
            ),
            "the consumer pushes",
        )
    pushed = shown(telemetry_broker, "kitchen")
    for name in (
        "connection.creation.total",
        "node.request.latency.avg",
        "poll.idle.ratio.avg",
        "coordinator.commit.latency.avg",
        "coordinator.commit.latency.max",
        "coordinator.assigned.partitions",
        "coordinator.rebalance.latency.avg",
        "coordinator.rebalance.latency.max",
        "coordinator.rebalance.latency.total",
        "fetch.manager.fetch.latency.avg",
        "fetch.manager.fetch.latency.max",
    ):
        assert f"org.apache.kafka.consumer.{name}" in pushed, name
    text = page(telemetry_broker)
    assert "mq_client_telemetry_refused_total{" not in text
    assert re.search(r'mq_client_instances\{software="tidelog",version="[^"]+"\} 2', text)


async def test_asyncio_clients_push_and_those_that_must_not_do_not(
    telemetry_broker: Any,  # noqa: F811
    connected: Connection,  # noqa: F811
) -> None:
    subscribe(connected, metrics="org.apache.kafka.producer.record.")
    where = {"bootstrap_servers": telemetry_broker.bootstrap}
    async with (
        tidelog.aio.Producer(**where, client_id="loud") as loud,
        tidelog.aio.Producer(**where, client_id="quiet", enable_metrics_push=False) as quiet,
    ):
        for _ in range(2):
            await (await loud.send("orders", b"x"))
            await (await quiet.send("orders", b"x"))
        while "org.apache.kafka.producer.record.send.total" not in shown(telemetry_broker, "loud"):
            await (await loud.send("orders", b"x"))
    names = shown(telemetry_broker, "loud")
    assert names and all(name.startswith("org.apache.kafka.producer.record.") for name in names)
    assert not shown(telemetry_broker, "quiet") and 'client_id="quiet"' in page(telemetry_broker)


def test_a_share_consumer_pushes_what_it_knows_of_its_connections(
    telemetry_broker: Any,  # noqa: F811
    connected: Connection,  # noqa: F811
) -> None:
    subscribe(connected)
    with ShareConsumer(
        "orders", bootstrap_servers=telemetry_broker.bootstrap, client_id="worker", group_id="jobs"
    ) as consumer:
        while not shown(telemetry_broker, "worker"):
            consumer.poll(timeout_ms=200)
    assert "org.apache.kafka.consumer.share.node.request.latency.avg" in shown(telemetry_broker, "worker")


def test_a_client_that_was_there_before_the_subscription_pushes_too(
    telemetry_broker: Any,  # noqa: F811
    connected: Connection,  # noqa: F811
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(reporter, "ASK_AGAIN_MS", 200)
    with Producer(bootstrap_servers=telemetry_broker.bootstrap, client_id="early") as producer:
        producer.send("orders", b"x").get(timeout=30)
        subscribe(connected)
        wait_until(metric(telemetry_broker, "early", "producer.record.send.total"), "the producer pushes")


def test_a_changed_subscription_reaches_a_client_that_pushes(
    telemetry_broker: Any,  # noqa: F811
    connected: Connection,  # noqa: F811
) -> None:
    subscribe(connected, metrics="org.apache.kafka.producer.connection.")
    with Producer(bootstrap_servers=telemetry_broker.bootstrap, client_id="biller") as producer:
        producer.send("orders", b"x").get(timeout=30)
        wait_until(metric(telemetry_broker, "biller", "producer.connection.creation.total"), "a push")
        assert not metric(telemetry_broker, "biller", "producer.record.send.total")()
        subscribe(connected, metrics="*")
        wait_until(metric(telemetry_broker, "biller", "producer.record.send.total"), "the other metrics")


def test_every_codec_of_the_broker_is_understood(
    telemetry_broker: Any,  # noqa: F811
    connected: Connection,  # noqa: F811
    monkeypatch: Any,
) -> None:
    subscribe(connected)
    for name, codec in (("none", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)):
        chosen = [codec]

        def compressed(
            self: TelemetrySubscription, data: bytes, compress: Any, chosen: list[int] = chosen
        ) -> tuple[int, bytes]:
            return chosen[0], compress(chosen[0], data)

        monkeypatch.setattr(TelemetrySubscription, "compressed", compressed)
        with Producer(bootstrap_servers=telemetry_broker.bootstrap, client_id=f"in-{name}") as producer:
            producer.send("orders", b"x").get(timeout=30)
            wait_until(metric(telemetry_broker, f"in-{name}", "producer.record.send.total"), name)
    assert "mq_client_telemetry_refused_total{" not in page(telemetry_broker)
