"""Parses Spark's DDL form of a schema, `id bigint, name string`, to Spark's types.

Spark parses DDL in its JVM, which the processes that ask a source for its schema do not have: sqlglot parses it here.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidelog.pipeline.options.text import PipelineError

PLAIN: dict[str, DataType] = {
    "TEXT": StringType(),
    "VARCHAR": StringType(),
    "CHAR": StringType(),
    "BIGINT": LongType(),
    "INT": IntegerType(),
    "SMALLINT": ShortType(),
    "TINYINT": ByteType(),
    "DOUBLE": DoubleType(),
    "FLOAT": FloatType(),
    "BOOLEAN": BooleanType(),
    "BINARY": BinaryType(),
    "DATE": DateType(),
    "TIMESTAMP": TimestampType(),
    "TIMESTAMPTZ": TimestampType(),
    "TIMESTAMPLTZ": TimestampType(),
    "TIMESTAMPNTZ": TimestampNTZType(),
}
EXAMPLE = "id bigint, name string"


def spark_schema_of_ddl(text: str) -> StructType:
    import sqlglot
    from sqlglot.errors import SqlglotError

    body = text.strip()
    if body.lower().startswith("struct<") and body.endswith(">"):
        body = body[len("struct<") : -1]
    try:
        # As part of a statement: when sqlglot parses a type alone, it ignores text that follows the type.
        parsed: Any = sqlglot.parse_one(f"CREATE TABLE t ({body})", dialect="spark")
    except SqlglotError as problem:
        details = getattr(problem, "errors", None)
        near = f", near {details[0]['highlight']!r}" if details and details[0].get("highlight") else ""
        raise PipelineError(f"option 'schema' is not like {EXAMPLE!r}{near}: {text}") from None
    fields = _fields(parsed.this.expressions, text)
    if not fields:
        raise PipelineError(f"option 'schema' is {text!r}, which is not like {EXAMPLE!r}")
    return StructType(fields)


def _fields(columns: Any, text: str) -> list[StructField]:
    fields = []
    for column in columns:
        if column.args.get("kind") is None:
            raise PipelineError(f"option 'schema': field {column.name!r} has no type, in {text!r}")
        fields.append(StructField(column.name, _kind(column.args["kind"], text)))
    return fields


def _kind(parsed: Any, text: str) -> DataType:
    name, inner = parsed.this.name, parsed.expressions
    if name == "STRUCT":
        return StructType(_fields(inner, text))
    if name in ("ARRAY", "LIST") and len(inner) == 1:
        return ArrayType(_kind(inner[0], text))
    if name == "MAP" and len(inner) == 2:
        return MapType(_kind(inner[0], text), _kind(inner[1], text))
    if name == "DECIMAL":
        sizes = [int(size.name) for size in inner]
        return DecimalType(*sizes) if sizes else DecimalType()
    if name not in PLAIN:
        raise PipelineError(f"option 'schema' has a type {name.lower()} that values cannot have, in {text!r}")
    return PLAIN[name]
