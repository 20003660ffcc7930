"""The columns of a record in a DataFrame: those of Spark's Kafka connector, in the Arrow types that Spark expects."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def record_schema(include_headers: bool, prefix: str = "") -> StructType:
    """`prefix`: put before the names, so that they do not collide with decoded fields."""
    fields = [
        StructField(prefix + "key", BinaryType()),
        StructField(prefix + "topic", StringType()),
        StructField(prefix + "partition", IntegerType()),
        StructField(prefix + "offset", LongType()),
        StructField(prefix + "timestamp", TimestampType()),
    ]
    if not prefix:
        fields.insert(1, StructField("value", BinaryType()))
    if include_headers:
        fields.append(StructField(prefix + "headers", HEADERS))
    return StructType(fields)


def arrow_schema(schema: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def record_arrays(batch: Any, wanted: Any, prefix: str = "") -> list[Any]:
    """The columns of a fetched batch that the Arrow schema `wanted` names, in its types and order."""
    return [
        _as(batch.column(field.name.removeprefix(prefix)), field.type)
        for field in wanted
        if field.name.startswith(prefix)
    ]


def _as(array: Any, kind: Any) -> Any:
    return array if array.type == kind else array.cast(kind)
