"""Long JSON in short steps is the same JSON."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.gateways.http import json_steps
from tidelog.gateways.http.json_steps import PART, Split, TooLong, parse_long
from tidelog.gateways.http.json_text import parse_request

texts = st.text(alphabet='ab"\\{}[]é😀 ,:\n', max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=30,
)
containers = st.lists(values, max_size=4) | st.dictionaries(texts, values, max_size=4)
spacing = st.sampled_from([None, 1])


@pytest.fixture(autouse=True)
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_steps, "PART", 4)


@given(values, spacing, st.booleans())
def test_what_is_read_in_steps_is_what_is_read_at_once(value: Any, indent: int | None, ascii_: bool) -> None:
    assert PART > 4
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_)
    assert parse_long(f" {text}\n") == value


def outcome(read: Any, text: Any) -> Any:
    try:
        return read(text)
    except ValueError:
        return "refused"


@given(containers, st.integers(0, 10_000), st.sampled_from(["", ",", "}", "]", '"', "1", "\\", "x"]))
def test_what_is_damaged_is_refused_alike(value: Any, place: int, put: str) -> None:
    text = json.dumps(value)
    place %= len(text)
    damaged = text[:place] + put + text[place + 1 :]
    assert outcome(parse_long, damaged) == outcome(parse_request, damaged.encode())


BAD = [
    "",
    "[1,]",
    '{"a":1,}',
    '{"a" 1}',
    "[1 2]",
    "[1]]",
    '["\\ud800"]',
    '{"\\udfff":[1,2,3]}',
    "[1e999]",
    "[NaN]",
]


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_json_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_long(bad)


def test_what_is_very_deep_is_refused_and_not_the_end() -> None:
    with pytest.raises(RecursionError):
        parse_long("[" * 100_000 + "]" * 100_000)


@given(st.lists(containers, max_size=4), st.lists(st.integers(0, 400), max_size=6))
def test_values_come_whole_whatever_the_pieces(many: list[Any], cuts: list[int]) -> None:
    text = "\n".join(json.dumps(one, ensure_ascii=False) for one in many)
    places = sorted({0, *(min(one, len(text)) for one in cuts), len(text)})
    split = Split(10_000)
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert [json.loads(one) for piece in pieces for one in split.feed(piece)] == many
    assert not split.begun


def test_each_letter_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    step = Split._step

    def counting(self: Split, piece: str, at: int) -> int:
        nonlocal looked
        looked += len(piece) - at
        return step(self, piece, at)

    monkeypatch.setattr(Split, "_step", counting)
    split = Split(10**6)
    text = json.dumps({"a": ["}" * 10] * 5_000})
    assert [len(one) for at in range(0, len(text), 10) for one in split.feed(text[at : at + 10])] == [
        len(text)
    ]
    assert looked == len(text)


def test_a_value_that_is_too_long_or_nothing_is_refused_early() -> None:
    split = Split(100)
    assert list(split.feed('{"a":"')) == [] and split.begun
    with pytest.raises(TooLong):
        list(split.feed("x" * 100))
    with pytest.raises(TooLong):
        list(Split(10).feed('{"a": "long enough"}'))
    with pytest.raises(ValueError, match="deep"):
        list(Split(10**6).feed("[" * 10_000))
    for bad in ("x", "1", "}", '"a"'):
        with pytest.raises(ValueError, match="object"):
            list(Split(100).feed(bad))
