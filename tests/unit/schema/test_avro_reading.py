"""Avro that was written to do harm, and Avro that only looks like it."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.schema import avro_reading
from tidelog.schema.avro_reading import DEPTH_MAX, VALUES_FREE, AvroReader, parse


def reader(schema: Any) -> AvroReader:
    named: dict[str, Any] = {}
    return AvroReader(parse(json.dumps(schema), named), named)


def number(value: int) -> bytes:
    raw, out = (value << 1) ^ (value >> 63), bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    return bytes([*out, raw])


def record(name: str, **fields: Any) -> dict[str, Any]:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def decimal(**more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", **more}


NULLS = {"type": "array", "items": "null"}
LIST = record("L", next=["null", "L"])
# Each level holds the one below it twice: forty of them are a million million values of no byte at all.
DOUBLED = [record("D0"), *(record(f"D{one}", a=f"D{one - 1}", b=f"D{one - 1}") for one in range(1, 41))]
CHAIN = [record("C0"), *(record(f"C{one}", a=f"C{one - 1}") for one in range(1, 20_000))]


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (NULLS, number(10**9) + number(0)),
        (NULLS, number(-(10**9)) + number(0) + number(0)),
        ({"type": "array", "items": NULLS}, (number(1) + number(90_000) + number(0)) * 500 + number(0)),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, number(10**9) + number(0)),
        ({"type": "array", "items": record("R", a="null")}, number(10**9) + number(0)),
        (DOUBLED, number(40)),
        (CHAIN, number(19_999)),
        (LIST, number(1) * 500_000 + number(0)),
        ({"type": "array", "items": record("W", b="boolean", n=NULLS)}, b"\x02\x01" + number(10**9)),
        (record("S", s="S"), b""),
        (decimal(precision=9), number(100_000) + b"\x7f" * 100_000),
    ],
)
def test_what_would_take_all_memory_or_all_time_is_refused(schema: Any, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"values|too early|decimal"):
        reader(schema).read(data)


def test_wide_records_of_nothing_are_refused() -> None:
    """One byte each, and a thousand nulls."""
    wide = record("W", b="boolean", **{f"n{index}": "null" for index in range(1_000)})
    with pytest.raises(ValueError, match="values"):
        reader({"type": "array", "items": wide}).read(number(5_000) + b"\x01" * 5_000 + number(0))


def test_what_stays_within_bounds_is_read() -> None:
    assert reader(NULLS).read(number(VALUES_FREE - 1) + number(0)) == [None] * (VALUES_FREE - 1)
    depth = DEPTH_MAX - 2
    value = reader(LIST).read(number(1) * depth + number(0))
    for _ in range(depth):
        value = value["next"]
    assert value == {"next": None}
    money = reader(decimal(precision=9, scale=2))
    assert money.read(number(2) + b"\x01\x00") == Decimal("2.56")
    many = reader({"type": "array", "items": decimal(precision=9, scale=2)})
    assert len(many.read(number(3_000) + (number(2) + b"\x01\x00") * 3_000 + number(0))) == 3_000


def test_usual_schemas_are_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it was walked")

    monkeypatch.setattr(avro_reading, "_Walk", never)
    item = record("Item", title="string", price=decimal(precision=9, scale=2), note=["null", "string"])
    order = record(
        "Order", id="long", items={"type": "array", "items": item}, tags={"type": "map", "values": "Item"}
    )
    assert reader(order).read(number(7) + number(0) + number(0)) == {"id": 7, "items": [], "tags": {}}


TREE = record(
    "T", v="long", kids={"type": "array", "items": "T"}, named={"type": "map", "values": ["null", "T"]}
)
leaves = st.builds(lambda v: {"v": v, "kids": [], "named": {}}, st.integers(-(2**63), 2**63 - 1))
trees = st.recursive(
    leaves,
    lambda inner: st.fixed_dictionaries(
        {
            "v": st.integers(-9, 9),
            "kids": st.lists(inner, max_size=3),
            "named": st.dictionaries(st.text(max_size=3), st.none() | inner, max_size=3),
        }
    ),
    max_leaves=20,
)
EVERYTHING = record(
    "E",
    a="null", b="boolean", c="int", d="long", e="float", f="double", g="bytes", h="string",
    i={"type": "fixed", "name": "F", "size": 3}, j={"type": "enum", "name": "N", "symbols": ["x", "y"]},
    k=NULLS, l=["null", "F", "N", TREE],
)  # fmt: skip


@given(trees, st.binary(max_size=9), st.text(max_size=9), st.integers(0, 50))
def test_the_walk_agrees_with_fastavro(tree: Any, data: bytes, text: str, nulls: int) -> None:
    value = {
        "a": None, "b": True, "c": -1, "d": 2**40, "e": 1.5, "f": 2.5, "g": data, "h": text, "i": b"abc", "j": "y",
        "k": [None] * nulls, "l": tree,
    }  # fmt: skip
    named: dict[str, Any] = {}
    schema = parse(json.dumps(EVERYTHING), named)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    assert AvroReader(schema, named).read(out.getvalue(), whole=True) == value
    with pytest.raises((ValueError, EOFError)):
        AvroReader(schema, named).read(out.getvalue()[:-1])


@pytest.mark.parametrize(
    "bad",
    [
        decimal(precision=-1),
        decimal(),
        decimal(precision=4, scale="2"),
        decimal(precision=2, scale=5),
        {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 30},
    ],
)
def test_a_decimal_that_makes_no_sense_is_bytes(bad: Any) -> None:
    data = b"\x01\x02" if bad["type"] == "fixed" else number(2) + b"\x01\x02"
    assert reader(record("R", a=bad, b="int")).read(data + number(7)) == {"a": b"\x01\x02", "b": 7}
