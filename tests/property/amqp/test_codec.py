"""The codec of AMQP against pamqp's, and on bytes that mean harm."""

from __future__ import annotations

import contextlib
from typing import Any

import pamqp.commands
import pamqp.header
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode, encode, frame

from tidelog.gateways.amqp.message import AmqpMessage, headers_of_record, message_of_record
from tidelog.gateways.amqp.wire.frames import FrameCutter, FrameFault, content_header, method_frame
from tidelog.gateways.amqp.wire.methods import METHODS, MethodSpec, decode_method, encode_method
from tidelog.gateways.amqp.wire.properties import decode_properties, encode_properties
from tidelog.gateways.amqp.wire.tables import SyntaxFault, decode_table, encode_table

NAMES = st.text(max_size=40)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.text()
    | st.floats(allow_nan=False, width=32),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
TABLES = st.dictionaries(NAMES, VALUES, max_size=6)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "content_type": NAMES,
        "headers": TABLES,
        "delivery_mode": st.integers(1, 2),
        "priority": st.integers(0, 255),
        "correlation_id": NAMES,
        "reply_to": NAMES,
        "expiration": st.integers(0, 1 << 31).map(str),
        "message_id": NAMES,
        "timestamp": st.integers(0, 1 << 40),
        "type": NAMES,
        "user_id": NAMES,
        "app_id": NAMES,
    },
)
FIELD_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "o": st.integers(0, 255),
    "h": st.integers(0, (1 << 16) - 1),
    "l": st.integers(0, (1 << 32) - 1),
    "q": st.integers(0, (1 << 63) - 1),
    "s": NAMES,
    "S": st.text().map(str.encode),
    "t": st.booleans(),
    "T": TABLES,
}


@given(TABLES)
def test_tables_come_back_and_pamqp_reads_them(table: dict[str, Any]) -> None:
    encoded = encode_table(table)
    assert decode_table(encoded, 0) == (table, len(encoded))
    assert decode.field_table(encoded)[1] == table


@given(TABLES)
def test_tables_of_pamqp_are_read(table: dict[str, Any]) -> None:
    encoded = encode.field_table(table)
    assert decode_table(encoded, 0)[0] == table


@given(
    st.data(),
    st.sampled_from([spec for spec in METHODS.values() if "update-secret" not in spec.name]),
)
def test_pamqp_reads_every_method(data: st.DataObject, spec: MethodSpec) -> None:
    fields = {
        name: data.draw(FIELD_VALUES[kind])
        for kind, name in spec.fields
        if name
        not in ("ticket", "capabilities", "insist", "known_hosts", "out_of_band", "channel_id", "cluster_id")
    }
    encoded = encode_method(spec.name, **fields)
    assert decode_method(encoded).fields == {**decode_method(encode_method(spec.name)).fields, **fields}
    with contextlib.suppress(ValueError):  # pamqp checks names and fields that are deprecated
        _, _, theirs = frame.unmarshal(method_frame(1, encoded))
        for name, value in fields.items():
            read = getattr(theirs, {"type": "exchange_type", "global": "global_"}.get(name, name), value)
            assert read in (value, value.decode() if isinstance(value, bytes) else value)


@given(PROPERTIES)
def test_properties_come_back_and_pamqp_reads_them(properties: dict[str, Any]) -> None:
    encoded = encode_properties(properties)
    assert decode_properties(encoded) == properties
    theirs = pamqp.commands.Basic.Properties()
    flags = int.from_bytes(encoded[:2], "big")
    theirs.unmarshal(flags, encoded[2:])
    for name, value in properties.items():
        if name != "timestamp":
            assert getattr(theirs, {"type": "message_type"}.get(name, name)) == value


@given(PROPERTIES, NAMES, NAMES, st.binary(max_size=20))
def test_a_message_survives_being_a_record(
    properties: dict[str, Any], exchange: str, routing_key: str, body: bytes
) -> None:
    if not exchange:
        routing_key = "queue"
    message = AmqpMessage(exchange, routing_key, encode_properties(properties), body)
    back = message_of_record("queue", None, body, headers_of_record(message, "queue"))
    assert back[:2] == message[:2] and back.body == body
    assert decode_properties(back.properties) == properties


@given(st.binary(max_size=200))
def test_hostile_bytes_are_a_syntax_fault_and_nothing_else(data: bytes) -> None:
    for read in (decode_method, decode_properties, lambda raw: decode_table(raw, 0), content_header):
        with contextlib.suppress(SyntaxFault, FrameFault):
            read(data)


@given(st.sampled_from(list(METHODS.values())), st.data())
def test_a_damaged_method_is_a_syntax_fault_and_nothing_else(spec: MethodSpec, data: st.DataObject) -> None:
    encoded = bytearray(encode_method(spec.name))
    for _ in range(3):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    del encoded[data.draw(st.integers(0, len(encoded))) :]
    with contextlib.suppress(SyntaxFault):
        decode_method(bytes(encoded))


@given(st.lists(st.binary(max_size=30), max_size=6), st.data())
def test_frames_are_cut_wherever_the_bytes_are(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(method_frame(number, payload) for number, payload in enumerate(payloads))
    cutter = FrameCutter(4096)
    frames = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        frames += cutter.cut(stream[:size])
        stream = stream[size:]
    assert [(frame.channel, frame.payload) for frame in frames] == list(enumerate(payloads))
