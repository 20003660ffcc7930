"""The wire format in the plainest way: one walk over the definitions, slow and obvious.

The oracle for the generated encoders; it can also plant tagged fields that nobody knows into every struct.
"""

from __future__ import annotations

import struct
from typing import Any

from tests.property.wire.examples import class_of
from tools.wire.schema import FIXED, Field, Message, Struct

Tags = list[tuple[int, bytes]]


def encode(message: Message, value: Any, version: int, unknown: Tags | None = None) -> bytes:
    return _struct(message, message.root, value, version, unknown or [])


def uvarint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def _struct(message: Message, kind: Struct, value: Any, version: int, unknown: Tags) -> bytes:
    out = b""
    tags: Tags = []
    blank = class_of(message, kind.name)()
    for one in kind.fields:
        if version not in one.versions:
            continue
        content = getattr(value, one.attribute)
        if one.tag is None:
            out += _field(message, one, content, version, unknown)
        elif content != getattr(blank, one.attribute):
            tags.append((one.tag, _field(message, one, content, version, unknown)))
    if version not in message.flexible:
        return out
    tags = sorted(tags + unknown)
    return out + uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in tags)


def _field(message: Message, one: Field, value: Any, version: int, unknown: Tags) -> bytes:
    if one.is_struct:
        if version in one.nullable:
            marks = (b"\0", b"\1") if one.tag is not None else (b"\xff", b"\1")
            if value is None:
                return marks[0]
            return marks[1] + _struct(message, message.struct_of(one), value, version, unknown)
        return _struct(message, message.struct_of(one), value, version, unknown)
    if not one.array:
        return _scalar(message, one.type, value, version)
    out = _length(message, "array", None if value is None else len(value), version)
    for element in value or []:
        if one.element in message.structs:
            out += _struct(message, message.struct_of(one), element, version, unknown)
        else:
            out += _scalar(message, one.element, element, version)
    return out


def _scalar(message: Message, kind: str, value: Any, version: int) -> bytes:
    if kind == "uuid":
        return bytes(value.bytes)
    if kind in FIXED:
        return struct.pack(">" + FIXED[kind], value)
    data = value.encode() if isinstance(value, str) else value
    return _length(message, kind, None if value is None else len(data), version) + (data or b"")


def _length(message: Message, kind: str, length: int | None, version: int) -> bytes:
    if version in message.flexible:
        return uvarint(0 if length is None else length + 1)
    return struct.pack(">h" if kind == "string" else ">i", -1 if length is None else length)
