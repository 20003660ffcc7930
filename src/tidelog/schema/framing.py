"""Confluent's framing: a zero byte, the schema's id in four bytes, then the payload.  Pure."""

from __future__ import annotations

import struct

from tidelog.schema.serializer import SerializationError

_FRAME = struct.Struct(">bI")
MAGIC = 0


def frame(schema_id: int, payload: bytes) -> bytes:
    return _FRAME.pack(MAGIC, schema_id) + payload


def unframe(topic: str, data: bytes) -> tuple[int, memoryview]:
    """The schema's id, and the payload."""
    if len(data) < _FRAME.size or data[0] != MAGIC:
        raise SerializationError(
            f"a record of topic {topic!r} does not begin with a schema id: was it written without a registry?"
        )
    return _FRAME.unpack_from(data)[1], memoryview(data)[_FRAME.size :]


def put_indexes(path: list[int]) -> bytes:
    """The path of a message in a Protobuf file: a count and indexes, as zigzag numbers; a single 0 is the first message."""
    return b"\0" if path == [0] else b"".join(_zigzag(index) for index in (len(path), *path))


def get_indexes(topic: str, data: memoryview) -> tuple[list[int], memoryview]:
    count, at = _unzigzag(topic, data, 0)
    if count == 0:
        return [0], data[at:]
    if not 0 < count <= len(data) - at:
        raise SerializationError(
            f"a record of topic {topic!r} names {count} nested messages: is it Protobuf?"
        )
    path = []
    for _ in range(count):
        index, at = _unzigzag(topic, data, at)
        path.append(index)
    return path, data[at:]


def _zigzag(value: int) -> bytes:
    raw, out = value << 1, bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _unzigzag(topic: str, data: memoryview, at: int) -> tuple[int, int]:
    raw = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        raw |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return (raw >> 1) ^ -(raw & 1), at
    raise SerializationError(f"a record of topic {topic!r} ends before its message: is it Protobuf?")
