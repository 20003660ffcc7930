"""Metrics that clients push are forwarded to an OTLP receiver."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.conformance.certificates import make_certificates
from tests.conformance.otlp_receiver import OtlpReceiver
from tests.conformance.process import free_port
from tests.conformance.process import wait_until as until
from tests.conformance.raw import Connection
from tests.conformance.test_client_pushes import subscribe
from tests.conformance.test_client_telemetry import page
from tests.otlp_messages import metrics_of, resource_of
from tidelog import Producer

SECONDS_MAX = 60
Start = Callable[..., Any]
PUSHED_METRICS = {  # seen to move here and in test_client_telemetry
    *(
        f"mq_client_{name}"
        for name in ("instances", "metric", "metric_left_out_series", "telemetry_refused_total")
    ),
    *(f"mq_client_{name}_total" for name in ("pushes", "pushed_bytes", "exports", "export_bytes")),
    *(f"mq_client_export_{name}" for name in ("retries_total", "dropped_total", "queued_bytes")),
}


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as running:
        yield running


@pytest.fixture
def forwarding(own_broker: Any) -> Start:
    """Starts a broker that forwards to a port, with a subscription to all metrics."""

    def start(port: int, scheme: str = "http", **settings: str) -> Any:
        given = {"tidelog.telemetry.otlp.endpoint": f"{scheme}://127.0.0.1:{port}/v1/metrics?tenant=a"}
        given |= {f"tidelog.telemetry.otlp.{name}": value for name, value in settings.items()}
        running = own_broker(given)
        if running.name == "kafka":
            pytest.skip("Apache Kafka needs a plugin that receives client metrics")
        with Connection(running.bootstrap) as connection:
            subscribe(connection)
        return running

    return start


def wait_until(reached: Callable[[], object], what: str) -> None:
    until(lambda: bool(reached()), SECONDS_MAX, what)


def counted(broker: Any, name: str, labels: str = "") -> int:
    match = re.search(rf"^{name}{re.escape(labels)} (\d+)", page(broker), re.M)
    return int(match[1]) if match else 0


def test_pushed_metrics_arrive_with_the_attributes_of_their_client(
    receiver: OtlpReceiver, forwarding: Start
) -> None:
    broker = forwarding(receiver.port, headers="api-key=secret,x-scope=1")
    with Producer(bootstrap_servers=broker.bootstrap, client_id="biller") as producer:
        producer.send("orders", b"x").get(timeout=30)
        wait_until(lambda: receiver.of_client("biller"), "the metrics of our client arrive")
    attributes = resource_of(receiver.of_client("biller")[0])
    assert (
        attributes["client_software_name"] == "tidelog" and attributes["client_source_address"] == "127.0.0.1"
    )
    assert attributes["principal"] == "User:ANONYMOUS" and attributes["broker_id"] == "1"
    assert re.fullmatch(r"[0-9a-f-]{36}", attributes["client_instance_id"])
    assert "org.apache.kafka.producer.record.send.total" in metrics_of(receiver.of_client("biller")[0])
    path, headers = receiver.requests[0]
    assert path == "/v1/metrics?tenant=a" and headers["content-type"] == "application/x-protobuf"
    assert (headers["api-key"], headers["x-scope"]) == ("secret", "1")
    # librdkafka compresses what it pushes, and encodes it in its own way.
    other = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "client.id": "rdkafka"})
    other.produce("orders", b"x")
    other.flush()
    wait_until(lambda: receiver.of_client("rdkafka"), "the metrics of librdkafka arrive")
    # The increments add up to what the producer did: nothing is lost or sent twice.
    wait_until(
        lambda: counted(broker, "mq_client_exports_total") >= len(receiver.accepted), "pushes are counted"
    )
    sent = [
        metrics_of(metrics)["org.apache.kafka.producer.record.send.total"].sum.data_points[0].as_double
        for metrics in receiver.of_client("biller")
    ]
    assert sum(sent) == 1


def test_a_receiver_that_is_away_or_busy_gets_everything_later(forwarding: Start) -> None:
    port = free_port()
    broker = forwarding(port)
    with Producer(bootstrap_servers=broker.bootstrap, client_id="biller") as producer:
        producer.send("orders", b"x").get(timeout=30)
        wait_until(lambda: counted(broker, "mq_client_export_retries_total") > 0, "the receiver is missed")
        assert counted(broker, "mq_client_export_queued_bytes") >= 0
        with OtlpReceiver(port) as receiver:
            receiver.failures += [503, 429, 502, 504]
            wait_until(lambda: receiver.of_client("biller"), "the metrics arrive")
            wait_until(lambda: not receiver.failures, "each failure was met")
            first = metrics_of(receiver.of_client("biller")[0])
            assert first["org.apache.kafka.producer.record.send.total"].sum.data_points[0].as_double == 1
    assert not counted(broker, "mq_client_export_dropped_total", '{reason="refused"}')
    log = broker.log_tail()
    assert log.count("cannot be reached: client metrics wait") <= 2


def test_what_the_receiver_refuses_is_dropped_and_counted(receiver: OtlpReceiver, forwarding: Start) -> None:
    receiver.failures += [400]
    broker = forwarding(receiver.port)
    with Producer(bootstrap_servers=broker.bootstrap, client_id="biller") as producer:
        producer.send("orders", b"x").get(timeout=30)
        wait_until(
            lambda: counted(broker, "mq_client_export_dropped_total", '{reason="refused"}'), "it is counted"
        )
        wait_until(lambda: receiver.of_client("biller"), "later metrics arrive")


def test_the_queue_is_bounded(forwarding: Start) -> None:
    broker = forwarding(free_port(), **{"queue.bytes.max": "4096"})
    with Producer(bootstrap_servers=broker.bootstrap, client_id="biller") as producer:
        producer.send("orders", b"x").get(timeout=30)
        wait_until(
            lambda: counted(broker, "mq_client_export_dropped_total", '{reason="queue_full"}'), "it is full"
        )
        assert counted(broker, "mq_client_export_queued_bytes") <= 4096


def test_a_stopping_broker_forwards_what_waits(receiver: OtlpReceiver, forwarding: Start) -> None:
    broker = forwarding(receiver.port)
    with Producer(bootstrap_servers=broker.bootstrap, client_id="biller") as producer:
        producer.send("orders", b"x").get(timeout=30)
        wait_until(lambda: receiver.of_client("biller"), "the metrics arrive")
    with Producer(bootstrap_servers=broker.bootstrap, client_id="last") as producer:
        wait_until(lambda: 'client_id="last"' in page(broker), "a push")
    broker.stop()
    assert receiver.of_client("last")


def test_metrics_are_forwarded_over_tls(forwarding: Start, tmp_path: Path) -> None:
    make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "broker.pem")
    with OtlpReceiver(tls=context) as receiver:
        broker = forwarding(receiver.port, "https", ca=str(tmp_path / "ca.pem"))
        with Producer(bootstrap_servers=broker.bootstrap, client_id="biller") as producer:
            producer.send("orders", b"x").get(timeout=30)
            wait_until(lambda: receiver.of_client("biller"), "the metrics arrive")
