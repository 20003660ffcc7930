"""Values of a schema as JSON: what goes in comes out, in the JSON of its format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidelog.gateways.rest.codec import codec_of
from tidelog.gateways.rest.schemas import KEPT_MAX, KEPT_TEXT_MAX, RecentlyUsed
from tidelog.registry.formats import Formats
from tidelog.registry.schema import Schema

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string", "int"], "default": None},
        {"name": "raw", "type": "bytes", "default": ""},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}


def avro(schema: Any, **needed: Any) -> Any:
    others = {name: {"schema": json.dumps(one)} for name, one in needed.items()}
    return codec_of({"schema": json.dumps(schema)}, others)


def test_avro_in_its_own_json() -> None:
    order = avro(ORDER)
    assert (order.kind, order.name) == ("AVRO", "shop.Order")
    value = {"id": 7, "note": {"string": "x"}, "raw": "\u00ff\u0000", "at": 1_000, "price": "\u0001"}
    assert order.decode(order.encode(value)) == value
    assert order.decode(order.encode({**value, "note": None}))["note"] is None


def test_avro_in_plain_json() -> None:
    union = avro({"type": "record", "name": "R", "fields": [{"name": "note", "type": ["null", "string"]}]})
    assert union.encode({"note": "x"}) == union.encode({"note": {"string": "x"}})


def test_avro_with_numbers_that_json_has_not() -> None:
    doubles = avro({"type": "array", "items": "double"})
    out = doubles.decode(doubles.encode([1.5]))
    assert out == [1.5]
    infinite = b"\x02" + bytes.fromhex("000000000000f07f") + b"\x00"
    assert doubles.decode(infinite) == ["Infinity"]


def test_avro_with_a_reference() -> None:
    outer = avro({"type": "record", "name": "Outer", "fields": [{"name": "order", "type": "shop.Item"}]}, item={
        "type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "n", "type": "int"}]
    })  # fmt: skip
    assert outer.decode(outer.encode({"order": {"n": 3}})) == {"order": {"n": 3}}


@pytest.mark.parametrize("value", [7, {}, {"id": "x"}, [], None])
def test_what_does_not_fit_is_not_written(value: Any) -> None:
    with pytest.raises(Exception):  # noqa: B017 - as many kinds as there are libraries
        avro(ORDER).encode(value)


def test_json_schema_is_checked_with_what_it_refers_to() -> None:
    item = {"schema": json.dumps({"type": "integer"})}
    root = {"title": "Basket", "type": "array", "items": {"$ref": "item.json"}}
    basket = codec_of({"schemaType": "JSON", "schema": json.dumps(root)}, {"item.json": item})
    assert (basket.kind, basket.name) == ("JSONSCHEMA", "Basket")
    assert basket.decode(basket.encode([1, 2])) == [1, 2]
    with pytest.raises(ValueError, match=r"at \$\[1\]"):
        basket.encode([1, "x"])


def protobuf(text: str) -> Any:
    packed = Formats().parse(Schema(text, "PROTOBUF"), {}).formatted("serialized")
    return codec_of({"schemaType": "PROTOBUF", "schema": packed}, {})


def test_protobuf_says_all_its_fields() -> None:
    text = 'syntax = "proto3"; package shop; message Pear { int32 weight = 1; string kind_of = 2; }'
    pear = protobuf(text)
    assert (pear.kind, pear.name) == ("PROTOBUF", "shop.Pear")
    assert pear.decode(pear.encode({"weight": 3})) == {"weight": 3, "kind_of": ""}


def test_what_is_kept_is_bounded_in_number_and_length() -> None:
    kept: RecentlyUsed[int, int] = RecentlyUsed()
    for one in range(KEPT_MAX + 10):
        kept.keep(one, one, 1)
    assert kept.get(9) is None and kept.get(10) == 10
    kept.keep(-1, -1, KEPT_TEXT_MAX - 1)
    assert kept.get(-1) == -1 and kept.get(10) == 10 and kept.get(11) is None
    kept.keep(-2, -2, KEPT_TEXT_MAX + 1)
    assert kept.get(-2) is None


def test_avro_that_was_written_to_do_harm() -> None:
    nulls = avro({"type": "array", "items": "null"})
    assert nulls.slow and nulls.decode(nulls.encode([None, None])) == [None, None]
    with pytest.raises(ValueError, match="values"):
        nulls.decode(b"\x80\xa8\xd6\xb9\x07\x00")


def test_protobuf_with_very_many_fields_that_are_not_set() -> None:
    """Each empty message inside is two bytes, and would be printed with all of its fields."""
    fields = "".join(f"int32 f{one} = {one};" for one in range(1, 2_001))
    wide = protobuf(f'syntax = "proto3"; message A {{ repeated B b = 1; }} message B {{ {fields} }}')
    assert wide.slow and len(wide.decode(b"\0" + b"\x0a\x00" * 400)["b"]) == 400
    with pytest.raises(ValueError, match="fields"):
        wide.decode(b"\0" + b"\x0a\x00" * 600)
