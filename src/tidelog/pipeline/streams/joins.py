"""Joins: of two streams within a time (Spark's own join), of a stream with a table, and of two tables (on state, by key).

A join with a table keeps the table's latest row for each key in RocksDB.  So a row of the stream is joined with the table as
it was at that row's time, if both arrive in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, StructField, StructType

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.streams import processing
from tidelog.pipeline.streams.durations import spark_interval
from tidelog.pipeline.streams.rows import Row
from tidelog.pipeline.streams.stores import Value
from tidelog.pipeline.streams.windows import TIMES, time_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidelog.pipeline.streams.stream import Stream
    from tidelog.pipeline.streams.table import Table

How = Literal["inner", "left", "right", "outer"]
HOWS = ("inner", "left", "right", "outer")


def _names(on: str | list[str] | None, keys: tuple[str, ...]) -> list[str]:
    names = [on] if isinstance(on, str) else list(on or keys)
    if not names:
        raise PipelineError(
            "a join needs columns that are equal on both sides: join(other, on='id'), or .key_by first"
        )
    return names


def _check_how(how: str) -> None:
    if how not in HOWS:
        raise PipelineError(f"a join is one of {', '.join(HOWS)}, not {how!r}")


def stream_stream(
    left: Stream, right: Stream, on: str | list[str] | None, within: str | None, how: How
) -> Stream:
    _check_how(how)
    names = _names(on, left.keys)
    for side in (left, right):
        side._check_columns(side.df, names)
        side.check_appended("a join")
    if within is None:
        raise PipelineError(
            "a join of two streams needs a time: within='10 minutes'; without it all state would be kept"
        )
    if not (left.watermarked and right.watermarked):
        raise PipelineError(
            "a join of two streams drops old state by event time: give both a .watermark(column, delay)"
        )
    left_time, right_time = time_column(left), time_column(right)
    other, moved = _apart(left.df, right.df, names)
    right_time = moved.get(right_time, right_time)
    equal = [left.df[name] == other[moved[name]] for name in names]
    apart = F.expr(f"INTERVAL {spark_interval(within)}")
    near = (other[right_time] >= left.df[left_time] - apart) & (
        other[right_time] <= left.df[left_time] + apart
    )
    condition = near
    for equality in equal:
        condition = condition & equality
    joined = left.df.join(other, condition, {"outer": "full_outer"}.get(how, how))
    if how in ("right", "outer"):
        joined = joined.withColumns({name: F.coalesce(name, moved[name]) for name in names})
    df = joined.drop(*[moved[name] for name in names])
    keys = tuple(names) if set(names) <= set(df.columns) else ()
    return replace(left, df=df, keys=keys, clocked=left.clocked or right.clocked)


def _apart(left: DataFrame, right: DataFrame, names: list[str]) -> tuple[DataFrame, dict[str, str]]:
    """`right` with `right_` before the names of columns that `left` also has, and without the metadata of its records."""
    metadata = [name for name in right.columns if name.startswith("_") and name not in TIMES]
    right = right.drop(*[name for name in metadata if name not in names])
    moved = {name: f"right_{name}" for name in right.columns if name in left.columns or name in names}
    for old, new in moved.items():
        right = right.withColumnRenamed(old, new)
    return right, moved


def stream_table(
    stream: Stream, table: Table, on: str | list[str] | None, how: How, snapshot: bool
) -> Stream:
    if how not in ("inner", "left"):
        raise PipelineError(
            f"a stream joins a table as inner or left, not {how!r}: the table's rows are not events"
        )
    names = _names(on, stream.keys)
    if len(names) != 1:
        raise PipelineError(
            f"a table has one key column, {table.key!r}: join(table, on='column of the stream')"
        )
    (name,) = names
    stream._check_columns(stream.df, names)
    fields = {name: f"table_{name}" if name in stream.df.columns else name for name in table.fields}
    if not snapshot:
        stream.check_appended("a join with a table")
        table.changes.check_appended("a join with a table")
    if snapshot:
        rows = table.latest().withColumnRenamed(table.key, "_table_key")
        for old, new in fields.items():
            rows = rows.withColumnRenamed(old, new)
        df = stream.df.join(rows, stream.df[name] == rows["_table_key"], how).drop("_table_key")
        return replace(stream, df=df)
    left = stream.df.select(F.col(name).alias("_join"), F.struct("*").alias("_row"))
    right = _table_side(table)
    both = left.unionByName(right, allowMissingColumns=True)
    made = [StructField(new, table.df.schema[old].dataType) for old, new in fields.items()]
    shape = StructType([*stream.df.schema.fields, *made])
    call = Lookup(list(fields.items()), how == "left")
    work = replace(stream, df=both, keys=("_join",), watermarked=False)
    joined = work.process(call, shape, stores={"table": Value(_declared(table))}, time="none")
    keys = stream.keys if set(stream.keys) <= set(shape.names) else ()
    return replace(joined, keys=keys, time=stream.time)


def _table_side(table: Table, name: str = "_table") -> DataFrame:
    fields = F.struct(*[F.col(name) for name in table.fields])
    order = F.col("_offset") if "_offset" in table.df.columns else F.lit(0).cast("bigint")
    change = F.struct(order.alias("order"), F.col("_deleted").alias("deleted"), fields.alias("fields"))
    return table.df.select(F.col(table.key).alias("_join"), change.alias(name))


def _declared(table: Table) -> str:
    return ", ".join(f"`{name}` {table.df.schema[name].dataType.simpleString()}" for name in table.fields)


class Lookup:
    """Rows of the table update the state; rows of the stream are joined with it.

    Within a micro-batch the table's changes come first, so a customer and an order that arrive together are joined."""

    def __init__(self, fields: list[tuple[str, str]], left: bool) -> None:
        self._fields = fields
        self._left = left

    def __call__(
        self, key: Any, rows: Iterator[Row], context: processing.ProcessContext
    ) -> Iterator[dict[str, Any]]:
        events, changes = [], []
        for row in rows:
            if row["_row"] is not None:
                events.append(dict(row["_row"]))
            else:
                changes.append(row["_table"])
        _renew(context.stores.table, changes)
        table_row = context.stores.table.get() if events else None
        for event in events:
            if table_row is not None:
                yield {**event, **{new: table_row[old] for old, new in self._fields}}
            elif self._left:
                yield event


