"""The words of a .proto file.  Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from tidelog.errors import TidelogError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+ | //[^\n]* | /\*.*?\*/)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    | (?P<int>0[xX][0-9a-fA-F]+|\d+)
    | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<sign>[{}\[\]()<>=;:,.+/-])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    rb"\\(?:x([0-9a-fA-F]{1,2})|X([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))",
    re.DOTALL,
)
_SHORT = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class ProtoError(TidelogError):
    """What is wrong with a Protobuf file, and the line, if one line is wrong."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why if line is None else f"line {line}: {why}")
        self.why = why
        self.line = line


class Token(NamedTuple):
    kind: str
    """name, int, float, text, sign, or end"""
    text: str
    line: int
    at: int
    """Where it begins in the file."""


def tokens(text: str) -> list[Token]:
    tokens_read: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ProtoError(f"{text[at : at + 20]!r} is not understood", line)
        kind, word = match.lastgroup, match.group()
        if kind != "space":
            assert kind is not None
            tokens_read.append(Token(kind, word, line, at))
        line += word.count("\n")
        at = match.end()
    tokens_read.append(Token("end", "the end of the file", line, at))
    return tokens_read


def unquoted(token: Token) -> bytes:
    def replaced(match: re.Match[bytes]) -> bytes:
        hexa, upper, octal, short, long, plain = match.groups()
        if hexa or upper:
            return bytes([int(hexa or upper, 16)])
        if octal:
            return bytes([int(octal, 8) & 0xFF])
        if short or long:
            return chr(int(short or long, 16)).encode("utf-8", "surrogatepass")
        return _SHORT.get(plain, plain)

    return _ESCAPE.sub(replaced, token.text[1:-1].encode("utf-8", "surrogatepass"))


class Cursor:
    """Goes through the words, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0

    @property
    def here(self) -> Token:
        return self._tokens[self._at]

    def ahead(self, count: int = 1) -> Token:
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def next(self) -> Token:
        token = self.here
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def took(self, text: str) -> bool:
        """True if this was the next word, which is then consumed."""
        if self.here.text == text and self.here.kind in ("name", "sign"):
            self.next()
            return True
        return False

    def expect(self, text: str) -> Token:
        if self.here.text != text or self.here.kind not in ("name", "sign"):
            raise self.wrong(f"{text!r} is needed")
        return self.next()

    def name(self, subject: str) -> str:
        if self.here.kind != "name":
            raise self.wrong(f"the name of {subject} is needed")
        return self.next().text

    def dotted(self, subject: str) -> str:
        """A name with dots in it, and perhaps one in front."""
        parts = ["." if self.took(".") else ""]
        parts.append(self.name(subject))
        while self.took("."):
            parts.append("." + self.name(subject))
        return "".join(parts)

    def int(self, subject: str) -> int:
        negative = self.took("-")
        if self.here.kind != "int":
            raise self.wrong(f"{subject} must be a number")
        word = self.next().text
        octal = len(word) > 1 and word[0] == "0" and word.isdigit()
        try:
            value = int(word, 8) if octal else int(word, 0)
        except ValueError:
            raise self.wrong(f"{word} is no number") from None
        return -value if negative else value

    def text(self, subject: str) -> bytes:
        """Neighbouring texts are one."""
        if self.here.kind != "text":
            raise self.wrong(f"{subject} must be in quotes")
        out = b""
        while self.here.kind == "text":
            out += unquoted(self.next())
        return out

    def between_braces(self) -> str:
        """The words up to the brace that closes this one, as they are."""
        start = self.expect("{")
        depth = 1
        while depth:
            token = self.next()
            if token.kind == "end":
                raise self.wrong("'}' is needed")
            if token.kind == "sign":
                depth += {"{": 1, "}": -1}.get(token.text, 0)
        return self._text[start.at + 1 : token.at].strip()

    def wrong(self, why: str) -> ProtoError:
        return ProtoError(f"{why}, not {self.here.text[:40]!r}", self.here.line)
