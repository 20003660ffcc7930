"""Exchanges, queues and bindings: what may be declared, how messages are routed, how refusals are worded."""

from __future__ import annotations

from collections.abc import Callable
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
    publish,
)

Name = Callable[[], str]
Connect = Callable[..., pika.BlockingConnection]


@pytest.fixture
def queues(channel: BlockingChannel, name: Name) -> dict[str, str]:
    """Four queues, by a letter."""
    declared = {letter: name() for letter in "abcd"}
    for queue in declared.values():
        channel.queue_declare(queue, durable=True)
    return declared


def exchange(channel: BlockingChannel, name: Name, kind: str, **options: Any) -> str:
    declared = name()
    channel.exchange_declare(declared, kind, durable=True, **options)
    return declared


def reached(channel: BlockingChannel, queues: dict[str, str]) -> str:
    """The letters of the queues that have messages, once for each message; they are empty afterwards."""
    return "".join(letter * len(drained(channel, queue)) for letter, queue in queues.items())


def sent(channel: BlockingChannel, source: str, key: str, headers: dict[str, Any] | None = None) -> None:
    channel.confirm_delivery()
    channel.basic_publish(source, key, b"x", pika.BasicProperties(delivery_mode=2, headers=headers))


def test_a_direct_exchange_compares_keys(
    channel: BlockingChannel, queues: dict[str, str], name: Name
) -> None:
    source = exchange(channel, name, "direct")
    for letter, key in (("a", "red"), ("b", "red"), ("c", "blue"), ("a", "red")):
        channel.queue_bind(queues[letter], source, key)
    sent(channel, source, "red")
    assert reached(channel, queues) == "ab"
    sent(channel, source, "green")
    assert reached(channel, queues) == ""


def test_a_fanout_exchange_reaches_all_once(
    channel: BlockingChannel, queues: dict[str, str], name: Name
) -> None:
    source = exchange(channel, name, "fanout")
    for letter in "abb":
        channel.queue_bind(queues[letter], source, f"key {letter}")
    channel.queue_bind(queues["b"], source, "another key")
    sent(channel, source, "whatever")
    assert reached(channel, queues) == "ab"


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.*", "a.", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#", "", True),
        ("#", "x.y", True),
        ("#.b", "b", True),
        ("#.b", "a.a.b", True),
        ("#.b", "a.b.c", False),
        ("a.#.b.#.c", "a.x.b.c", True),
        ("a.#.b.#.c", "a.b.x.y.c", True),
        ("a.#.b.#.c", "a.c", False),
        ("#.#", "a", True),
        ("*.#", "", False),
        ("*.#", "a", True),
        ("*", "", False),
        ("", "", True),
        ("", "a", False),
        ("*", "a", True),
        ("lazy.#.*", "lazy.a", True),
        ("lazy.#.*", "lazy", False),
    ],
)
def test_a_topic_exchange_matches_words(
    channel: BlockingChannel, queue: str, name: Name, pattern: str, key: str, matches: bool
) -> None:
    source = exchange(channel, name, "topic", auto_delete=True)
    channel.queue_bind(queue, source, pattern)
    sent(channel, source, key)
    assert len(drained(channel, queue)) == matches


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 3}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2}, False),
        ({"a": 1}, {"a": 1, "b": 1}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"x-match": "all", "a": None}, {"a": "anything"}, True),
        ({"x-match": "all"}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "all", "x-own": 1, "a": 1}, {"a": 1}, True),
    ],
)
def test_a_headers_exchange_compares_headers(
    channel: BlockingChannel,
    queue: str,
    name: Name,
    arguments: dict[str, Any],
    headers: dict[str, Any],
    matches: bool,
) -> None:
    source = exchange(channel, name, "headers", auto_delete=True)
    channel.queue_bind(queue, source, arguments=arguments)
    sent(channel, source, "", headers)
    assert len(drained(channel, queue)) == matches


def test_exchanges_are_bound_to_exchanges(
    channel: BlockingChannel, queues: dict[str, str], name: Name
) -> None:
    first, second = exchange(channel, name, "fanout"), exchange(channel, name, "direct")
    channel.exchange_bind(second, first)
    channel.exchange_bind(first, second, "red")  # round in a circle
    channel.queue_bind(queues["a"], first)
    channel.queue_bind(queues["b"], second, "red")
    sent(channel, first, "red")
    assert reached(channel, queues) == "ab"
    sent(channel, first, "blue")
    assert reached(channel, queues) == "a"
    channel.exchange_unbind(second, first)
    sent(channel, first, "red")
    assert reached(channel, queues) == "a"


