"""Long JSON in short steps.  The library reads a text in one go, and nothing else runs meanwhile, in no thread.  So a long
text is taken apart in plain Python, and only its short parts are left to the library.  Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from tidelog.gateways.http.json_text import DECODER, check_text

LONG = 1 << 16
"""Texts up to this length are read at once."""
PART = 1 << 13
DEPTH_MAX = 1_000

_WHOLE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]', re.DOTALL)
_OUTSIDE = re.compile(r'(?:[^{}\[\]"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)  # with whole strings
_INSIDE = re.compile(r'["\\]')
_SPACE = re.compile(r"[ \t\n\r]*")


class TooLong(Exception):
    pass


class Split:
    """The texts of objects and arrays that come one after the other, in pieces.  Each letter is looked at once."""

    def __init__(self, length_max: int) -> None:
        self._length_max = length_max
        self._parts: list[str] = []
        self._length = 0
        self._depth = 0
        self._quoted = False
        self._escaped = False

    @property
    def begun(self) -> bool:
        """There is a value that has not ended."""
        return self._depth > 0

    def feed(self, piece: str) -> Iterator[str]:
        """ValueError for what is neither; `TooLong` for a value that is longer than it may be."""
        start = at = 0
        while True:
            if self._depth == 0:
                start = at = _behind(piece, at)
                if at == len(piece):
                    return
                if piece[at] not in "{[":
                    raise ValueError("it is not an object")
            at = self._step(piece, at)
            ended = self._depth == 0
            if self._length + at - start > self._length_max:
                raise TooLong
            if ended:
                self._parts.append(piece[start:at])
                whole, self._parts, self._length = "".join(self._parts), [], 0
                yield whole
            elif at >= len(piece):
                self._parts.append(piece[start:])
                self._length += len(piece) - start
                return

    def _step(self, piece: str, at: int) -> int:
        """To behind the end of the value, or of the piece."""
        size = len(piece)
        while at < size:
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            if self._quoted:
                at = match.start() if (match := _INSIDE.search(piece, at)) else size
            else:
                at = match.end() if (match := _OUTSIDE.match(piece, at)) else at
            if at == size:
                return size
            mark, at = piece[at], at + 1
            if mark == "\\":
                self._escaped = True
            elif mark == '"':
                self._quoted = not self._quoted
            elif mark in "{[":
                self._depth += 1
                if self._depth > DEPTH_MAX:
                    raise ValueError(f"it is more than {DEPTH_MAX} values deep")
            else:
                self._depth -= 1
                if self._depth == 0:
                    return at
        return size


def parse_long(text: str) -> Any:
    """As `json_text.parse_request` does.  For a thread: others have their turn."""
    long = _long_ones(text)
    value, at = _value(text, _behind(text, 0), long)
    at = _behind(text, at)
    if at != len(text):
        raise json.JSONDecodeError("Extra data", text, at)
    return value


def _long_ones(text: str) -> set[int]:
    """Where the objects and arrays begin that are too long to be read at once."""
    begun: list[int] = []
    starts = set()
    for mark in _WHOLE.finditer(text):
        at = mark.start()
        if text[at] in "{[":
            begun.append(at)
        elif text[at] in "}]" and begun:
            start = begun.pop()
            if at - start >= PART:
                starts.add(start)
    return starts


def _behind(text: str, at: int) -> int:
    spaces = _SPACE.match(text, at)
    return at if spaces is None else spaces.end()


def _value(text: str, at: int, long: set[int]) -> tuple[Any, int]:
    if at in long:
        return (_object if text[at] == "{" else _array)(text, at, long)
    value, end = DECODER.raw_decode(text, at)
    check_text(text[at:end], value)
    return value, end


def _array(text: str, at: int, long: set[int]) -> tuple[list[Any], int]:
    values: list[Any] = []
    at = _behind(text, at + 1)
    if text[at : at + 1] == "]":
        return values, at + 1
    while True:
        value, at = _value(text, at, long)
        values.append(value)
        at = _behind(text, at)
        if text[at : at + 1] == "]":
            return values, at + 1
        at = _behind(text, _expect(text, at, ","))


def _object(text: str, at: int, long: set[int]) -> tuple[dict[str, Any], int]:
    values: dict[str, Any] = {}
    at = _behind(text, at + 1)
    if text[at : at + 1] == "}":
        return values, at + 1
    while True:
        begin = _expect(text, at, '"')
        name, end = scanstring(text, begin, True)
        check_text(text[at:end], name)
        at = _behind(text, _expect(text, _behind(text, end), ":"))
        values[name], at = _value(text, at, long)
        at = _behind(text, at)
        if text[at : at + 1] == "}":
            return values, at + 1
        at = _behind(text, _expect(text, at, ","))


def _expect(text: str, at: int, letter: str) -> int:
    if text[at : at + 1] != letter:
        raise json.JSONDecodeError(f"Expecting {letter!r}", text, at)
    return at + 1
