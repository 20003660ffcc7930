"""Windows and aggregates over windows.

Fixed and session windows are Spark's own; sliding windows are in `sliding`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.streams import processing
from tidelog.pipeline.streams.durations import duration_ms, spark_interval
from tidelog.pipeline.streams.rows import Row, RowFunction
from tidelog.pipeline.streams.stores import Value

if TYPE_CHECKING:
    from tidelog.pipeline.streams.stream import Stream

Aggregates = Mapping[str, str | Column]
TIMES = ("_timestamp", "timestamp")


def time_column(stream: Stream) -> str:
    if stream.time is not None:
        return stream.time
    for name in TIMES:
        if name in stream.df.columns:
            return name
    raise PipelineError("windows need a time column, and there is none: .watermark(column, delay) names it")


def fixed(stream: Stream, size: str, every: str) -> Column:
    if (duration_ms(every) or 0) > (duration_ms(size) or 0):
        raise PipelineError(
            f"windows of {size!r} every {every!r} would leave rows out: `every` must be at most the size"
        )
    return F.window(F.col(time_column(stream)), spark_interval(size), spark_interval(every))


def session(stream: Stream, gap: str) -> Column:
    if not stream.watermarked:
        raise PipelineError("session windows need a watermark to end: .watermark(column, delay) first")
    return F.session_window(F.col(time_column(stream)), spark_interval(gap))


@dataclass(frozen=True)
class Windowed:
    """A stream in windows; the result has `window_start` and `window_end`."""

    stream: Stream
    window: Column
    final: bool = False  # Spark emits session windows only when they have ended

    def aggregate(self, **aggregates: str | Column) -> Stream:
        made = aggregated(self.stream, self.window, aggregates)
        return replace(made, mode="append") if self.final else made

    def count(self, name: str = "count") -> Stream:
        return self.aggregate(**{name: F.count(F.lit(1))})

    def reduce(self, function: Callable[[Row, Row], Any]) -> Stream:
        """Folds the rows of a window, in the order of their times; state keeps all of them until the window closes."""
        stream = self.stream
        time = time_column(stream)
        # `_at` comes first, so that sorting the rows sorts by time.
        every = F.array_sort(F.collect_list(F.struct(F.col(time).alias("_at"), F.struct("*").alias("row"))))
        grouped = self.aggregate(_rows=every)
        bounds = [field for field in grouped.df.schema.fields if field.name.startswith("window_")]
        shape = StructType([*stream.df.schema.fields, *bounds])
        call = RowFunction(Fold(function), "map", shape, "reduce", False)
        df = grouped.df.mapInArrow(call, shape)
        return replace(grouped, df=df)


class Fold:
    """Folds the rows of `_rows` into one."""

    def __init__(self, function: Callable[[Row, Row], Any]) -> None:
        self._function = function

    def __call__(self, group: Row) -> dict[str, Any]:
        rows = [Row(entry["row"]) for entry in group["_rows"]]
        result = rows[0]
        for row in rows[1:]:
            result = Row(self._function(result, row))
        bounds = {name: value for name, value in group.items() if name.startswith("window_")}
        return {**result, **bounds}


def aggregated(stream: Stream, window: Column | None, aggregates: Aggregates) -> Stream:
    if not aggregates:
        raise PipelineError('aggregate needs names and expressions: aggregate(total="sum(amount)")')
    stream.check_appended("aggregate")
    made = [
        (F.expr(expression) if isinstance(expression, str) else expression).alias(name)
        for name, expression in aggregates.items()
    ]
    by: list[Any] = [F.col(key) for key in stream.keys]
    if window is None:
        df = stream.df.groupBy(*by).agg(*made)
        return replace(stream, df=df, mode="update", closes=False, time=None)
    df = stream.df.groupBy(*by, window.alias("_window")).agg(*made)
    bounds = [F.col("_window.start").alias("window_start"), F.col("_window.end").alias("window_end")]
    df = df.select(*stream.keys, *bounds, *aggregates)
    return replace(stream, df=df, mode="update", closes=stream.watermarked, time="window_end")


def reduced(stream: Stream, function: Callable[[Row, Row], Any]) -> Stream:
    """Keeps the fold of each key in state, and emits a row whenever it changes."""
    if not stream.keys:
        raise PipelineError("reduce needs keys: .key_by(column) first")
    schema = stream.df.schema
    declared = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema.fields)

    def fold(key: Any, rows: Iterator[Row], context: processing.ProcessContext) -> Iterator[Row]:
        kept = context.stores.reduced
        result = kept.get()
        for row in rows:
            result = row if result is None else Row(function(result, row))
        kept.set(result)
        yield result

    return stream.process(fold, schema, stores={"reduced": Value(declared)})
