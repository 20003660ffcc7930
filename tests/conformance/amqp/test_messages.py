"""Publish, confirm, consume, get, acknowledge, reject, requeue, limits of consumers."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.taking import (
    PERSISTENT,
    Taker,
    channel_closed,
    connection_closed,
    count,
    drained,
    get,
    publish,
)

Connect = Callable[..., pika.BlockingConnection]


def test_what_is_published_with_confirms_is_delivered_in_order(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    bodies = [b"%d" % number for number in range(200)]
    publish(channel, queue, *bodies)
    assert count(channel, queue) == 200
    taker = Taker(channel, queue)
    assert taker.wait(200) == bodies
    assert not any(taken.method.redelivered for taken in taker.taken)
    assert [taken.method.delivery_tag for taken in taker.taken] == list(range(1, 201))
    channel.basic_ack(200, multiple=True)
    assert count(channel, queue) == 0


def test_every_property_and_every_type_of_header_comes_back(channel: BlockingChannel, queue: str) -> None:
    headers: dict[str, Any] = {
        "text": "väl",
        "number": 7,
        "large": 1 << 40,
        "negative": -3,
        "yes": True,
        "nothing": None,
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "exact": decimal.Decimal("3.14"),
        "list": [1, "two", {"three": 3}],
        "table": {"inner": {"deep": [True]}},
    }
    properties = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers=headers,
        delivery_mode=2,
        priority=3,
        correlation_id="c-1",
        reply_to="answers",
        expiration="600000",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="kind",
        user_id="guest",
        app_id="app",
    )
    channel.basic_publish("", queue, b"body", properties)
    taken = get(channel, queue, auto_ack=True)
    assert taken is not None
    back = taken.properties
    assert back.headers["when"].replace(tzinfo=UTC) == headers["when"]
    assert {name: value for name, value in back.headers.items() if name != "when"} == {
        name: value for name, value in headers.items() if name != "when"
    }
    for name in (
        "content_type",
        "content_encoding",
        "delivery_mode",
        "priority",
        "correlation_id",
        "reply_to",
    ):
        assert getattr(back, name) == getattr(properties, name)
    for name in ("expiration", "message_id", "timestamp", "type", "user_id", "app_id"):
        assert getattr(back, name) == getattr(properties, name)


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 1_000_000])
def test_bodies_of_any_size(channel: BlockingChannel, queue: str, size: int) -> None:
    body = bytes(number % 251 for number in range(size))
    channel.confirm_delivery()
    channel.basic_publish("", queue, body, PERSISTENT)
    taken = get(channel, queue, auto_ack=True)
    assert taken is not None and taken.body == body


def test_an_unroutable_message_is_returned_if_it_is_mandatory(
    channel: BlockingChannel, name: Callable[[], str]
) -> None:
    channel.confirm_delivery()
    missing = name()
    channel.basic_publish("", missing, b"dropped")  # confirmed, and gone
    with pytest.raises(pika.exceptions.UnroutableError) as problem:
        channel.basic_publish("", missing, b"returned", mandatory=True)
    (returned,) = problem.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.routing_key, returned.body) == (missing, b"returned")


def test_rejected_messages_go_back_in_their_place(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"a", b"b", b"c")
    first, second = get(channel, queue), get(channel, queue)
    assert first is not None and second is not None
    channel.basic_reject(first.method.delivery_tag, requeue=True)
    again = get(channel, queue)
    assert again is not None
    assert (again.body, again.method.redelivered) == (b"a", True)
    channel.basic_nack(again.method.delivery_tag, multiple=True, requeue=True)  # b, too
    assert drained(channel, queue) == [b"a", b"b", b"c"]


def test_a_message_that_is_not_requeued_is_gone(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"a", b"b")
    taken = get(channel, queue)
    assert taken is not None
    channel.basic_reject(taken.method.delivery_tag, requeue=False)
    assert drained(channel, queue) == [b"b"]


def test_what_a_closed_channel_has_not_acknowledged_is_delivered_again(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"a", b"b", b"c")
    other = connection.channel()
    taker = Taker(other, queue)
    taker.wait(3)
    other.basic_ack(2)
    other.close()
    again = [get(channel, queue), get(channel, queue)]
    assert [(taken.body, taken.method.redelivered) for taken in again if taken] == [
        (b"a", True),
        (b"c", True),
    ]


def test_prefetch_bounds_what_a_consumer_holds(channel: BlockingChannel, queue: str) -> None:
    channel.basic_qos(prefetch_count=2)
    publish(channel, queue, *(b"%d" % number for number in range(6)))
    taker = Taker(channel, queue)
    assert taker.settle() == [b"0", b"1"]
    channel.basic_ack(1)
    assert taker.settle() == [b"0", b"1", b"2"]
    channel.basic_ack(0, multiple=True)
    assert taker.settle() == [b"0", b"1", b"2", b"3", b"4"]


def test_a_global_prefetch_is_for_the_channel(
    channel: BlockingChannel, queue: str, name: Callable[[], str]
) -> None:
    channel.basic_qos(prefetch_count=3, global_qos=True)
    publish(channel, queue, *(b"%d" % number for number in range(10)))
    first, second = Taker(channel, queue), Taker(channel, queue)
    first.settle()
    assert len(first.taken) + len(second.taken) == 3


def test_recover_delivers_again(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"a", b"b")
    taker = Taker(channel, queue)
    taker.wait(2)
    channel.basic_recover(requeue=True)
    taker.wait(4)
    assert sorted(taken.body for taken in taker.taken[2:]) == [b"a", b"b"]
    assert all(taken.method.redelivered for taken in taker.taken[2:])


def test_a_consumer_without_acknowledgements_takes_all(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *(b"%d" % number for number in range(300)))
    taker = Taker(channel, queue, auto_ack=True)
    assert taker.wait(300) == [b"%d" % number for number in range(300)]
    channel.basic_cancel(taker.tag)
    assert count(channel, queue) == 0


def test_cancelling_keeps_what_is_not_acknowledged(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"a", b"b")
    taker = Taker(channel, queue)
    taker.wait(2)
    channel.basic_cancel(taker.tag)
    channel.basic_ack(1)
    channel.basic_nack(2, requeue=True)
    assert drained(channel, queue) == [b"b"]


def test_purge_leaves_what_is_not_acknowledged(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"a", b"b", b"c")
    taken = get(channel, queue)
    assert taken is not None
    assert channel.queue_purge(queue).method.message_count == 2
    channel.basic_nack(taken.method.delivery_tag)
    assert drained(channel, queue) == [b"a"]


def test_transactions_commit_and_roll_back(connect: Connect, channel: BlockingChannel, queue: str) -> None:
    writer = connect().channel()
    writer.tx_select()
    publish(writer, queue, b"a", b"b")
    assert count(channel, queue) == 0
    writer.tx_commit()
    assert count(channel, queue) == 2
    publish(writer, queue, b"c")
    writer.tx_rollback()
    assert count(channel, queue) == 2
    taken = get(writer, queue)
    assert taken is not None
    writer.basic_ack(taken.method.delivery_tag)
    writer.tx_rollback()
    writer.basic_ack(taken.method.delivery_tag)
    writer.tx_commit()
    assert drained(channel, queue) == [b"b"]


def test_an_unknown_delivery_tag_closes_the_channel(channel: BlockingChannel, queue: str) -> None:
    channel.basic_ack(9)
    closed = channel_closed(channel.queue_declare, queue, passive=True)
    assert closed == (406, "PRECONDITION_FAILED - unknown delivery tag 9")


def test_a_consumer_tag_is_used_once(channel: BlockingChannel, queue: str) -> None:
    Taker(channel, queue, consumer_tag="mine")
    # pika refuses a tag that it knows: it has to forget this one.
    del channel._consumer_infos["mine"], channel._impl._consumers["mine"]
    closed = connection_closed(channel.basic_consume, queue, lambda *_: None, consumer_tag="mine")
    assert closed == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'mine'")


def test_an_exclusive_consumer_is_alone(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    taker = Taker(channel, queue, exclusive=True)
    refused = (403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use")
    assert channel_closed(connection.channel().basic_consume, queue, lambda *_: None) == refused
    channel.basic_cancel(taker.tag)
    other = connection.channel()
    Taker(other, queue)
    assert channel_closed(channel.basic_consume, queue, lambda *_: None, exclusive=True) == refused


def test_a_consumer_is_told_that_its_queue_is_gone(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    taker = Taker(channel, queue)
    connection.channel().queue_delete(queue)
    taker.settle()
    assert taker.cancelled == [taker.tag]


def test_modes_of_a_channel_exclude_each_other(connection: pika.BlockingConnection) -> None:
    confirming = connection.channel()
    confirming.confirm_delivery()
    assert channel_closed(confirming.tx_select) == (
        406,
        "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
    )
    transactional = connection.channel()
    transactional.tx_select()
    assert channel_closed(transactional.confirm_delivery) == (
        406,
        "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
    )
    plain = connection.channel()
    assert channel_closed(plain.tx_commit) == (406, "PRECONDITION_FAILED - channel is not transactional")


def test_a_foreign_user_id_is_refused(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"", pika.BasicProperties(user_id="somebody"))
    closed = channel_closed(channel.queue_declare, queue, passive=True)
    assert closed == (
        406,
        "PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was 'guest'",
    )
