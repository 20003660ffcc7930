"""The records of a stream, table or topic as Arrow record batches with SQL's columns, read in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from tidelog.pipeline.options.source import SourceOptions, source_options
from tidelog.pipeline.source.batch_reader import RangePartition, TidelogReader
from tidelog.pipeline.source.offset_ranges import OffsetRange
from tidelog.pipeline.source.record_schema import record_schema
from tidelog.pipeline.source.row_shape import schema_of, shape_of
from tidelog.pipeline.sql.catalog import Relation
from tidelog.pipeline.sql.direct.json_columns import CONVERTED, json_columns, key_value
from tidelog.pipeline.sql.direct.plan import AnyOf, Comparison, Condition, DirectPlan, NotDirect, conjuncts

if TYPE_CHECKING:
    import pyarrow

    from tidelog.pipeline.streams.pipeline import Pipeline

OF_RECORD = {
    "_key": "binary",
    "_topic": "string",
    "_partition": "int",
    "_offset": "bigint",
    "_timestamp": "timestamp",
}
FILTERS: dict[str, Any] = {
    "=": EqualTo,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "<": LessThan,
    "<=": LessThanOrEqual,
}
RECORDS_MAX = 2_000_000  # more than this are read faster by Spark's tasks side by side
JSON_RECORDS_MAX = 500_000
TAIL_RECORDS = 256


class RelationRecords:
    """`columns`: names and types of a relation's own columns; `types`: also of the columns of the record."""

    def __init__(self, pipeline: Pipeline, relation: Relation) -> None:
        self.relation = relation
        self._prefix = ""
        given = {"bootstrap": pipeline.bootstrap, "topics": relation.topic, **pipeline.options}
        if _decoded_by_source(relation):
            if relation.kind == "table":
                raise NotDirect(f"a table in {relation.format} needs Spark")
            self._prefix = "_"
            mode = "failfast" if relation.on_error == "fail" else "dropmalformed"
            given |= {**relation.options, "format": relation.format, "mode": mode}
        self._options: SourceOptions = source_options(given, streaming=False)
        self._schema = schema_of(self._options) if self._prefix else record_schema(False)
        self.columns = self._columns()
        self.types = {**dict(self.columns), **OF_RECORD}
        self.records_max = JSON_RECORDS_MAX if relation.format != "text" else RECORDS_MAX
        self._reader = TidelogReader(self._options, shape_of(self._options, self._schema))

    def _columns(self) -> list[tuple[str, str]]:
        relation = self.relation
        if self._prefix:
            return [
                (field.name, field.dataType.simpleString())
                for field in self._schema.fields
                if field.name not in OF_RECORD
            ]
        if relation.format in ("text", "bytes"):
            names = [name for name, _ in relation.columns] or ["key", "value"]
            if len(names) != 2:
                raise NotDirect("the relation has too many columns")
            return [(name, "text" if relation.format == "text" else "binary") for name in names]
        columns = [(name, kind.lower()) for name, kind in relation.columns]
        for name, kind in columns:
            # Every column is checked, also those that the query does not name: a record may not fit because of them.
            if kind not in CONVERTED:
                raise NotDirect(f"{name} is of type {kind}")
        if relation.on_error != "fail":
            raise NotDirect("records that do not fit are left out by Spark")
        return columns

    def ranges(self, plan: DirectPlan) -> list[OffsetRange]:
        """The offsets that the plan has to read."""
        table = self.relation.kind == "table"
        self._reader.pushFilters([] if table else list(_filters(plan.condition, self._prefix)))
        partitions = [
            partition for partition in self._reader.partitions() if isinstance(partition, RangePartition)
        ]
        return [partition.wanted for partition in partitions if partition.wanted is not None]

    def batches(self, wanted: OffsetRange) -> Iterator[pyarrow.RecordBatch]:
        """Records of a range in the columns of `types`."""
        import pyarrow as pa

        for batch in self._reader.read(RangePartition(wanted)):
            if self._prefix:
                yield batch
                continue
            arrays = {
                f"_{name}": batch.column(name)
                for name in ("key", "topic", "partition", "offset", "timestamp")
            }
            if self.relation.format in ("text", "bytes"):
                own = dict(
                    zip(
                        (name for name, _ in self.columns),
                        (batch.column("key"), batch.column("value")),
                        strict=True,
                    )
                )
            else:
                own = self._json(batch)
            deleted = batch.column("value").is_null()
            yield pa.RecordBatch.from_pydict({**own, **arrays, "_deleted": deleted})

    def _json(self, batch: pyarrow.RecordBatch) -> dict[str, Any]:
        import pyarrow as pa

        cells = json_columns(batch.column("value").to_pylist(), self.columns)
        relation = self.relation
        if relation.kind == "table" and relation.key is not None:
            at = [name for name, _ in self.columns].index(relation.key)
            kind, keys = self.columns[at][1], batch.column("key").to_pylist()
            cells[at] = [
                key_value(key, kind) if cell is None and key is not None else cell
                for cell, key in zip(cells[at], keys, strict=True)
            ]
        kinds = {"string": pa.string(), "boolean": pa.bool_(), "int": pa.int32(), "bigint": pa.int64()}
        kinds |= {"double": pa.float64(), "timestamp": pa.timestamp("us", tz="UTC")}
        try:
            return {
                name: pa.array(values, kinds[kind])
                for (name, kind), values in zip(self.columns, cells, strict=True)
            }
        except (ValueError, pa.ArrowException):
            raise NotDirect("a value has half of a surrogate pair") from None


def newest_rows(batches: Iterator[pyarrow.RecordBatch], keyless: bool) -> Iterator[pyarrow.RecordBatch]:
    """The latest record of each key, without deletions, as `streams.table.newest` chooses.  `keyless`: records without a key
    count, as one key."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = [batch for batch in batches if batch.num_rows]
    if not kept:
        return
    table = pa.Table.from_batches(kept).combine_chunks()
    places = zip(table.column("_key").to_pylist(), table.column("_partition").to_pylist(), strict=True)
    last: dict[tuple[bytes | None, int], int] = {}
    for row, place in enumerate(places):
        last[place] = row  # Offsets grow within a partition.
    times = table.column("_timestamp").cast(pa.int64()).to_pylist()
    newest: dict[bytes | None, tuple[int, int, int]] = {}
    for (key, partition), row in last.items():
        if key is not None or keyless:
            newest[key] = max(newest.get(key, (times[row], partition, row)), (times[row], partition, row))
    chosen = table.take(pa.array([row for _, _, row in newest.values()], pa.int64()))
    yield from chosen.filter(pc.invert(chosen.column("_deleted"))).combine_chunks().to_batches()


def _decoded_by_source(relation: Relation) -> bool:
    return relation.format in ("avro", "protobuf") or (relation.format == "json" and bool(relation.options))


def _filters(condition: Condition | None, prefix: str) -> Iterator[Filter]:
    """The conditions on columns of the record that the source can apply; it may apply less than all of them."""
    for part in conjuncts(condition):
        column = getattr(part, "column", "")
        if column not in ("_partition", "_offset", "_timestamp"):
            continue
        attribute = (column if prefix else column.removeprefix("_"),)
        if isinstance(part, Comparison) and part.operator in FILTERS:
            yield FILTERS[part.operator](attribute, part.constant)
        elif isinstance(part, AnyOf):
            yield In(attribute, part.constants)
