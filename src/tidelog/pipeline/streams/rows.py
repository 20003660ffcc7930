"""Runs a user's function over the rows of a stream, on the executors; rows come and go as Arrow batches.

A row is a dict whose fields are also attributes.  With `caught`, an exception or a result that does not fit the schema does
not fail the query, but becomes a row with `_error` and the input as JSON, for the dead-letter topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.source.record_schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow

Kind = Literal["map", "flat_map", "filter"]
REASON_CHARS_MAX = 500
# The columns of a failed row beside the fields of the result, which are null.
FAILED = StructType(
    [
        StructField("_error", StringType()),
        StructField("_failed_key", BinaryType()),
        StructField("_failed_value", BinaryType()),
        StructField("_failed_from", StringType()),
    ]
)


class Row(dict[str, Any]):
    """`row["amount"]` and `row.amount` are the same."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the row has no field {name!r}: its fields are {', '.join(self)}") from None


class RowFunction:
    """Called by Spark's `mapInArrow`; pickled to the executors together with the user's function."""

    def __init__(
        self, function: Callable[[Row], Any], kind: Kind, schema: StructType, step: str, caught: bool
    ) -> None:
        self._function = function
        self._kind = kind
        self._schema = schema
        self._step = step
        self._caught = caught

    @property
    def output(self) -> StructType:
        return StructType([*self._schema.fields, *FAILED.fields]) if self._caught else self._schema

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        wanted = arrow_schema(self._schema)
        for batch in batches:
            made: list[dict[str, Any]] = []
            origins: list[Row] = []
            failed: list[dict[str, Any]] = []
            for values in batch.to_pylist():
                row = Row(values)
                try:
                    results = self._results(row)
                except Exception as problem:
                    failed.append(self._failure(row, problem))
                    continue
                made += results
                origins += [row] * len(results)
            good = self._fitting(made, origins, wanted, failed)
            yield self._with_failures(good, failed) if self._caught else good
        if self._caught:
            return
        # For a partition without batches Spark needs an empty batch with the schema.
        yield pyarrow.RecordBatch.from_pylist([], schema=wanted)

    def _results(self, row: Row) -> list[dict[str, Any]]:
        result = self._function(row)
        if self._kind == "filter":
            return [row] if result else []
        if self._kind == "map":
            return [] if result is None else [self._fields(result)]
        return [] if result is None else [self._fields(output) for output in result]

    def _fields(self, result: Any) -> dict[str, Any]:
        if isinstance(result, dict):
            unknown = result.keys() - set(self._schema.names)
            if unknown:
                raise ValueError(
                    f"the function returned fields that are not in its schema: {', '.join(sorted(unknown))}"
                )
            return result
        if is_dataclass(result) and not isinstance(result, type):
            return asdict(result)
        if hasattr(result, "asDict"):
            fields: dict[str, Any] = result.asDict()
            return fields
        if not isinstance(result, tuple | list):
            result = (result,)
        if len(result) != len(self._schema.names):
            raise ValueError(
                f"the function returned {len(result)} values, its schema has {len(self._schema.names)}"
            )
        return dict(zip(self._schema.names, result, strict=True))

    def _failure(self, row: Row, problem: Exception) -> dict[str, Any]:
        reason = f"{type(problem).__name__}: {problem}"[:REASON_CHARS_MAX]
        if not self._caught:
            raise PipelineError(f"{self._step} raised {reason} for {dict(row)!r:.300}") from problem
        value = row.get("value")
        if not isinstance(value, bytes):
            fields = {name: field for name, field in row.items() if not name.startswith("_")}
            value = json.dumps(fields, default=str, ensure_ascii=False).encode()
        key = row.get("key", row.get("_key"))
        return {
            "_error": f"{self._step}: {reason}",
            "_failed_key": key if isinstance(key, bytes) else None if key is None else str(key).encode(),
            "_failed_value": value,
            "_failed_from": json.dumps([_either(row, name) for name in ("topic", "partition", "offset")]),
        }

    def _fitting(
        self, made: list[dict[str, Any]], origins: list[Row], wanted: Any, failed: list[dict[str, Any]]
    ) -> pyarrow.RecordBatch:
        """The results that fit the schema; a result that does not fit is a failure of the row it comes from."""
        import pyarrow

        try:
            return pyarrow.RecordBatch.from_pylist(made, schema=wanted)
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
            good = []
        for result, origin in zip(made, origins, strict=True):
            try:
                pyarrow.RecordBatch.from_pylist([result], schema=wanted)
                good.append(result)
            except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as problem:
                failed.append(self._failure(origin, problem))
        return pyarrow.RecordBatch.from_pylist(good, schema=wanted)

    def _with_failures(self, good: pyarrow.RecordBatch, failed: list[dict[str, Any]]) -> pyarrow.RecordBatch:
        import pyarrow

        whole, rows = arrow_schema(self.output), good.num_rows
        errors = pyarrow.RecordBatch.from_pylist(failed, schema=arrow_schema(FAILED))
        columns = []
        for field in whole:
            if field.name in errors.schema.names and field.name in FAILED.names:
                column = pyarrow.concat_arrays(
                    [pyarrow.nulls(rows, field.type), errors.column(field.name).cast(field.type)]
                )
            else:
                column = pyarrow.concat_arrays(
                    [good.column(field.name), pyarrow.nulls(len(failed), field.type)]
                )
            columns.append(column)
        return pyarrow.RecordBatch.from_arrays(columns, schema=whole)


def _either(row: Row, name: str) -> Any:
    return row.get(f"_{name}", row.get(name))
