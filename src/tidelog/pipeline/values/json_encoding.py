"""Encodes rows as JSON text by their Arrow types, so that they can be read back unchanged.

As in Spark's `to_json`, null fields are left out, decimals keep their digits, and numbers that JSON does not have are text
("NaN").  Timestamps keep their microseconds, if they have any."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa

Write = Callable[[Any], str]


def writer(kind: Any) -> Write:
    """Converts Python values of an Arrow type (maps as dicts) to text; the caller handles nulls."""
    if pa.types.is_struct(kind):
        return _struct([(field.name, writer(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return _map(writer(kind.key_type), writer(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element = writer(kind.value_type)
        return lambda values: (
            "[" + ",".join("null" if value is None else element(value) for value in values) + "]"
        )
    for wanted, write in WRITERS:
        if wanted(kind):
            return write
    raise TypeError(f"{kind} is not part of JSON")


def _struct(fields: list[tuple[str, Write]]) -> Write:
    named = [(name, encode_basestring(name) + ":", write) for name, write in fields]

    def write_struct(row: dict[str, Any]) -> str:
        members = [lead + write(row[name]) for name, lead, write in named if row[name] is not None]
        return "{" + ",".join(members) + "}"

    return write_struct


def _map(key: Write, item: Write) -> Write:
    def named(name: Any) -> str:
        text = key(name)
        return text if text.startswith('"') else f'"{text}"'

    return lambda entries: (
        "{"
        + ",".join(
            f"{named(name)}:{'null' if value is None else item(value)}" for name, value in entries.items()
        )
        + "}"
    )


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _moment(value: datetime) -> str:
    moment = value.astimezone(UTC) if value.tzinfo is not None else value
    unit = "microseconds" if moment.microsecond % 1000 else "milliseconds"
    return '"' + moment.isoformat(timespec=unit).replace("+00:00", "Z") + '"'


def _date(value: date) -> str:
    return f'"{value.isoformat()}"'


def _bytes(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


WRITERS: tuple[tuple[Callable[[Any], bool], Write], ...] = (
    (lambda kind: bool(pa.types.is_string(kind) or pa.types.is_large_string(kind)), encode_basestring),
    (pa.types.is_integer, str),
    (pa.types.is_floating, _float),
    (pa.types.is_boolean, lambda value: "true" if value else "false"),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_date, _date),
    (lambda kind: bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind)), _bytes),
    (pa.types.is_null, lambda value: "null"),
)
