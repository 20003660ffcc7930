"""What the tests of the suite do with pika again and again."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

SECONDS_MAX = 30.0
NOTHING_SECONDS = 0.5

PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Taken(NamedTuple):
    method: Any
    properties: pika.BasicProperties
    body: bytes


class Taker:
    """A consumer that keeps what it is given."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: Any) -> None:
        self.channel = channel
        self.taken: list[Taken] = []
        self.cancelled: list[str] = []
        channel.add_on_cancel_callback(lambda method: self.cancelled.append(method.method.consumer_tag))
        self.tag = channel.basic_consume(queue, self._took, **options)

    def _took(self, _: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        self.taken.append(Taken(method, properties, body))

    def bodies(self) -> list[bytes]:
        return [taken.body for taken in self.taken]

    def wait(self, count: int) -> list[bytes]:
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.taken) < count and time.monotonic() < deadline:
            self.channel.connection.process_data_events(0.05)
        assert len(self.taken) >= count, f"not within {SECONDS_MAX} s: {count} messages, only {self.bodies()}"
        return self.bodies()

    def settle(self) -> list[bytes]:
        """What there is when nothing has come for a while."""
        count, quiet_from = len(self.taken), time.monotonic()
        while time.monotonic() - quiet_from < NOTHING_SECONDS:
            self.channel.connection.process_data_events(0.05)
            if len(self.taken) != count:
                count, quiet_from = len(self.taken), time.monotonic()
        return self.bodies()


def publish(channel: BlockingChannel, queue: str, *bodies: bytes, exchange: str = "") -> None:
    for body in bodies:
        channel.basic_publish(exchange, queue, body, PERSISTENT)


def get(channel: BlockingChannel, queue: str, auto_ack: bool = False) -> Taken | None:
    """The next message; waits for one that is on its way."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        method, properties, body = channel.basic_get(queue, auto_ack)
        if method is not None:
            return Taken(method, properties, body)
        time.sleep(0.02)
    return None


def drained(channel: BlockingChannel, queue: str) -> list[bytes]:
    """All that is there, acknowledged."""
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


def count(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


class Closed(NamedTuple):
    code: int
    text: str


def channel_closed(action: Any, *arguments: Any, **named: Any) -> Closed:
    """How the server closes the channel for it."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        action(*arguments, **named)
    return Closed(closed.value.reply_code, closed.value.reply_text)


def connection_closed(action: Any, *arguments: Any, **named: Any) -> Closed:
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        action(*arguments, **named)
    return Closed(closed.value.reply_code, closed.value.reply_text)
