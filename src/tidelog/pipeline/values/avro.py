"""Avro values: the schema in Spark's types, and the decoder and encoder of records.

With a registry every record names the schema it was written with; the decoder converts it to the DataFrame's schema.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.values.row_decoding import Failures, decode_rows
from tidelog.schema import avro_reading
from tidelog.schema.avro_reading import AvroReader
from tidelog.schema.framing import frame, unframe
from tidelog.schema.registry import Registry

PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "null": NullType(),
}
LOGICAL: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "uuid": StringType(),
}


def parse(text: str, named: dict[str, Any] | None = None) -> Any:
    try:
        return avro_reading.parse(text, named if named is not None else {})
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as problem:
        raise PipelineError(f"option 'schema' is not an Avro schema: {problem}") from None


def registered(registry: Registry, schema: Any, named: dict[str, Any] | None = None) -> Any:
    """A schema of the registry, with the schemas that it refers to."""
    types = {} if named is None else named
    for _, subject, version in schema.references:
        registered(registry, registry.version(subject, version), types)
    return parse(schema.text, types)


def spark_schema(schema: Any) -> StructType:
    kind, _ = _AvroTypes(schema).of(schema, "the value")
    if not isinstance(kind, StructType):
        raise PipelineError(f"an Avro record is needed for a DataFrame's columns, not {kind.simpleString()}")
    return kind


class _AvroTypes:
    def __init__(self, schema: Any) -> None:
        self._named: dict[str, Any] = {}
        self._inside: list[str] = []
        del schema

    def of(self, schema: Any, where: str) -> tuple[DataType, bool]:
        """Spark's type, and whether it may be null."""
        if isinstance(schema, list):
            return self._union(schema, where)
        if isinstance(schema, str):
            if schema in PLAIN:
                return PLAIN[schema], schema == "null"
            if schema in self._inside:
                raise PipelineError(
                    f"{where} refers to itself ({schema}): Spark has no such type. Read bytes instead"
                )
            return self.of(self._named[schema], where)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.of(kind, where)
        if "name" in schema and kind in ("record", "enum", "fixed", "error"):
            self._named[schema["name"]] = schema
        logical = schema.get("logicalType")
        if logical == "decimal":
            return DecimalType(schema["precision"], schema.get("scale", 0)), False
        if logical in LOGICAL:
            return LOGICAL[logical], False
        if kind == "array":
            element, nullable = self.of(schema["items"], where)
            return ArrayType(element, nullable), False
        if kind == "map":
            value, nullable = self.of(schema["values"], where)
            return MapType(StringType(), value, nullable), False
        if kind in ("record", "error"):
            return self._record(schema), False
        if kind in self._named and kind not in PLAIN:
            return self.of(kind, where)
        return PLAIN[kind], kind == "null"

    def _union(self, branches: list[Any], where: str) -> tuple[DataType, bool]:
        real = [branch for branch in branches if branch != "null"]
        if len(real) != 1:
            raise PipelineError(
                f"{where} is a union of {len(real)} types: a column has one. Read bytes instead, or change the schema"
            )
        return self.of(real[0], where)[0], len(real) < len(branches)

    def _record(self, schema: Any) -> StructType:
        self._inside.append(schema["name"])
        fields = []
        for field in schema["fields"]:
            kind, _ = self.of(field["type"], f"field {field['name']!r}")
            fields.append(StructField(field["name"], kind))
        self._inside.pop()
        return StructType(fields)


class AvroDecoder:
    """`schema`: the parsed schema that records are converted to.  `registry`: resolves the schema ids of the records."""

    def __init__(self, schema: Any, kind: pa.StructType, registry: Registry | None) -> None:
        self._schema = schema
        self._kind = kind
        self._registry = registry
        self._reader = AvroReader(schema)
        self._writers: dict[int, AvroReader] = {}

    def decode(self, values: pa.BinaryArray, topic: str) -> tuple[pa.StructArray, Failures]:
        return decode_rows(values, self._framed(topic) if self._registry else self._plain, self._kind)

    def _plain(self, data: bytes) -> Any:
        return self._reader.read(data, whole=True)

    def _framed(self, topic: str) -> Callable[[bytes], Any]:
        def decode(data: bytes) -> Any:
            schema_id, payload = unframe(topic, data)
            written = self._writers.get(schema_id)
            if written is None:
                assert self._registry is not None
                schema = registered(self._registry, self._registry.schema(schema_id))
                written = self._writers[schema_id] = AvroReader(schema)
            return written.read(payload, self._schema)

        return decode


def encoder(schema: Any, schema_id: int | None) -> Callable[[dict[str, Any]], bytes]:
    """`schema_id`: the registry's id, written before the value."""

    def encode(row: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        return out.getvalue() if schema_id is None else frame(schema_id, out.getvalue())

    return encode