def test_an_alternate_exchange_gets_what_is_unroutable(
    channel: BlockingChannel, queues: dict[str, str], name: Name
) -> None:
    other = exchange(channel, name, "fanout")
    source = exchange(channel, name, "direct", arguments={"alternate-exchange": other})
    channel.queue_bind(queues["a"], source, "known")
    channel.queue_bind(queues["b"], other)
    sent(channel, source, "known")
    assert reached(channel, queues) == "a"
    sent(channel, source, "unknown")
    assert reached(channel, queues) == "b"


def test_the_default_exchange_has_a_binding_for_every_queue(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"x")
    refused = (403, "ACCESS_REFUSED - operation not permitted on the default exchange")
    assert channel_closed(channel.queue_bind, queue, "", "key") == refused
    assert channel_closed(channel.connection.channel().exchange_delete, "") == refused


def test_unbinding_ends_routing(channel: BlockingChannel, queues: dict[str, str], name: Name) -> None:
    source = exchange(channel, name, "direct")
    channel.queue_bind(queues["a"], source, "red")
    channel.queue_bind(queues["a"], source, "blue")
    channel.queue_unbind(queues["a"], source, "red")
    channel.queue_unbind(queues["a"], source, "never bound")
    sent(channel, source, "red")
    sent(channel, source, "blue")
    assert reached(channel, queues) == "a"


def test_a_deleted_queue_loses_its_bindings(
    channel: BlockingChannel, queues: dict[str, str], name: Name
) -> None:
    source = exchange(channel, name, "fanout")
    channel.queue_bind(queues["a"], source)
    sent(channel, source, "")
    assert channel.queue_delete(queues["a"]).method.message_count == 1
    channel.queue_declare(queues["a"], durable=True)
    sent(channel, source, "")
    assert count(channel, queues["a"]) == 0


def test_the_server_names_queues(channel: BlockingChannel) -> None:
    names = {channel.queue_declare("", exclusive=True).method.queue for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("amq.gen-") for name in names)


def test_the_last_queue_has_no_name(channel: BlockingChannel, name: Name) -> None:
    declared = channel.queue_declare("", exclusive=True).method.queue
    source = exchange(channel, name, "direct")
    channel.queue_bind("", source)
    channel.basic_publish(source, declared, b"x")
    assert Taker(channel, "").wait(1) == [b"x"]


def test_an_exclusive_queue_belongs_to_its_connection(connect: Connect, name: Name) -> None:
    first, second = connect(), connect()
    queue = name()
    first.channel().queue_declare(queue, exclusive=True)
    for action in ("queue_declare", "queue_purge", "basic_get"):
        options = {"passive": True} if action == "queue_declare" else {}
        code, text = channel_closed(getattr(second.channel(), action), queue, **options)
        assert code == 405
        assert text.startswith(
            f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'."
        )
    first.close()
    channel = second.channel()
    missing = (404, f"NOT_FOUND - no queue '{queue}' in vhost '/'")
    for _ in range(100):
        closed = channel_closed(channel.queue_declare, queue, passive=True)
        if closed == missing:
            break
        channel = second.channel()
        second.process_data_events(0.1)
    assert closed == missing


def test_an_auto_delete_queue_ends_with_its_last_consumer(channel: BlockingChannel, name: Name) -> None:
    queue = name()
    channel.queue_declare(queue, auto_delete=True)
    channel.queue_declare(queue, passive=True)
    first, second = Taker(channel, queue), Taker(channel, queue)
    channel.basic_cancel(first.tag)
    channel.queue_declare(queue, passive=True)
    channel.basic_cancel(second.tag)
    assert channel_closed(channel.queue_declare, queue, passive=True).code == 404


def test_an_auto_delete_exchange_ends_with_its_last_binding(
    channel: BlockingChannel, queue: str, name: Name
) -> None:
    source = name()
    channel.exchange_declare(source, "direct", auto_delete=True)
    channel.queue_bind(queue, source, "a")
    channel.queue_bind(queue, source, "b")
    channel.queue_unbind(queue, source, "a")
    channel.exchange_declare(source, passive=True)
    channel.queue_unbind(queue, source, "b")
    assert channel_closed(channel.exchange_declare, source, passive=True).code == 404


