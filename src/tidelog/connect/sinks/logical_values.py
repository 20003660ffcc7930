"""Values with a logical type of Connect's or Debezium's, as text that a database reads as its own type.  Pure.

Without a schema a value is taken as it is: an integer that stands for a date is an integer."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from typing import Any

from tidelog.connect.records import ConnectSchema

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's word for a large value that an update has not touched: the column keeps what it has."""

_DAY_MS = 86_400_000
INFINITE_US = 9_223_372_036_825_200_000
INFINITE_DAYS = 2_147_483_647


def native(schema: ConnectSchema | None, value: Any) -> Any:
    if schema is None or value is None:
        return value
    name = schema.name or ""
    if name.endswith(".Decimal") and isinstance(value, str):
        return _decimal(value, int(schema.parameters.get("scale", "0")))
    if name.endswith(".VariableScaleDecimal") and isinstance(value, dict):
        return _decimal(value["value"], int(value["scale"]))
    if name == "io.debezium.data.Bits" and isinstance(value, str):
        number, length = int.from_bytes(base64.b64decode(value), "little"), int(schema.parameters["length"])
        return f"{number:b}" if length >= 2**31 - 1 else f"{number:0{length}b}"
    if name == "io.debezium.time.MicroDuration":
        return f"{value} microseconds"
    if isinstance(value, int) and name in _TIMES:
        return _TIMES[name](value)
    if schema.type == "bytes" and isinstance(value, str):
        return base64.b64decode(value)
    return value


def _decimal(text: str, scale: int) -> str:
    number = int.from_bytes(base64.b64decode(text), "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' * (number < 0)}{whole}{'.' * (scale > 0)}{fraction}"


def _date(days: int) -> str:
    if abs(days) == INFINITE_DAYS:
        return "infinity" if days > 0 else "-infinity"
    cycles = 0
    while not -719_000 < days < 2_900_000:  # Python's years are 1 to 9999; 400 years have 146,097 days
        step = 1 if days > 0 else -1
        days, cycles = days - step * 146_097, cycles + step
    near = datetime.date.fromordinal(days + 719_163)
    year = near.year + 400 * cycles
    if year > 0:
        return f"{year:04}-{near.month:02}-{near.day:02}"
    return f"{1 - year:04}-{near.month:02}-{near.day:02} BC"


def _time(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _timestamp(micros: int) -> str:
    if abs(micros) == INFINITE_US:
        return "infinity" if micros > 0 else "-infinity"
    days, within = divmod(micros, _DAY_MS * 1000)
    date, bc, _ = _date(days).partition(" BC")
    return f"{date} {_time(within)}{bc}"


_TIMES: dict[str, Callable[[int], str]] = {
    "io.debezium.time.Date": _date,
    "org.apache.kafka.connect.data.Date": _date,
    "io.debezium.time.MicroTime": _time,
    "io.debezium.time.Time": lambda value: _time(value * 1000),
    "org.apache.kafka.connect.data.Time": lambda value: _time(value * 1000),
    "io.debezium.time.MicroTimestamp": _timestamp,
    "io.debezium.time.Timestamp": lambda value: _timestamp(value * 1000),
    "org.apache.kafka.connect.data.Timestamp": lambda value: _timestamp(value * 1000),
}


def array_literal(schema: ConnectSchema | None, value: list[Any]) -> str:
    """PostgreSQL's text of an array."""
    items = None if schema is None else schema.items
    return "{" + ",".join(_item(items, each) for each in value) + "}"


def _item(schema: ConnectSchema | None, value: Any) -> str:
    if isinstance(value, list):
        return array_literal(schema, value)
    if value is None:
        return "NULL"
    value = native(schema, value)
    if isinstance(value, bytes):
        value = "\\x" + value.hex()
    if isinstance(value, bool):
        return "t" if value else "f"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
