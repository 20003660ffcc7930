"""Connections that publish are blocked while a disk has too little room, and told; others go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2 as httpx
import pika
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.conformance.amqp.conftest import Server
from tests.conformance.amqp.servers import AmqpBroker, RabbitMq
from tests.conformance.amqp.taking import SECONDS_MAX, Taker, publish

FREE_BYTES_MIN = {
    AmqpBroker: {"tidelog.amqp.disk.free.bytes.min": str(1 << 60)},
    RabbitMq: {"disk_free_limit.absolute": str(1 << 60)},
}


class Publisher:
    """A connection that is told when it is blocked."""

    def __init__(self, server: Server) -> None:
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(server.host, server.amqp_port))
        self.reasons: list[str] = []
        self.unblocked = 0
        self.connection.add_on_connection_blocked_callback(
            lambda _, method: self.reasons.append(method.method.reason)
        )
        self.connection.add_on_connection_unblocked_callback(lambda *_: self._unblocked())
        self.channel = self.connection.channel()

    def _unblocked(self) -> None:
        self.unblocked += 1

    def wait(self, over: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not over():
            assert time.monotonic() < deadline, "the connection was not told"
            self.connection.process_data_events(0.05)


@pytest.fixture(scope="module", params=[AmqpBroker, RabbitMq], ids=["tidelog", "rabbitmq"])
def full(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running: Server = request.param(tmp_path_factory.mktemp("full"), FREE_BYTES_MIN[request.param])
    running.start()
    yield running
    running.discard()


def test_a_connection_that_publishes_is_blocked_and_one_that_consumes_is_not(full: Server) -> None:
    consuming = Publisher(full)
    queue = consuming.channel.queue_declare("", exclusive=False).method.queue
    taker = Taker(consuming.channel, queue)
    publisher = Publisher(full)
    publish(publisher.channel, queue, b"a")
    publisher.wait(lambda: publisher.reasons)
    assert publisher.reasons == ["low on disk"]
    taker.settle()
    taker.channel.basic_cancel(taker.tag)
    assert consuming.reasons == []


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[AmqpBroker]:
    running = AmqpBroker(tmp_path, {})
    running.start()
    yield running
    running.stop()


def set_free_bytes_min(broker: AmqpBroker, least: int) -> None:
    entry = ConfigEntry(
        "tidelog.amqp.disk.free.bytes.min", str(least), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(SECONDS_MAX)


def alarms(broker: AmqpBroker) -> int:
    return httpx.get(f"http://{broker.http}/api/health/checks/alarms").status_code


def until(over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not over():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_connection_is_unblocked_when_there_is_room_again(broker: AmqpBroker) -> None:
    publisher = Publisher(broker)
    publisher.channel.queue_declare("jobs", durable=True)
    publish(publisher.channel, "jobs", b"a")
    set_free_bytes_min(broker, 1 << 60)
    until(lambda: alarms(broker) == 503)
    assert publisher.reasons == []
    publish(publisher.channel, "jobs", b"b")
    publisher.wait(lambda: publisher.reasons)
    publish(publisher.channel, "jobs", b"c")
    (listed,) = httpx.get(f"http://{broker.http}/api/connections").json()
    assert listed["state"] == "blocked"
    set_free_bytes_min(broker, 0)
    publisher.wait(lambda: publisher.unblocked)
    assert alarms(broker) == 200
    taker = Taker(publisher.channel, "jobs")
    assert taker.wait(3) == [b"a", b"b", b"c"]
    publisher.connection.close()


def test_a_connection_beyond_its_quota_is_told(broker: AmqpBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    entry = ConfigEntry("quota.producer.default", "20000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(SECONDS_MAX)
    publisher = Publisher(broker)
    publisher.channel.queue_declare("slow", durable=True)
    while not publisher.reasons:
        publish(publisher.channel, "slow", bytes(100_000))
        publisher.connection.process_data_events(0.01)
    assert publisher.reasons == ["the quota of this connection is used up"]
