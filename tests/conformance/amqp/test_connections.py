"""The handshake, heartbeats, limits, and frames that mean harm, by a client that sends bytes of its own."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator
from random import Random

import pika
import pytest

from tests.conformance.amqp.conftest import Server
from tests.conformance.amqp.raw import SECONDS_MAX, Raw
from tests.conformance.amqp.servers import AmqpBroker
from tests.conformance.amqp.taking import connection_closed
from tidelog.gateways.amqp.wire.frames import PROTOCOL_HEADER, frame, method_frame
from tidelog.gateways.amqp.wire.methods import encode_method


@pytest.fixture
def raw(server: Server) -> Iterator[Callable[[], Raw]]:
    opened: list[Raw] = []

    def connected() -> Raw:
        opened.append(Raw(server))
        return opened[-1]

    yield connected
    for client in opened:
        client.socket.close()


Connected = Callable[[], Raw]


@pytest.mark.parametrize("greeting", [b"GET / HT", b"AMQP\x00\x01\x00\x00"])
def test_another_protocol_is_told_what_is_served(raw: Connected, greeting: bytes) -> None:
    client = raw()
    client.send(greeting)
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.socket.recv(100):
            received += piece
    assert received == PROTOCOL_HEADER


def test_an_unknown_virtual_host_is_refused(raw: Connected) -> None:
    assert raw().open(vhost="nowhere").closed() == 530


def test_heartbeats_are_sent_and_a_silent_client_is_dropped(raw: Connected) -> None:
    client = raw().opened(heartbeat=1)
    started = time.monotonic()
    beats = 0
    while (received := client.receive()) is not None:
        beats += received.kind == 8
    assert beats >= 1
    assert time.monotonic() - started < SECONDS_MAX


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (frame(1, 1, b""), 501),
        (frame(1, 1, encode_method("queue.declare")[:-3]), 501),
        (frame(2, 1, struct.pack(">HHQH", 60, 0, 5, 0)), 505),
        (frame(3, 1, b"body"), 505),
        (method_frame(1, encode_method("channel.open")), 504),
        (method_frame(7, encode_method("basic.qos")), 504),
        (
            method_frame(101, encode_method("channel.open"))
            + method_frame(102, encode_method("channel.open")),
            530,
        ),
        (method_frame(1, encode_method("basic.publish")) + method_frame(1, encode_method("basic.qos")), 505),
        (method_frame(1, encode_method("basic.publish")) + frame(3, 1, b"body"), 505),
        (
            method_frame(1, encode_method("basic.publish", immediate=True))
            + frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0)),
            540,
        ),
        (method_frame(1, encode_method("basic.qos", prefetch_size=5)), 540),
        (frame(1, 1, encode_method("basic.qos"))[:-1] + b"\x00", 501),
        (struct.pack(">BHI", 1, 1, 100_000), 501),
    ],
    ids=[
        "no-method",
        "cut-off",
        "stray-header",
        "stray-body",
        "open-twice",
        "not-open",
        "too-many-channels",
        "no-content",
        "body-first",
        "immediate",
        "prefetch-size",
        "bad-end",
        "too-large",
    ],
)
def test_what_a_client_must_not_send_closes_the_connection(raw: Connected, harm: bytes, code: int) -> None:
    client = raw().opened(channel_max=2)
    client.send(harm)
    assert client.closed() == code


def test_an_unknown_method_ends_the_connection(raw: Connected) -> None:
    client = raw().opened()
    client.send(frame(1, 1, struct.pack(">HH", 50, 99)))
    assert client.ended() in (540, None)


@pytest.mark.parametrize("server", [AmqpBroker], ids=["tidelog"], indirect=True)  # RabbitMQ waits for ever
def test_a_body_longer_than_its_header_closes_the_connection(raw: Connected) -> None:
    client = raw().opened()
    client.method(1, "basic.publish", routing_key="nowhere")
    client.send(frame(2, 1, struct.pack(">HHQH", 60, 0, 3, 0)) + frame(3, 1, b"more than three"))
    assert client.closed() == 501


def test_random_frames_end_the_connection_and_nothing_else(
    raw: Connected, connect: Callable[..., pika.BlockingConnection]
) -> None:
    other = connect()
    for seed in range(40):
        random = Random(seed)
        client = raw().opened()
        methods = [
            encode_method(name)
            for name in ("queue.declare", "basic.publish", "exchange.bind", "basic.consume")
        ]
        for _ in range(20):
            payload = bytearray(random.choice(methods))
            for _ in range(random.randrange(4)):
                payload[random.randrange(len(payload))] = random.randrange(256)
            try:
                client.send(
                    frame(random.choice((1, 1, 1, 2, 3, 9)), random.choice((0, 1, 1, 5)), bytes(payload))
                )
            except OSError:
                break
        client.socket.close()
    assert other.channel().queue_declare("", exclusive=True)


def test_a_frame_of_the_negotiated_size_is_taken(raw: Connected) -> None:
    client = raw().opened(frame_max=4096)
    client.method(1, "confirm.select")
    client.expect("confirm.select-ok")
    client.method(1, "basic.publish", routing_key="nowhere")
    body = bytes(4096 - 8)
    client.send(frame(2, 1, struct.pack(">HHQH", 60, 0, len(body), 0)) + frame(3, 1, body))
    assert client.expect("basic.ack").fields == {"delivery_tag": 1, "multiple": False}


@pytest.mark.parametrize("frame_max", [1000, 200_000])
def test_an_impossible_frame_size_is_refused(raw: Connected, frame_max: int) -> None:
    assert raw().open(frame_max=frame_max).ended() in (530, None)


def test_closing_is_confirmed(raw: Connected) -> None:
    client = raw().opened()
    client.method(1, "channel.close", reply_code=200)
    client.expect("channel.close-ok")
    client.method(1, "channel.open")
    client.expect("channel.open-ok")
    client.method(0, "connection.close", reply_code=200)
    client.expect("connection.close-ok")


def test_channels_are_independent(connect: Callable[..., pika.BlockingConnection]) -> None:
    connection = connect()
    first, second = connection.channel(), connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        first.queue_declare("is not there", passive=True)
    assert second.queue_declare("", exclusive=True)
    assert connection.channel().is_open


def test_a_consumer_tag_of_another_channel_is_free(connect: Callable[..., pika.BlockingConnection]) -> None:
    connection = connect()
    first, second = connection.channel(), connection.channel()
    queue = first.queue_declare("", exclusive=True).method.queue
    for channel in (first, second):
        channel.basic_consume(queue, lambda *_: None, consumer_tag="same")
    assert first.consumer_tags == second.consumer_tags == ["same"]


def test_recovery_without_requeueing_is_not_served(connect: Callable[..., pika.BlockingConnection]) -> None:
    assert connection_closed(connect().channel().basic_recover, requeue=False).code == 540
