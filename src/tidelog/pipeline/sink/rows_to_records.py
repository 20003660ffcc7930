"""Makes records from the rows of a DataFrame: which column is which part of the record, and which topic a row goes to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidelog.pipeline.options.sink import SinkOptions
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.values.encoding import Encoding, encoding_of

if TYPE_CHECKING:
    import pyarrow

PREFIX = "_"
DELETED = "_deleted"
BYTES = (BinaryType, StringType)
KINDS: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "key": (BYTES, "binary or string"),
    "value": (BYTES, "binary or string"),
    "topic": ((StringType,), "string"),
    "partition": ((ShortType, IntegerType, LongType), "integer"),
    "timestamp": ((TimestampType, TimestampNTZType), "timestamp"),
    "headers": ((ArrayType, MapType), "an array of key and value, or a map"),
    # A row that was read from a topic has an offset; the broker assigns the new one.
    "offset": ((LongType, IntegerType), "long"),
}


class TopicRows(NamedTuple):
    """Rows for one topic.  `partitioned`: their column `partition` says which partition they go to."""

    topic: str
    rows: Any
    partitioned: bool


class RowsToRecords:
    """The conversion of rows to records: the driver checks it against the DataFrame's schema, tasks use it."""

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        self._encoding: Encoding | None = None
        self._deletes = False
        if options.encoding is not None:
            self._deletes = DELETED in schema.names
            if self._deletes and not isinstance(schema[DELETED].dataType, BooleanType):
                raise PipelineError(f"column {DELETED!r} marks rows without a value: it must be boolean")
            own = StructType(
                [field for field in schema.fields if not _of_record(field.name) and field.name != DELETED]
            )
            self._encoding = encoding_of(options.encoding, options.topic, own)
            schema = StructType(
                [
                    StructField(field.name.removeprefix(PREFIX), field.dataType)
                    for field in schema.fields
                    if _of_record(field.name)
                ]
            ).add("value", BinaryType())
        self._check(schema, options.topic)
        self._topic = options.topic
        self._names = set(schema.names)

    @staticmethod
    def _check(schema: StructType, topic: str | None) -> None:
        for field in schema.fields:
            allowed = KINDS.get(field.name)
            if allowed is None:
                raise PipelineError(
                    f"a record has no column {field.name!r}: select only columns from {', '.join(KINDS)}"
                )
            if not isinstance(field.dataType, allowed[0]):
                raise PipelineError(
                    f"column {field.name!r} has type {field.dataType.simpleString()}, but it must be {allowed[1]}: cast it"
                )
        names = set(schema.fieldNames())
        if "value" not in names:
            raise PipelineError(
                f"there is no column 'value' to write: there are {', '.join(map(repr, names))}"
            )
        if topic is None and "topic" not in names:
            raise PipelineError("which topic? set option 'topic', or add a column 'topic'")

    @property
    def columns(self) -> dict[str, str | None]:
        """The arguments of `Producer.send_batch`, without the partition."""
        return {
            name: name if name in self._names else None for name in ("key", "value", "headers", "timestamp")
        }

    def outgoing(self, batch: pyarrow.RecordBatch) -> Iterator[TopicRows]:
        batch = self._without_nulls(self._encoded(batch))
        for topic, rows in self._by_topic(batch):
            if "partition" not in self._names:
                yield TopicRows(topic, rows, False)
                continue
            chosen = rows.column("partition").is_valid()
            for part, partitioned in ((rows.filter(chosen), True), (rows.filter(_not(chosen)), False)):
                if part.num_rows:
                    yield TopicRows(topic, part, partitioned)

    def _encoded(self, batch: Any) -> Any:
        """Encodes the fields as the value, and removes the prefix from the names of the record's columns."""
        if self._encoding is None:
            return batch
        import pyarrow as pa

        deleted = batch.column(DELETED) if self._deletes else None
        value = self._encoding.encode([batch.column(name) for name in self._encoding.fields], deleted)
        own = [name for name in batch.schema.names if _of_record(name)]
        return pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in own), value],
            names=[*(name.removeprefix(PREFIX) for name in own), "value"],
        )

    def _by_topic(self, batch: Any) -> Iterator[tuple[str, Any]]:
        if self._topic is not None:
            yield self._topic, batch
            return
        import pyarrow.compute as pc

        names = batch.column("topic")
        if names.null_count:
            raise PipelineError("a row has no topic: fill column 'topic', or set option 'topic' for all rows")
        distinct = pc.unique(names).to_pylist()
        for name in distinct:
            yield name, batch if len(distinct) == 1 else batch.filter(pc.equal(names, name))

    def _without_nulls(self, batch: Any) -> Any:
        """Replaces nulls: a record without a timestamp gets the current time, one without headers an empty list."""
        import pyarrow
        import pyarrow.compute as pc

        if "timestamp" in self._names and batch.column("timestamp").null_count:
            column = batch.column("timestamp")
            now = pyarrow.scalar(int(time.time() * 1000), pyarrow.timestamp("ms", tz="UTC")).cast(column.type)
            batch = batch.set_column(
                batch.schema.get_field_index("timestamp"), "timestamp", pc.fill_null(column, now)
            )
        if "headers" in self._names and batch.column("headers").null_count:
            column = batch.column("headers")
            lists = column.to_pylist()
            filled = pyarrow.array([[] if headers is None else headers for headers in lists], column.type)
            batch = batch.set_column(batch.schema.get_field_index("headers"), "headers", filled)
        return batch


def _of_record(name: str) -> bool:
    """True if a column of rows to encode is a part of the record itself, not of its value."""
    return name.startswith(PREFIX) and name.removeprefix(PREFIX) in KINDS and name != "_value"


def _not(mask: Any) -> Any:
    import pyarrow.compute as pc

    return pc.invert(mask)
