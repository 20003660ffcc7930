"""Schemas made of columns: parsed by the formats' own libraries, and rows through them and back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import jsonschema_rs
import pytest
from pyspark.sql.types import StructType

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.values import avro, protobuf
from tidelog.pipeline.values.ddl_types import spark_schema_of_ddl
from tidelog.pipeline.values.schema_text import schema_text

DDL = """
    a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, h string, i binary, j date, k timestamp,
    m decimal(9,2), n array<string>, o map<string, bigint>, p struct<x: int, p: struct<y: string>>,
    q array<struct<z: double>>, r map<string, struct<w: int>>
"""
MOMENT = datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)
ROW: dict[str, Any] = {
    "a": True,
    "b": 1,
    "c": 2,
    "d": 3,
    "e": 1 << 40,
    "f": 0.5,
    "g": 0.25,
    "h": "é",
    "i": b"\xff",
    "j": date(2026, 1, 31),
    "k": MOMENT,
    "m": Decimal("9.50"),
    "n": ["x", "y"],
    "o": {"one": 1},
    "p": {"x": 1, "p": {"y": "deep"}},
    "q": [{"z": 1.0}, {"z": 2.0}],
    "r": {"k": {"w": 7}},
}


@pytest.fixture
def rows() -> StructType:
    return spark_schema_of_ddl(DDL)


def test_avro_has_every_column_and_gives_it_back(rows: StructType) -> None:
    schema = avro.parse(schema_text("avro", rows, "my-orders"))
    assert schema["name"] == "tidelog.my_orders"
    back = avro.spark_schema(schema)
    assert back.names == rows.names
    narrower = {"b": "int", "c": "int"}  # what Avro has not
    assert {field.name: narrower.get(field.name, field.dataType.simpleString()) for field in rows} == {
        field.name: field.dataType.simpleString() for field in back
    }
    data = avro.encoder(schema, None)(ROW)
    import io

    assert fastavro.schemaless_reader(io.BytesIO(data), schema, None) == ROW
    empty = dict.fromkeys(ROW)
    data = avro.encoder(schema, None)(empty)
    assert fastavro.schemaless_reader(io.BytesIO(data), schema, None) == empty


def test_protobuf_has_every_column_and_gives_it_back(rows: StructType) -> None:
    message = protobuf.message_of(protobuf.file_set(schema_text("protobuf", rows, "1orders")), None)
    assert message.DESCRIPTOR.name == "_1orders"
    assert [field.name for field in message.DESCRIPTOR.fields] == rows.names
    data = protobuf.encoder(message, None, [0])(ROW)
    back = protobuf._reader(message.DESCRIPTOR)(message.FromString(data))
    wanted = {**ROW, "j": "2026-01-31", "m": "9.50", "o": [("one", 1)], "r": [("k", {"w": 7})]}
    assert back == wanted
    empty = protobuf._reader(message.DESCRIPTOR)(message())
    assert all(value in (None, []) for value in empty.values())


def test_json_schema_takes_what_is_written(rows: StructType) -> None:
    schema = json.loads(schema_text("json", rows, "orders"))
    jsonschema_rs.validator_for(schema).validate(
        {"d": 3, "p": {"x": 1}, "n": ["x"], "k": "2026-01-31T12:00:00Z"}
    )
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validator_for(schema).validate({"d": "three"})


@pytest.mark.parametrize(
    ("format", "ddl", "message"),
    [
        ("avro", "`a b` int", "column 'a b' cannot be a field's name"),
        ("protobuf", "p struct<`x-y`: int>", "column 'p.x-y' cannot be a field's name"),
        ("avro", "a map<int, string>", "column 'a' has type map<int,string>, for which Avro has none"),
        ("protobuf", "a array<array<int>>", "column 'a' has type array<int>, for which Protobuf has none"),
        ("protobuf", "a timestamp_ntz", "for which Protobuf has none"),
    ],
)
def test_what_has_no_schema_is_told_by_its_column(format: str, ddl: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        schema_text(format, spark_schema_of_ddl(ddl), "orders")


def test_a_value_has_a_column_at_least() -> None:
    with pytest.raises(PipelineError, match="no column"):
        schema_text("avro", StructType([]), "orders")
