"""Makes rows of a DataFrame from fetched records.

Without a format the rows have Kafka's columns; with a format, the fields of the decoded value, and Kafka's columns with
`_` before their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from tidelog.pipeline.options.source import SourceOptions
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.source.record_schema import arrow_schema, record_arrays, record_schema
from tidelog.pipeline.values.value_format import ValueFormat, value_format

if TYPE_CHECKING:
    import pyarrow

PREFIX = "_"
ERROR, RAW = "_error", "_value"


class RowShape:
    """Makes rows with Kafka's columns.  `schema`: the schema that Spark knows; tasks get a copy of the shape."""

    prefix = ""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def shaped(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        wanted = arrow_schema(self._schema)
        for batch in batches:
            yield pyarrow.RecordBatch.from_arrays(record_arrays(batch, wanted), schema=wanted)


class DecodedShape(RowShape):
    """Makes rows with the fields of decoded values.  `mode`: what happens to a value that does not fit the schema."""

    prefix = PREFIX

    def __init__(self, schema: StructType, form: ValueFormat, mode: str) -> None:
        super().__init__(schema)
        self._form = form
        self._mode = mode

    def shaped(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        wanted = arrow_schema(self._schema)
        record_columns = set(metadata_types(True))
        names = [field.name for field in wanted if field.name not in record_columns]
        # JSON values are decoded only as far as the query needs them; values in other formats are decoded as a whole.
        fields = wanted if self._form.name == "json" else arrow_schema(self._form.fields)
        kind = pa.struct([field for field in fields if field.name not in record_columns])
        values = self._form.values(kind)
        for batch in batches:
            decoded, failures = values.decode(batch.column("value"), _topic_of(batch))
            if failures and self._mode == "failfast":
                self._refuse(batch, failures)
            columns = {name: _field(decoded, name) for name in names}
            if failures and self._mode == "dropmalformed":
                keep = pa.array([index not in failures for index in range(batch.num_rows)])
                batch, columns = (
                    batch.filter(keep),
                    {name: column.filter(keep) for name, column in columns.items()},
                )
                failures = {}
            yield self._batch(batch, wanted, columns, failures)

    def _batch(self, batch: Any, wanted: Any, columns: dict[str, Any], failures: dict[int, str]) -> Any:
        import pyarrow as pa

        arrays = []
        for field in wanted:
            if field.name in columns:
                array = columns[field.name]
            elif field.name == ERROR:
                array = (
                    pa.array([failures.get(index) for index in range(batch.num_rows)], pa.string())
                    if failures
                    else pa.nulls(batch.num_rows, pa.string())
                )
            else:
                array = batch.column(field.name.removeprefix(PREFIX))
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=wanted)

    def _refuse(self, batch: Any, failures: dict[int, str]) -> None:
        index = min(failures)
        where = f"{_topic_of(batch)}-{batch.column('partition')[index].as_py()}"
        raise PipelineError(
            f"the value at offset {batch.column('offset')[index].as_py()} of {where} does not fit the "
            f"{self._form.name} schema: {failures[index]}. Option mode: permissive shows such rows with the column "
            f"{ERROR}, dropmalformed leaves them out"
        )


def _topic_of(batch: Any) -> str:
    topic: str = batch.column("topic").dictionary[0].as_py()
    return topic


def _field(decoded: Any, name: str) -> Any:
    """The field of a struct, null where the whole struct is null."""
    import pyarrow.compute as pc

    return pc.struct_field(decoded, name)


def metadata_types(permissive: bool) -> dict[str, DataType]:
    fields = record_schema(True, PREFIX).fields
    if permissive:
        fields = [*fields, StructField(ERROR, StringType()), StructField(RAW, BinaryType())]
    return {field.name: field.dataType for field in fields}


def schema_of(options: SourceOptions) -> StructType:
    if options.decoding.format == "bytes":
        return record_schema(options.include_headers)
    form = value_format(options.decoding, options.topic_names)
    extra = metadata_types(True)
    for field in form.fields.names:
        if field in extra:
            raise PipelineError(
                f"the schema has a field {field!r}, which is already a column of every record: rename the field"
            )
    wanted = list(record_schema(options.include_headers, PREFIX).fields)
    if options.decoding.mode == "permissive":
        wanted += [StructField(name, extra[name]) for name in (ERROR, RAW)]
    return StructType([*form.fields.fields, *wanted])


def shape_of(options: SourceOptions, schema: StructType) -> RowShape:
    """`schema`: if the user has given it, some of the columns, in any order."""
    if options.decoding.format == "bytes":
        _check(schema, {field.name: field.dataType for field in record_schema(True).fields}, "a record")
        return RowShape(schema)
    mode = options.decoding.mode
    metadata = metadata_types(mode == "permissive")
    own = StructType([field for field in schema.fields if field.name not in metadata])
    _check(StructType([field for field in schema.fields if field.name in metadata]), metadata, "a record")
    form = value_format(options.decoding, options.topic_names, own)
    _check(own, {field.name: field.dataType for field in form.fields.fields}, "the schema of the values")
    return DecodedShape(schema, form, mode)


def _check(schema: StructType, types: dict[str, DataType], subject: str) -> None:
    for field in schema.fields:
        if types.get(field.name) != field.dataType:
            columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in types.items())
            raise PipelineError(
                f"{subject} has no column {field.name!r} of type {field.dataType.simpleString()}: there are {columns}"
            )
