"""Priorities of messages, and single active consumers."""

from __future__ import annotations

from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.taking import Taker, channel_closed, count, drained, get, publish

Name = Callable[[], str]
Connect = Callable[..., pika.BlockingConnection]


@pytest.fixture
def ranked(channel: BlockingChannel, name: Name) -> str:
    queue = name()
    channel.queue_declare(queue, durable=True, arguments={"x-max-priority": 5})
    channel.confirm_delivery()
    return queue


def with_priority(channel: BlockingChannel, queue: str, body: bytes, priority: int | None) -> None:
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2, priority=priority))


def test_higher_priorities_come_first(channel: BlockingChannel, ranked: str) -> None:
    for number, priority in enumerate((0, 3, 1, None, 5, 3, 9, 1)):
        with_priority(channel, ranked, b"%d" % number, priority)
    assert count(channel, ranked) == 8
    assert drained(channel, ranked) == [b"4", b"6", b"1", b"5", b"2", b"7", b"0", b"3"]


def test_a_higher_priority_overtakes_whatever_waits(channel: BlockingChannel, ranked: str) -> None:
    for number in range(1000):
        with_priority(channel, ranked, b"low %d" % number, 1)
    with_priority(channel, ranked, b"high", 4)
    first, second = get(channel, ranked), get(channel, ranked)
    assert first is not None and second is not None
    assert (first.body, first.properties.priority, second.body) == (b"high", 4, b"low 0")


def test_a_requeued_message_keeps_its_priority(channel: BlockingChannel, ranked: str) -> None:
    with_priority(channel, ranked, b"low", 1)
    with_priority(channel, ranked, b"high", 2)
    taken = get(channel, ranked)
    assert taken is not None and taken.body == b"high"
    channel.basic_nack(taken.method.delivery_tag)
    assert drained(channel, ranked) == [b"high", b"low"]


@pytest.mark.parametrize("highest", [-1, "many"])
def test_impossible_priorities_are_refused(
    connection: pika.BlockingConnection, name: Name, highest: object
) -> None:
    arguments = {"x-max-priority": highest}
    closed = channel_closed(connection.channel().queue_declare, name(), durable=True, arguments=arguments)
    assert closed.code == 406


def test_one_consumer_is_active(connect: Connect, channel: BlockingChannel, name: Name) -> None:
    queue = name()
    channel.queue_declare(queue, durable=True, arguments={"x-single-active-consumer": True})
    first, second = Taker(connect().channel(), queue), Taker(connect().channel(), queue)
    publish(channel, queue, b"a", b"b")
    assert first.wait(2) == [b"a", b"b"]
    assert second.settle() == []
    first.channel.basic_ack(1)
    first.channel.connection.close()
    assert second.wait(1) == [b"b"]
    assert second.taken[0].method.redelivered
    publish(channel, queue, b"c")
    assert second.wait(2) == [b"b", b"c"]


def test_a_cancelled_consumer_makes_way(connect: Connect, channel: BlockingChannel, name: Name) -> None:
    queue = name()
    channel.queue_declare(queue, durable=True, arguments={"x-single-active-consumer": True})
    other = connect().channel()
    first, second = Taker(other, queue), Taker(other, queue)
    publish(channel, queue, b"a")
    first.wait(1)
    other.basic_cancel(first.tag)
    publish(channel, queue, b"b")
    assert second.wait(1) == [b"b"]
