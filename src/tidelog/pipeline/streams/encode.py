"""Rows as records: a key and a value in the columns that the sink wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType

from tidelog.pipeline.option_text import PipelineError
from tidelog.pipeline.streams.decode import METADATA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from tidelog.pipeline.streams.stream import Stream

Format = Literal["json", "bytes", "text"]
DELETED = "_deleted"


def encoded(stream: Stream, format: Format | None, key: str | None, value: str | None) -> DataFrame:
    """`key` and `value` are SQL; by default the stream's keys, and JSON of all columns or the `value` column."""
    df = stream.df
    if format is None:
        format = "bytes" if value is not None or _is_raw(df) else "json"
    made = _key(stream, key).cast("binary").alias("key")
    if format == "json":
        fields = [
            one for one in df.columns if one not in {f"_{name}" for name in METADATA} and one != DELETED
        ]
        body: Column = F.to_json(F.struct(*[F.col(one) for one in fields]), {"ignoreNullFields": "false"})
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
    return df.select(made, body.alias("value"), *extra)


def _is_raw(df: DataFrame) -> bool:
    """Kafka's columns, as the source gives them."""
    types = dict(df.dtypes)
    return types.get("key") == "binary" and types.get("value") == "binary"


def _key(stream: Stream, given: str | None) -> Column:
    if given is not None:
        return F.expr(given)
    keys = [one for one in stream.keys if one in stream.df.columns]
    if len(keys) == 1:
        kind = stream.df.schema[keys[0]].dataType
        return F.col(keys[0]) if isinstance(kind, BinaryType) else F.col(keys[0]).cast("string")
    if keys:
        return F.to_json(F.struct(*keys))
    for name in ("key", "_key"):
        if dict(stream.df.dtypes).get(name) == "binary":
            return F.col(name)
    return F.lit(None)
