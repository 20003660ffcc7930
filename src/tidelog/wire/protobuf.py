"""Protobuf's encoding, for the few messages of other systems that Tidelog speaks: etcd's API, OpenTelemetry's metrics.

Pure.  Written by hand, because generated code needs the protobuf package, more memory and a slower start."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
UINT64_MAX = (1 << 64) - 1

Field = tuple[int, int | bytes | memoryview]


def number(field: int, value: int) -> bytes:
    """Protobuf leaves out fields that have their default values."""
    return varint(field << 3 | VARINT) + varint(value) if value else b""


def data(field: int, value: bytes) -> bytes:
    return message(field, value) if value else b""


def message(field: int, value: bytes | memoryview) -> bytes:
    """A field that is written even if it is empty."""
    return varint(field << 3 | BYTES) + varint(len(value)) + bytes(value)


def text(field: int, value: str) -> bytes:
    return message(field, value.encode("utf-8", "replace"))


def fixed64(field: int, eight_bytes: bytes) -> bytes:
    return varint(field << 3 | FIXED64) + eight_bytes


def varint(value: int) -> bytes:
    value &= UINT64_MAX
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def messages(content: memoryview, wanted: int) -> Iterator[memoryview]:
    """The messages, texts or bytes of field `wanted`."""
    for field, value in fields(content):
        if field == wanted and isinstance(value, memoryview):
            yield value


def fields(content: memoryview) -> Iterator[Field]:
    """(number, value): an int for a varint, bytes for a fixed number of eight bytes, a memoryview for bytes and messages.
    Damaged bytes raise ValueError or IndexError."""
    at = 0
    while at < len(content):
        tag, at = read_varint(content, at)
        field, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = read_varint(content, at)
            yield field, value
            continue
        if kind == BYTES:
            size, at = read_varint(content, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"field {field} has the wire type {kind}")
        if at + size > len(content):
            raise ValueError(f"field {field} goes beyond the end")
        part = content[at : at + size]
        at += size
        if kind == BYTES:
            yield field, part
        elif kind == FIXED64:
            yield field, bytes(part)


def read_varint(content: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & UINT64_MAX, at
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than ten bytes")
