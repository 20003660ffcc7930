"""Time to live, limits of length, dead letters, expiry of queues."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.amqp.servers import AmqpBroker
from tests.conformance.amqp.taking import (
    PERSISTENT,
    SECONDS_MAX,
    Taken,
    Taker,
    channel_closed,
    count,
    drained,
    get,
    publish,
)

Name = Callable[[], str]


@pytest.fixture
def declare(channel: BlockingChannel, name: Name) -> Callable[..., str]:
    def declared(**arguments: Any) -> str:
        queue = name()
        channel.queue_declare(
            queue, durable=True, arguments={key.replace("_", "-"): value for key, value in arguments.items()}
        )
        return queue

    channel.confirm_delivery()
    return declared


@pytest.fixture
def letters(channel: BlockingChannel, name: Name) -> str:
    queue = name()
    channel.queue_declare(queue, durable=True)
    return queue


def letter(channel: BlockingChannel, queue: str) -> Taken:
    taken = get(channel, queue, auto_ack=True)
    assert taken is not None, f"not within {SECONDS_MAX} s: a dead letter in {queue}"
    return taken


def emptied(channel: BlockingChannel, queue: str) -> bool:
    deadline = time.monotonic() + SECONDS_MAX
    while count(channel, queue) and time.monotonic() < deadline:
        time.sleep(0.05)
    return count(channel, queue) == 0


def test_messages_of_a_queue_expire_without_a_consumer(
    channel: BlockingChannel, declare: Callable[..., str], letters: str
) -> None:
    queue = declare(x_message_ttl=300, x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    publish(channel, queue, b"a", b"b")
    assert [letter(channel, letters).body for _ in range(2)] == [b"a", b"b"]
    assert emptied(channel, queue)


def test_the_expiration_of_a_message_counts(
    channel: BlockingChannel, declare: Callable[..., str], letters: str
) -> None:
    queue = declare(x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    channel.basic_publish("", queue, b"short", pika.BasicProperties(delivery_mode=2, expiration="100"))
    publish(channel, queue, b"stays")
    dead = letter(channel, letters)
    assert dead.body == b"short"
    assert dead.properties.expiration is None
    assert dead.properties.headers["x-death"][0]["original-expiration"] == "100"
    assert drained(channel, queue) == [b"stays"]


def test_a_rejected_message_has_its_history(
    channel: BlockingChannel, declare: Callable[..., str], letters: str, name: Name
) -> None:
    source = name()
    channel.exchange_declare(source, "fanout", durable=True)
    channel.queue_bind(letters, source)
    queue = declare(x_dead_letter_exchange=source)
    for body in (b"a", b"b"):
        channel.basic_publish("", queue, body, pika.BasicProperties(headers={"own": 1}))
        taken = get(channel, queue)
        assert taken is not None
        channel.basic_nack(taken.method.delivery_tag, requeue=False)
        dead = letter(channel, letters)
        assert (dead.body, dead.method.exchange, dead.method.routing_key) == (body, source, queue)
        headers = dead.properties.headers
        assert (headers["own"], headers["x-first-death-queue"], headers["x-first-death-exchange"]) == (
            1,
            queue,
            "",
        )
        assert headers["x-first-death-reason"] == "rejected"
        (death,) = headers["x-death"]
        assert death.pop("time")
        assert death == {
            "count": 1,
            "reason": "rejected",
            "queue": queue,
            "exchange": "",
            "routing-keys": [queue],
        }


def test_a_message_that_goes_round_counts_its_deaths(
    channel: BlockingChannel, declare: Callable[..., str], name: Name
) -> None:
    work, pause = name(), name()
    channel.queue_declare(
        work, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": pause}
    )
    channel.queue_declare(
        pause,
        durable=True,
        arguments={"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": work},
    )
    publish(channel, work, b"retry")
    for round_number in range(1, 8):
        taken = get(channel, work)
        assert taken is not None
        deaths = (taken.properties.headers or {}).get("x-death", [])
        counts = {(death["queue"], death["reason"]): death["count"] for death in deaths}
        if round_number > 1:
            assert counts == {(work, "rejected"): round_number - 1, (pause, "expired"): round_number - 1}
        channel.basic_nack(taken.method.delivery_tag, requeue=False)


@pytest.mark.parametrize("server", [AmqpBroker], ids=["tidelog"], indirect=True)  # RabbitMQ keeps it at times
def test_a_message_that_only_expires_does_not_go_round(channel: BlockingChannel, name: Name) -> None:
    queue = name()
    arguments = {"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    publish(channel, queue, b"x")
    assert emptied(channel, queue)
    time.sleep(0.3)
    assert count(channel, queue) == 0


def test_the_oldest_messages_make_room(
    channel: BlockingChannel, declare: Callable[..., str], letters: str
) -> None:
    queue = declare(x_max_length=3, x_dead_letter_exchange="", x_dead_letter_routing_key=letters)
    publish(channel, queue, b"a", b"b", b"c", b"d", b"e")
    dead = [letter(channel, letters) for _ in range(2)]
    assert [taken.body for taken in dead] == [b"a", b"b"]
    assert dead[0].properties.headers["x-death"][0]["reason"] == "maxlen"
    assert drained(channel, queue) == [b"c", b"d", b"e"]


def test_a_full_queue_can_refuse(channel: BlockingChannel, declare: Callable[..., str]) -> None:
    queue = declare(x_max_length=2, x_overflow="reject-publish")
    publish(channel, queue, b"a", b"b")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", queue, b"c", PERSISTENT)
    assert drained(channel, queue) == [b"a", b"b"]
    publish(channel, queue, b"d")
    assert drained(channel, queue) == [b"d"]


def test_what_a_full_queue_refuses_can_be_a_dead_letter(
    channel: BlockingChannel, declare: Callable[..., str], letters: str
) -> None:
    queue = declare(
        x_max_length=1,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=letters,
    )
    publish(channel, queue, b"a")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", queue, b"b", PERSISTENT)
    dead = letter(channel, letters)
    assert (dead.body, dead.properties.headers["x-death"][0]["reason"]) == (b"b", "maxlen")
    assert drained(channel, queue) == [b"a"]


def test_a_limit_of_bytes_counts_bodies(channel: BlockingChannel, declare: Callable[..., str]) -> None:
    queue = declare(x_max_length_bytes=2000)
    publish(channel, queue, *(bytes(700) + b"%d" % number for number in range(6)))
    left = drained(channel, queue)
    assert 1 <= len(left) <= 2 and left[-1].endswith(b"5")


def test_a_message_comes_back_as_often_as_it_is_requeued(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"again")
    for _ in range(30):
        taken = get(channel, queue)
        assert taken is not None
        channel.basic_nack(taken.method.delivery_tag, requeue=True)
    assert drained(channel, queue) == [b"again"]


def test_a_quorum_queue_counts_deliveries_and_has_a_limit(
    channel: BlockingChannel, declare: Callable[..., str], letters: str
) -> None:
    queue = declare(
        x_queue_type="quorum",
        x_delivery_limit=2,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=letters,
    )
    publish(channel, queue, b"poison")
    counts = []
    for _ in range(3):
        taken = get(channel, queue)
        assert taken is not None
        counts.append((taken.properties.headers or {}).get("x-delivery-count"))
        channel.basic_nack(taken.method.delivery_tag, requeue=True)
    assert counts == [0, 1, 2]
    dead = letter(channel, letters)
    assert dead.properties.headers["x-death"][0]["reason"] == "delivery_limit"


def test_an_unused_queue_expires(connection: pika.BlockingConnection, declare: Callable[..., str]) -> None:
    queue = declare(x_expires=400)
    channel = connection.channel()
    taker = Taker(channel, queue)
    time.sleep(1)
    channel.queue_declare(queue, passive=True)  # it is used
    channel.basic_cancel(taker.tag)
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        time.sleep(1)  # each look uses it
        try:
            connection.channel().queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker as closed:
            assert closed.reply_code == 404
            return
    raise AssertionError(f"not within {SECONDS_MAX} s: the end of {queue}")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-message-ttl", -1),
        ("x-message-ttl", "soon"),
        ("x-expires", 0),
        ("x-max-length", -5),
        ("x-overflow", "explode"),
        ("x-queue-type", "magic"),
        ("x-dead-letter-routing-key", "alone"),
        ("x-dead-letter-exchange", 5),
    ],
)
def test_impossible_arguments_are_refused(
    connection: pika.BlockingConnection, name: Name, argument: str, value: Any
) -> None:
    closed = channel_closed(
        connection.channel().queue_declare, name(), durable=True, arguments={argument: value}
    )
    assert closed.code == 406
