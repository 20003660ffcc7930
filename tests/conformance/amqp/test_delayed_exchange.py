"""Exchanges of the type x-delayed-message, as RabbitMQ's plugin has them: Debian's package is without the plugin."""

from __future__ import annotations

import time
from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.servers import AmqpBroker
from tests.conformance.amqp.taking import Taker, channel_closed, connection_closed, count

Name = Callable[[], str]

pytestmark = pytest.mark.parametrize("server", [AmqpBroker], ids=["tidelog"], indirect=True)


@pytest.fixture
def exchange(channel: BlockingChannel, name: Name) -> str:
    declared = name()
    channel.exchange_declare(
        declared, "x-delayed-message", durable=True, arguments={"x-delayed-type": "topic"}
    )
    channel.confirm_delivery()
    return declared


def publish_later(channel: BlockingChannel, exchange: str, key: str, body: bytes, delay_ms: object) -> None:
    headers = {} if delay_ms is None else {"x-delay": delay_ms}
    channel.basic_publish(exchange, key, body, pika.BasicProperties(delivery_mode=2, headers=headers))


def test_messages_come_in_the_order_of_their_times(
    channel: BlockingChannel, queue: str, exchange: str
) -> None:
    channel.queue_bind(queue, exchange, "jobs.#")
    began = time.monotonic()
    for body, delay_ms in ((b"third", 900), (b"second", 500), (b"first", None), (b"also first", -5)):
        publish_later(channel, exchange, "jobs.now", body, delay_ms)
    publish_later(channel, exchange, "elsewhere", b"unroutable", 100)
    assert count(channel, queue) == 2
    taker = Taker(channel, queue)
    assert taker.wait(4) == [b"first", b"also first", b"second", b"third"]
    assert time.monotonic() - began > 0.8
    third = taker.taken[3]
    assert third.properties.headers == {"x-delay": -900}
    assert (third.method.exchange, third.method.routing_key) == (exchange, "jobs.now")
    assert taker.settle() == taker.bodies()


def test_a_delay_that_is_no_number_is_none(channel: BlockingChannel, queue: str, exchange: str) -> None:
    channel.queue_bind(queue, exchange, "#")
    publish_later(channel, exchange, "a", b"now", "soon")
    assert Taker(channel, queue).wait(1) == [b"now"]


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": "x-delayed-message"}, {"x-delayed-type": 3}])
def test_a_type_to_route_by_is_needed(
    connection: pika.BlockingConnection, name: Name, arguments: dict[str, object]
) -> None:
    closed = channel_closed(
        connection.channel().exchange_declare, name(), "x-delayed-message", arguments=arguments
    )
    assert closed.code == 406


def test_declared_again_it_must_route_alike(connection: pika.BlockingConnection, exchange: str) -> None:
    again = connection.channel()
    arguments = {"x-delayed-type": "topic"}
    again.exchange_declare(exchange, "x-delayed-message", durable=True, arguments=arguments)
    arguments = {"x-delayed-type": "direct"}
    closed = channel_closed(
        again.exchange_declare, exchange, "x-delayed-message", durable=True, arguments=arguments
    )
    assert closed.code == 406


def test_other_types_are_unknown(connect: Callable[..., pika.BlockingConnection], name: Name) -> None:
    assert connection_closed(connect().channel().exchange_declare, name(), "x-random").code == 503
