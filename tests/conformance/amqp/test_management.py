"""The management API: what tools read, and definitions that go from one broker to another."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pika
import pytest

from tests.conformance.amqp.servers import AmqpBroker
from tests.conformance.amqp.taking import SECONDS_MAX, Taker, drained, publish


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AmqpBroker]]:
    running = [AmqpBroker(tmp_path_factory.mktemp("managed"), {}) for _ in range(2)]
    for broker in running:
        broker.start()
    yield running
    for broker in running:
        broker.stop()


def read(broker: AmqpBroker, path: str) -> Any:
    answer = httpx.get(f"http://{broker.http}/api/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def connected(broker: AmqpBroker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.amqp_port))


def test_what_is_there_is_listed(brokers: list[AmqpBroker]) -> None:
    broker = brokers[0]
    connection = connected(broker)
    channel = connection.channel()
    channel.queue_declare("li/sted", durable=True, arguments={"x-max-priority": 2})
    channel.exchange_declare("news", "topic", durable=True)
    channel.queue_bind("li/sted", "news", "eu.#")
    channel.basic_qos(prefetch_count=1)
    publish(channel, "li/sted", b"a", b"b")
    taker = Taker(channel, "li/sted")
    taker.wait(1)
    deadline = time.monotonic() + SECONDS_MAX
    while (queue := read(broker, "queues/%2F/li%2Fsted"))["messages"] != 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (queue["messages_ready"], queue["messages_unacknowledged"], queue["consumers"]) == (1, 1, 1)
    assert queue["arguments"] == {"x-max-priority": 2}
    (bound,) = [entry for entry in read(broker, "bindings/%2F") if entry["source"] == "news"]
    assert (bound["destination"], bound["routing_key"]) == ("li/sted", "eu.#")
    assert "amq.topic" in [entry["name"] for entry in read(broker, "exchanges")]
    (open_connection,) = read(broker, "connections")
    assert (open_connection["user"], open_connection["channels"]) == ("guest", 1)
    (open_channel,) = read(broker, "channels")
    assert (open_channel["prefetch_count"], open_channel["messages_unacknowledged"]) == (1, 1)
    (consumer,) = read(broker, "consumers/%2F")
    assert (consumer["queue"]["name"], consumer["active"]) == ("li/sted", True)
    overview = read(broker, "overview")
    assert overview["object_totals"]["consumers"] == 1
    assert read(broker, "health/checks/alarms") == {"status": "ok"}
    assert httpx.get(f"http://{broker.http}/api/queues/%2F/missing").status_code == 404
    connection.close()


def test_definitions_move_to_another_broker(brokers: list[AmqpBroker]) -> None:
    first, second = brokers
    channel = connected(first).channel()
    channel.exchange_declare("source", "direct", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    channel.queue_declare("kept", durable=True, arguments={"x-message-ttl": 60_000})
    channel.queue_declare("", exclusive=True)
    channel.queue_bind("kept", "source", "red")
    exported = read(first, "definitions")
    assert "kept" in [queue["name"] for queue in exported["queues"]]
    exported["users"] = [{"name": "ann"}]
    for _ in range(2):  # what is there already is the same
        answer = httpx.post(f"http://{second.http}/api/definitions", content=json.dumps(exported))
        assert answer.status_code == 200, answer.text
        assert answer.json()["not_imported"] == {"users": 1}
    other = connected(second).channel()
    other.confirm_delivery()
    other.basic_publish("source", "red", b"moved", mandatory=True)
    assert drained(other, "kept") == [b"moved"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"queues": [{}]}',
        b'{"queues": [{"name": "q", "arguments": {"x-message-ttl": -1}}]}',
        b'{"queues": [{"name": "q", "vhost": "nowhere"}]}',
        b'{"bindings": [{"source": "nothing", "destination": "nothing"}]}',
    ],
)
def test_what_is_no_definitions_is_refused(brokers: list[AmqpBroker], body: bytes) -> None:
    answer = httpx.post(f"http://{brokers[0].http}/api/definitions", content=body)
    assert answer.status_code == 400, answer.text


def test_topics_of_the_brokers_are_not_imported_as_queues(brokers: list[AmqpBroker]) -> None:
    definitions = {"queues": [{"name": "__consumer_offsets", "vhost": "/"}]}
    imported = httpx.post(f"http://{brokers[0].http}/api/definitions", json=definitions)
    assert imported.status_code == 400
    assert "the brokers' own" in imported.text
