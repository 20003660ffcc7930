from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config import parse_properties
from tidelog.errors import InvalidConfig


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb = 2\nc:3\nd : 4\ne 5\nf\t6", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}),
        ("# note\n! note\n   # note\n\n  \na=1", {"a": "1"}),
        ("a=one \\\n    two\\\n three", {"a": "one twothree"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=\nb", {"a": "", "b": ""}),
        ("a==b", {"a": "=b"}),
        ("a=b=c:d e", {"a": "b=c:d e"}),
        ("a\\=b=c\nd\\ e=f\ng\\:h i", {"a=b": "c", "d e": "f", "g:h": "i"}),
        ("a=\\u00e9\\t\\n\\q", {"a": "é\t\nq"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1  ", {"a": "1  "}),
        ("a=1 # not a comment", {"a": "1 # not a comment"}),
        ("a=1\\\n# joined", {"a": "1# joined"}),
        ("=x", {"": "x"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_a_broken_escape_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidConfig, match=r"line 2: .*four hexadecimal digits"):
        parse_properties("a=1\nb=\\u12x4")


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


plain = st.text(st.characters(max_codepoint=0xD7FF), max_size=20)


@given(st.dictionaries(plain, plain, max_size=5))
def test_whatever_is_escaped_comes_back(expected: dict[str, str]) -> None:
    text = "\n".join(f"{_escaped(key)}={_escaped(value)}" for key, value in expected.items())
    assert parse_properties(text) == expected


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_properties(text)
    except InvalidConfig:
        pass
