"""Encodes rows as records: a key and a value in the columns that the sink expects.

Spark makes JSON, text and bytes; the sink encodes Avro, Protobuf, and everything that has a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.streams.decode import METADATA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidelog.pipeline.streams.stream import Stream

Format = Literal["json", "bytes", "text", "avro", "protobuf"]
BY_SINK = ("avro", "protobuf")
FORMATS = ("json", "bytes", "text", *BY_SINK)
DELETED = "_deleted"


def encoded(
    stream: Stream,
    format: Format | None,
    key: str | None,
    value: str | None,
    options: Mapping[str, Any] | None = None,
) -> tuple[DataFrame, dict[str, Any]]:
    """The rows to write, and the options that the sink needs for them.

    `key` and `value` are SQL; by default the stream's keys, and JSON of all columns or the `value` column.  `options`: the
    options of the schema (schema, registry, subject, message), if there is one."""
    df, given = stream.df, dict(options or {})
    if format is None:
        format = "bytes" if value is not None or (_is_raw(df) and not given) else "json"
    if format not in FORMATS:
        raise PipelineError(f"the format is one of {', '.join(FORMATS)}, not {format!r}")
    made = _key(stream, key).cast("binary")
    if format in BY_SINK or (format == "json" and given):
        if value is not None:
            raise PipelineError(f"value is for the formats text and bytes: {format} encodes all columns")
        deleted = [DELETED] if DELETED in df.columns else []
        return df.select(made.alias("_key"), *_fields(df), *deleted), {**given, "format": format}
    if given:
        raise PipelineError(f"{', '.join(given)} is for the formats json, avro and protobuf, not {format!r}")
    made = made.alias("key")
    if format == "json":
        fields = _fields(df)
        body: Column = F.to_json(F.struct(*[F.col(name) for name in fields]), {"ignoreNullFields": "false"})
    elif value is not None:
        body = F.expr(value)
    elif "value" in df.columns:
        body = F.col("value")
    else:
        raise PipelineError(f"format {format!r} needs a column 'value', or value='an SQL expression'")
    body = body.cast("string").cast("binary") if format == "text" else body.cast("binary")
    if DELETED in df.columns:
        body = F.when(~F.col(DELETED), body)
    extra: list[Any] = [F.col("headers")] if "headers" in df.columns and format != "json" else []
    return df.select(made, body.alias("value"), *extra), {}


def _fields(df: DataFrame) -> list[str]:
    left_out = {*(f"_{name}" for name in METADATA), DELETED}
    return [name for name in df.columns if name not in left_out]


def _is_raw(df: DataFrame) -> bool:
    """True if the columns are Kafka's, as the source returns them."""
    types = dict(df.dtypes)
    return types.get("key") == "binary" and types.get("value") == "binary"


def _key(stream: Stream, given: str | None) -> Column:
    if given is not None:
        return F.expr(given)
    keys = [name for name in stream.keys if name in stream.df.columns]
    if len(keys) == 1:
        kind = stream.df.schema[keys[0]].dataType
        return F.col(keys[0]) if isinstance(kind, BinaryType) else F.col(keys[0]).cast("string")
    if keys:
        return F.to_json(F.struct(*keys))
    for name in ("key", "_key"):
        if dict(stream.df.dtypes).get(name) == "binary":
            return F.col(name)
    return F.lit(None)
