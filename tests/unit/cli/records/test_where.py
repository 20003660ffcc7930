from __future__ import annotations

from typing import Any

import pytest

from tidelog.cli.records.printer import DecodedRecord
from tidelog.cli.records.where import NODES_MAX, TEXT_MAX, BadCondition, RecordFields, parse_condition

NOW_MS = 1_700_000_000_000
VALUE = b'{"total": 120, "name": "Ann", "items": [{"price": 5}, {"price": 7}], "paid": true, "note": null}'


def fields(key: Any = b"k1", value: Any = VALUE, timestamp: int = NOW_MS) -> RecordFields:
    headers = [("source", b"web"), ("source", b"shop"), ("x-id", b"7"), ("empty", None)]
    record = DecodedRecord("orders", 3, 41, timestamp, "create", key, value, headers)
    return RecordFields(record, key, value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("key == 'k1'", True),
        ("key != 'k1'", False),
        ("value.total > 100", True),
        ("100 < value.total <= 120", True),
        ("value.total > 120", False),
        ("value.items[1].price == 7", True),
        ("value.items[-1].price == 7", True),
        ("value.items[2].price == 7", False),
        ("value['name'] == 'Ann' and not value.total == 1", True),
        ("value.paid == true and value.note == null", True),
        ("value.missing.deeper == null", True),
        ("value.missing > 3 or value.name > 3", False),
        ("'Ann' in value", True),
        ("'Bob' not in value", True),
        ("'x' in value.missing", False),
        ("key in ['k0', 'k1']", True),
        ("headers.source == 'shop'", True),
        ("headers['x-id'] == '7'", True),
        ("headers.empty == null", True),
        ("exists(headers.empty)", False),
        ("exists(headers['x-id'])", True),
        ("partition == 3 and offset >= 41 and topic == 'orders'", True),
        ("timestamp >= '-10m'", True),
        ("timestamp < '2020-01-01T00:00Z'", False),
        ("timestamp == 1700000000000", True),
        ("matches(value.name, '^A.n$')", True),
        ("matches(value.total, '1')", False),
        ("lower(value.name) == 'ann' and len(value.items) == 2 and len(key) == 2", True),
        ("value.total == -1", False),
    ],
)
def test_a_condition_is_true_or_false_of_a_record(condition: str, expected: bool) -> None:
    assert parse_condition(condition, NOW_MS)(fields()) is expected


@pytest.mark.parametrize("value", [None, b"\xff\x00", b"not json", b"[" * 5_000, b"3"])
def test_values_without_the_field_are_not_matched(value: bytes | None) -> None:
    assert not parse_condition("value.total > 1", NOW_MS)(fields(value=value))
    assert parse_condition("value == null", NOW_MS)(fields(value=value)) is (value is None)


def test_what_a_schema_made_of_a_value_is_looked_into() -> None:
    """Avro's JSON names the type of a value in a union."""
    value = {"name": {"string": "Ann"}, "address": {"shop.Address": {"city": "Ulm"}}, "total": 5}
    for condition in ("value.name == 'Ann'", "value.address.city == 'Ulm'", "value.total == 5"):
        assert parse_condition(condition, NOW_MS)(fields(value=value)), condition


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("", "is not a condition"),
        ("key = 'a'", "write == to compare"),
        ("__import__('os').system('true')", "cannot be in a condition"),
        ("key.__class__()", "cannot be in a condition"),
        ("().__class__", "cannot be in a condition"),
        ("[x for x in key]", "cannot be in a condition"),
        ("(lambda: 1)()", "cannot be in a condition"),
        ("10 ** 10 ** 10", "cannot be in a condition"),
        ("key * 1000000000", "cannot be in a condition"),
        ("f'{key}'", "cannot be in a condition"),
        ("keys == 'a'", "'keys' cannot be in a condition"),
        ("offset.real == 1", "cannot be in a condition"),
        ("key is null", "cannot be in a condition"),
        ("matches(key, '(')", "is not a regular expression"),
        ("matches(key)", "takes a field and a text"),
        ("matches(key, value)", "regular expression in quotes"),
        ("timestamp > 'soon'", "is not a time"),
        ("key == '" + "x" * TEXT_MAX + "'", "characters: at most"),
        (" or ".join(["key"] * (NODES_MAX // 2)), "parts"),
        ("not " * 1_000 + "key", "nested too deeply|parts"),
        ("(" * 300 + "key" + ")" * 300, "nested|parentheses"),
    ],
)
def test_anything_else_is_refused_with_the_reason(condition: str, problem: str) -> None:
    with pytest.raises(BadCondition, match=problem):
        parse_condition(condition, NOW_MS)


def test_attributes_of_python_are_not_reached_through_values() -> None:
    condition = parse_condition("value.__class__ == null and key.__len__ == null", NOW_MS)
    assert condition(fields(value={"a": 1}, key=b"text"))


def test_a_regular_expression_takes_time_in_proportion_to_the_text() -> None:
    # By backtracking this would take longer than the universe has been there.
    assert not parse_condition("matches(value, '^(a+)+$')", NOW_MS)(fields(value=b"a" * 5_000 + b"b"))
