"""What a client of AMQP must not be able to do: write where only brokers write, find out what there is, act without a trace,
fill the broker's memory or its metadata."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

import tidelog
from tests.conformance.amqp.raw import SECONDS_MAX, Raw
from tests.conformance.amqp.secured import SecuredAmqpBroker, connected, secured_broker
from tests.conformance.amqp.taking import PERSISTENT, channel_closed, drained
from tests.conformance.process import wait_until
from tests.conformance.secured import acl
from tidelog.gateways.amqp.wire.frames import HEADER, frame, method_frame
from tidelog.gateways.amqp.wire.methods import encode_method

QUEUED_BYTES = 48 << 20
SETTINGS = {
    "queued.max.request.bytes": str(QUEUED_BYTES),
    "tidelog.connection.stalled.ms": "3000",
    "tidelog.login.connections.max": "20",
    "max.connections.per.ip.overrides": "127.0.0.9:3",
}
ANN, BOB = ("ann", "secret"), ("bob", "other")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredAmqpBroker]:
    running = secured_broker(tmp_path_factory.mktemp("hostile"), SETTINGS)
    running.start()
    with tidelog.Admin(bootstrap_servers=running.bootstrap) as admin:
        admin.create_topics([tidelog.NewTopic("orders", 1, 1)])
        admin.create_acls(
            [
                acl("User:ann", "all", "topic", "ann-", prefixed=True),
                acl("User:ann", "create", "topic", "orders"),
                acl("User:bob", "all", "topic", "bob-", prefixed=True),
                *(
                    acl("User:bob", operation, "topic", "_", prefixed=True)
                    for operation in ("create", "write", "alter_configs")
                ),
            ]
        )
    ann = connected(running, *ANN)
    ann.queue_declare("ann-there", durable=True)
    ann.exchange_declare("ann-there", "fanout", durable=True)
    yield running
    assert running.alive(), running.log_tail()
    running.stop()


def logged(broker: SecuredAmqpBroker, text: str) -> None:
    log = broker.home / "broker.log"
    wait_until(lambda: text in log.read_text(), SECONDS_MAX, f"{text} in the log")


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__share_group_state", "_audit"])
def test_topics_that_only_brokers_write_are_no_queues(broker: SecuredAmqpBroker, topic: str) -> None:
    refused = channel_closed(connected(broker, *BOB).queue_declare, topic, durable=True)
    assert refused == (403, f"ACCESS_REFUSED - topic '{topic}' is the brokers' own, and cannot be a queue")


def test_a_topic_becomes_a_queue_for_those_who_may_change_its_settings(broker: SecuredAmqpBroker) -> None:
    refused = channel_closed(connected(broker, *ANN).queue_declare, "orders", durable=True)
    assert refused.code == 403
    assert "topic 'orders' is there already" in refused.text


def test_dead_letters_go_only_where_their_sender_may_write(broker: SecuredAmqpBroker) -> None:
    def declared(**arguments: str) -> tuple[int, str]:
        return channel_closed(
            connected(broker, *BOB).queue_declare, "bob-letters", durable=True, arguments=arguments
        )

    refused = declared(**{"x-dead-letter-exchange": "ann-there"})
    assert refused.code == 403
    assert "write access to exchange 'ann-there'" in refused.text
    refused = declared(**{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ann-there"})
    assert refused.code == 403
    assert "write access to queue 'ann-there'" in refused.text
    refused = declared(**{"x-dead-letter-exchange": ""})
    assert "write access to exchange 'amq.default'" in refused.text
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "bob-dead"}
    connected(broker, *BOB).queue_declare("bob-letters", durable=True, arguments=arguments)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("queue_declare", {"passive": True}),
        ("exchange_declare", {"passive": True}),
        ("basic_get", {}),
        ("basic_consume", {"on_message_callback": print}),
        ("queue_purge", {}),
        ("queue_delete", {}),
        ("exchange_delete", {}),
        ("queue_bind", {"exchange": "bob-x"}),
        ("exchange_bind", {"source": "bob-x"}),
    ],
)
def test_what_there_is_shows_only_to_those_who_may_see_it(
    broker: SecuredAmqpBroker, method: str, arguments: dict[str, Any]
) -> None:
    def refused(name: str) -> tuple[int, str]:
        closed = channel_closed(getattr(connected(broker, *BOB), method), name, **arguments)
        return closed.code, closed.text.replace(name, "NAME")

    assert refused("ann-there") == refused("ann-none")


def test_publishing_does_not_tell_which_exchanges_there_are(broker: SecuredAmqpBroker) -> None:
    def refused(name: str) -> tuple[int, str]:
        channel = connected(broker, *BOB)
        channel.confirm_delivery()
        closed = channel_closed(channel.basic_publish, name, "key", b"x")
        return closed.code, closed.text.replace(name, "NAME")

    assert refused("ann-there") == refused("ann-none")


def events(broker: SecuredAmqpBroker) -> list[dict[str, Any]]:
    with tidelog.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        place = tidelog.TopicPartition("_audit", 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        end = consumer.end_offsets([place])[place]
        taken: list[dict[str, Any]] = []
        while consumer.position(place) < end:
            taken += [json.loads(record.value or b"{}") for record in consumer.poll(500)]
    return taken


def test_changes_are_in_the_audit_trail(broker: SecuredAmqpBroker) -> None:
    ann = connected(broker, *ANN)
    ann.queue_declare("ann-q", durable=True)
    ann.queue_declare("ann-q", durable=True)  # it is there: no change
    ann.exchange_declare("ann-x", "fanout")
    ann.queue_bind("ann-q", "ann-x", "key")
    ann.queue_purge("ann-q")
    ann.queue_unbind("ann-q", "ann-x", "key")
    ann.exchange_delete("ann-x")
    ann.queue_delete("ann-q")
    wanted = [
        ("DECLARE_QUEUE", "ann-q"),
        ("DECLARE_EXCHANGE", "ann-x"),
        ("BIND", "ann-q"),
        ("PURGE_QUEUE", "ann-q"),
        ("UNBIND", "ann-q"),
        ("DELETE_EXCHANGE", "ann-x"),
        ("DELETE_QUEUE", "ann-q"),
    ]

    def changes() -> list[tuple[str, str]]:
        return [
            (event["operation"], event["resource"])
            for event in events(broker)
            if event["event"] == "change" and event.get("resource") in ("ann-q", "ann-x")
        ]

    wait_until(lambda: len(changes()) >= len(wanted), 30, "the changes in the audit trail")
    assert changes() == wanted
    (declared,) = [event for event in events(broker) if event["operation"] == "BIND"]
    assert (declared["principal"], declared["listener"], declared["outcome"]) == (
        "User:ann",
        "AMQP",
        "success",
    )
    assert declared["change"] == {"vhost": "/", "source": "ann-x", "routing_key": "key"}


def test_declarations_count_for_the_quota_of_changes(broker: SecuredAmqpBroker) -> None:
    with tidelog.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_client_quotas({tidelog.QuotaEntity(user="bob"): {"controller_mutation_rate": 1.0}})
    bob = connected(broker, *BOB)
    began = time.monotonic()
    for number in range(14):
        bob.queue_declare(f"bob-{number}", durable=True)
    # 11 windows of a second may be used up at once.
    assert time.monotonic() - began > 2
    with tidelog.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_client_quotas({tidelog.QuotaEntity(user="bob"): {"controller_mutation_rate": None}})


def test_arguments_are_bounded(broker: SecuredAmqpBroker) -> None:
    arguments = {"note": "x" * 20_000}
    closed = channel_closed(connected(broker, *ANN).queue_declare, "ann-long", arguments=arguments)
    assert closed == (
        406,
        "PRECONDITION_FAILED - the arguments of queue 'ann-long' take more than 16384 bytes",
    )
    binding = channel_closed(
        connected(broker, *ANN).queue_bind, "ann-there", "ann-there", arguments=arguments
    )
    assert "take more than 16384 bytes" in binding.text


def test_messages_that_never_end_take_bounded_memory(broker: SecuredAmqpBroker) -> None:
    """Two connections: what both hold counts, and the larger one is closed."""
    good = connected(broker, *ANN)
    clients = [Raw(broker).open(login=b"\0ann\0secret", frame_max=131_072) for _ in range(2)]
    body = frame(3, 1, b"x" * 131_000)
    for client in clients:
        client.expect("connection.open-ok")
        client.method(1, "channel.open")
        client.expect("channel.open-ok")
        client.method(1, "basic.publish", exchange="", routing_key="ann-there")
        client.send(frame(HEADER, 1, struct.pack(">HHQH", 60, 0, 128 << 20, 0)))
    before = broker.resident_bytes()
    for client, size in zip(clients, (QUEUED_BYTES // 3, 2 * QUEUED_BYTES), strict=True):
        for _ in range(size // len(body)):
            client.send(body)
    assert clients[1].closed() == 506
    assert broker.resident_bytes() - before < 1.6 * QUEUED_BYTES
    logged(broker, "queued.max.request.bytes")
    clients[0].method(2, "channel.open")
    clients[0].expect("channel.open-ok")
    good.confirm_delivery()
    good.basic_publish("", "ann-there", b"fine", PERSISTENT, mandatory=True)
    assert drained(good, "ann-there") == [b"fine"]
    clients[0].socket.close()


def returned(name: str, size: int) -> bytes:
    """A message that no queue takes, so that the broker sends it back."""
    publish = encode_method("basic.publish", exchange="", routing_key=name, mandatory=True)
    head = frame(HEADER, 1, struct.pack(">HHQH", 60, 0, size, 0))
    return method_frame(1, publish) + head + frame(3, 1, b"x" * size)


def test_a_client_that_does_not_read_is_not_read_from_and_closed(broker: SecuredAmqpBroker) -> None:
    client = Raw(broker).open(login=b"\0ann\0secret", frame_max=131_072)
    client.expect("connection.open-ok")
    client.method(1, "channel.open")
    client.expect("channel.open-ok")
    message = returned("ann-nowhere", 100_000)
    client.socket.settimeout(SECONDS_MAX)
    sent = 0
    with pytest.raises(OSError, match=r"reset|Broken pipe"):
        while sent < 100 << 20:
            client.send(message)
            sent += len(message)
    assert sent < 60 << 20  # what the buffers of both sockets take
    logged(broker, "tidelog.connection.stalled.ms")


def test_strangers_have_few_places(broker: SecuredAmqpBroker) -> None:
    good = connected(broker, *ANN)
    silent = [socket.create_connection((broker.host, broker.amqp_port), SECONDS_MAX) for _ in range(40)]
    closed = 0
    for client in silent[:20]:
        client.settimeout(SECONDS_MAX)
        closed += client.recv(1) == b""  # the oldest make way, long before their ten seconds are over
    assert closed == 20
    logged(broker, "tidelog.login.connections.max")
    assert connected(broker, *BOB).is_open
    assert good.is_open
    good.connection.process_data_events(0)
    for client in silent:
        client.close()


def test_handshakes_that_never_end_have_few_places(broker: SecuredAmqpBroker) -> None:
    silent = [socket.create_connection((broker.host, broker.tls_port), SECONDS_MAX) for _ in range(200)]
    for client in silent[:50]:
        assert client.recv(1) == b""
    assert connected(broker, *ANN, tls=True).is_open
    for client in silent:
        client.close()


def test_the_rate_of_connections_of_an_address_holds(broker: SecuredAmqpBroker) -> None:
    with tidelog.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_client_quotas({tidelog.QuotaEntity(ip="127.0.0.8"): {"connection_creation_rate": 1.0}})

    def came() -> bool:
        """Whether the broker answered the greeting."""
        with socket.create_connection(
            (broker.host, broker.amqp_port), SECONDS_MAX, ("127.0.0.8", 0)
        ) as client:
            client.sendall(b"AMQP\x00\x00\x09\x01")
            with contextlib.suppress(ConnectionResetError):
                return client.recv(1) != b""
            return False

    assert not all(came() for _ in range(40))
