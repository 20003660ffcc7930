"""Values decoded to columns: JSON, Avro and Protobuf, with failures reported row by row."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.source.record_schema import arrow_schema
from tidelog.pipeline.values import avro, protobuf
from tidelog.pipeline.values.ddl_types import spark_schema_of_ddl
from tidelog.pipeline.values.encoding import Encoding
from tidelog.pipeline.values.json_decoding import JsonDecoder
from tidelog.pipeline.values.json_schema_types import spark_schema_of_json


def kind_of(schema: StructType) -> Any:
    return pa.struct(list(arrow_schema(schema)))


def json_rows(ddl: str, *values: bytes | None) -> tuple[list[Any], dict[int, str]]:
    decoded, failures = JsonDecoder(kind_of(spark_schema_of_ddl(ddl))).decode(
        pa.array(values, pa.binary()), "t"
    )
    assert len(decoded) == len(values)
    return decoded.to_pylist(), failures


UTC = datetime.UTC


def test_json_of_every_type() -> None:
    ddl = (
        "a bigint, b string, c double, d boolean, e decimal(10,2), f date, g timestamp, h array<int>, "
        "i struct<x: int, y: array<timestamp>>"
    )
    value = {
        "a": 1,
        "b": "x",
        "c": 1.5,
        "d": True,
        "e": "12.34",
        "f": "2026-01-31",
        "g": "2026-01-31T12:00:00.5+01:00",
        "h": [1, None],
        "i": {"x": 2, "y": ["2026-01-31T12:00:00", None]},
        "more": {"is": "left out"},
    }
    rows, failures = json_rows(
        ddl, json.dumps(value).encode(), None, b"{}", json.dumps(value, indent=2).encode()
    )
    assert not failures
    assert (
        rows[0]
        == rows[3]
        == {
            "a": 1,
            "b": "x",
            "c": 1.5,
            "d": True,
            "e": decimal.Decimal("12.34"),
            "f": datetime.date(2026, 1, 31),
            "g": datetime.datetime(2026, 1, 31, 11, 0, 0, 500_000, UTC),
            "h": [1, None],
            "i": {"x": 2, "y": [datetime.datetime(2026, 1, 31, 12, tzinfo=UTC), None]},
        }
    )
    assert rows[1] is None and set(rows[2].values()) == {None}


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"  ",
        b"5",
        b"[1]",
        b'{"a":1',
        b'{"a":"x"}',
        b'{"a":1}{"a":2}',
        b'{"a":1}}\n{"v":{"a":2}',
        b'{"a":1.5}',
        b"\xff",
        b"null",
        b'{"a":1} garbage',
        b'{"a":1},"w":5',
        b'{"a":1},{"a":2}',
        b'{"a":1}]',
        b'{"a":1}],"x":[5',
        b'{"a":1} ] ,\n"x":[{"a":2}',
        b'{"a":1}],"v":[{"a":2}',
        b'{"a":1},{}],"x":[{"a":2}',
        b'{"a":1},null],"x":[{}',
        b'null],"x":[{}',
        b'{"a":1}]}{"v":[{"a":2}',
    ],
)
def test_a_bad_value_is_alone_in_its_failure(bad: bytes) -> None:
    rows, failures = json_rows(
        "a bigint", *[b'{"a":%d}' % number for number in range(5)], bad, b'{"a":6}', None
    )
    assert list(failures) == [5] and failures[5]
    assert rows == [{"a": number} for number in range(5)] + [None, {"a": 6}, None]


def test_lists_of_objects_are_no_bad_values() -> None:
    value = b'{"a":[{"b":1}, {"b":2}], "c":"}],\\"", "d":[{"e":[{}]}],"f":[]}'
    rows, failures = json_rows("a array<struct<b: int>>, c string", value, None, b"{}", value)
    assert not failures
    assert rows[0] == rows[3] == {"a": [{"b": 1}, {"b": 2}], "c": '}],"'}
    assert rows[1] is None and rows[2] == {"a": None, "c": None}


def encoded(ddl: str, *rows: dict[str, Any]) -> list[bytes]:
    schema = spark_schema_of_ddl(ddl)
    kinds = arrow_schema(schema)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in kinds]
    encoded: list[bytes] = Encoding("json", tuple(schema.names), "", None, None).encode(columns).to_pylist()
    return encoded


EVERYTHING = (
    "a double, b decimal(38,3), c timestamp, d map<string,int>, e binary, f array<double>, g struct<x: int, y: float>, "
    "h boolean, i date, j string, k map<int,decimal(4,2)>"
)


def test_json_is_written_as_it_is() -> None:
    row = {
        "a": float("nan"),
        "b": decimal.Decimal("12345678901234567890.123"),
        "c": datetime.datetime(2026, 1, 31, 12, 0, 0, 123456, UTC),
        "d": {"x": None, 'y"': 1},
        "e": b"hi",
        "f": [float("-inf"), None, 1e20],
        "g": {"x": None, "y": 0.5},
        "h": False,
        "i": datetime.date(2026, 1, 31),
        "j": 'é"\n',
        "k": {7: decimal.Decimal("5.00")},
    }
    (text,) = encoded(EVERYTHING, row)
    assert text.decode() == (
        '{"a":"NaN","b":12345678901234567890.123,"c":"2026-01-31T12:00:00.123456Z","d":{"x":null,"y\\"":1},'
        '"e":"aGk=","f":["-Infinity",null,1e+20],"g":{"y":0.5},"h":false,"i":"2026-01-31","j":"é\\"\\n",'
        '"k":{"7":5.00}}'
    )
    json.loads(text, parse_constant=lambda message: pytest.fail(f"{message} is no JSON"))
    decoded, failures = json_rows(EVERYTHING, text)
    assert not failures and str(decoded[0].pop("a")) == "nan"
    row = {**row, "d": list(row["d"].items()), "k": list(row["k"].items())}
    assert decoded == [{name: value for name, value in row.items() if name != "a"}]


def test_json_has_times_in_milliseconds_where_that_is_all() -> None:
    moment = datetime.datetime(2026, 1, 31, 12, 0, 0, 120_000, UTC)
    assert encoded("c timestamp", {"c": moment}, {}) == [b'{"c":"2026-01-31T12:00:00.120Z"}', b"{}"]


def test_numbers_that_json_does_not_have_are_read_in_columns() -> None:
    good = [b'{"a":"NaN"}', b'{"a":1.5}', b'{"a":"-Infinity"}', b'{"a":2}']
    rows, failures = json_rows("a double", *good, b'{"a":"NaN"} x', b'{"a":"x"}')
    assert sorted(failures) == [4, 5] and rows[4:] == [None, None]
    assert [str(row["a"]) for row in rows[:4]] == ["nan", "1.5", "-inf", "2.0"]


def test_json_maps_and_bytes() -> None:
    ddl = "m map<string, struct<x: int, t: timestamp>>, b binary"
    good = b'{"m": {"k": {"x": 1, "t": "2026-01-31T00:00:00Z"}, "n": null}, "b": "aGk="}'
    rows, failures = json_rows(ddl, good, b'{"m": 5}', b'{"b": "!"}', None, b"[]")
    moment = datetime.datetime(2026, 1, 31, tzinfo=UTC)
    assert rows[0] == {"m": [("k", {"x": 1, "t": moment}), ("n", None)], "b": b"hi"}
    assert sorted(failures) == [1, 2, 4] and rows[3] is None


def test_schemas_in_sparks_short_form() -> None:
    schema = spark_schema_of_ddl(
        "id bigint not null, n struct<a: int, b: array<string>>, `odd name` decimal(5,1)"
    )
    assert schema.simpleString() == "struct<id:bigint,n:struct<a:int,b:array<string>>,odd name:decimal(5,1)>"
    for wrong in ("", "id", "id foo", "id int name string", "a struct<x: int foo>"):
        with pytest.raises(PipelineError, match="schema"):
            spark_schema_of_ddl(wrong)


def test_json_schemas() -> None:
    text = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
            "maybe": {"oneOf": [{"type": "null"}, {"type": "number"}]},
            "by": {"type": "object", "additionalProperties": {"type": ["boolean", "null"]}},
        },
        "$defs": {"tag": {"enum": ["a", "b"]}},
    }
    schema = spark_schema_of_json(json.dumps(text))
    assert schema.simpleString() == (
        "struct<id:bigint,at:timestamp,tags:array<string>,maybe:double,by:map<string,boolean>>"
    )
    own = {"$ref": "#", "type": "object"}
    with pytest.raises(PipelineError, match="refers to itself"):
        spark_schema_of_json(json.dumps({"type": "object", "properties": {"me": own}}))
    with pytest.raises(PipelineError, match="2 types"):
        spark_schema_of_json('{"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}')


LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
AVRO = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "last", "type": ["null", "Line"]},
        {"name": "by", "type": {"type": "map", "values": "int"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
    ],
}


def test_avro_both_ways() -> None:
    schema = avro.parse(json.dumps(AVRO))
    kind = avro.spark_schema(schema)
    assert kind.simpleString() == (
        "struct<id:bigint,note:string,at:timestamp,price:decimal(9,2),lines:array<struct<sku:string>>,"
        "last:struct<sku:string>,by:map<string,int>,state:string>"
    )
    order = {
        "id": 7,
        "note": None,
        "at": datetime.datetime(2026, 1, 31, tzinfo=UTC),
        "price": decimal.Decimal("9.50"),
        "lines": [{"sku": "pear"}],
        "last": {"sku": "fig"},
        "by": {"x": 1},
        "state": "PAID",
    }
    data = avro.encoder(schema, None)(order)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, order)
    assert data == out.getvalue()
    values = avro.AvroDecoder(json.loads(json.dumps(schema)), kind_of(kind), None)
    decoded, failures = values.decode(pa.array([data, None, data[:-3], data + b"x"], pa.binary()), "t")
    assert decoded[0].as_py() == {**order, "by": [("x", 1)]}
    assert decoded[1].as_py() is None and sorted(failures) == [2, 3]


@pytest.mark.parametrize(
    ("field", "message"),
    [(["string", "long"], "union of 2 types"), (["null", "shop.Order"], "refers to itself")],
)
def test_avro_that_no_column_can_hold(field: Any, message: str) -> None:
    wrong = {"type": "record", "name": "shop.Order", "fields": [{"name": "odd", "type": field}]}
    with pytest.raises(PipelineError, match=message):
        avro.spark_schema(avro.parse(json.dumps(wrong)))


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; PAID = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  google.protobuf.Timestamp at = 3;
  repeated Line lines = 4;
  map<string, int32> by = 5;
  State state = 6;
  google.protobuf.Int32Value maybe = 7;
  uint64 large = 8;
  bytes raw = 9;
  message Line { string sku = 1; }
}
message Self { Self me = 1; }
"""


