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


def ranked_taker(connect: Connect, queue: str, priority: int | None, prefetch: int) -> Taker:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=prefetch)
    return Taker(channel, queue, arguments=None if priority is None else {"x-priority": priority})


def test_consumers_of_higher_priority_are_given_messages_first(
    connect: Connect, channel: BlockingChannel, queue: str
) -> None:
    low = ranked_taker(connect, queue, None, 10)
    assert low.settle() == []
    high = ranked_taker(connect, queue, 5, 2)
    lowest = ranked_taker(connect, queue, -1, 10)
    publish(channel, queue, b"a", b"b")
    assert high.wait(2) == [b"a", b"b"]
    publish(channel, queue, *(b"%d" % number for number in range(11)))
    assert low.wait(10) == [b"%d" % number for number in range(10)]
    assert lowest.wait(1) == [b"10"]
    assert len(high.settle()) == 2
    high.channel.basic_ack(2, multiple=True)
    high.channel.connection.process_data_events(0.2)
    publish(channel, queue, b"c")
    assert high.wait(3)[-1] == b"c"
    assert len(low.settle()) == 10


def test_a_consumer_of_higher_priority_that_leaves_makes_way(
    connect: Connect, channel: BlockingChannel, queue: str
) -> None:
    low, high = ranked_taker(connect, queue, 1, 10), ranked_taker(connect, queue, 2, 10)
    publish(channel, queue, b"a")
    high.wait(1)
    high.channel.connection.close()
    assert low.wait(1) == [b"a"]
    publish(channel, queue, b"b")
    assert low.wait(2) == [b"a", b"b"]


def test_a_consumer_of_higher_priority_that_comes_late_takes_over(
    connect: Connect, channel: BlockingChannel, queue: str
) -> None:
    low = ranked_taker(connect, queue, None, 0)
    publish(channel, queue, b"a")
    low.wait(1)
    high = ranked_taker(connect, queue, 1, 0)
    for number in range(50):
        publish(channel, queue, b"%d" % number)
    assert high.wait(50) == [b"%d" % number for number in range(50)]
    assert low.settle() == [b"a"]


def test_an_impossible_priority_of_a_consumer_is_refused(channel: BlockingChannel, queue: str) -> None:
    closed = channel_closed(channel.basic_consume, queue, print, arguments={"x-priority": "high"})
    assert closed.code == 406
