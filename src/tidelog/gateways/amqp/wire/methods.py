"""The methods of AMQP 0-9-1 with RabbitMQ's extensions: one table, and the encoding that follows from it.  Pure.

A method is its name and its fields by name.  `tools/reference.py` makes docs/reference/amqp.md from the table."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.gateways.amqp.wire.tables import (
    SyntaxFault,
    decode_table,
    encode_long,
    encode_short,
    encode_table,
    long_string,
    short_string,
)

CONNECTION, CHANNEL, EXCHANGE, QUEUE, BASIC, CONFIRM, TX = 10, 20, 40, 50, 60, 85, 90

# class.method, its numbers, and its fields: o octet, h short, l long, q longlong, s short string, S long string, t bit,
# T table.
_TABLE = """
connection.start        10 10  o:version-major o:version-minor T:server-properties S:mechanisms S:locales
connection.start-ok     10 11  T:client-properties s:mechanism S:response s:locale
connection.secure       10 20  S:challenge
connection.secure-ok    10 21  S:response
connection.tune         10 30  h:channel-max l:frame-max h:heartbeat
connection.tune-ok      10 31  h:channel-max l:frame-max h:heartbeat
connection.open         10 40  s:virtual-host s:capabilities t:insist
connection.open-ok      10 41  s:known-hosts
connection.close        10 50  h:reply-code s:reply-text h:class-id h:method-id
connection.close-ok     10 51
connection.blocked      10 60  s:reason
connection.unblocked    10 61
connection.update-secret 10 70 S:new-secret s:reason
connection.update-secret-ok 10 71
channel.open            20 10  s:out-of-band
channel.open-ok         20 11  S:channel-id
channel.flow            20 20  t:active
channel.flow-ok         20 21  t:active
channel.close           20 40  h:reply-code s:reply-text h:class-id h:method-id
channel.close-ok        20 41
exchange.declare        40 10  h:ticket s:exchange s:type t:passive t:durable t:auto-delete t:internal t:no-wait T:arguments
exchange.declare-ok     40 11
exchange.delete         40 20  h:ticket s:exchange t:if-unused t:no-wait
exchange.delete-ok      40 21
exchange.bind           40 30  h:ticket s:destination s:source s:routing-key t:no-wait T:arguments
exchange.bind-ok        40 31
exchange.unbind         40 40  h:ticket s:destination s:source s:routing-key t:no-wait T:arguments
exchange.unbind-ok      40 51
queue.declare           50 10  h:ticket s:queue t:passive t:durable t:exclusive t:auto-delete t:no-wait T:arguments
queue.declare-ok        50 11  s:queue l:message-count l:consumer-count
queue.bind              50 20  h:ticket s:queue s:exchange s:routing-key t:no-wait T:arguments
queue.bind-ok           50 21
queue.purge             50 30  h:ticket s:queue t:no-wait
queue.purge-ok          50 31  l:message-count
queue.delete            50 40  h:ticket s:queue t:if-unused t:if-empty t:no-wait
queue.delete-ok         50 41  l:message-count
queue.unbind            50 50  h:ticket s:queue s:exchange s:routing-key T:arguments
queue.unbind-ok         50 51
basic.qos               60 10  l:prefetch-size h:prefetch-count t:global
basic.qos-ok            60 11
basic.consume           60 20  h:ticket s:queue s:consumer-tag t:no-local t:no-ack t:exclusive t:no-wait T:arguments
basic.consume-ok        60 21  s:consumer-tag
basic.cancel            60 30  s:consumer-tag t:no-wait
basic.cancel-ok         60 31  s:consumer-tag
basic.publish           60 40  h:ticket s:exchange s:routing-key t:mandatory t:immediate
basic.return            60 50  h:reply-code s:reply-text s:exchange s:routing-key
basic.deliver           60 60  s:consumer-tag q:delivery-tag t:redelivered s:exchange s:routing-key
basic.get               60 70  h:ticket s:queue t:no-ack
basic.get-ok            60 71  q:delivery-tag t:redelivered s:exchange s:routing-key l:message-count
basic.get-empty         60 72  s:cluster-id
basic.ack               60 80  q:delivery-tag t:multiple
basic.reject            60 90  q:delivery-tag t:requeue
basic.recover-async     60 100 t:requeue
basic.recover           60 110 t:requeue
basic.recover-ok        60 111
basic.nack              60 120 q:delivery-tag t:multiple t:requeue
confirm.select          85 10  t:no-wait
confirm.select-ok       85 11
tx.select               90 10
tx.select-ok            90 11
tx.commit               90 20
tx.commit-ok            90 21
tx.rollback             90 30
tx.rollback-ok          90 31
"""


class MethodSpec(NamedTuple):
    name: str
    class_id: int
    method_id: int
    fields: tuple[tuple[str, str], ...]
    """(letter of the type, name with `_`)"""


class Method(NamedTuple):
    spec: MethodSpec
    fields: dict[str, Any]

    @property
    def name(self) -> str:
        return self.spec.name


def _specs() -> dict[tuple[int, int], MethodSpec]:
    specs = {}
    for line in _TABLE.strip().splitlines():
        name, class_id, method_id, *fields = line.split()
        pairs = tuple((field[0], field[2:].replace("-", "_")) for field in fields)
        specs[int(class_id), int(method_id)] = MethodSpec(name, int(class_id), int(method_id), pairs)
    return specs


METHODS = _specs()
BY_NAME = {spec.name: spec for spec in METHODS.values()}

_HEAD = struct.Struct(">HH")
_NUMBERS = {
    "o": struct.Struct(">B"),
    "h": struct.Struct(">H"),
    "l": struct.Struct(">I"),
    "q": struct.Struct(">Q"),
}
_READERS: dict[str, Callable[[bytes, int], tuple[Any, int]]] = {
    "s": short_string,
    "S": long_string,
    "T": decode_table,
}
_WRITERS: dict[str, Callable[[Any], bytes]] = {"s": encode_short, "S": encode_long, "T": encode_table}
_EMPTY: dict[str, Any] = {"s": "", "S": b"", "T": {}, "t": False, "o": 0, "h": 0, "l": 0, "q": 0}


class UnknownMethod(SyntaxFault):
    def __init__(self, class_id: int, method_id: int) -> None:
        super().__init__(f"there is no method {method_id} of class {class_id}")
        self.class_id = class_id
        self.method_id = method_id


def decode_method(payload: bytes) -> Method:
    if len(payload) < 4:
        raise SyntaxFault("a method frame has no method")
    class_id, method_id = _HEAD.unpack_from(payload)
    spec = METHODS.get((class_id, method_id))
    if spec is None:
        raise UnknownMethod(class_id, method_id)
    fields: dict[str, Any] = {}
    at, bit = 4, 8
    for kind, name in spec.fields:
        if kind == "t":
            if bit == 8:
                at, bit = at + 1, 0
            if at > len(payload):
                raise SyntaxFault(f"{spec.name} is cut off")
            fields[name] = bool(payload[at - 1] >> bit & 1)
            bit += 1
            continue
        bit = 8
        number = _NUMBERS.get(kind)
        if number is None:
            fields[name], at = _READERS[kind](payload, at)
        elif at + number.size > len(payload):
            raise SyntaxFault(f"{spec.name} is cut off")
        else:
            fields[name] = number.unpack_from(payload, at)[0]
            at += number.size
    if at != len(payload):
        raise SyntaxFault(f"{spec.name} has {len(payload) - at} bytes too many")
    return Method(spec, fields)


def encode_method(name: str, **given: Any) -> bytes:
    """The payload of a method frame; fields that are not given are empty."""
    spec = BY_NAME[name]
    parts = [_HEAD.pack(spec.class_id, spec.method_id)]
    bits, bit = 0, 0
    for kind, field in spec.fields:
        value = given.pop(field, _EMPTY[kind])
        if kind == "t":
            bits |= bool(value) << bit
            bit += 1
            continue
        if bit:
            parts.append(bytes((bits,)))
            bits, bit = 0, 0
        number = _NUMBERS.get(kind)
        parts.append(number.pack(value) if number is not None else _WRITERS[kind](value))
    if bit:
        parts.append(bytes((bits,)))
    assert not given, f"{name} has no {', '.join(given)}"
    return b"".join(parts)
