"""PostgreSQL's text of a value as Debezium's value, and back to text for a database that is written."""

from __future__ import annotations

import pytest

from tidelog.connect.sinks.logical_values import array_literal, native
from tidelog.connect.sources.postgres.column_types import ColumnTypes, NotRepresented, TypeFacts
from tidelog.connect.sources.postgres.pgoutput import BadStream, PgOutputDecoder

TYPES = ColumnTypes(
    {1009: TypeFacts("_text", "A", 25), 90_000: TypeFacts("mood", "E", 0, ("sad", "ok"))}, "precise"
)
NUMERIC_12_3 = ((12 << 16) | 3) + 4


@pytest.mark.parametrize(
    ("oid", "modifier", "text", "value", "back"),
    [
        (16, -1, "t", True, True),
        (23, -1, "-7", -7, -7),
        (17, -1, "\\x00ff", "AP8=", b"\x00\xff"),
        (1082, -1, "1970-01-02", 1, "1970-01-02"),
        (1082, -1, "0044-03-15 BC", -735_160, "0044-03-15 BC"),
        (1082, -1, "12345-01-01", 3_789_391, "12345-01-01"),
        (1082, -1, "infinity", 2_147_483_647, "infinity"),
        (1083, -1, "23:59:59.5", 86_399_500_000, "23:59:59.500000"),
        (1114, -1, "1969-12-31 23:59:59.5", -500_000, "1969-12-31 23:59:59.500000"),
        (1184, -1, "2026-01-02 01:04:05.6+00", "2026-01-02T01:04:05.6Z", "2026-01-02T01:04:05.6Z"),
        (1266, -1, "01:00:00+02", "23:00:00Z", "23:00:00Z"),
        (1186, -1, "4 days 05:06:07.5", 363_967_500_000, "363967500000 microseconds"),
        (1186, -1, "-00:00:01", -1_000_000, "-1000000 microseconds"),
        (1700, NUMERIC_12_3, "-99999.999", "+gofAQ==", "-99999.999"),
        (1700, NUMERIC_12_3, "0.128", "AIA=", "0.128"),
        (1700, -1, "-0.00001", {"scale": 5, "value": "/w=="}, "-0.00001"),
        (1560, 3, "101", "BQ==", "101"),
        (1560, 1, "1", True, True),
        (2950, -1, "129d07c4-8b23-4466-a20b-bbae5393da2b", "129d07c4-8b23-4466-a20b-bbae5393da2b", None),
        (90_000, -1, "ok", "ok", "ok"),
        (99_999, -1, "(1,2)", "(1,2)", "(1,2)"),
    ],
)
def test_values(oid: int, modifier: int, text: str, value: object, back: object) -> None:
    column = TYPES.of(oid, modifier)
    assert column.read(text) == value
    assert native(column.schema, value) == (value if back is None else back)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", []),
        ('{a,"b c",NULL,"NULL","d\\"e"}', ["a", "b c", None, "NULL", 'd"e']),
        ("{{x,y},{z,w}}", [["x", "y"], ["z", "w"]]),
        ("[0:1]={a,b}", ["a", "b"]),
    ],
)
def test_arrays(text: str, value: object) -> None:
    column = TYPES.of(1009, -1)
    read = column.read(text)
    assert read == value
    assert column.read(array_literal(column.schema, read)) == value


def test_a_number_that_has_no_representation_is_refused() -> None:
    with pytest.raises(NotRepresented, match=r"decimal\.handling\.mode=string"):
        TYPES.of(1700, -1).read("NaN")
    assert ColumnTypes({}, "string").of(1700, -1).read("NaN") == "NaN"


@pytest.mark.parametrize("data", [b"", b"?", b"I\x00", b"I\x00\x00\x00\x01N\x00\x01t", b"R\x00\x00"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(BadStream):
        PgOutputDecoder().decode(data)
