"""Parses Java's properties format, which server.properties uses: text in, a plain dict out.

Comments start with # or !.  A key ends at the first = or : or blank that is not escaped.  A backslash at the end of a line
joins the next line to it.  \\t \\n \\r \\f and \\uXXXX are escapes; any other escaped character stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.errors import InvalidConfig

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in order; if a key is there twice, the last value counts, as in Java."""
    properties = {}
    for number, line in _joined(text):
        key_end, value_start = _split(line)
        key = _unescape(line[:key_end], number)
        properties[key] = _unescape(line[value_start:], number)
    return properties


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines with the number of their first line; comments and empty lines are left out."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    at = 0
    while at < len(lines):
        number, line = at + 1, lines[at].lstrip(_BLANK)
        at += 1
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1]
            if at == len(lines):
                break
            line += lines[at].lstrip(_BLANK)
            at += 1
        yield number, line


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[int, int]:
    """Returns (the end of the key, the start of the value)."""
    key_end = 0
    while key_end < len(line) and line[key_end] not in "=:" + _BLANK:
        key_end += 2 if line[key_end] == "\\" else 1
    key_end = min(key_end, len(line))
    rest = line[key_end:].lstrip(_BLANK)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_BLANK)
    return key_end, len(line) - len(rest)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        character = text[at]
        at += 1
        if character != "\\":
            out.append(character)
        elif at < len(text):
            escaped = text[at]
            at += 1
            if escaped == "u":
                digits = text[at : at + 4]
                if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                    raise InvalidConfig(f"line {number}: \\u must be followed by four hexadecimal digits")
                out.append(chr(int(digits, 16)))
                at += 4
            else:
                out.append(_ESCAPES.get(escaped, escaped))
    # Java's strings are UTF-16: two escapes may be one character together.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
