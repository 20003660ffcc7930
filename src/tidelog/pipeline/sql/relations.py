"""A relation as a DataFrame: a topic's past, its records as a stream, or the latest row of each key.

A topic that was not declared has its key and value as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from tidelog.pipeline.sql.catalog import Relation
from tidelog.pipeline.sql.statements import SqlError
from tidelog.pipeline.streams.decode import METADATA, decode_json, decoded_by_source, mode_of, struct_type
from tidelog.pipeline.streams.durations import spark_interval
from tidelog.pipeline.streams.table import newest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from sqlglot import exp

    from tidelog.pipeline.streams.pipeline import Pipeline

HIDDEN = tuple(f"_{name}" for name in METADATA)
OF_RECORD = (*HIDDEN, "_deleted")


def frame(pipeline: Pipeline, relation: Relation, streaming: bool, version: exp.Version | None) -> DataFrame:
    """`version`: time travel, up to an offset or a time, or between two of them."""
    if relation.kind == "table":
        rows = _records(pipeline, relation, streaming, version)
        if streaming:
            return rows.where(~F.col("_deleted")).drop("_deleted")
        return newest(rows, "_key").where(~F.col("_deleted")).drop("_deleted")
    rows = _records(pipeline, relation, streaming, version).drop("_deleted")
    if relation.timestamp is not None and streaming:
        rows = rows.withWatermark(relation.timestamp, spark_interval(relation.watermark))
    return rows


def _records(
    pipeline: Pipeline, relation: Relation, streaming: bool, version: exp.Version | None
) -> DataFrame:
    options: dict[str, Any] = dict(relation.options)
    # The source also decodes JSON that has a registry or a JSON Schema.
    decoded = relation.format in ("avro", "protobuf") or (relation.format == "json" and bool(options))
    if decoded:
        options["format"] = relation.format
        options["mode"] = mode_of(relation.on_error, relation.kind == "table")
    if streaming:
        options["starting"] = relation.starting
    raw = pipeline.read(relation.topic, options, streaming)
    if version is not None:
        if streaming:
            raise SqlError("time travel reads the past: it does not go with EMIT CHANGES")
        raw = raw.where(travelled(version, "_" if decoded else ""))
    if decoded:
        of_table = relation.kind == "table"
        decoded_rows = decoded_by_source(raw, relation.on_error, pipeline.name, deletions=of_table).rows
        return decoded_rows.where("_key IS NOT NULL") if of_table else decoded_rows
    if relation.format == "json":
        return _json(pipeline, relation, raw)
    metadata = [F.col(name).alias(f"_{name}") for name in METADATA if name in raw.columns]
    fields = struct_type(relation.schema) if relation.columns else None
    kind = "string" if relation.format == "text" else "binary"
    names = fields.names if fields is not None else ["key", "value"]
    if len(names) != 2:
        raise SqlError(
            f"{relation.name} is of format {relation.format}: it has two columns, of the key and the value"
        )
    key, value = (
        F.col(column).cast(kind).alias(name) for column, name in zip(("key", "value"), names, strict=True)
    )
    return raw.select(key, value, *metadata, F.col("value").isNull().alias("_deleted"))


def _json(pipeline: Pipeline, relation: Relation, raw: DataFrame) -> DataFrame:
    whole = struct_type(relation.schema)
    if relation.kind == "table":
        raw = raw.where("key IS NOT NULL")
    rows = decode_json(raw, whole, relation.on_error, pipeline.name, deletions=True).rows
    if relation.key is not None and relation.kind == "table":
        # The primary key is the record's key; the value may repeat it.
        kind = whole[relation.key].dataType
        rows = rows.withColumn(
            relation.key, F.coalesce(F.col(relation.key), F.col("_key").cast("string").cast(kind))
        )
    return rows


def travelled(version: exp.Version, prefix: str = "") -> Column:
    """The condition of a time travel clause.  AS OF a includes a; FROM a TO b excludes b; BETWEEN a AND b includes b."""
    kind, this = str(version.args.get("kind")), str(version.this).upper()
    column = F.col(f"{prefix}timestamp" if this == "TIMESTAMP" else f"{prefix}offset")

    def bound(expression: Any) -> Column:
        text = expression.sql(dialect="spark")
        value = F.expr(text)
        return value.cast("timestamp") if this == "TIMESTAMP" else value.cast("bigint")

    expression = version.expression
    if kind == "AS OF":
        return column <= bound(expression)
    begin, end = (bound(limit) for limit in expression.expressions)
    upper = column < end if kind == "FROM" else column <= end
    return (column >= begin) & upper


def columns_of(schema: StructType) -> tuple[tuple[str, str], ...]:
    return tuple(
        (field.name, field.dataType.simpleString()) for field in schema.fields if field.name not in OF_RECORD
    )
