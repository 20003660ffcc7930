"""A record as a line of text, by a format like kcat's; or as JSON.  Key and value are bytes, or the JSON that a schema
made of them.  Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.cli.output import data_fields, json_text

if TYPE_CHECKING:
    from tidelog.aio import Record

Formatter = Callable[["Record"], bytes]

FORMAT_HELP = r"""FORMAT is text with these in it (as in kcat), printed on a line per record:
  %v or %s value   %k key     %h headers   %t topic   %p partition   %o offset
  %T timestamp     %S value size   %K key size   (-1: null)   %%  percent sign
  \n \t \\ \xHH    characters; a FORMAT that ends in \n gets no other newline"""

_TOKEN = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}


class BadFormat(ValueError):
    pass


def record_formatter(text: str) -> Formatter:
    if text == "json":
        return json_line
    parts: list[bytes | Formatter] = []
    for percent, escape, plain, stray in _TOKEN.findall(text):
        if plain:
            parts.append(plain.encode())
        elif stray:
            raise BadFormat(f"{text!r} ends in a single {stray}: double it to print it")
        elif escape:
            parts.append(_escaped(escape))
        elif percent == "%":
            parts.append(b"%")
        elif percent in _FIELDS:
            parts.append(_FIELDS[percent])
        else:
            raise BadFormat(f"%{percent} is not known: use %v %k %h %t %p %o %T %S %K or %%")
    if not (parts and isinstance(parts[-1], bytes) and parts[-1].endswith(b"\n")):
        parts.append(b"\n")

    def format_record(record: Record) -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(record) for part in parts])

    return format_record


def json_line(record: Record) -> bytes:
    return json.dumps(record_fields(record), ensure_ascii=False).encode(errors="backslashreplace") + b"\n"


def coloured_json(record: Record) -> bytes:
    """For a terminal: names dim, texts green, control characters as escapes."""
    text = json.dumps(record_fields(record), ensure_ascii=False)
    text = "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in text
    )
    return _STRING.sub(_painted, text).encode(errors="backslashreplace") + b"\n"


_STRING = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?')


def _painted(match: re.Match[str]) -> str:
    text, colon = match.groups()
    return f"\x1b[2m{text}\x1b[0m{colon}" if colon else f"\x1b[32m{text}\x1b[0m"


def record_fields(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": record.timestamp_type,
        **_part_fields("key", record.key),
        **_part_fields("value", record.value),
        "headers": [{"name": name, **data_fields("value", value)} for name, value in record.headers],
    }


def _part_fields(name: str, part: Any) -> dict[str, Any]:
    return data_fields(name, part) if part is None or isinstance(part, bytes) else {name: part}


def _bytes(part: Any) -> bytes | None:
    if part is None or isinstance(part, bytes):
        return part
    return (part if isinstance(part, str) else json_text(part)).encode(errors="backslashreplace")


def _size(part: Any) -> bytes:
    data = _bytes(part)
    return b"%d" % (-1 if data is None else len(data))


def _escaped(escape: str) -> bytes:
    if escape[0] == "x" and len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    if escape not in _ESCAPES:
        raise BadFormat(f"\\{escape} is not known: use \\n, \\t, \\r, \\0, \\\\ or \\xHH")
    return _ESCAPES[escape]


def _header_list(record: Record) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in record.headers
    )


_FIELDS: dict[str, Formatter] = {
    "v": lambda record: _bytes(record.value) or b"",
    "s": lambda record: _bytes(record.value) or b"",
    "k": lambda record: _bytes(record.key) or b"",
    "h": _header_list,
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "S": lambda record: _size(record.value),
    "K": lambda record: _size(record.key),
}
