"""The properties of a message, in the content header.  Pure."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from tidelog.gateways.amqp.wire.tables import (
    SyntaxFault,
    Timestamp,
    decode_table,
    encode_short,
    encode_table,
    short_string,
)

# In the order of their flags, from bit 15 down: s short string, T table, o octet, t timestamp.
PROPERTIES = (
    ("content_type", "s"),
    ("content_encoding", "s"),
    ("headers", "T"),
    ("delivery_mode", "o"),
    ("priority", "o"),
    ("correlation_id", "s"),
    ("reply_to", "s"),
    ("expiration", "s"),
    ("message_id", "s"),
    ("timestamp", "t"),
    ("type", "s"),
    ("user_id", "s"),
    ("app_id", "s"),
    ("cluster_id", "s"),
)
_FLAGS = struct.Struct(">H")
_TIME = struct.Struct(">Q")

Properties = dict[str, Any]


def decode_properties(data: bytes) -> Properties:
    """`data` is what stands behind the body size in a content header."""
    if len(data) < 2:
        raise SyntaxFault("a content header has no property flags")
    (flags,) = _FLAGS.unpack_from(data)
    if flags & 3:
        raise SyntaxFault("a content header has properties that do not exist")
    at = 2
    properties: Properties = {}
    for place, (name, kind) in enumerate(PROPERTIES):
        if not flags >> (15 - place) & 1:
            continue
        if kind == "s":
            properties[name], at = short_string(data, at)
        elif kind == "T":
            properties[name], at = decode_table(data, at)
        else:
            size = 1 if kind == "o" else 8
            if at + size > len(data):
                raise SyntaxFault("a content header is cut off")
            properties[name] = data[at] if kind == "o" else Timestamp(_TIME.unpack_from(data, at)[0])
            at += size
    if at != len(data):
        raise SyntaxFault(f"a content header has {len(data) - at} bytes too many")
    return properties


def encode_properties(properties: Mapping[str, Any]) -> bytes:
    flags = 0
    parts = [b""]
    for place, (name, kind) in enumerate(PROPERTIES):
        value = properties.get(name)
        if value is None:
            continue
        flags |= 1 << (15 - place)
        if kind == "s":
            parts.append(encode_short(value))
        elif kind == "T":
            parts.append(encode_table(value))
        elif kind == "o":
            parts.append(bytes((value,)))
        else:
            parts.append(_TIME.pack(value))
    parts[0] = _FLAGS.pack(flags)
    return b"".join(parts)
