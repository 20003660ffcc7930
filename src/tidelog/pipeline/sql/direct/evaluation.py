"""Evaluates conditions and rows of a direct plan on Arrow record batches, with SQL's nulls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidelog.pipeline.sql.direct.plan import (
    INT64_MAX,
    AnyOf,
    Comparison,
    Condition,
    Constant,
    IsNull,
    Like,
    NotDirect,
    OutputColumn,
)

if TYPE_CHECKING:
    import pyarrow

Row = tuple[Any, ...]
GROUPS_MAX = 100_000
FUNCTIONS = {
    "=": "equal",
    "!=": "not_equal",
    ">": "greater",
    ">=": "greater_equal",
    "<": "less",
    "<=": "less_equal",
}


def matching(batch: pyarrow.RecordBatch, condition: Condition | None) -> pyarrow.RecordBatch:
    """The rows for which the condition holds."""
    return batch if condition is None else batch.filter(_mask(batch, condition))


def _mask(batch: pyarrow.RecordBatch, condition: Condition) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(condition, Comparison):
        column = batch.column(condition.column)
        return pc.call_function(FUNCTIONS[condition.operator], [column, _scalar(column, condition.constant)])
    if isinstance(condition, AnyOf):
        column = batch.column(condition.column)
        values = pa.array([_scalar(column, constant) for constant in condition.constants])
        return pc.if_else(
            pc.is_valid(column), pc.is_in(column, value_set=values), pa.scalar(None, pa.bool_())
        )
    if isinstance(condition, IsNull):
        return pc.is_null(batch.column(condition.column))
    if isinstance(condition, Like):
        return _like(batch.column(condition.column), condition)
    masks = [_mask(batch, part) for part in condition.parts]
    if condition.operator == "not":
        return pc.invert(masks[0])
    return (pc.and_kleene if condition.operator == "and" else pc.or_kleene)(*masks)


def _like(column: Any, condition: Like) -> Any:
    import pyarrow.compute as pc

    constant = _scalar(column, condition.constant)
    if condition.begins and condition.ends:
        return pc.equal(column, constant)
    if condition.begins:
        return pc.starts_with(column, constant.as_py())
    if condition.ends:
        return pc.ends_with(column, constant.as_py())
    return pc.match_substring(column, constant.as_py())


def _scalar(column: Any, constant: Constant) -> Any:
    import pyarrow as pa

    if isinstance(constant, str) and pa.types.is_binary(column.type):
        return pa.scalar(constant.encode(), pa.binary())
    if pa.types.is_integer(column.type):
        return pa.scalar(constant, pa.int64())
    return pa.scalar(constant, column.type)


def python_values(column: Any, kind: str) -> list[Any]:
    """The values as PySpark returns them: times without a zone, in that of this process."""
    import pyarrow as pa

    if kind == "text":
        return [None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()]
    if kind == "timestamp":
        numbers = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
        return [None if number is None else _local(number) for number in numbers]
    values: list[Any] = column.to_pylist()
    return values


def _local(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us // 1_000_000).replace(microsecond=time_us % 1_000_000)


def rows_of(batch: pyarrow.RecordBatch, names: Sequence[str], types: Mapping[str, str]) -> list[Row]:
    if not names:
        return [()] * batch.num_rows
    return list(zip(*[python_values(batch.column(name), types[name]) for name in names], strict=True))


def in_order(rows: list[Row], keys: Sequence[tuple[int, bool]]) -> list[Row]:
    """Sorted by cells; nulls come first in ascending order, last in descending order.  Texts go by their UTF-8 bytes."""
    for at, descending in reversed(keys):
        rows = sorted(rows, key=lambda row: (row[at] is not None, _sortable(row[at])), reverse=descending)
    return rows


def _sortable(cell: Any) -> Any:
    if cell is None:
        return 0
    return cell.encode("utf-8", "surrogatepass") if isinstance(cell, str) else cell


class Aggregation:
    """Counts, sums and extremes of groups.  Batches are added, then `rows` are the result."""

    def __init__(
        self, outputs: Sequence[OutputColumn], groups: Sequence[str], types: Mapping[str, str]
    ) -> None:
        self._outputs, self._groups, self._types = outputs, groups, types
        self._aggregates = [output for output in outputs if output.aggregate is not None]
        self._states: dict[Row, list[int | None]] = {}

    def add(self, batch: pyarrow.RecordBatch) -> None:
        import pyarrow as pa

        if not batch.num_rows:
            return
        columns: dict[str, Any] = {name: batch.column(name) for name in self._groups}
        wanted = []
        for at, output in enumerate(self._aggregates):
            name = f" {at}"
            if output.column is None:
                columns[name] = pa.array([True] * batch.num_rows)
            else:
                column = batch.column(output.column)
                is_time = self._types[output.column] == "timestamp"
                columns[name] = (
                    column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()) if is_time else column
                )
            wanted.append((name, str(output.aggregate)))
        grouped = pa.table(columns).group_by(list(self._groups)).aggregate(wanted)
        keys = list(zip(*[grouped.column(name).to_pylist() for name in self._groups], strict=True))
        values = [grouped.column(f"{name}_{aggregate}").to_pylist() for name, aggregate in wanted]
        for key, *results in zip(keys or [()], *values, strict=True):
            self._combine(key, results)

    def _combine(self, key: Row, results: Iterable[int | None]) -> None:
        state = self._states.setdefault(key, [None] * len(self._aggregates))
        if len(self._states) > GROUPS_MAX:
            raise NotDirect(f"more than {GROUPS_MAX} groups")
        for at, (output, result) in enumerate(zip(self._aggregates, results, strict=True)):
            before = state[at]
            if before is None or result is None:
                state[at] = result if before is None else before
            elif output.aggregate == "min":
                state[at] = min(before, result)
            elif output.aggregate == "max":
                state[at] = max(before, result)
            else:
                state[at] = before + result
                if abs(before + result) > INT64_MAX:
                    raise NotDirect("the sum is too large")

    def rows(self) -> list[Row]:
        import pyarrow as pa

        if not self._groups and not self._states:
            self._states[()] = [0 if output.aggregate == "count" else None for output in self._aggregates]
        columns: list[list[Any]] = []
        numbers = {id(output): at for at, output in enumerate(self._aggregates)}
        for output in self._outputs:
            if output.aggregate is None:
                at = self._groups.index(str(output.column))
                cells = [key[at] for key in self._states]
                if self._types[str(output.column)] == "timestamp":
                    cells = python_values(pa.array(cells, pa.timestamp("us", tz="UTC")), "timestamp")
                elif self._types[str(output.column)] == "text":
                    cells = [None if cell is None else cell.decode("utf-8", "replace") for cell in cells]
            else:
                cells = [state[numbers[id(output)]] for state in self._states.values()]
                is_time = (
                    output.aggregate in ("min", "max") and self._types[str(output.column)] == "timestamp"
                )
                cells = [None if cell is None else _local(cell) for cell in cells] if is_time else cells
            columns.append(cells)
        return list(zip(*columns, strict=True))
