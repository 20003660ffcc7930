from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.top.keys import PENDING_MAX, Keys


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["up", "down", "page-up", "page-down", "home", "end"]),
        (b"\t\x1b[Z", ["tab", "back-tab"]),
        (b"/a\x7f\r", ["/", "a", "backspace", "enter"]),
        ("ü€".encode(), ["ü", "€"]),
        (b"\x03", ["quit"]),
        (b"\x1b[200~x", ["x"]),
        (b"\x1bq", ["escape", "q"]),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\x00\x01\xff", []),
    ],
)
def test_bytes_are_keys(data: bytes, keys: list[str]) -> None:
    whole = Keys()
    assert whole.feed(data) == keys
    piecemeal = Keys()
    assert [key for one in data for key in piecemeal.feed(bytes([one]))] == keys


def test_an_escape_alone_is_a_key_when_nothing_follows() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b") == [] and keys.waiting
    assert keys.flush() == ["escape"] and not keys.waiting
    keys.feed(b"\x1b[1")
    assert keys.flush() == [], "half a sequence is no key"


@given(st.binary(max_size=300))
def test_whatever_comes_little_is_kept(data: bytes) -> None:
    keys = Keys()
    for key in keys.feed(data):
        assert key.isprintable()
    assert len(keys._pending) <= PENDING_MAX + 1
