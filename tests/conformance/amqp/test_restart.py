"""What survives the end of Tidelog, and the same data seen through AMQP and through Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pika
import pytest
from confluent_kafka import Consumer, Producer
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.servers import AmqpBroker
from tests.conformance.amqp.taking import PERSISTENT, channel_closed, drained, get
from tests.conformance.topics import create_topic


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBroker]:
    running = AmqpBroker(tmp_path_factory.mktemp("restarted"), {})
    running.start()
    yield running
    running.discard()


def connected(broker: AmqpBroker) -> BlockingChannel:
    channel = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.amqp_port)).channel()
    channel.confirm_delivery()
    return channel


def written(broker: AmqpBroker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value=value)
    producer.flush()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_queues_bindings_and_messages_survive(broker: AmqpBroker, end: str) -> None:
    channel = connected(broker)
    channel.exchange_declare("prices", "topic", durable=True)
    channel.queue_declare("stocks", durable=True)
    channel.queue_declare("passing", durable=False)
    channel.queue_bind("stocks", "prices", "eu.#")
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("prices", "eu.de", body, PERSISTENT, mandatory=True)
    first, second = get(channel, "stocks"), get(channel, "stocks")
    assert first is not None and second is not None
    channel.basic_ack(second.method.delivery_tag)
    channel.queue_declare("stocks", passive=True)  # waits for the acknowledgement
    getattr(broker, end)()
    broker.start()
    channel = connected(broker)
    channel.basic_publish("prices", "eu.fr", b"d", PERSISTENT, mandatory=True)
    assert drained(channel, "stocks") == [b"a", b"c", b"d"]
    closed = channel_closed(connected(broker).queue_declare, "passing", passive=True)
    for _ in range(100):
        if closed.code == 404:
            break
        closed = channel_closed(connected(broker).queue_declare, "passing", passive=True)
    assert closed.code == 404


def test_a_kafka_consumer_reads_what_amqp_publishes(broker: AmqpBroker) -> None:
    channel = connected(broker)
    channel.queue_declare("orders", durable=True)
    properties = pika.BasicProperties(
        content_type="application/json", correlation_id="c-7", headers={"shop": "north", "count": 3}
    )
    channel.basic_publish("", "orders", b'{"pears": 2}', properties)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "audit", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    (message,) = consumer.consume(1, timeout=30)
    consumer.close()
    headers = dict(message.headers())
    assert message.value() == b'{"pears": 2}'
    assert headers.pop("amqp.headers")  # the table with its types
    assert headers == {
        "amqp.content-type": b"application/json",
        "amqp.correlation-id": b"c-7",
        "shop": b"north",
        "count": b"3",
    }


def test_amqp_takes_what_a_kafka_producer_writes(broker: AmqpBroker) -> None:
    channel = connected(broker)
    channel.queue_declare("orders", durable=True)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers = {"shop": b"south", "amqp.correlation-id": b"c-9", "amqp.priority": b"many", "raw": b"\xff\x00"}
    producer.produce("orders", key="carol", value="3 figs", headers=headers)
    producer.flush()
    taken = get(channel, "orders")
    assert taken is not None
    assert (taken.body, taken.method.routing_key) == (b"3 figs", "orders")
    assert taken.properties.correlation_id == "c-9"
    assert taken.properties.priority is None
    assert taken.properties.headers == {"shop": "south", "raw": b"\xff\x00", "kafka.key": "carol"}


def test_a_topic_of_kafka_becomes_a_queue_with_all_it_has(
    broker: AmqpBroker, name: Callable[[], str]
) -> None:
    topic = name()
    create_topic(broker.bootstrap, topic)
    written(broker, topic, b"old-1", b"old-2")
    channel = connected(broker)
    assert channel.queue_declare(topic, durable=True).method.message_count == 2
    assert drained(channel, topic) == [b"old-1", b"old-2"]
    channel.queue_delete(topic)
    channel.queue_declare(topic, durable=True)  # the topic was not the queue's to delete
    written(broker, topic, b"new")
    taken = get(channel, topic)
    assert taken is not None and taken.body == b"new"
