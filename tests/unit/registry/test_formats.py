"""What schemas are kept as, what is told of differences, and schemas that refer to themselves."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tidelog.registry.avro.schema import parse_avro
from tidelog.registry.json.schema import parse_json_schema
from tidelog.registry.protobuf.schema import parse_protobuf
from tidelog.registry.refusal import Refusal
from tidelog.registry.schema import Reference, Schema


def avro(schema: Any, **references: str) -> Any:
    return parse_avro(Schema(json.dumps(schema)), {name: Schema(text) for name, text in references.items()})


def shape(schema: Any) -> Any:
    return parse_json_schema(Schema(json.dumps(schema), "JSON"), {})


def proto(text: str) -> Any:
    return parse_protobuf(Schema(f'syntax = "proto3"; {text}', "PROTOBUF"), {})


def kinds(reader: Any, writer: Any) -> list[tuple[str, str]]:
    return [(difference.kind, difference.path) for difference in reader.differences(writer)]


def test_avro_is_kept_as_java_writes_it() -> None:
    given = {
        "namespace": "shop",
        "type": "record",
        "fields": [
            {"name": "when", "type": {"logicalType": "timestamp-millis", "type": "long"}, "doc": "of day"},
            {"name": "kind", "type": {"type": "enum", "symbols": ["A"], "name": "Kind"}, "default": "A"},
            {"name": "again", "type": ["null", "shop.Kind"], "default": None},
        ],
        "name": "Order",
        "doc": "bought",
    }
    assert avro(given).canonical() == (
        '{"type":"record","name":"Order","namespace":"shop","doc":"bought","fields":['
        '{"name":"when","type":{"type":"long","logicalType":"timestamp-millis"},"doc":"of day"},'
        '{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["A"]},"default":"A"},'
        '{"name":"again","type":["null","Kind"],"default":null}]}'
    )
    assert avro("string").canonical() == '"string"' and avro({"type": "int"}).canonical() == '"int"'


def test_avro_that_refers_to_others_names_them_and_can_show_them() -> None:
    city = '{"type":"record","name":"shop.City","fields":[]}'
    text = {"type": "record", "name": "shop.Home", "fields": [{"name": "city", "type": "City"}]}
    home = avro(text, city=city)
    assert '"type":"City"' in home.canonical() and '"name":"City"' in home.formatted("resolved")


@pytest.mark.parametrize(
    "bad",
    [
        "nothing",
        ["int", "int"],
        ["int", ["string"]],
        {"type": "record", "name": "1x", "fields": []},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2},
        {"type": "enum", "name": "E", "symbols": ["A", "A"]},
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "array"},
        {"type": "record", "name": "int", "fields": []},
    ],
)
def test_what_avro_does_not_allow(bad: Any) -> None:
    with pytest.raises(Refusal, match="Invalid schema"):
        avro(bad)


def linked(value: str, *extra: Any) -> Any:
    fields = [{"name": "value", "type": value}, {"name": "next", "type": ["null", "Node"]}, *extra]
    return avro({"type": "record", "name": "Node", "fields": fields})


def test_schemas_that_hold_themselves() -> None:
    assert kinds(linked("long"), linked("int")) == []
    assert kinds(linked("int"), linked("long"))[0] == ("TYPE_MISMATCH", "/fields/0/type")
    tree = {"$ref": "#/definitions/t", "definitions": {"t": {"type": "object", "properties": {}}}}
    small, large = json.loads(json.dumps(tree)), json.loads(json.dumps(tree))
    for schema, type_ in ((small, "integer"), (large, "number")):
        schema["definitions"]["t"]["properties"] = {
            "value": {"type": type_},
            "children": {"type": "array", "items": {"$ref": "#/definitions/t"}},
        }
    assert kinds(shape(large), shape(small)) == []
    assert ("TYPE_NARROWED", "#/properties/value") in kinds(shape(small), shape(large))
    assert (
        kinds(
            proto("message T { T left = 1; int64 v = 2; }"), proto("message T { T left = 1; int32 v = 2; }")
        )
        == []
    )


def test_a_guess_about_a_loop_does_not_hide_what_breaks() -> None:
    """Two types that hold each other, and only one of them has changed."""

    def both(type_: str) -> Any:
        b = {
            "type": "record",
            "name": "B",
            "fields": [{"name": "a", "type": ["null", "A"]}, {"name": "v", "type": type_}],
        }
        return avro(
            {
                "type": "record",
                "name": "A",
                "fields": [{"name": "x", "type": ["null", b]}, {"name": "y", "type": "B"}],
            }
        )

    assert kinds(both("int"), both("string")) and not kinds(both("string"), both("string"))


def test_many_paths_to_one_part_take_no_time() -> None:
    definitions = {
        f"d{at}": {
            "type": "object",
            "properties": {
                "l": {"$ref": f"#/definitions/d{at + 1}"},
                "r": {"$ref": f"#/definitions/d{at + 1}"},
            },
        }
        for at in range(40)
    }
    definitions["d40"] = {"type": "object", "properties": {"x": {"type": "integer"}}}
    old = {"$ref": "#/definitions/d0", "definitions": definitions}
    new = json.loads(json.dumps(old))
    new["definitions"]["d40"]["properties"]["x"] = {"type": "number"}
    # One comparison for each path would never end.
    assert kinds(shape(new), shape(old)) == []


def test_differences_name_the_place_and_the_side() -> None:
    (difference,) = avro(
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    ).differences(avro({"type": "record", "name": "R", "fields": []}))
    assert difference.told("new", "old") == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'a' at path '/fields/0' in the new "
        "schema has no default value and is missing in the old schema', additionalInfo:'a'}"
    )
    (difference,) = shape(
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}
    ).differences(shape({"type": "object", "properties": {"a": {"type": "string"}}}))
    assert (difference.kind, difference.path) == ("MAX_LENGTH_ADDED", "#/properties/a/maxLength")


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("message A { int64 a = 1; }", "message A { bool a = 1; }", []),
        ("message A { }", "message A { int32 a = 1; }", []),
        ("message A { sint32 a = 1; }", "message A { int32 a = 1; }", ["FIELD_SCALAR_KIND_CHANGED"]),
        (
            "message A { B a = 1; } message B { }",
            "message A { int32 a = 1; } message B { }",
            ["FIELD_KIND_CHANGED"],
        ),
        ("message A { }", "message A { } message B { }", ["MESSAGE_REMOVED"]),
        ("package x; message A { }", "message A { }", ["PACKAGE_CHANGED"]),
        (
            "message A { B a = 1; } message B { } message C { }",
            "message A { C a = 1; } message B { } message C { }",
            ["FIELD_NAMED_TYPE_CHANGED"],
        ),
        (
            "message A { oneof o { int32 a = 1; int32 b = 2; } }",
            "message A { oneof o { int32 a = 1; } int32 b = 2; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF"],
        ),
        ("message A { oneof o { int32 a = 1; } }", "message A { int32 a = 1; }", []),
        ("message A { }", "message A { oneof o { int32 a = 1; } }", []),
        (
            "message A { map<string, int32> a = 1; }",
            "message A { map<string, string> a = 1; }",
            ["FIELD_SCALAR_KIND_CHANGED"],
        ),
        ("message A { repeated string a = 1; }", "message A { string a = 1; }", []),
    ],
)
def test_protobufs_rules(new: str, old: str, expected: list[str]) -> None:
    assert [kind for kind, _ in kinds(proto(new), proto(old))] == expected


def test_protobuf_files_that_import_each_other_and_themselves() -> None:
    a, b = (
        Schema('syntax = "proto3"; import "b"; message A { }', "PROTOBUF"),
        'syntax = "proto3"; import "a";',
    )
    with pytest.raises(Refusal, match="imports itself"):
        parse_protobuf(a, {"b": Schema(b, "PROTOBUF"), "a": a})
    with pytest.raises(Refusal, match="base64"):
        parse_protobuf(Schema(base64.b64encode(b"\xff" * 20).decode(), "PROTOBUF"), {})
    assert Reference("b", "s", 1).body() == {"name": "b", "subject": "s", "version": 1}
