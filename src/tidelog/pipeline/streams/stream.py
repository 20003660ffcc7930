"""A stream: a DataFrame with its key columns, its time column and its output mode.

Every method returns a new stream; nothing runs until the pipeline starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.streams import joins, processing, sliding, windows
from tidelog.pipeline.streams.decode import dead_letters, struct_type
from tidelog.pipeline.streams.durations import spark_interval
from tidelog.pipeline.streams.rows import FAILED, Kind, Row, RowFunction
from tidelog.pipeline.streams.stores import Declared, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidelog.pipeline.streams.pipeline import Pipeline
    from tidelog.pipeline.streams.table import Table

Expression = str | Column


@dataclass(frozen=True)
class Stream:
    pipeline: Pipeline
    df: DataFrame
    keys: tuple[str, ...] = ()
    time: str | None = None  # the column with the time that windows use
    watermarked: bool = False
    mode: str = "append"  # or "update": rows are newer versions of earlier ones
    closes: bool = False  # the stream has windows that a watermark will close
    clocked: bool = False  # the stream has state that uses the machine's clock

    # Rows

    def map(self, function: Callable[[Row], Any], schema: str | StructType | None = None) -> Stream:
        """Calls `function(row)`; the dict, tuple or dataclass it returns is the new row; None drops the row."""
        return self._python(function, "map", schema)

    def flat_map(
        self, function: Callable[[Row], Iterable[Any] | None], schema: str | StructType | None = None
    ) -> Stream:
        """Calls `function(row)`; every item that it returns or yields is a new row."""
        return self._python(function, "flat_map", schema)

    def filter(self, condition: Expression | Callable[[Row], Any]) -> Stream:
        """Keeps rows for which an SQL text, a Column or a function is true; SQL texts and Columns run faster."""
        if isinstance(condition, str | Column):
            return replace(self, df=self.df.where(condition))
        return self._python(condition, "filter", None)

    where = filter

    def select(self, *columns: Expression, **named: Expression) -> Stream:
        """Selects SQL texts or Columns, and new columns by name: `select("id", total="price * count")`."""
        made = [
            *map(_column, columns),
            *(_column(expression).alias(name) for name, expression in named.items()),
        ]
        chosen = self.df.select(*made)
        kept = tuple(key for key in self.keys if key in chosen.columns)
        time = self.time if self.time in chosen.columns else None
        return replace(self, df=chosen, keys=kept if len(kept) == len(self.keys) else (), time=time)

    def with_columns(self, **named: Expression) -> Stream:
        return replace(
            self, df=self.df.withColumns({name: _column(expression) for name, expression in named.items()})
        )

    def drop(self, *columns: str) -> Stream:
        keys = () if set(columns) & set(self.keys) else self.keys
        return replace(self, df=self.df.drop(*columns), keys=keys)

    def transform(self, function: Callable[[DataFrame], DataFrame]) -> Stream:
        """Applies any function to the DataFrame."""
        return replace(self, df=function(self.df))

    def branch(self, *conditions: Expression) -> list[Stream]:
        """One stream for each condition, and one for the remaining rows; a row goes to the first condition that is true."""
        taken: Column = F.lit(False)
        branches = []
        for condition in conditions:
            mine = F.coalesce(_column(condition), F.lit(False))
            branches.append(replace(self, df=self.df.where(mine & ~taken)))
            taken = taken | mine
        return [*branches, replace(self, df=self.df.where(~taken))]

    def merge(self, *others: Stream) -> Stream:
        """The rows of all streams, with columns matched by name; a column that a stream does not have is null."""
        df = self.df
        for other in others:
            df = df.unionByName(other.df, allowMissingColumns=True)
        watermarked = self.watermarked and all(other.watermarked for other in others)
        clocked = self.clocked or any(other.clocked for other in others)
        return replace(self, df=df, watermarked=watermarked, clocked=clocked)

    def _python(self, function: Callable[[Row], Any], kind: Kind, schema: str | StructType | None) -> Stream:
        shape = self.df.schema if schema is None else struct_type(schema)
        caught = self.pipeline.dead_letters is not None
        step = f"{kind} {getattr(function, '__name__', 'function')}"
        call = RowFunction(function, kind, shape, step, caught)
        df = self.df.mapInArrow(call, call.output)
        if caught:
            failed = df.where("_error IS NOT NULL")
            key, value, error, place = (
                F.col(name) for name in ("_failed_key", "_failed_value", "_error", "_failed_from")
            )
            self.pipeline.add_dead(dead_letters(failed, key, value, error, place, self.pipeline.name))
            df = df.where("_error IS NULL").drop(*FAILED.names)
        keys = self.keys if set(self.keys) <= set(df.columns) else ()
        # A function's rows are new rows: they have no watermark in Spark.
        return replace(
            self, df=df, keys=keys, time=self.time if self.time in df.columns else None, watermarked=False
        )

    # Keys, time, windows

    def key_by(self, *columns: str, **named: Expression) -> Stream:
        """Sets the key columns, which aggregates, joins, `process` and the keys of written records use."""
        df = (
            self.df.withColumns({name: _column(expression) for name, expression in named.items()})
            if named
            else self.df
        )
        keys = (*columns, *named)
        self._check_columns(df, keys)
        return replace(self, df=df, keys=keys)

    def watermark(self, column: str, delay: str) -> Stream:
        """Sets the time column and its watermark: rows more than `delay` behind the newest row are late and left out."""
        self._check_columns(self.df, (column,))
        return replace(
            self, df=self.df.withWatermark(column, spark_interval(delay)), time=column, watermarked=True
        )

    def tumbling(self, size: str) -> windows.Windowed:
        """Consecutive windows of `size`."""
        return windows.Windowed(self, windows.fixed(self, size, size))

    def hopping(self, size: str, every: str) -> windows.Windowed:
        """Windows of `size` that begin at intervals of `every`, and so overlap."""
        return windows.Windowed(self, windows.fixed(self, size, every))

    def session(self, gap: str) -> windows.Windowed:
        """Windows that end when a key has no rows for `gap`; a window is emitted once the watermark has passed its end."""
        return windows.Windowed(self, windows.session(self, gap), final=True)

    def sliding(self, size: str, *, grace: str | None = None) -> sliding.Sliding:
        """For every row, a window of the rows with the same key in the time `size` before it.  Rows more than `grace`
        (default: `size`) behind the newest row of their key are late and left out."""
        return sliding.Sliding(self, size, grace or size)

    # State

    def aggregate(self, **aggregates: Expression) -> Stream:
        """Aggregates all rows of each key so far: `aggregate(total="sum(amount)", best="max(score)")`."""
        return windows.aggregated(self, None, aggregates)

    def count(self, name: str = "count") -> Stream:
        return windows.aggregated(self, None, {name: F.count(F.lit(1))})

    def reduce(self, function: Callable[[Row, Row], Any]) -> Stream:
        """Folds the rows of a key into one row: `function(result, row)`."""
        return windows.reduced(self, function)

    def deduplicate(self, *columns: str, within: str | None = None) -> Stream:
        """Leaves out rows whose `columns` (default: the keys) an earlier row had.

        With `within`, a time that the watermark covers, old state is dropped; without it, all state is kept."""
        names = list(columns or self.keys) or None
        if within is None:
            return replace(self, df=self.df.dropDuplicates(names))
        stream = self
        if not self.watermarked:
            stream = self.watermark(windows.time_column(self), within)
        return replace(stream, df=stream.df.dropDuplicatesWithinWatermark(names))

    def process(
        self,
        function: processing.Function,
        schema: str | StructType,
        *,
        stores: Mapping[str, Declared | str] | None = None,
        on_timer: processing.OnTimer | None = None,
        time: processing.Time | None = None,
    ) -> Stream:
        """`function(key, rows, context)` yields rows; see `tidelog.pipeline.streams.processing`.

        `stores` are kept for each key in RocksDB: `{"total": "double", "last": List("at timestamp", ttl="1 hour")}`.
        """
        if not self.keys:
            raise PipelineError("process needs keys: .key_by(column) first")
        self.check_appended("process")
        declared = {
            name: Value(store) if isinstance(store, str) else store for name, store in (stores or {}).items()
        }
        mode = processing.time_mode(declared, on_timer is not None, self.watermarked, time)
        shape = struct_type(schema)
        call = processing.KeyedProcessor(function, on_timer, declared, shape, len(self.keys) == 1)
        df = processing.processed(self.df, list(self.keys), call, shape, mode)
        keys = self.keys if set(self.keys) <= set(shape.names) else ()
        return Stream(self.pipeline, df, keys, clocked=self.clocked or mode == "processing")

    def suppress(self) -> Stream:
        """Emits one row per window, when the watermark has closed it, instead of one row per change."""
        if not self.closes:
            raise PipelineError(
                "suppress waits for windows to close: it comes after aggregate, count or reduce of a window, "
                "on a stream with .watermark(column, delay)"
            )
        return replace(self, mode="append")

    # Joins

    def join(
        self,
        other: Stream | Table,
        on: str | list[str] | None = None,
        *,
        within: str | None = None,
        how: joins.How = "inner",
        snapshot: bool = False,
    ) -> Stream:
        """Joins a stream: rows with equal `on` columns, at most `within` apart.  Joins a table: the table's row at the time
        of the stream's row.

        `snapshot`: the table is read whole in every micro-batch, which is fast for small tables."""
        from tidelog.pipeline.streams.table import Table

        if isinstance(other, Table):
            if within is not None:
                raise PipelineError(
                    "within is for joins of two streams: a table has one row per key at a time"
                )
            return joins.stream_table(self, other, on, how, snapshot)
        if snapshot:
            raise PipelineError("snapshot is for joins with a table")
        return joins.stream_stream(self, other, on, within, how)

    # Out

    def to(self, topic: str, **options: Any) -> Stream:
        """Writes to `topic`; see `Pipeline.write`.  Returns this stream, so that it can be used further."""
        self.pipeline.write(self, topic, **options)
        return self

    def to_table(self, path: str, *, format: str = "parquet", **options: Any) -> Stream:
        """Appends to files under `path`, in any format Spark writes."""
        self.pipeline.write_table(self, path, format=format, **options)
        return self

    def as_table(self, key: str | None = None) -> Table:
        """The latest row of each key, as a table that changes; a column `_deleted` marks deletions."""
        from tidelog.pipeline.streams.table import Table

        stream = self.key_by(key) if key is not None else self
        if not stream.keys:
            raise PipelineError("a table needs a key: .key_by(column) first")
        return Table.of_stream(stream)

    def for_each_batch(
        self, function: Callable[[DataFrame, int], None], *, name: str | None = None
    ) -> Stream:
        """Calls `function(rows, number)` for every micro-batch, on the driver."""
        self.pipeline.write_batches(self, function, name=name)
        return self

    def check_appended(self, step: str) -> None:
        """Raises an error if rows may change later: Spark keeps state only over rows that do not change."""
        if self.mode != "append":
            raise PipelineError(
                f"{step} needs rows that do not change any more, and aggregates change: .suppress() the windows, or "
                "write them to a topic and read that topic"
            )

    @staticmethod
    def _check_columns(df: DataFrame, names: Iterable[str]) -> None:
        for name in names:
            if name.split(".")[0] not in df.columns:
                raise PipelineError(f"there is no column {name!r}: there are {', '.join(df.columns)}")


def _column(expression: Expression) -> Column:
    return F.expr(expression) if isinstance(expression, str) else expression
