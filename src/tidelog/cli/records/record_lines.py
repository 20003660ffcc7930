"""A record out of a line of JSON, as `tidelog consume --json` writes it.  Pure.

`value` may be any JSON: text becomes UTF-8 and null a tombstone; an object, list, number or boolean becomes its JSON, or
what a schema makes of it.  `topic`, `offset` and `timestamp_type` say where a record was, and are not needed."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.cli.output import json_text

Headers = list[tuple[str, bytes | None]]
Encoder = Callable[[Any], bytes | None]

FIELDS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")


class BadRecordLine(ValueError):
    """A line is no record; the text says what is wrong."""


class ParsedRecord(NamedTuple):
    """`key` and `value`: bytes, or the JSON that an encoder has to turn into bytes."""

    key: Any
    value: Any
    headers: Headers
    partition: int | None
    timestamp: int | None


def parse_record(line: bytes) -> ParsedRecord:
    try:
        fields = json.loads(line)
    except ValueError as problem:
        raise BadRecordLine(f"it is not JSON: {problem}") from None
    except RecursionError:
        raise BadRecordLine("its JSON is nested too deeply") from None
    if not isinstance(fields, dict):
        raise BadRecordLine('it is not an object like {"key": "k", "value": "v"}')
    known = {*FIELDS, "key_base64", "value_base64"}
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise BadRecordLine(f"{unknown[0]!r} is not a field of a record: use {', '.join(FIELDS)}")
    if "value" not in fields and "value_base64" not in fields:
        raise BadRecordLine('it has no "value": null is a tombstone')
    timestamp = _integer(fields, "timestamp")
    return ParsedRecord(
        _data(fields, "key"),
        _data(fields, "value"),
        _headers(fields.get("headers")),
        _integer(fields, "partition"),
        None if timestamp is not None and timestamp < 0 else timestamp,
    )


def to_bytes(value: Any) -> bytes | None:
    """Without a schema."""
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json_text(value)).encode()


def _data(fields: dict[str, Any], name: str) -> Any:
    encoded = fields.get(f"{name}_base64")
    if encoded is None:
        return fields.get(name)
    if fields.get(name) is not None:
        raise BadRecordLine(f'it has "{name}" and "{name}_base64": leave one out')
    try:
        return b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadRecordLine(f'"{name}_base64" is not base64') from None


def _integer(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise BadRecordLine(f'"{name}" is not an integer')


def _headers(given: Any) -> Headers:
    """A list as `consume --json` writes it, or an object of texts."""
    if given is None:
        return []
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    headers: Headers = []
    for header in given if isinstance(given, list) else [None]:
        if not isinstance(header, dict) or not isinstance(header.get("name"), str):
            raise BadRecordLine('"headers" is not a list like [{"name": "n", "value": "v"}]')
        headers.append((header["name"], to_bytes(_data(header, "value"))))
    return headers