def test_declaring_again_must_say_the_same(connection: pika.BlockingConnection, name: Name) -> None:
    queue, source = name(), name()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.queue_declare(queue, durable=True)
    channel.exchange_declare(source, "direct", durable=True)
    for action, options, words in (
        (
            "queue_declare",
            {"queue": queue},
            f"arg 'durable' for queue '{queue}' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            "queue_declare",
            {"queue": queue, "durable": True, "auto_delete": True},
            f"arg 'auto_delete' for queue '{queue}' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            "exchange_declare",
            {"exchange": source, "exchange_type": "fanout", "durable": True},
            f"arg 'type' for exchange '{source}' in vhost '/': received 'fanout' but current is 'direct'",
        ),
        (
            "exchange_declare",
            {"exchange": source, "exchange_type": "direct", "durable": True, "internal": True},
            f"arg 'internal' for exchange '{source}' in vhost '/': received 'true' but current is 'false'",
        ),
    ):
        closed = channel_closed(getattr(connection.channel(), action), **options)
        assert closed == (406, f"PRECONDITION_FAILED - inequivalent {words}")
    connection.channel().queue_delete(queue)


def test_what_is_missing_is_named(connection: pika.BlockingConnection, queue: str, name: Name) -> None:
    missing = name()
    no_queue = (404, f"NOT_FOUND - no queue '{missing}' in vhost '/'")
    no_exchange = (404, f"NOT_FOUND - no exchange '{missing}' in vhost '/'")

    def channel() -> BlockingChannel:
        return connection.channel()

    assert channel_closed(channel().queue_declare, missing, passive=True) == no_queue
    assert channel_closed(channel().basic_consume, missing, lambda *_: None) == no_queue
    assert channel_closed(channel().basic_get, missing) == no_queue
    assert channel_closed(channel().queue_purge, missing) == no_queue
    assert channel_closed(channel().queue_bind, missing, "amq.direct") == no_queue
    assert channel_closed(channel().queue_bind, queue, missing) == no_exchange
    assert channel_closed(channel().exchange_declare, missing, passive=True) == no_exchange
    publishing = channel()
    publishing.basic_publish(missing, "key", b"")
    assert channel_closed(publishing.queue_declare, queue, passive=True) == no_exchange
    channel().queue_delete(missing)
    channel().exchange_delete(missing)


def test_reserved_names_are_refused(connection: pika.BlockingConnection) -> None:
    closed = channel_closed(connection.channel().queue_declare, "amq.mine")
    assert closed == (403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'")
    closed = channel_closed(connection.channel().exchange_declare, "amq.mine")
    assert closed == (403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'")
    closed = channel_closed(connection.channel().exchange_delete, "amq.direct")
    assert closed == (
        403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
    )


def test_an_unknown_type_of_exchange_closes_the_connection(
    connection: pika.BlockingConnection, name: Name
) -> None:
    closed = connection_closed(connection.channel().exchange_declare, name(), "round-robin")
    assert closed == (503, "COMMAND_INVALID - unknown exchange type 'round-robin'")


def test_nobody_publishes_to_an_internal_exchange(channel: BlockingChannel, queue: str, name: Name) -> None:
    source = exchange(channel, name, "fanout", internal=True)
    channel.basic_publish(source, "", b"", PERSISTENT)
    closed = channel_closed(channel.queue_declare, queue, passive=True)
    assert closed == (403, f"ACCESS_REFUSED - cannot publish to internal exchange '{source}' in vhost '/'")


def test_what_is_in_use_or_not_empty_can_be_kept(
    connection: pika.BlockingConnection, queue: str, name: Name
) -> None:
    channel = connection.channel()
    sent(channel, "", queue)
    assert count(channel, queue) == 1
    closed = channel_closed(connection.channel().queue_delete, queue, if_empty=True)
    assert closed == (406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty")
    Taker(channel, queue)
    closed = channel_closed(connection.channel().queue_delete, queue, if_unused=True)
    assert closed == (406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use")
    source = exchange(channel, name, "direct")
    channel.queue_bind(queue, source)
    closed = channel_closed(connection.channel().exchange_delete, source, if_unused=True)
    assert closed == (406, f"PRECONDITION_FAILED - exchange '{source}' in vhost '/' in use")
    channel.queue_unbind(queue, source)
    channel.exchange_delete(source, if_unused=True)


def test_names_may_have_any_characters(channel: BlockingChannel, name: Name) -> None:
    queue = f"größe / {name()}: *#?"
    channel.queue_declare(queue, durable=True)
    channel.exchange_declare(queue, "direct")
    channel.queue_bind(queue, queue, "schlüssel")
    sent(channel, queue, "schlüssel")
    assert drained(channel, queue) == [b"x"]
    channel.queue_delete(queue)
    channel.exchange_delete(queue)
