"""The rare and long cases of the wire format, for the generated messages; the common ones are inline there.

Decoding relies on one invariant: a position only moves forward, so a length that lies about what is left
ends either in a read past the end (`IndexError`, `struct.error`) or in a position past the end, and
`Message.decode` turns both into `Malformed`.  What would allocate before it fails (a count) is checked
against the bytes left.
"""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import Any, TypeAlias

from tidelog import errors

Buffer: TypeAlias = bytes | bytearray | memoryview
Records: TypeAlias = bytes | memoryview

ZERO_UUID = uuid.UUID(int=0)
STRING_SIZE_MAX = 0x7FFF
VARINT_SIZE_MAX = 5

# Stands for "make the default": a list or a struct must be a new one for every message.
DEFAULT: Any = object()


class Malformed(errors.InvalidRequest):
    about = "the bytes are not a message of this type and version: check the sender's protocol version"


class Unencodable(errors.TidelogError):
    about = "a field holds a value that its type cannot carry: check types and ranges"


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> uuid.UUID:
    """Making a UUID takes ten times as long as finding it again, and topic ids recur in every request."""
    return uuid.UUID(bytes=raw)


def uvarint(data: Buffer, at: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint (32 bits) whose first byte, already taken, says that more follow."""
    value = first & 0x7F
    shift = 7
    for byte in data[at : at + VARINT_SIZE_MAX - 1]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, at
        shift += 7
    raise Malformed(f"the varint that ends near byte {at} is cut off or has more than 32 bits")


def string_size(data: Buffer, at: int, first: int) -> tuple[int, int]:
    """Like `uvarint`, for the length (plus one) of a string."""
    value, at = uvarint(data, at, first)
    if value > STRING_SIZE_MAX + 1:
        raise Malformed(
            f"a string of {value - 1} bytes is longer than the {STRING_SIZE_MAX} the protocol allows"
        )
    return value, at


def records_of(data: Buffer, at: int, end: int) -> Records:
    """Records are most of the bytes.  If nobody writes into the memory any more they stay there, unless they are its
    smaller part, which would keep the rest from being reused."""
    if type(data) is memoryview and data.readonly and 2 * (end - at) >= len(data):
        return data[at:end]
    return bytes(data[at:end])


def bad_null(where: str, size: int) -> Malformed:
    if size == -1:
        return Malformed(f"{where} is null, which this version does not allow")
    return Malformed(f"{where} has a negative length ({size})")


def bad_count(where: str, count: int, left: int) -> Malformed:
    if count == -1:
        return Malformed(f"{where} is null, which this version does not allow")
    return Malformed(f"{where} claims {count} elements, but only {left} bytes are left")


def bad_tagged(where: str) -> Malformed:
    return Malformed(f"{where}: the tagged field's size is not that of its value")


def tag_at(data: Buffer, at: int) -> tuple[int, int, int]:
    """Tag, start and end of the tagged field at `at`."""
    tag = data[at]
    at += 1
    if tag > 127:
        tag, at = uvarint(data, at, tag)
    size = data[at]
    at += 1
    if size > 127:
        size, at = uvarint(data, at, size)
    return tag, at, at + size


def skip_tagged(data: Buffer, at: int, count: int) -> int:
    """Past `count` tagged fields, none of which this version knows; `count` may be the start of a varint."""
    if count > 127:
        count, at = uvarint(data, at, count)
    for _ in range(count):
        _, _, at = tag_at(data, at)
    return at


def put_uvarint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_string_size(out: bytearray, size: int) -> None:
    """The compact length of a string, when it needs more than one byte."""
    if size > STRING_SIZE_MAX:
        raise Unencodable(
            f"a string of {size} bytes is longer than the {STRING_SIZE_MAX} the protocol allows"
        )
    put_uvarint(out, size + 1)


def put_tagged(out: bytearray, fields: list[tuple[int, bytearray]]) -> None:
    put_uvarint(out, len(fields))
    for tag, value in fields:
        put_uvarint(out, tag)
        put_uvarint(out, len(value))
        out += value


def unsupported(where: str, version: int) -> errors.UnsupportedVersion:
    return errors.UnsupportedVersion(
        f"{where} is set, but version {version} does not have it: use another version, or its default"
    )


def unsupported_null(where: str, version: int) -> errors.UnsupportedVersion:
    return errors.UnsupportedVersion(
        f"{where} is null, which version {version} does not allow: give it a value"
    )
