"""Sliding windows: for every row, an aggregate over the rows with the same key in the time that ends with the row.

Spark does not have them.  So state keeps the rows of a window and emits them as a list, which Spark's list functions
aggregate.  A row that arrives out of order also updates the windows of the later rows that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    FloatType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.streams import processing
from tidelog.pipeline.streams.durations import duration_ms
from tidelog.pipeline.streams.rows import Row
from tidelog.pipeline.streams.stores import List
from tidelog.pipeline.streams.windows import time_column

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

    from tidelog.pipeline.streams.stream import Stream

KNOWN = ("count", "sum", "min", "max", "avg", "collect_list", "collect_set", "first", "last")


@dataclass(frozen=True)
class Sliding:
    stream: Stream
    size: str
    grace: str

    def count(self, name: str = "count") -> Stream:
        return self.aggregate(**{name: "count(*)"})

    def aggregate(self, **aggregates: str) -> Stream:
        """`count`, `sum`, `min`, `max`, `avg`, `first`, `last`, `collect_list` and `collect_set` of any expression."""
        stream = self.stream
        if not stream.keys:
            raise PipelineError("sliding windows need keys: .key_by(column) first")
        if not aggregates:
            raise PipelineError('aggregate needs names and expressions: aggregate(total="sum(amount)")')
        parsed = {name: parse(text) for name, text in aggregates.items()}
        arguments = [
            F.expr(aggregate.argument).alias(f"_a{at}") for at, aggregate in enumerate(parsed.values())
        ]
        narrow = stream.df.select(*stream.keys, F.col(time_column(stream)).alias("_at"), *arguments)
        kept = StructType([narrow.schema["_at"], *(narrow.schema[f"_a{at}"] for at in range(len(parsed)))])
        declared = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in kept.fields)
        keys = [narrow.schema[name] for name in stream.keys]
        times = [StructField(name, TimestampType()) for name in ("window_start", "window_end")]
        shape = StructType([*keys, *times, StructField("_rows", ArrayType(kept))])
        slide = Slide(
            duration_ms(self.size) or 0, duration_ms(self.grace) or 0, kept.names, list(stream.keys)
        )
        wide = replace(stream, df=narrow).process(slide, shape, stores={"rows": List(declared)}, time="none")
        values = [
            F.expr(aggregate.over(f"_a{at}", kept[f"_a{at}"].dataType)).alias(name)
            for at, (name, aggregate) in enumerate(parsed.items())
        ]
        df = wide.df.select(*stream.keys, "window_start", "window_end", *values)
        return replace(wide, df=df, keys=stream.keys, time="window_end")


class Slide:
    """Keeps the rows that a window can still need, and yields the windows that new rows have changed."""

    def __init__(self, size_ms: int, grace_ms: int, fields: list[str], keys: list[str]) -> None:
        self._size, self._grace = timedelta(milliseconds=size_ms), timedelta(milliseconds=grace_ms)
        self._fields = fields
        self._keys = keys

    def __call__(
        self, key: Any, rows: Iterator[Row], context: processing.ProcessContext
    ) -> Iterator[dict[str, Any]]:
        held = [{**row, "_at": _utc(row["_at"])} for row in context.stores.rows]
        newest = max((row["_at"] for row in held), default=datetime.min.replace(tzinfo=UTC) + self._grace)
        changed = set()
        for row in sorted(rows, key=lambda row: _utc(row["_at"])):
            at = _utc(row["_at"])
            if at < newest - self._grace:
                continue
            newest = max(newest, at)
            held.append({name: row[name] for name in self._fields} | {"_at": at})
            changed |= {at, *(later["_at"] for later in held if at < later["_at"] <= at + self._size)}
        held.sort(key=lambda row: row["_at"])
        for end in sorted(changed):
            begin = end - self._size
            window = [row for row in held if begin <= row["_at"] <= end]
            named = dict(zip(self._keys, key if isinstance(key, tuple) else (key,), strict=True))
            yield {**named, "window_start": begin, "window_end": end, "_rows": window}
        context.stores.rows.set(row for row in held if row["_at"] >= newest - self._grace - self._size)


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


@dataclass(frozen=True)
class WindowAggregate:
    function: str
    argument: str
    distinct: bool

    def over(self, field: str, kind: DataType) -> str:
        """SQL for this aggregate over `field` of the structs in `_rows`."""
        every = f"filter(transform(_rows, row -> row.{field}), value -> value IS NOT NULL)"
        if self.distinct or self.function == "collect_set":
            every = f"array_distinct({every})"
        total = f"aggregate({every}, CAST(0 AS {_wide(kind)}), (sum, value) -> CAST(sum + value AS {_wide(kind)}))"
        return {
            "count": f"CAST(size({every}) AS BIGINT)",
            "sum": f"CASE WHEN size({every}) > 0 THEN {total} END",
            "avg": f"try_divide({total}, CAST(size({every}) AS DOUBLE))",
            "min": f"array_min({every})",
            "max": f"array_max({every})",
            "first": f"try_element_at({every}, 1)",
            "last": f"try_element_at({every}, -1)",
            "collect_list": every,
            "collect_set": every,
        }[self.function]


def parse(text: str) -> WindowAggregate:
    """One aggregate of an expression: `sum(price * count)`, `count(*)`, `count(DISTINCT user)`."""
    import sqlglot
    from sqlglot import exp

    try:
        call = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.ParseError as problem:
        raise PipelineError(f"{text!r} is not SQL: {str(problem).splitlines()[0]}") from None
    name = call.sql_name().lower() if isinstance(call, exp.Func) else ""
    name = {"array_agg": "collect_list", "array_unique_agg": "collect_set"}.get(name, name)
    if name not in KNOWN:
        raise PipelineError(
            f"{text!r} is not an aggregate for sliding windows: the aggregates are {', '.join(KNOWN)}"
        )
    inner = call.this
    distinct = isinstance(inner, exp.Distinct)
    if distinct:
        inner = inner.expressions[0]
    argument = "1" if inner is None or isinstance(inner, exp.Star) else inner.sql(dialect="spark")
    return WindowAggregate(name, argument, distinct)


def _wide(kind: DataType) -> str:
    if isinstance(kind, FloatType | DoubleType):
        return "DOUBLE"
    return f"DECIMAL(38, {kind.scale})" if isinstance(kind, DecimalType) else "BIGINT"
