"""Exchanges, queues and bindings of AMQP, as they are kept in the metadata store.  Pure.

Keys, with names in percent encoding:
    amqp/VHOST/exchange/NAME
    amqp/VHOST/queue/NAME
    amqp/VHOST/binding/SOURCE/q|e/DESTINATION/DIGEST        the digest is of routing key and arguments
    amqp/VHOST/active/NAME                                  the broker that has the single active consumer
    amqp/VHOST/use/NAME/RUN                                 a broker has consumers of the queue

A queue is a topic.  Its name is the topic's where that is a legal one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

ROOT = "amqp/"
DEFAULT_VHOST = "/"
QUEUE, EXCHANGE = "q", "e"
ROUTING_KINDS = ("direct", "fanout", "topic", "headers")
DELAYED, DELAYED_TYPE = "x-delayed-message", "x-delayed-type"
"""An exchange that keeps messages for a while, and the argument that says how it routes them."""
KINDS = (*ROUTING_KINDS, DELAYED)
TOPIC_NAME_MAX = 249
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")

Arguments = Mapping[str, Any]
NO_ARGUMENTS: Arguments = {}


class AmqpExchange(NamedTuple):
    name: str
    kind: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = NO_ARGUMENTS

    @property
    def routes_as(self) -> str:
        return str(self.arguments[DELAYED_TYPE]) if self.kind == DELAYED else self.kind


class AmqpQueue(NamedTuple):
    """`home`: the run of a broker with which a queue ends that is not durable; "" for the others.  `exclusive`: the
    connection that it belongs to, and ends with.  `adopted`: the topic was there before, and stays when the queue is
    deleted."""

    name: str
    topic: str
    durable: bool = True
    exclusive: str = ""
    auto_delete: bool = False
    arguments: Arguments = NO_ARGUMENTS
    home: str = ""
    adopted: bool = False


class Binding(NamedTuple):
    source: str
    kind: str
    destination: str
    routing_key: str = ""
    arguments: Arguments = NO_ARGUMENTS

    @property
    def properties_key(self) -> str:
        """RabbitMQ's name of a binding among those of the same source and destination."""
        if not self.arguments:
            return self.routing_key or "~"
        return f"{self.routing_key}~{digest(self.routing_key, self.arguments)[:22]}"


PREDECLARED = tuple(
    AmqpExchange(name, kind)
    for name, kind in (
        ("", "direct"),
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
        ("amq.topic", "topic"),
    )
)


def topic_of(queue: str, tenant: str | None) -> str:
    """The topic of a new queue.  Names that no topic can have are told apart by a digest."""
    prefix = "" if tenant is None else f"{tenant}."
    if (
        _LEGAL_TOPIC.fullmatch(queue)
        and queue not in (".", "..")
        and len(prefix) + len(queue) <= TOPIC_NAME_MAX
    ):
        return prefix + queue
    readable = _ILLEGAL.sub("-", queue)[:100]
    return f"{prefix}{readable}-{hashlib.sha256(queue.encode()).hexdigest()[:16]}"


def vhost_prefix(vhost: str) -> str:
    return f"{ROOT}{quote(vhost, safe='')}/"


def exchange_key(vhost: str, name: str) -> str:
    return f"{vhost_prefix(vhost)}exchange/{quote(name, safe='')}"


def queue_key(vhost: str, name: str) -> str:
    return f"{vhost_prefix(vhost)}queue/{quote(name, safe='')}"


def active_key(vhost: str, queue: str) -> str:
    return f"{vhost_prefix(vhost)}active/{quote(queue, safe='')}"


def use_prefix(vhost: str, queue: str) -> str:
    return f"{vhost_prefix(vhost)}use/{quote(queue, safe='')}/"


def use_key(vhost: str, queue: str, home: str) -> str:
    return use_prefix(vhost, queue) + home


def binding_key(vhost: str, binding: Binding) -> str:
    source, destination = quote(binding.source, safe=""), quote(binding.destination, safe="")
    suffix = digest(binding.routing_key, binding.arguments)
    return f"{vhost_prefix(vhost)}binding/{source}/{binding.kind}/{destination}/{suffix}"


def digest(routing_key: str, arguments: Arguments) -> str:
    text = json.dumps([routing_key, _plain(arguments)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def encode(value: AmqpExchange | AmqpQueue | Binding) -> bytes:
    fields = value._asdict()
    fields["arguments"] = _plain(fields["arguments"])
    return json.dumps(fields, separators=(",", ":")).encode()


def plain_text(arguments: Arguments) -> bytes:
    """As they are kept."""
    return json.dumps(_plain(arguments), separators=(",", ":")).encode()


def decode_exchange(value: bytes) -> AmqpExchange:
    return AmqpExchange(**json.loads(value))


def decode_queue(value: bytes) -> AmqpQueue:
    return AmqpQueue(**json.loads(value))


def decode_binding(value: bytes) -> Binding:
    return Binding(**json.loads(value))


def split_key(key: str) -> tuple[str, str, str]:
    """(vhost, kind, the rest) of a key below ROOT"""
    vhost, kind, rest = key.removeprefix(ROOT).split("/", 2)
    return unquote(vhost), kind, rest


def unquoted(name: str) -> str:
    return unquote(name)


def _plain(value: Any) -> Any:
    """What JSON can hold; bytes become text, times their seconds."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)
