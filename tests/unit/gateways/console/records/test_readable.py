"""Bytes as text, and text as bytes."""

from __future__ import annotations

import pytest

from tidelog.gateways.console.records.readable import Unreadable, readable, typed, typed_headers


def test_bytes_are_shown_as_what_they_look_like() -> None:
    assert readable(None) == ("null", "null")
    assert readable(b"")[:2] == ("empty", "")
    assert readable("grüß".encode())[:2] == ("text", "grüß")
    assert readable(b'{"a":[1]}') == ("JSON", '{"a": [1]}')
    assert readable(b'{"a":[1]}', whole=True) == ("JSON", '{\n  "a": [\n    1\n  ]\n}')
    assert readable(b'{"a":1e999}') == ("text", '{"a":1e999}')
    assert readable(b'{"\\udfff":1}') == ("JSON", '{"\\udfff": 1}')
    deep = b"[" * 900 + b"1," * 10_000 + b"1" + b"]" * 900
    assert len(readable(deep, whole=True).text) < 100_000, "with a line for each it is twenty megabytes"
    assert readable(b"{broken")[:2] == ("text", "{broken")
    assert readable(b"[" * 100_000).kind == "text"
    assert readable(b"a\x00b").kind == "bytes" and readable(b"\xff").text.startswith("000000  ff ")
    assert readable(bytes(10_000)).text.endswith("… 10,000 bytes")
    assert readable(b"x" * 5_000).cut() == "x" * 2_000 + "… (5,000 characters)"


def test_what_is_typed_becomes_bytes() -> None:
    assert typed("text", "ü") == "ü".encode() and typed("null", "x") is None
    assert typed("json", ' {"a":  1}') == b'{"a":1}'
    assert typed("base64", "AP8 =\n") == b"\x00\xff" and typed("hex", "00 ff") == b"\x00\xff"
    assert typed_headers("a: 1\n\nb:\nc: d: e") == [("a", b"1"), ("b", b""), ("c", b"d: e")]
    for kind, text in (("json", "{"), ("base64", "!"), ("hex", "0")):
        with pytest.raises(Unreadable):
            typed(kind, text)
    with pytest.raises(Unreadable, match="is not a header"):
        typed_headers("nothing")
