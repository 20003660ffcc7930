"""From fetched records to the rows of a DataFrame: which columns they have, and how those are made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from tidelog.pipeline.option_text import PipelineError
from tidelog.pipeline.record_frame import arrow_schema, record_arrays, record_schema
from tidelog.pipeline.source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow


class RowShape:
    """`schema` is what Spark was told; tasks get a copy of this."""

    prefix = ""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def shaped(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        wanted = arrow_schema(self._schema)
        for batch in batches:
            yield pyarrow.RecordBatch.from_arrays(record_arrays(batch, wanted), schema=wanted)


def schema_of(options: SourceOptions) -> StructType:
    return record_schema(options.include_headers)


def shape_of(options: SourceOptions, schema: StructType) -> RowShape:
    """`schema` may be one that the user has given: any of the columns there are, in any order."""
    known = {one.name: one.dataType for one in record_schema(True).fields}
    for one in schema.fields:
        if known.get(one.name) != one.dataType:
            there = ", ".join(f"{name} {kind.simpleString()}" for name, kind in known.items())
            raise PipelineError(
                f"a record has no column {one.name!r} of type {one.dataType.simpleString()}: there are {there}"
            )
    return RowShape(schema)
