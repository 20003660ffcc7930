"""Joins: two streams within a time (Spark's own), a stream with a table, and two tables (on state, by key).

A join with a table keeps the table's latest row for each key in RocksDB, so a row of the stream meets the table as it
was at that row's time, as far as both arrive in order."""

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
        raise PipelineError(f"a join is {', '.join(HOWS)}, not {how!r}")


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
            "a join of two streams needs a time: within='10 minutes'; without it nothing is forgotten"
        )
    if not (left.watermarked and right.watermarked):
        raise PipelineError(
            "a join of two streams forgets by event time: give both a .watermark(column, delay)"
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
    for one in equal:
        condition = condition & one
    joined = left.df.join(other, condition, {"outer": "full_outer"}.get(how, how))
    if how in ("right", "outer"):
        joined = joined.withColumns({name: F.coalesce(name, moved[name]) for name in names})
    df = joined.drop(*[moved[name] for name in names])
    keys = tuple(names) if set(names) <= set(df.columns) else ()
    return replace(left, df=df, keys=keys, clocked=left.clocked or right.clocked)


def _apart(left: DataFrame, right: DataFrame, names: list[str]) -> tuple[DataFrame, dict[str, str]]:
    """`right` with `right_` before what `left` has too; the metadata of its records goes."""
    metadata = [one for one in right.columns if one.startswith("_") and one not in TIMES]
    right = right.drop(*[one for one in metadata if one not in names])
    moved = {name: f"right_{name}" for name in right.columns if name in left.columns or name in names}
    for old, new in moved.items():
        right = right.withColumnRenamed(old, new)
    return right, moved


def stream_table(
    stream: Stream, table: Table, on: str | list[str] | None, how: How, snapshot: bool
) -> Stream:
    if how not in ("inner", "left"):
        raise PipelineError(
            f"a stream joins a table as inner or left, not {how!r}: the table's rows are no events"
        )
    names = _names(on, stream.keys)
    if len(names) != 1:
        raise PipelineError(
            f"a table goes by one column, {table.key!r}: join(table, on='column of the stream')"
        )
    (name,) = names
    stream._check_columns(stream.df, names)
    fields = {one: f"table_{one}" if one in stream.df.columns else one for one in table.fields}
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
    fields = F.struct(*[F.col(one) for one in table.fields])
    order = F.col("_offset") if "_offset" in table.df.columns else F.lit(0).cast("bigint")
    change = F.struct(order.alias("order"), F.col("_deleted").alias("deleted"), fields.alias("fields"))
    return table.df.select(F.col(table.key).alias("_join"), change.alias(name))


def _declared(table: Table) -> str:
    return ", ".join(f"`{one}` {table.df.schema[one].dataType.simpleString()}" for one in table.fields)


class Lookup:
    """Rows of the table renew the state, rows of the stream meet it.

    In one micro-batch the table's changes come first: a customer and an order that arrive together meet."""

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
        known = context.stores.table.get() if events else None
        for event in events:
            if known is not None:
                yield {**event, **{new: known[old] for old, new in self._fields}}
            elif self._left:
                yield event


def _renew(store: Any, changes: list[Any]) -> None:
    """The last change counts.  A key's records are in one partition, so offsets tell their order."""
    if not changes:
        return
    last = max(enumerate(changes), key=lambda one: (one[1]["order"], one[0]))[1]
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
    names = {one: f"right_{one}" if one in (*left.fields, left.key) else one for one in right.fields}
    key = StructField(left.key, left.df.schema[left.key].dataType)
    made = [left.df.schema[one] for one in left.fields]
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
    """The state of both tables for a key; a row, or a deletion, when what they make together changes."""

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
        there = {
            "inner": left is not None and right is not None,
            "left": left is not None,
            "right": right is not None,
            "outer": left is not None or right is not None,
        }[self._how]
        if there:
            mine = {name: left[name] for name in self._left} if left is not None else {}
            others = {new: right[old] for old, new in self._right} if right is not None else {}
            stores.shown.set(True)
            yield {self._key: key, **mine, **others, "_deleted": False}
        elif stores.shown.get(False):
            stores.shown.clear()
            yield {self._key: key, "_deleted": True}
