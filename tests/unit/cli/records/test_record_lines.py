from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tidelog.cli.records.printer import DecodedRecord
from tidelog.cli.records.record_format import json_line
from tidelog.cli.records.record_lines import BadRecordLine, ParsedRecord, parse_record, to_bytes

PARTS = some.none() | some.binary(max_size=20) | some.text(max_size=20).map(lambda text: text.encode())


@given(
    key=PARTS,
    value=PARTS,
    headers=some.lists(some.tuples(some.text(max_size=5), PARTS), max_size=3),
    partition=some.integers(0, 1_000),
    timestamp=some.integers(0, 2**62),
)
def test_a_record_comes_back_from_the_line_that_shows_it(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    partition: int,
    timestamp: int,
) -> None:
    record = DecodedRecord("t", partition, 7, timestamp, "create", key, value, headers)
    parsed = parse_record(json_line(record))  # type: ignore[arg-type]
    assert (to_bytes(parsed.key), to_bytes(parsed.value)) == (key, value)
    assert parsed._replace(key=None, value=None) == ParsedRecord(None, None, headers, partition, timestamp)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", b"text"),
        (None, None),
        ({"a": [1, None, "ä"]}, '{"a":[1,null,"ä"]}'.encode()),
        (5, b"5"),
        (True, b"true"),
        ("", b""),
    ],
)
def test_a_value_without_a_schema_is_text_or_json(value: Any, expected: bytes | None) -> None:
    assert to_bytes(parse_record(json.dumps({"value": value}).encode()).value) == expected


def test_headers_may_be_an_object_and_times_that_are_unknown_are_left_out() -> None:
    record = parse_record(b'{"value": "v", "headers": {"a": "1", "b": null}, "timestamp": -1}')
    assert record == ParsedRecord(None, "v", [("a", b"1"), ("b", None)], None, None)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "is not an object"),
        (b'{"key": "k"}', 'has no "value"'),
        (b'{"value": "v", "vlaue": 1}', "'vlaue' is not a field"),
        (b'{"value_base64": "%"}', "is not base64"),
        (b'{"value_base64": 5}', "is not base64"),
        (b'{"value": "v", "value_base64": "dg=="}', "leave one out"),
        (b'{"value": "v", "partition": "1"}', '"partition" is not an integer'),
        (b'{"value": "v", "timestamp": true}', '"timestamp" is not an integer'),
        (b'{"value": "v", "headers": "x"}', '"headers" is not a list'),
        (b'{"value": "v", "headers": [{"value": "x"}]}', '"headers" is not a list'),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_the_reason(line: bytes, problem: str) -> None:
    with pytest.raises(BadRecordLine, match=problem):
        parse_record(line)
