"""Short schemas that stand for more cases than anybody can look at: each comparison ends, and nobody else waits for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidelog.registry.avro.schema import parse_avro
from tidelog.registry.json.property_patterns import finds
from tidelog.registry.json.schema import parse_json_schema
from tidelog.registry.refusal import Refusal
from tidelog.registry.schema import Schema

LEVELS = 30
"""Each doubles what there is to compare."""


def parsed_json(schema: Any) -> Any:
    return parse_json_schema(Schema(json.dumps(schema), "JSON"), {})


def doubled(part: Any, leaf: str) -> Any:
    """`part(reference)` makes a level of two references to the one below."""
    levels = {"level0": {"type": leaf}}
    for level in range(1, LEVELS):
        levels[f"level{level}"] = part({"$ref": f"#/definitions/level{level - 1}"})
    return parsed_json({"definitions": levels, "$ref": f"#/definitions/level{LEVELS - 1}"})


def test_alternatives_of_alternatives_are_refused() -> None:
    old, new = (doubled(lambda below: {"anyOf": [below, below]}, leaf) for leaf in ("string", "integer"))
    with pytest.raises(Refusal, match="too many parts"):
        new.differences(old)


@pytest.mark.parametrize(
    "part",
    [
        lambda below: {"allOf": [below, below]},
        lambda below: {"type": "object", "properties": {"one": below, "two": below}},
    ],
)
def test_parts_that_are_used_twice_are_compared_once(part: Any) -> None:
    old, new = (doubled(part, leaf) for leaf in ("string", "integer"))
    differences = new.differences(old)
    assert {difference.kind for difference in differences} == {"TYPE_CHANGED"}
    assert len(differences) <= LEVELS


def test_records_that_are_used_twice_are_compared_once() -> None:
    def records(leaf: str) -> Any:
        record: Any = {"type": "record", "name": "r0", "fields": [{"name": "x", "type": leaf}]}
        for level in range(1, LEVELS):
            fields = [{"name": "one", "type": record}, {"name": "two", "type": f"r{level - 1}"}]
            record = {"type": "record", "name": f"r{level}", "fields": fields}
        return parse_avro(Schema(json.dumps(record)), {})

    assert [difference.kind for difference in records("int").differences(records("string"))] == [
        "TYPE_MISMATCH"
    ]


def test_wide_unions_are_refused() -> None:
    def union(name: str, leaf: str) -> Any:
        records = [
            {"type": "record", "name": f"{name}{number}", "fields": [{"name": "x", "type": leaf}]}
            for number in range(1_000)
        ]
        return parse_avro(Schema(json.dumps(records)), {})

    with pytest.raises(Refusal, match="too many parts"):
        union("a", "int").differences(union("b", "string"))


@pytest.mark.parametrize(
    ("pattern", "name", "is_found"),
    [
        ("^(a+)+$", "a" * 60 + "!", False),
        ("^(a+)+$", "a" * 60, True),
        ("^(?!b)(a|aa)+c$", "a" * 60, False),
        ("^(?!b)(a|aa)+$", "aaa", True),
        (r"^(.+)\1$", "abab", True),
        ("^x-", "a x-y", False),
        ("x-", "a x-y", True),
        ("(", "(", False),
    ],
)
def test_no_pattern_of_a_schema_backtracks_for_ever(pattern: str, name: str, is_found: bool) -> None:
    assert finds(pattern, name) is is_found
