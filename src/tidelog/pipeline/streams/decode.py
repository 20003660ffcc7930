"""Decodes records to typed columns: Spark itself decodes JSON, the source decodes Avro and Protobuf.

A record that does not fit its schema fails the query, is left out, or becomes a dead letter, as `on_error` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from tidelog.pipeline.options.text import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OnError = Literal["fail", "skip", "dead_letter"]
CORRUPT = "_corrupt"
METADATA = ("key", "topic", "partition", "offset", "timestamp", "headers")


class Decoded(NamedTuple):
    rows: DataFrame
    dead: DataFrame | None  # as `dead_letters` shapes them


def struct_type(schema: str | StructType) -> StructType:
    if isinstance(schema, StructType):
        return schema
    try:
        parsed = StructType.fromDDL(schema)
    except Exception as problem:
        reason = str(problem).split("\n")[0]
        raise PipelineError(
            f"the schema {schema!r} is not like 'id bigint, amount double': {reason}"
        ) from None
    # `double` alone is one column.
    return parsed if isinstance(parsed, StructType) else StructType([StructField("value", parsed)])


def decode_json(
    frame: DataFrame, schema: StructType, on_error: OnError, app: str, *, deletions: bool = False
) -> Decoded:
    """`frame` has Kafka's columns; the result has the schema's fields, and Kafka's columns with `_` before their names.

    `deletions`: adds the column `_deleted`, which is true for a record without a value."""
    reserved = {f"_{name}" for name in METADATA}
    clash = [name for name in schema.names if name in reserved]
    if clash:
        raise PipelineError(f"the schema names {clash[0]!r}, which is a column of every record")
    wide = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    text = F.col("value").cast("string")
    parsed = frame.withColumn("_parsed", F.from_json(text, wide, options))
    bad = F.col(f"_parsed.{CORRUPT}").isNotNull() | ~_is_one_value(text)
    metadata = [F.col(name).alias(f"_{name}") for name in METADATA if name in frame.columns]
    fields = [F.col(f"_parsed.`{name}`").alias(name) for name in schema.names]
    if deletions:
        metadata.append(F.col("value").isNull().alias("_deleted"))
    if on_error == "fail":
        where = F.concat_ws(
            "", F.col("topic"), F.lit("/"), F.col("partition"), F.lit(" at "), F.col("offset")
        )
        message = F.concat(
            F.lit("the record of "),
            where,
            F.lit(" does not fit the schema: "),
            F.substring(text, 1, 200),
            F.lit(" (on_error='skip' leaves such records out, dead_letters=TOPIC keeps them apart)"),
        )
        good = parsed.where(F.when(bad, F.raise_error(message).cast("boolean")).otherwise(F.lit(True)))
    else:
        good = parsed.where(~bad)
    dead = None
    if on_error == "dead_letter":
        came_from = F.to_json(
            F.array(*[F.col(name).cast("string") for name in ("topic", "partition", "offset")])
        )
        reason = F.lit("decode: the value is not JSON of the schema " + schema.simpleString())
        dead = dead_letters(parsed.where(bad), F.col("key"), F.col("value"), reason, came_from, app)
    return Decoded(good.select(*fields, *metadata), dead)


def _is_one_value(text: Column) -> Column:
    """True if the text is exactly one JSON value.  Spark reads only the first JSON value of a text, and takes an empty text
    for null: so the text must also fit into an array.  Spark itself judges numbers that JSON does not have (NaN).  A null
    is not a bad value."""
    is_single = F.json_array_length(F.concat(F.lit("["), text, F.lit(",0]"))) == 2
    return text.isNull() | F.coalesce(is_single, F.lit(False)) | text.rlike("NaN|INF|Infinity")


# The source fails at values that do not fit, leaves them out, or returns them with `_error` and `_value`.
MODES = {"fail": "failfast", "skip": "dropmalformed", "dead_letter": "permissive"}


def mode_of(on_error: OnError, deletions: bool) -> str:
    """The source's mode.  A deletion is a value that is null, which only the permissive mode shows."""
    return "permissive" if deletions else MODES[on_error]


def decoded_by_source(frame: DataFrame, on_error: OnError, app: str, *, deletions: bool = False) -> Decoded:
    """`frame`: read with a `format` and the mode of `mode_of`; `deletions`: as in `decode_json`."""
    if mode_of(on_error, deletions) != "permissive":
        return Decoded(frame, None)
    bad, dead = F.col("_error").isNotNull(), None
    places = [F.col(f"_{name}").cast("string") for name in ("topic", "partition", "offset")]
    if on_error == "dead_letter":
        reason = F.concat(F.lit("decode: "), F.col("_error"))
        came_from = F.to_json(F.array(*places))
        dead = dead_letters(frame.where(bad), F.col("_key"), F.col("_value"), reason, came_from, app)
    if on_error == "fail":
        message = F.concat_ws(" ", F.lit("a record does not fit the schema:"), *places, F.col("_error"))
        rows = frame.where(F.when(bad, F.raise_error(message).cast("boolean")).otherwise(F.lit(True)))
    else:
        rows = frame.where(~bad)
    if deletions:
        rows = rows.withColumn("_deleted", F.col("_value").isNull())
    return Decoded(rows.drop("_error", "_value"), dead)


def dead_letters(rows: DataFrame, key: Any, value: Any, error: Any, came_from: Any, app: str) -> DataFrame:
    """Rows for the dead-letter topic.  `came_from`: a JSON list of topic, partition and offset."""
    places = F.from_json(came_from, "array<string>")
    named = [
        (f"tidelog.dead.letter.{name}", places[at])
        for at, name in enumerate(("topic", "partition", "offset"))
    ]
    named += [("tidelog.dead.letter.pipeline", F.lit(app)), ("tidelog.dead.letter.error", error)]
    headers = F.array(
        *[
            F.struct(F.lit(name).alias("key"), value_column.cast("binary").alias("value"))
            for name, value_column in named
        ]
    )
    return rows.select(
        key.cast("binary").alias("key"), value.cast("binary").alias("value"), headers.alias("headers")
    )
