"""Three brokers: AMQP through any of them, and the death of the one that leads a queue."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pika
import pytest
from confluent_kafka.admin import AdminClient
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.servers import AmqpBroker
from tests.conformance.amqp.taking import PERSISTENT, SECONDS_MAX, Taker, channel_closed, drained
from tests.conformance.process import wait_until
from tests.contract.etcd import Etcd

REPLICAS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "3",
}


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AmqpBroker]]:
    etcd = Etcd(tmp_path_factory.mktemp("etcd"))
    etcd.start()
    running: list[AmqpBroker] = []
    try:
        for node in (1, 2, 3):
            given = {**REPLICAS, "node.id": str(node), "tidelog.metadata": f"etcd://{etcd.endpoints[0]}/amqp"}
            running.append(AmqpBroker(tmp_path_factory.mktemp(f"node{node}"), given))
            running[-1].start()
        admin = AdminClient({"bootstrap.servers": running[0].bootstrap})
        wait_until(
            lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 3, SECONDS_MAX, "three brokers"
        )
        yield running
    finally:
        for broker in running:
            broker.discard()
        etcd.stop()


def connected(broker: AmqpBroker) -> BlockingChannel:
    parameters = pika.ConnectionParameters(
        broker.host, broker.amqp_port, blocked_connection_timeout=SECONDS_MAX
    )
    channel = pika.BlockingConnection(parameters).channel()
    channel.confirm_delivery()
    return channel


def test_every_broker_serves_every_queue(brokers: list[AmqpBroker]) -> None:
    first, second, third = (connected(broker) for broker in brokers)
    first.exchange_declare("prices", "topic", durable=True)
    for number in range(4):
        first.queue_declare(f"q{number}", durable=True)
        first.queue_bind(f"q{number}", "prices", f"eu.{number}")
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            second.basic_publish("prices", "eu.3", b"x", PERSISTENT, mandatory=True)
            break
        except pika.exceptions.UnroutableError:  # not heard of the binding yet
            assert time.monotonic() < deadline
    for number in range(3):
        second.basic_publish("prices", f"eu.{number}", b"x", PERSISTENT, mandatory=True)
    takers = [Taker(third, f"q{number}") for number in range(4)]
    for taker in takers:
        assert taker.wait(1) == [b"x"]
        third.basic_nack(taker.taken[0].method.delivery_tag, requeue=True)
        assert taker.wait(2) == [b"x", b"x"]
        assert taker.taken[1].method.redelivered
        third.basic_ack(taker.taken[1].method.delivery_tag)
    third.connection.close()
    assert [drained(first, f"q{number}") for number in range(4)] == [[], [], [], []]


def test_an_exclusive_consumer_is_alone_in_the_cluster(brokers: list[AmqpBroker]) -> None:
    first, second = connected(brokers[0]), connected(brokers[1])
    first.queue_declare("alone", durable=True)
    first.queue_declare("shared", auto_delete=True)
    Taker(first, "alone", exclusive=True)
    one = Taker(first, "shared")
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            second.queue_declare("shared", passive=True)
            break
        except pika.exceptions.ChannelClosedByBroker:
            second = connected(brokers[1])
            assert time.monotonic() < deadline
    other = Taker(second, "shared")
    closed = channel_closed(connected(brokers[1]).basic_consume, "alone", lambda *_: None)
    assert closed.code == 403
    first.basic_cancel(one.tag)
    second.queue_declare("shared", passive=True)  # the other broker's consumer keeps it
    second.basic_cancel(other.tag)
    assert channel_closed(second.queue_declare, "shared", passive=True).code == 404


def test_nothing_confirmed_is_lost_when_brokers_die(brokers: list[AmqpBroker]) -> None:
    channel = connected(brokers[0])
    for number in range(3):
        channel.queue_declare(f"q{number}", durable=True)
    confirmed: set[bytes] = set()
    for number in range(150):
        if number == 75:
            brokers[1].kill()
        body = b"%d" % number
        try:
            channel.basic_publish("", f"q{number % 3}", body, PERSISTENT, mandatory=True)
        except pika.exceptions.NackError:
            continue
        confirmed.add(body)
    assert len(confirmed) > 100
    reader = connected(brokers[2])
    takers = [Taker(reader, f"q{number}", auto_ack=True) for number in range(3)]
    deadline = time.monotonic() + 2 * SECONDS_MAX
    taken: set[bytes] = set()
    while not confirmed <= taken and time.monotonic() < deadline:
        reader.connection.process_data_events(0.1)
        taken = {body for taker in takers for body in taker.bodies()}
    assert not confirmed - taken