def test_protobuf_both_ways() -> None:
    files = protobuf.file_set(PROTO)
    message = protobuf.message_of(files, None)
    schema = protobuf.spark_schema(message)
    assert schema.simpleString() == (
        "struct<id:bigint,note:string,at:timestamp,lines:array<struct<sku:string>>,by:map<string,int>,state:string,"
        "maybe:int,large:decimal(20,0),raw:binary>"
    )
    order = {
        "id": 7,
        "note": None,
        "at": datetime.datetime(2026, 1, 31, tzinfo=UTC),
        "lines": [{"sku": "pear"}],
        "by": {"x": 1},
        "state": "PAID",
        "maybe": 0,
        "large": decimal.Decimal(2**64 - 1),
        "raw": b"\xff",
    }
    data = protobuf.encoder(message, None, [0])(order)
    values = protobuf.ProtobufDecoder(message, kind_of(schema), False)
    decoded, failures = values.decode(pa.array([data, b"", None, b"\xff\xff"], pa.binary()), "t")
    assert decoded[0].as_py() == {**order, "by": [("x", 1)]}
    assert decoded[1].as_py()["id"] == 0 and decoded[1].as_py()["maybe"] is None
    assert decoded[2].as_py() is None and list(failures) == [3]


def test_protobuf_that_is_wrong() -> None:
    with pytest.raises(PipelineError, match=r"schema\.proto:1"):
        protobuf.file_set("message {")
    files = protobuf.file_set(PROTO)
    with pytest.raises(PipelineError, match="contains itself"):
        protobuf.spark_schema(protobuf.message_of(files, "shop.Self"))
    with pytest.raises(PipelineError, match=r"no message 'shop\.Other'"):
        protobuf.message_of(files, "shop.Other")
