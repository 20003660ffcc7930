"""AMQP field tables: decoded into plain Python values and encoded again.  Pure.

What a client sends is not trusted: lengths are checked before they are used, nesting is bounded, and every error is a
SyntaxFault.  The type letters are those that RabbitMQ and its clients use, which differ from the AMQP 0-9-1 text."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

DEPTH_MAX = 64
NAME_BYTES_MAX = 255
_INT32 = 1 << 31
_INT64 = 1 << 63


class SyntaxFault(ValueError):
    """The bytes are not what AMQP 0-9-1 says."""


class Timestamp(int):
    """Seconds since 1970, as AMQP has them."""


class ByteArray(bytes):
    """A value of type `x`; `bytes` stands for a long string that is not UTF-8."""


Table = dict[str, Any]

_FIXED: dict[int, struct.Struct] = {
    ord(letter): struct.Struct(f">{form}")
    for letter, form in (
        ("b", "b"),
        ("B", "B"),
        ("s", "h"),
        ("u", "H"),
        ("I", "i"),
        ("i", "I"),
        ("l", "q"),
        ("L", "q"),
        ("f", "f"),
        ("d", "d"),
    )
}
_LONG = struct.Struct(">I")
_TIME = struct.Struct(">Q")
_DECIMAL = struct.Struct(">Bi")


def long_string(data: bytes, at: int) -> tuple[bytes, int]:
    if at + 4 > len(data):
        raise SyntaxFault("a long string is cut off")
    end = at + 4 + int(_LONG.unpack_from(data, at)[0])
    if end > len(data):
        raise SyntaxFault("a long string is longer than its frame")
    return data[at + 4 : end], end


def short_string(data: bytes, at: int) -> tuple[str, int]:
    if at >= len(data):
        raise SyntaxFault("a short string is cut off")
    end = at + 1 + data[at]
    if end > len(data):
        raise SyntaxFault("a short string is longer than its frame")
    try:
        return data[at + 1 : end].decode(), end
    except UnicodeDecodeError:
        raise SyntaxFault("a short string is not UTF-8") from None


def decode_table(data: bytes, at: int, depth: int = 0) -> tuple[Table, int]:
    body, end = long_string(data, at)
    table: Table = {}
    inner = 0
    while inner < len(body):
        name, inner = short_string(body, inner)
        table[name], inner = _value(body, inner, depth)
    return table, end


def _array(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    body, end = long_string(data, at)
    values = []
    inner = 0
    while inner < len(body):
        value, inner = _value(body, inner, depth)
        values.append(value)
    return values, end


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if at >= len(data):
        raise SyntaxFault("a value of a table is cut off")
    kind, at = data[at], at + 1
    if kind == 0x53:  # S
        raw, at = long_string(data, at)
        try:
            return raw.decode(), at
        except UnicodeDecodeError:
            return raw, at
    fixed = _FIXED.get(kind)
    try:
        if fixed is not None:
            return fixed.unpack_from(data, at)[0], at + fixed.size
        if kind == 0x74:  # t
            return data[at] != 0, at + 1
        if kind == 0x54:  # T
            return Timestamp(_TIME.unpack_from(data, at)[0]), at + 8
        if kind == 0x44:  # D
            scale, digits = _DECIMAL.unpack_from(data, at)
            return Decimal(digits).scaleb(-scale), at + 5
    except (struct.error, IndexError):
        raise SyntaxFault("a value of a table is cut off") from None
    if kind == 0x56:  # V
        return None, at
    if kind == 0x78:  # x
        raw, at = long_string(data, at)
        return ByteArray(raw), at
    if kind in (0x46, 0x41):  # F, A
        if depth >= DEPTH_MAX:
            raise SyntaxFault(f"a table is nested deeper than {DEPTH_MAX}")
        return (decode_table if kind == 0x46 else _array)(data, at, depth + 1)
    raise SyntaxFault(f"a table has a value of type {chr(kind)!r}, which is unknown")


def encode_short(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > NAME_BYTES_MAX:
        raise SyntaxFault(f"{text[:40]!r}... is longer than the {NAME_BYTES_MAX} bytes of a short string")
    return bytes((len(raw),)) + raw


def encode_long(raw: bytes) -> bytes:
    return _LONG.pack(len(raw)) + raw


def encode_table(table: Mapping[str, Any]) -> bytes:
    return encode_long(b"".join(encode_short(name) + _encoded(value) for name, value in table.items()))


def _encoded(value: Any) -> bytes:
    if value is None:
        return b"V"
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, Timestamp):
        return b"T" + _TIME.pack(value)
    if isinstance(value, int):
        if -_INT32 <= value < _INT32:
            return b"I" + _FIXED[ord("I")].pack(value)
        if -_INT64 <= value < _INT64:
            return b"l" + _FIXED[ord("l")].pack(value)
        raise SyntaxFault(f"{value} does not fit into 64 bits")
    if isinstance(value, float):
        return b"d" + _FIXED[ord("d")].pack(value)
    if isinstance(value, str):
        return b"S" + encode_long(value.encode())
    if isinstance(value, ByteArray):
        return b"x" + encode_long(value)
    if isinstance(value, bytes):
        return b"S" + encode_long(value)
    if isinstance(value, Decimal):
        scale = max(-int(value.as_tuple().exponent), 0)
        return b"D" + _DECIMAL.pack(scale, int(value.scaleb(scale)))
    if isinstance(value, Mapping):
        return b"F" + encode_table(value)
    if isinstance(value, Sequence):
        return b"A" + encode_long(b"".join(map(_encoded, value)))
    raise SyntaxFault(f"a table cannot have a {type(value).__name__}")
