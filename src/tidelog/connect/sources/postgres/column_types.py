"""PostgreSQL's types as Debezium represents them: a schema, and a function from PostgreSQL's text to the value.  Pure.

The text is that of a session with DateStyle ISO, time zone UTC, IntervalStyle postgres and bytea_output hex."""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from tidelog.connect.records import ConnectSchema

Read = Callable[[str], Any]

DAY_US = 86_400_000_000
MONTH_DAYS = 30.4375
"""As Debezium counts the months of an interval."""
INFINITE_US = 9_223_372_036_825_200_000
INFINITE_DAYS = 2_147_483_647


class NotRepresented(ValueError):
    """A value that the chosen representation cannot hold."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    schema: ConnectSchema
    read: Read


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """A row of pg_type."""

    name: str
    category: str
    element: int = 0
    labels: tuple[str, ...] = ()


def _boolean(text: str) -> bool:
    return text == "t"


def _bytes(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text[2:])).decode()


def _days(text: str) -> int:
    if text.endswith("infinity"):
        return -INFINITE_DAYS if text[0] == "-" else INFINITE_DAYS
    if text.endswith(" BC") or len(text) > 10:
        return _far_days(text)
    return datetime.date.fromisoformat(text).toordinal() - 719_163


def _far_days(text: str) -> int:
    """Dates that Python has none for: before year 1 and after 9999.  400 years have 146,097 days."""
    bc = text.endswith(" BC")
    year, month, day = (int(part) for part in text.removesuffix(" BC").split("-"))
    year = 1 - year if bc else year
    cycles, within = divmod(year - 2000, 400)
    near = datetime.date(2000 + within, month, day).toordinal() - 719_163
    return near + cycles * 146_097


def _micros_of_day(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)


def _timestamp_us(text: str) -> int:
    if text.endswith("infinity"):
        return -INFINITE_US if text[0] == "-" else INFINITE_US
    bc = " BC" * text.endswith(" BC")
    date, _, time = text.removesuffix(" BC").partition(" ")
    return _days(date + bc) * DAY_US + _micros_of_day(time)


def _zoned(text: str) -> str:
    """UTC, as `2026-01-02T03:04:05.678901Z`."""
    if text.endswith("infinity"):
        return text
    return text.replace(" ", "T", 1).replace("+00", "Z", 1)


def _zoned_time(text: str) -> str:
    """The time of day in UTC."""
    match = re.fullmatch(r"([\d:.]+)([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?", text)
    if match is None:
        raise NotRepresented(f"no time with zone: {text!r}")
    offset = int(match[3]) * 3600 + int(match[4] or 0) * 60 + int(match[5] or 0)
    micros = _micros_of_day(match[1]) - (offset if match[2] == "+" else -offset) * 1_000_000
    seconds, fraction = divmod(micros % DAY_US, 1_000_000)
    shown = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{shown}{f'.{fraction:06}'.rstrip('0') if fraction else ''}Z"


_UNITS = re.compile(r"(-?\d+) (year|mon|day)s?")
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d+))?")


def _interval_us(text: str) -> int:
    micros = 0.0
    for number, unit in _UNITS.findall(text):
        days = {"year": 12 * MONTH_DAYS, "mon": MONTH_DAYS, "day": 1}[unit]
        micros += int(number) * days * DAY_US
    clock = _CLOCK.search(text)
    whole = 0
    if clock is not None:
        whole = (int(clock[2]) * 3600 + int(clock[3]) * 60 + int(clock[4])) * 1_000_000
        whole += int((clock[5] or "").ljust(6, "0"))
        whole = -whole if clock[1] == "-" else whole
    return int(micros) + whole


def unscaled(value: Decimal, scale: int) -> str:
    """Base64 of the unscaled value, as Connect's Decimal has it in JSON."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int) and exponent >= -scale, "PostgreSQL rounds to the scale of the column"
    # By integers: the arithmetic of decimals rounds to 28 digits.
    number = int("".join(map(str, digits))) * 10 ** (exponent + scale) * (-1 if sign else 1)
    size = max(1, (number if number >= 0 else ~number).bit_length() // 8 + 1)
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise NotRepresented(f"{text} is no number of fixed precision: set decimal.handling.mode=string")
    return value


def _numeric(modifier: int, mode: str) -> ColumnType:
    if mode == "string":
        return ColumnType(ConnectSchema("string"), str)
    if mode == "double":
        return ColumnType(ConnectSchema("float64"), float)
    if modifier < 4:  # without a precision, so each value has its own scale
        schema = ConnectSchema(
            "struct",
            name="io.debezium.data.VariableScaleDecimal",
            version=1,
            fields={"scale": ConnectSchema("int32"), "value": ConnectSchema("bytes")},
        )
        return ColumnType(schema, _variable)
    precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (modifier - 4) & 0x7FF
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    schema = ConnectSchema(
        "bytes", name="org.apache.kafka.connect.data.Decimal", version=1, parameters=parameters
    )
    return ColumnType(schema, lambda text: unscaled(_decimal(text), scale))


def _variable(text: str) -> dict[str, Any]:
    value = _decimal(text)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    return {"scale": scale, "value": unscaled(value, scale)}


def _bits(modifier: int) -> ColumnType:
    if modifier == 1:
        return ColumnType(ConnectSchema("boolean"), lambda text: text == "1")
    parameters = {"length": str(modifier if modifier > 0 else 2_147_483_647)}

    def read(text: str) -> str:
        size = (len(text) + 7) // 8
        return base64.b64encode(int(text or "0", 2).to_bytes(size, "little")).decode()

    return ColumnType(
        ConnectSchema("bytes", name="io.debezium.data.Bits", version=1, parameters=parameters), read
    )


_TEXT = ColumnType(ConnectSchema("string"), str)


def _named(kind: str, name: str, read: Read) -> ColumnType:
    return ColumnType(ConnectSchema(kind, name=name, version=1), read)


_FIXED: dict[int, ColumnType] = {
    16: ColumnType(ConnectSchema("boolean"), _boolean),
    17: ColumnType(ConnectSchema("bytes"), _bytes),
    20: ColumnType(ConnectSchema("int64"), int),
    21: ColumnType(ConnectSchema("int16"), int),
    23: ColumnType(ConnectSchema("int32"), int),
    26: ColumnType(ConnectSchema("int64"), int),
    114: _named("string", "io.debezium.data.Json", str),
    142: _named("string", "io.debezium.data.Xml", str),
    700: ColumnType(ConnectSchema("float32"), float),
    701: ColumnType(ConnectSchema("float64"), float),
    1082: _named("int32", "io.debezium.time.Date", _days),
    1083: _named("int64", "io.debezium.time.MicroTime", _micros_of_day),
    1114: _named("int64", "io.debezium.time.MicroTimestamp", _timestamp_us),
    1184: _named("string", "io.debezium.time.ZonedTimestamp", _zoned),
    1186: _named("int64", "io.debezium.time.MicroDuration", _interval_us),
    1266: _named("string", "io.debezium.time.ZonedTime", _zoned_time),
    2950: _named("string", "io.debezium.data.Uuid", str),
    3802: _named("string", "io.debezium.data.Json", str),
}
NUMERIC, BIT, VARBIT = 1700, 1560, 1562


class ColumnTypes:
    """`facts`: pg_type by oid, for types that are made by users and for arrays."""

    def __init__(self, facts: dict[int, TypeFacts], decimal_mode: str) -> None:
        self.facts = facts
        self._decimal_mode = decimal_mode

    def of(self, oid: int, modifier: int) -> ColumnType:
        if oid in _FIXED:
            return _FIXED[oid]
        if oid == NUMERIC:
            return _numeric(modifier, self._decimal_mode)
        if oid in (BIT, VARBIT):
            return _bits(modifier)
        facts = self.facts.get(oid)
        if facts is None:
            return _TEXT
        if facts.category == "A" and facts.element:
            element = self.of(facts.element, modifier)
            schema = ConnectSchema("array", items=replace(element.schema, optional=True))
            return ColumnType(schema, lambda text: read_array(text, element.read))
        if facts.category == "E":
            parameters = {"allowed": ",".join(facts.labels)}
            return ColumnType(
                ConnectSchema("string", name="io.debezium.data.Enum", version=1, parameters=parameters), str
            )
        return _TEXT


_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^{},"]+)|([{}])|(,)')


def read_array(text: str, read: Read) -> Any:
    """`{1,2,NULL}`, nested or with quotes."""
    if text.startswith("["):  # bounds that do not begin at 1
        text = text.partition("=")[2]
    stack: list[list[Any]] = [[]]
    for match in _ITEM.finditer(text):
        quoted, plain, brace, _ = match.groups()
        if brace == "{":
            stack.append([])
        elif brace == "}":
            done = stack.pop()
            stack[-1].append(done)
        elif quoted is not None:
            stack[-1].append(read(re.sub(r"\\(.)", r"\1", quoted)))
        elif plain is not None:
            stack[-1].append(None if plain == "NULL" else read(plain))
    if len(stack) != 1 or len(stack[0]) != 1:
        raise NotRepresented(f"no array: {text!r}")
    return stack[0][0]
