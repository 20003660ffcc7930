"""Converts a JSON Schema, or Spark's own JSON form of a schema, to Spark's types.  Pure."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.pipeline.options.text import PipelineError

PLAIN: dict[str, DataType] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
FORMATTED: dict[str, DataType] = {"date-time": TimestampType(), "date": DateType()}
DEPTH_MAX = 32


def spark_schema_of_json(text: str) -> StructType:
    try:
        schema = json.loads(text)
    except ValueError as problem:
        raise PipelineError(f"option 'schema' is not JSON: {problem}") from None
    if isinstance(schema, dict) and schema.get("type") == "struct" and "fields" in schema:
        return StructType.fromJson(schema)
    kind = _kind(schema, schema, "the value", 0)
    if not isinstance(kind, StructType):
        raise PipelineError("the JSON Schema must be an object with properties, which become the columns")
    return kind


def _kind(schema: Any, root: dict[str, Any], where: str, depth: int) -> DataType:
    if depth > DEPTH_MAX:
        raise PipelineError(f"{where} refers to itself: Spark has no such type. Read bytes instead")
    if not isinstance(schema, dict):
        raise PipelineError(f"{where} may be anything: a column needs one type")
    if "$ref" in schema:
        return _kind(_referred(schema["$ref"], root, where), root, where, depth + 1)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            real = [branch for branch in schema[several] if branch.get("type") != "null"]
            if len(real) != 1:
                raise PipelineError(
                    f"{where} is one of {len(real)} types: a column has one. Read bytes instead"
                )
            return _kind(real[0], root, where, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        real = [name for name in kind if name != "null"]
        kind = real[0] if len(real) == 1 else None
    if kind is None and "enum" in schema:
        kind = "string"
    if kind == "object":
        return _object(schema, root, where, depth)
    if kind == "array":
        return ArrayType(_kind(schema.get("items"), root, f"an element of {where}", depth + 1))
    if kind == "string" and schema.get("format") in FORMATTED:
        return FORMATTED[schema["format"]]
    if kind not in PLAIN:
        raise PipelineError(f"{where} has no single type in the JSON Schema: a column needs one")
    return PLAIN[kind]


def _object(schema: dict[str, Any], root: dict[str, Any], where: str, depth: int) -> DataType:
    properties = schema.get("properties")
    if properties:
        return StructType(
            [
                StructField(name, _kind(schema_of_property, root, f"property {name!r}", depth + 1))
                for name, schema_of_property in properties.items()
            ]
        )
    return MapType(StringType(), _kind(schema.get("additionalProperties"), root, where, depth + 1))


def _referred(reference: str, root: dict[str, Any], where: str) -> Any:
    if not reference.startswith("#"):
        raise PipelineError(f"{where} refers to another document ({reference}): put it into this one")
    referred: Any = root
    for part in reference.lstrip("#/").split("/"):
        if part:
            referred = (
                referred.get(part.replace("~1", "/").replace("~0", "~"))
                if isinstance(referred, dict)
                else None
            )
    if referred is None:
        raise PipelineError(f"{where} refers to {reference}, which is not in the JSON Schema")
    return referred
