"""JSON in and out of the HTTP port, where Python's own is more generous than the standard."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.gateways.http.json_text import parse, parse_request, written

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "text", [b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b"[-1e999]", b"\xff", b"{", b"1 2"]
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        parse(text)


@given(VALUES)
def test_what_was_written_is_read_again(value: object) -> None:
    assert parse(written(value)) == value


def test_half_of_a_surrogate_pair_is_written_as_an_escape() -> None:
    text = written({"\ud800": "ü"})
    assert json.loads(text.decode()) == {"\ud800": "ü"}


def test_no_answer_has_a_number_that_is_none() -> None:
    with pytest.raises(ValueError):
        written([math.nan])


def test_a_request_with_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        parse_request(b'["\\ud83c"]')
    assert parse_request(b'["\\ud83c\\udf50", "\\\\ud83c"]') == ["\U0001f350", "\\ud83c"]
