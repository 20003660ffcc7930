"""Client metrics (KIP-714): subscriptions, and what unmodified clients push."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from tests.conformance.process import wait_until as until
from tests.conformance.raw import API_KEYS, Connection

CLIENT_METRICS = 16
SECONDS_MAX = 60
SET, DELETE = 0, 1
INSTANCE_ID_CHANGED = "Telemetry client instance id changed"


@pytest.fixture
def telemetry_broker(own_broker: Any) -> Any:
    """Of its own: a subscription is of all clients of a cluster."""
    running = own_broker()
    if running.name == "kafka":
        pytest.skip("Apache Kafka needs a plugin that receives client metrics")
    return running


@pytest.fixture
def connected(telemetry_broker: Any) -> Iterator[Connection]:
    with Connection(telemetry_broker.bootstrap) as connection:
        yield connection


def alter(connection: Connection, name: str, operation: int, values: dict[str, str | None]) -> Any:
    answer = connection.call(
        "incremental_alter_configs",
        1,
        resources=[
            {
                "resource_type": CLIENT_METRICS,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": operation, "value": value}
                    for key, value in values.items()
                ],
            }
        ],
        validate_only=False,
    )
    return answer.responses[0]


def page(broker: Any) -> str:
    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def console(broker: Any, address: str) -> str:
    with urllib.request.urlopen(f"http://{broker.http}/console/{address}", timeout=30) as answer:
        return str(answer.read().decode())


def wait_until(reached: Any, what: str) -> None:
    until(reached, SECONDS_MAX, what)


def advertised(connection: Connection) -> set[int]:
    return {api.api_key for api in connection.call("api_versions", 0).api_keys}


def test_a_subscription_is_written_described_listed_and_removed(connected: Connection) -> None:
    apis = {API_KEYS["get_telemetry_subscriptions"], API_KEYS["push_telemetry"]}
    assert not apis & advertised(connected)
    wanted = {"metrics": "org.apache.kafka.producer.", "interval.ms": "1000", "match": "client_id=b.*"}
    assert alter(connected, "producers", SET, wanted).error_code == 0
    wait_until(lambda: apis <= advertised(connected), "telemetry is advertised")
    listed = connected.call("list_config_resources", 1, resource_types=[CLIENT_METRICS]).config_resources
    assert [(one.resource_name, one.resource_type) for one in listed] == [("producers", CLIENT_METRICS)]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": "producers", "configuration_keys": None}
    described = connected.call(
        "describe_configs", 4, resources=[resource], include_synonyms=True, include_documentation=False
    ).results[0]
    assert {one.name: one.value for one in described.configs} == wanted
    assert {one.config_source for one in described.configs} == {7}
    assert alter(connected, "producers", DELETE, dict.fromkeys(wanted)).error_code == 0
    wait_until(lambda: not apis & advertised(connected), "telemetry is no longer advertised")
    assert not connected.call("list_config_resources", 1, resource_types=[CLIENT_METRICS]).config_resources


def test_wrong_subscriptions_are_refused(connected: Connection) -> None:
    refused = [
        ({"interval.ms": "1"}, "invalid_request", "interval must be between 100 and 3600000"),
        ({"nothing": "1"}, "invalid_request", "Unknown client metrics configuration: nothing"),
        ({"match": "client_age=1"}, "invalid_config", "Illegal client matching pattern: client_age=1"),
    ]
    for values, code, text in refused:
        answer = alter(connected, "wrong", SET, values)
        assert answer.error_code.name == code and text in answer.error_message
    assert alter(connected, "", SET, {"metrics": "*"}).error_code.name == "invalid_request"


def test_what_a_client_pushes_is_shown(telemetry_broker: Any, connected: Connection) -> None:
    alter(connected, "all", SET, {"metrics": "*", "interval.ms": "200"})
    wait_until(lambda: API_KEYS["push_telemetry"] in advertised(connected), "telemetry is advertised")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": telemetry_broker.bootstrap, "client.id": "biller"}
    )
    producer.produce("orders", b"x")
    producer.flush()
    wait_until(lambda: 'mq_client_metric{client_id="biller"' in page(telemetry_broker), "metrics are shown")
    shown = page(telemetry_broker)
    assert re.search(r'mq_client_instances\{software="(librdkafka|confluent-kafka-python)"', shown)
    assert re.search(r'metric="org.apache.kafka.producer.connection.creation.total"', shown)
    assert int(re.search(r"^mq_client_pushes_total (\d+)", shown, re.M)[1]) > 0  # type: ignore[index]
    assert "mq_client_telemetry_refused_total{" not in shown
    listed = console(telemetry_broker, "clients?q=bill")
    assert "biller" in listed and "pushed" in listed and "/console/clients/show?name=biller" in listed
    client = console(telemetry_broker, "clients/show?name=biller")
    assert "org.apache.kafka.producer.connection.creation.total" in client and "last request" in client


def test_clients_hear_of_telemetry_only_where_it_is_wanted(
    telemetry_broker: Any, connected: Connection, capfd: Any
) -> None:
    def produce(name: str) -> str:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": telemetry_broker.bootstrap, "client.id": name}
        )
        producer.produce("orders", b"x")
        producer.flush()
        del producer
        return str(capfd.readouterr().err)

    assert INSTANCE_ID_CHANGED not in produce("first")
    alter(connected, "all", SET, {"metrics": "*", "interval.ms": "200"})
    wait_until(lambda: API_KEYS["push_telemetry"] in advertised(connected), "it is advertised")
    capfd.readouterr()
    producer = confluent_kafka.Producer({"bootstrap.servers": telemetry_broker.bootstrap})
    seen: list[str] = []

    def told() -> bool:
        producer.poll(0.05)
        seen.append(capfd.readouterr().err)
        return INSTANCE_ID_CHANGED in "".join(seen)

    wait_until(told, "the client says that it has an id")


@pytest.mark.kafka
def test_kafkas_own_tool_keeps_subscriptions(kafka_tools: Any, telemetry_broker: Any) -> None:
    server = ("--bootstrap-server", telemetry_broker.bootstrap)
    made = kafka_tools(
        "client-metrics", *server, "--alter", "--name", "s", "--metrics", "org.apache.", "--interval", "500"
    )
    assert "Altered client metrics config for s" in made
    assert kafka_tools("client-metrics", *server, "--list").split() == ["s"]
    described = kafka_tools("client-metrics", *server, "--describe", "--name", "s")
    assert "interval.ms=500" in described and "metrics=org.apache." in described
    kafka_tools("client-metrics", *server, "--delete", "--name", "s")
    assert kafka_tools("client-metrics", *server, "--list").strip() == ""
