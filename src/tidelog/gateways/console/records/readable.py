"""Keys, values and headers as readable text, and typed text as bytes: text, JSON, base64, hexadecimal.  Pure."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple

from tidelog.gateways.http.json_text import parse

TEXT_MAX = 2_000
BYTES_IN_LINE = 16
INDENTED_MAX = 4 << 20


class Readable(NamedTuple):
    """`kind`: the format that the bytes appear to have."""

    kind: str
    text: str

    def cut(self, length: int = TEXT_MAX) -> str:
        text = self.text
        return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"


NULL = Readable("null", "null")


def readable(data: bytes | None, whole: bool = False) -> Readable:
    """Bytes without a schema, in the format that they appear to have.  `whole`: JSON is indented."""
    if data is None:
        return NULL
    if not data:
        return Readable("empty", "")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Readable("bytes", dump(data))
    if not all(character.isprintable() or character in "\n\r\t" for character in text):
        return Readable("bytes", dump(data))
    if text.lstrip()[:1] in ("{", "["):
        try:
            return of_value("JSON", parse(text), whole)
        except (ValueError, RecursionError):
            pass  # also numbers that a double cannot hold: as text they stay as they were written
    return Readable("text", text)


def of_value(kind: str, value: Any, whole: bool = False) -> Readable:
    """A decoded value as JSON.  `whole`: indented, unless that makes the text far too long."""
    text = _indented(value) if whole else None
    if text is None:
        text = json.dumps(value, ensure_ascii=False, default=_plain)
    if any("\ud800" <= character <= "\udfff" for character in text):
        # Lone surrogates, which no page can show.
        text = json.dumps(value, indent=2 if whole else None, default=_plain)
    return Readable(kind, text)


def _indented(value: Any) -> str | None:
    """Indented JSON; None when it is too long: indentation multiplies the length of deep values."""
    pieces, length = [], 0
    for piece in json.JSONEncoder(indent=2, ensure_ascii=False, default=_plain).iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length > INDENTED_MAX:
            return None
    return "".join(pieces)


def _plain(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    return str(value)


def dump(data: bytes, limit: int = 4_096) -> str:
    """A hex dump: offsets, bytes, ASCII characters."""
    lines = []
    for at in range(0, min(len(data), limit), BYTES_IN_LINE):
        chunk = data[at : at + BYTES_IN_LINE]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in chunk)
        lines.append(f"{at:06x}  {chunk.hex(' '):<{BYTES_IN_LINE * 3 - 1}}  {letters}")
    if len(data) > limit:
        lines.append(f"… {len(data):,} bytes")
    return "\n".join(lines)


class Unreadable(ValueError):
    """Typed text does not have the chosen format; the message says why."""


KINDS = {
    "text": "Text",
    "json": "JSON",
    "base64": "Base64",
    "hex": "Hexadecimal",
    "null": "Null",
}


def typed(kind: str, text: str) -> bytes | None:
    """The bytes of typed text in the chosen format."""
    if kind == "null":
        return None
    if kind == "json":
        parsed = typed_json(text)
        return json.dumps(parsed, ensure_ascii=False, separators=(",", ":")).encode()
    if kind in ("base64", "hex"):
        plain = "".join(text.split())
        try:
            return base64.b64decode(plain, validate=True) if kind == "base64" else bytes.fromhex(plain)
        except (binascii.Error, ValueError) as problem:
            raise Unreadable(f"the text is not {KINDS[kind].lower()}: {problem}") from None
    return text.encode()


def typed_json(text: str) -> Any:
    try:
        return parse(text)
    except (ValueError, RecursionError) as problem:
        raise Unreadable(f"the text is not JSON: {problem}") from None


def typed_headers(text: str) -> list[tuple[str, bytes]]:
    """From lines of `name: value`."""
    headers = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise Unreadable(f"{line!r} is not a header: enter one name: value per line")
        headers.append((name.strip(), value.strip().encode()))
    return headers
