"""JSON values as columns, where Spark's `from_json` gives the same without a conversion.

Everything else (a number in a text column, a fraction in an integer column, a value that is no object) is `NotDirect`:
Spark then converts it or reports it.  So the two never disagree."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from tidelog.pipeline.sql.direct.plan import NotDirect

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z?")
WHOLE = re.compile(r"-?\d{1,18}")
INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)


def _number(value: Any) -> float | None:
    if type(value) is int and abs(value) < 2**53:
        return float(value)
    return value if type(value) is float and math.isfinite(value) else None


def _time(value: Any) -> datetime | None:
    if type(value) is not str or not ISO.fullmatch(value):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


# The value in the column's type; None: it needs Spark.
CONVERTED: dict[str, Callable[[Any], Any]] = {
    "string": lambda value: value if type(value) is str else None,
    "boolean": lambda value: value if type(value) is bool else None,
    "int": lambda value: value if type(value) is int and value in INT32 else None,
    "bigint": lambda value: value if type(value) is int and value in INT64 else None,
    "double": _number,
    "timestamp": _time,
}


def _constant(name: str) -> Any:
    raise NotDirect(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_constant)


def json_columns(values: Sequence[bytes | None], columns: Sequence[tuple[str, str]]) -> list[list[Any]]:
    """One list for each column; a record without a value has nulls."""
    cells: list[list[Any]] = [[] for _ in columns]
    converters = [(name, CONVERTED[kind], cells[at].append) for at, (name, kind) in enumerate(columns)]
    for value in values:
        fields = _fields(value)
        for name, convert, append in converters:
            field = fields.get(name)
            if field is not None:
                field = convert(field)
                if field is None:
                    raise NotDirect(f"a value of {name} needs a conversion")
            append(field)
    return cells


def _fields(value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {}
    try:
        fields = _decoder.decode(value.decode())
    except (ValueError, RecursionError):
        raise NotDirect("a value is not JSON") from None
    if type(fields) is not dict:
        raise NotDirect("a value is not a JSON object")
    return fields


def key_value(key: bytes, kind: str) -> Any:
    """The record's key in the type of the primary key's column."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        raise NotDirect("a key is not text") from None
    if kind == "string":
        return text
    if (
        kind in ("int", "bigint")
        and WHOLE.fullmatch(text)
        and int(text) in (INT32 if kind == "int" else INT64)
    ):
        return int(text)
    raise NotDirect("a key needs a conversion")