def _renew(store: Any, changes: list[Any]) -> None:
    """Applies the last change.  A key's records are in one partition, so their offsets give the order."""
    if not changes:
        return
    last = max(enumerate(changes), key=lambda numbered: (numbered[1]["order"], numbered[0]))[1]
    if last["deleted"]:
        store.clear()
    else:
        store.set(dict(last["fields"]))


def table_table(left: Table, right: Table, how: How) -> Table:
    from tidelog.pipeline.streams.table import DELETED, Table

    _check_how(how)
    for table in (left, right):
        table.changes.check_appended("a join of tables")
    if left.df.schema[left.key].dataType != right.df.schema[right.key].dataType:
        raise PipelineError(f"the keys {left.key!r} and {right.key!r} have different types")
    both = _table_side(left, "_left").unionByName(_table_side(right, "_right"), allowMissingColumns=True)
    names = {name: f"right_{name}" if name in (*left.fields, left.key) else name for name in right.fields}
    key = StructField(left.key, left.df.schema[left.key].dataType)
    made = [left.df.schema[name] for name in left.fields]
    made += [StructField(new, right.df.schema[old].dataType) for old, new in names.items()]
    shape = StructType([key, *made, StructField(DELETED, BooleanType())])
    call = Meet(left.key, left.fields, list(names.items()), how)
    stores = {"left": Value(_declared(left)), "right": Value(_declared(right)), "shown": Value("boolean")}
    stream = replace(left.changes, df=both, keys=("_join",), watermarked=False)
    joined = stream.process(call, shape, stores=stores, time="none")
    return Table(
        left.pipeline, replace(joined, keys=(left.key,)), left.key, _meeting(left, right, names, how)
    )


def _meeting(left: Table, right: Table, names: dict[str, str], how: How) -> Callable[[], DataFrame] | None:
    if left.read is None or right.read is None:
        return None

    def read() -> DataFrame:
        other = right.latest().withColumnRenamed(right.key, left.key)
        for old, new in names.items():
            other = other.withColumnRenamed(old, new)
        joined = left.latest().join(other, left.key, {"outer": "full_outer"}.get(how, how))
        order = {"_timestamp": F.current_timestamp(), "_partition": F.lit(0), "_offset": F.lit(0)}
        return joined.withColumns({**order, "_deleted": F.lit(False)})

    return read


class Meet:
    """Keeps the rows of both tables for a key, and emits the joined row, or a deletion, when it changes."""

    def __init__(self, key: str, left: list[str], right: list[tuple[str, str]], how: How) -> None:
        self._key = key
        self._left, self._right = left, right
        self._how = how

    def __call__(
        self, key: Any, rows: Iterator[Row], context: processing.ProcessContext
    ) -> Iterator[dict[str, Any]]:
        stores = context.stores
        given = list(rows)
        _renew(stores.left, [row["_left"] for row in given if row["_left"] is not None])
        _renew(stores.right, [row["_right"] for row in given if row["_right"] is not None])
        left, right = stores.left.get(), stores.right.get()
        has_row = {
            "inner": left is not None and right is not None,
            "left": left is not None,
            "right": right is not None,
            "outer": left is not None or right is not None,
        }[self._how]
        if has_row:
            mine = {name: left[name] for name in self._left} if left is not None else {}
            others = {new: right[old] for old, new in self._right} if right is not None else {}
            stores.shown.set(True)
            yield {self._key: key, **mine, **others, "_deleted": False}
        elif stores.shown.get(False):
            stores.shown.clear()
            yield {self._key: key, "_deleted": True}
