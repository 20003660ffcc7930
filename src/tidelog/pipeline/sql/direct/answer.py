"""Answers simple queries in this process: plans, reads and evaluates; `NotDirect` leaves a query to Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidelog.pipeline.source.offset_ranges import OffsetRange
from tidelog.pipeline.sql.catalog import Relation
from tidelog.pipeline.sql.direct.evaluation import Aggregation, Row, in_order, matching, rows_of
from tidelog.pipeline.sql.direct.plan import DirectPlan, NotDirect, direct_plan
from tidelog.pipeline.sql.direct.relation_records import TAIL_RECORDS, RelationRecords, newest_rows
from tidelog.pipeline.sql.statements import SqlQuery

if TYPE_CHECKING:
    import pyarrow

    from tidelog.pipeline.streams.pipeline import Pipeline

ROWS_KEPT_MAX = 50_000


@dataclass(frozen=True)
class DirectAnswer:
    columns: list[str]
    rows: Iterator[Row]


def only_table(query: SqlQuery) -> exp.Table:
    """The one table that a simple query reads by name."""
    source = query.tree.args.get("from_") if isinstance(query.tree, exp.Select) else None
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier | exp.Dot):
        raise NotDirect("the query does not read one table")
    if any(value for name, value in table.args.items() if name not in ("this", "db", "catalog", "alias")):
        raise NotDirect("a clause behind the table needs Spark")
    alias = table.args.get("alias")
    if alias is not None and alias.columns:
        raise NotDirect("renamed columns need Spark")
    return table


def answered(
    pipeline: Pipeline, relation: Relation, query: SqlQuery, cancelled: Callable[[], bool]
) -> DirectAnswer:
    """Raises NotDirect before the first row, never behind it."""
    records = RelationRecords(pipeline, relation)
    plan = direct_plan(query.tree, records.types, [name for name, _ in records.columns])
    reading = _Reading(records, plan, cancelled)
    return DirectAnswer([output.name for output in plan.outputs], reading.rows())


class _Reading:
    def __init__(self, records: RelationRecords, plan: DirectPlan, cancelled: Callable[[], bool]) -> None:
        self._records, self._plan, self._cancelled = records, plan, cancelled
        self._table = records.relation.kind == "table"

    def rows(self) -> Iterator[Row]:
        plan = self._plan
        if plan.limit == 0:
            return iter(())
        ranges = self._records.ranges(plan)
        if plan.is_tail and not self._table:
            return iter(self._tail(ranges))
        streams = (
            self._records.relation.format in ("text", "bytes") and not plan.reads_all and not self._table
        )
        scans = plan.condition is not None or not streams
        if (
            scans
            and not self._is_short(plan)
            and sum(each.size for each in ranges) > self._records.records_max
        ):
            raise NotDirect("Spark reads so many records faster")
        if plan.aggregated:
            aggregation = Aggregation(plan.outputs, plan.groups, self._records.types)
            for batch in self._matching(ranges):
                aggregation.add(batch)
            return iter(aggregation.rows()[: plan.limit])
        if plan.order:
            return iter(self._sorted(ranges))
        rows = self._first(ranges)
        if streams:
            return rows
        kept = []
        for row in rows:
            kept.append(row)
            if len(kept) > ROWS_KEPT_MAX:
                raise NotDirect("so many rows are handed out by Spark")
        return iter(kept)

    def _is_short(self, plan: DirectPlan) -> bool:
        """True if the first records are enough."""
        return plan.limit is not None and plan.condition is None and not plan.reads_all and not self._table

    def _matching(self, ranges: list[OffsetRange]) -> Iterator[pyarrow.RecordBatch]:
        batches: Iterator[pyarrow.RecordBatch] = (
            batch for wanted in ranges for batch in self._records.batches(wanted)
        )
        if self._table:
            batches = newest_rows(batches, keyless=self._records.relation.format in ("text", "bytes"))
        for batch in batches:
            if self._cancelled():
                return
            yield matching(batch, self._plan.condition)

    def _first(self, ranges: list[OffsetRange]) -> Iterator[Row]:
        left = self._plan.limit
        for batch in self._matching(ranges):
            rows = self._outputs(batch if left is None else batch.slice(0, left))
            yield from rows
            if left is not None:
                left -= len(rows)
                if left == 0:
                    return

    def _outputs(self, batch: pyarrow.RecordBatch) -> list[Row]:
        return rows_of(batch, [str(output.column) for output in self._plan.outputs], self._records.types)

    def _sorted(self, ranges: list[OffsetRange]) -> list[Row]:
        """Rows in order: the columns of the order stand behind those of the result until the end."""
        plan, types = self._plan, self._records.types
        width = len(plan.outputs)
        names = [str(output.column) for output in plan.outputs] + [column for column, _ in plan.order]
        keys = [(width + at, descending) for at, (_, descending) in enumerate(plan.order)]
        rows: list[Row] = []
        for batch in self._matching(ranges):
            rows += rows_of(batch, names, types)
            if len(rows) > ROWS_KEPT_MAX:
                if plan.limit is None:
                    raise NotDirect("so many rows are sorted by Spark")
                rows = in_order(rows, keys)[: plan.limit]
        return [row[:width] for row in in_order(rows, keys)[: plan.limit]]

    def _tail(self, ranges: list[OffsetRange]) -> list[Row]:
        """The rows with the highest offsets: reads the ends of the partitions, and goes back until there are enough."""
        limit = self._plan.limit
        assert limit is not None
        rows: list[tuple[int, Row]] = []
        for whole in ranges:
            rows += self._tail_of(whole, limit)
        rows.sort(key=lambda placed: placed[0], reverse=True)
        return [row for _, row in rows[:limit]]

    def _tail_of(self, whole: OffsetRange, limit: int) -> list[tuple[int, Row]]:
        placed: list[tuple[int, Row]] = []
        end, size, read = whole.end, max(TAIL_RECORDS, limit), 0
        while end > whole.start and len(placed) < limit and not self._cancelled():
            window = OffsetRange(whole.partition, max(whole.start, end - size), end, whole.topic_id)
            read += window.size
            if read > self._records.records_max:
                raise NotDirect("Spark reads so many records faster")
            for batch in self._matching([window]):
                placed += zip(batch.column("_offset").to_pylist(), self._outputs(batch), strict=True)
            end, size = window.start, size * 2
        return placed
