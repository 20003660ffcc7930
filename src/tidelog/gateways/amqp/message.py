"""A message of AMQP as a record of Kafka, and back.  Pure.

The body is the value.  Each property is a header `amqp.NAME`, and each entry of the table `headers` is a header of its own
name, so that a Kafka client reads and writes them as text.  A table with anything but text in it is kept whole besides, in
`amqp.headers`, so that AMQP clients get the types back that they sent.  Properties of a record that no AMQP client sent are
read the same way, and a key becomes the header `kafka.key`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tidelog.gateways.amqp.topology.arguments import MAX_PRIORITY, partition_of
from tidelog.gateways.amqp.topology.model import AmqpQueue
from tidelog.gateways.amqp.wire.properties import PROPERTIES, Properties, decode_properties, encode_properties
from tidelog.gateways.amqp.wire.tables import (
    SyntaxFault,
    Timestamp,
    decode_table,
    encode_table,
)

PREFIX = "amqp."
EXCHANGE = "amqp.exchange"
ROUTING_KEY = "amqp.routing-key"
HEADERS = "amqp.headers"
KEY = "kafka.key"
TTL = "tidelog.ttl.ms"
CACHED_BYTES_MAX = 256
_NUMBER_MAX = {"o": 255, "t": (1 << 64) - 1}
_BY_HEADER = {f"{PREFIX}{name.replace('_', '-')}": (name, kind) for name, kind in PROPERTIES if kind != "T"}

RecordHeaders = Sequence[tuple[str, bytes | None]]


class AmqpMessage(NamedTuple):
    """`properties`: as they are in a content header."""

    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


def headers_of_record(message: AmqpMessage, queue: str) -> list[tuple[str, bytes | None]]:
    """`queue`: where the message goes; a routing key that says the same is left out."""
    headers: list[tuple[str, bytes | None]] = []
    if message.exchange:
        headers.append((EXCHANGE, message.exchange.encode()))
    if message.exchange or message.routing_key != queue:
        headers.append((ROUTING_KEY, message.routing_key.encode()))
    if len(message.properties) <= CACHED_BYTES_MAX:
        headers += _cached_headers(message.properties)
    else:
        headers += _headers_of(message.properties)
    return headers


@lru_cache(maxsize=1024)
def _cached_headers(properties: bytes) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(_headers_of(properties))


def _headers_of(encoded: bytes) -> list[tuple[str, bytes | None]]:
    properties = decode_properties(encoded)
    table = properties.pop("headers", None)
    headers: list[tuple[str, bytes | None]] = [
        (f"{PREFIX}{name.replace('_', '-')}", str(value).encode()) for name, value in properties.items()
    ]
    if "expiration" in properties:
        headers.append((TTL, properties["expiration"].encode()))
    if table is None:
        return headers
    if not table or not all(isinstance(value, str) for value in table.values()) or any(map(_is_own, table)):
        headers.append((HEADERS, encode_table(table)))
    headers += [(name, _text(value)) for name, value in table.items() if not _is_own(name)]
    return headers


def _is_own(name: str) -> bool:
    return name.startswith(PREFIX) or name in (KEY, TTL)


def _text(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return str(value).encode()


def message_of_record(
    queue: str, key: bytes | None, value: bytes | None, headers: RecordHeaders
) -> AmqpMessage:
    exchange, routing_key, own = "", queue, []
    for header in headers:
        name, content = header
        if name == EXCHANGE:
            exchange = _decoded(content)
        elif name == ROUTING_KEY:
            routing_key = _decoded(content)
        else:
            own.append(header)
    if key is not None:
        own.append((KEY, key))
    if sum(len(name) + len(content or b"") for name, content in own) <= CACHED_BYTES_MAX:
        return AmqpMessage(exchange, routing_key, _cached_properties(tuple(own)), value or b"")
    return AmqpMessage(exchange, routing_key, _properties_of(own), value or b"")


@lru_cache(maxsize=1024)
def _cached_properties(headers: tuple[tuple[str, bytes | None], ...]) -> bytes:
    return _properties_of(headers)


def _properties_of(headers: RecordHeaders) -> bytes:
    return encode_properties(properties_of_headers(headers))


def properties_of_headers(headers: RecordHeaders) -> Properties:
    """What cannot be a property, because a Kafka client wrote something else there, is left out."""
    properties: Properties = {}
    table: dict[str, Any] = {}
    whole: dict[str, Any] | None = None
    for name, content in headers:
        if name in (EXCHANGE, ROUTING_KEY, TTL):
            continue
        if name == HEADERS:
            whole = _table(content)
            continue
        own_property = _BY_HEADER.get(name)
        if own_property is None:
            if len(name.encode()) <= 255:
                table[name] = _value(content)
            continue
        value = _property(_decoded(content), own_property[1])
        if value is not None:
            properties[own_property[0]] = value
    if whole is not None:
        properties["headers"] = {**table, **whole} if KEY in table else whole
    elif table:
        properties["headers"] = table
    return properties


def _table(content: bytes | None) -> dict[str, Any] | None:
    try:
        return decode_table(content or b"", 0)[0]
    except SyntaxFault:
        return None


def _property(text: str, kind: str) -> Any:
    if kind == "s":
        return text if len(text.encode()) <= 255 else None
    if not text.isdecimal() or int(text) > _NUMBER_MAX[kind]:
        return None
    return int(text) if kind == "o" else Timestamp(text)


def _value(content: bytes | None) -> str | bytes | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _decoded(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")


def partition_of_message(queue: AmqpQueue, message: AmqpMessage) -> int:
    if MAX_PRIORITY not in queue.arguments:
        return 0
    return partition_of(queue, decode_properties(message.properties).get("priority", 0))


def with_headers(properties: bytes, changes: Mapping[str, Any]) -> bytes:
    """The properties with these entries in `headers`; an entry of None is taken out."""
    decoded = decode_properties(properties)
    table = {**decoded.get("headers", {}), **changes}
    decoded["headers"] = {
        name: value for name, value in table.items() if value is not None or name not in changes
    }
    return encode_properties(decoded)
