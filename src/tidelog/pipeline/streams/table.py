"""A compacted topic as a changing table: the latest row of each key; a record without a value deletes the row.

`changes` is the stream of the table's changes: the key, the fields, and `_deleted`.  `latest()` is the current table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window

from tidelog.pipeline.options.text import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

    from tidelog.pipeline.streams import joins
    from tidelog.pipeline.streams.pipeline import Pipeline
    from tidelog.pipeline.streams.stream import Stream

DELETED = "_deleted"


def newest(rows: DataFrame, key: str) -> DataFrame:
    """The latest record of each key, deletions included: the last one in its partition, whatever its timestamp, as in
    compaction.  A key is in several partitions only if partitions were added: then the newest of these records counts."""
    last = Window.partitionBy(key, "_partition").orderBy(F.col("_offset").desc())
    latest = Window.partitionBy(key).orderBy(F.col("_timestamp").desc(), F.col("_partition").desc())
    for order in (last, latest):
        rows = rows.withColumn("_rank", F.row_number().over(order)).where("_rank = 1").drop("_rank")
    return rows


@dataclass(frozen=True)
class Table:
    pipeline: Pipeline
    changes: Stream
    key: str
    read: Callable[[], DataFrame] | None  # the same records, as a batch

    @property
    def df(self) -> DataFrame:
        return self.changes.df

    @property
    def fields(self) -> list[str]:
        """The columns except the key and those whose names begin with `_`."""
        return [name for name in self.df.columns if name != self.key and not name.startswith("_")]

    @classmethod
    def of_stream(cls, stream: Stream) -> Table:
        """The table of the latest row of each key of any stream."""
        if len(stream.keys) != 1:
            raise PipelineError("a table has one key column: .key_by(column)")
        df = stream.df
        if DELETED not in df.columns:
            df = df.withColumn(DELETED, F.lit(False))
        return cls(stream.pipeline, replace(stream, df=df), stream.keys[0], None)

    def latest(self) -> DataFrame:
        """The current table as a batch; it is read again whenever it is used."""
        if self.read is None:
            raise PipelineError(
                "only a table of a topic can be read as a batch: write this table to a topic first"
            )
        rows = newest(self.read(), self.key)
        return rows.where(~F.col(DELETED)).select(self.key, *self.fields)

    def filter(self, condition: str | Column) -> Table:
        """Rows for which the condition does not hold are deleted."""
        held = F.coalesce(F.expr(condition) if isinstance(condition, str) else condition, F.lit(False))
        return self._changed(lambda df: df.withColumn(DELETED, F.col(DELETED) | ~held))

    def select(self, *columns: str, **named: str) -> Table:
        def chosen(df: DataFrame) -> DataFrame:
            made = [F.expr(expression) for expression in columns] + [
                F.expr(expression).alias(name) for name, expression in named.items()
            ]
            kept = [F.col(column) for column in df.columns if column == self.key or column.startswith("_")]
            return df.select(*kept, *made)

        return self._changed(chosen)

    def _changed(self, change: Callable[[DataFrame], DataFrame]) -> Table:
        read = self.read
        return replace(
            self,
            changes=replace(self.changes, df=change(self.changes.df)),
            read=None if read is None else lambda: change(read()),
        )

    def join(self, other: Table, how: joins.How = "inner") -> Table:
        """The rows of both with the same key, as a table that changes when either does."""
        from tidelog.pipeline.streams import joins

        return joins.table_table(self, other, how)

    def to_stream(self) -> Stream:
        """The changes without deletions, as a stream."""
        return replace(self.changes, df=self.df.where(~F.col(DELETED)).drop(DELETED), keys=(self.key,))

    def to(self, topic: str, **options: Any) -> Table:
        """Writes the changes; deletions are records without a value (tombstones)."""
        self.pipeline.write(replace(self.changes, keys=(self.key,)), topic, **options)
        return self
