"""Encodes the fields of a DataFrame's rows as JSON, Avro or Protobuf, one value per row.

The driver decides on the schema, and registers it if the options name a registry; tasks encode.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from tidelog.extras import need
from tidelog.pipeline.needs import need_format
from tidelog.pipeline.options.source import ValueOptions
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.values.schema_text import schema_text
from tidelog.pipeline.values.value_format import OF_REGISTRY
from tidelog.schema.framing import frame
from tidelog.schema.registry import Registered, Registry, RegistryError

NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Encoding:
    """`text`: an Avro schema, a Protobuf file set in base64, a JSON Schema or nothing; `fields`: the fields of the rows."""

    format: str
    fields: tuple[str, ...]
    text: str
    message: str | None
    schema_id: int | None

    def encode(self, columns: Sequence[Any], deleted: Any = None) -> Any:
        """Encodes the arrays of the fields as one binary array.  `deleted`: which rows have no value."""
        import pyarrow as pa

        struct = pa.StructArray.from_arrays(list(columns), names=list(self.fields))
        encode, out = self._encoder(struct.type), []
        gone = deleted.to_pylist() if deleted is not None else itertools.repeat(False)
        for row, without in zip(struct.to_pylist(maps_as_pydicts="strict"), gone, strict=False):
            try:
                out.append(None if without else encode(row))
            except Exception as problem:
                # Encoders have errors of their own; to the user all of them mean the same.
                shown = str(row)
                raise PipelineError(
                    f"a row does not fit the {self.format} schema: {problem}; the row is {shown[:200]}"
                ) from problem
        return pa.array(out, pa.binary())

    def _encoder(self, rows: Any) -> Callable[[dict[str, Any]], bytes]:
        if self.format == "json":
            try:
                return _json_encoder(self.text, self.schema_id, rows)
            except TypeError as problem:
                raise PipelineError(f"a column cannot be written: {problem}") from None
        if self.format == "avro":
            from tidelog.pipeline.values import avro

            return avro.encoder(json.loads(self.text), self.schema_id)
        from tidelog.pipeline.values import protobuf

        message = protobuf.message_of(base64.b64decode(self.text), self.message)
        return protobuf.encoder(message, self.schema_id, protobuf.path_of(message))


def encoding_of(wanted: ValueOptions, topic: str | None, rows: StructType) -> Encoding:
    """`rows`: the fields to encode."""
    made = _settled(wanted, topic, rows)
    names = tuple(rows.names)
    if made.format != "json":
        for name in names:
            if name not in made.fields:
                raise PipelineError(
                    f"column {name!r} is not in the {made.format} schema: it has {', '.join(map(repr, made.fields))}. "
                    "The names of columns for the record itself begin with _"
                )
    return Encoding(made.format, names, made.text, made.message, made.schema_id)


@functools.lru_cache(maxsize=64)
def _settled(wanted: ValueOptions, topic: str | None, rows: StructType) -> Encoding:
    """The encoding with the schema's own fields.  Cached, because every micro-batch asks for it."""
    text, schema_id, from_registry = wanted.schema, None, None
    if wanted.registry is not None:
        schema_id, from_registry = _registered(wanted, topic, rows)
        text = from_registry.text
    if wanted.format == "json":
        return Encoding("json", (), text if text and text.lstrip().startswith("{") else "", None, schema_id)
    if text is None:
        raise PipelineError(f"format {wanted.format} needs option 'schema' or 'registry'")
    need_format(wanted.format)
    if wanted.format == "avro":
        from tidelog.pipeline.values import avro

        if wanted.registry is not None and from_registry is not None:
            parsed = avro.registered(Registry(wanted.registry.split(",")), from_registry)
        else:
            parsed = avro.parse(text)
        names = tuple(avro.spark_schema(parsed).names)
        return Encoding("avro", names, json.dumps(parsed), None, schema_id)
    from tidelog.pipeline.values import protobuf

    if wanted.registry is not None and from_registry is not None:
        files = protobuf.registered_files(Registry(wanted.registry.split(",")), from_registry)
    else:
        files = protobuf.file_set(text)
    message = protobuf.message_of(files, wanted.message)
    names = tuple(protobuf.spark_schema(message).names)
    return Encoding(
        "protobuf", names, base64.b64encode(files).decode(), message.DESCRIPTOR.full_name, schema_id
    )


def _registered(wanted: ValueOptions, topic: str | None, rows: StructType) -> tuple[int, Registered]:
    """Registers the given schema.  Without one, the latest schema of the subject; a new subject gets a schema made from the
    columns."""
    assert wanted.registry is not None
    subject = wanted.subject or (f"{topic}-value" if topic is not None else None)
    if subject is None:
        raise PipelineError("option 'subject' is needed, because the rows name their topics themselves")
    registry = Registry(wanted.registry.split(","))
    kind = OF_REGISTRY[wanted.format]
    try:
        if wanted.schema is not None:
            schema = Registered(wanted.schema, kind)
            schema_id = registry.register(subject, schema)
        else:
            try:
                schema_id, schema = registry.latest(subject)
            except RegistryError as problem:
                if problem.status != NOT_FOUND:
                    raise
                name = subject.removesuffix("-value")
                schema = Registered(schema_text(wanted.format, rows, name), kind)
                schema_id = registry.register(subject, schema)
    except (RegistryError, ValueError) as problem:
        raise PipelineError(f"subject {subject!r}: {problem}") from None
    if schema.kind != kind:
        raise PipelineError(
            f"subject {subject!r} has a schema of kind {schema.kind}, but option 'format' is {wanted.format}"
        )
    return schema_id, schema


def _json_encoder(schema: str, schema_id: int | None, rows: Any) -> Callable[[dict[str, Any]], bytes]:
    """`rows`: the Arrow type of the rows."""
    from tidelog.pipeline.values.json_encoding import writer

    write, check = writer(rows), None
    if schema:
        need("jsonschema_rs", "JSON schemas")
        import jsonschema_rs

        check = jsonschema_rs.validator_for(json.loads(schema)).validate

    def encode(row: dict[str, Any]) -> bytes:
        text = write(row)
        if check is not None:
            check(json.loads(text))
        data = text.encode()
        return data if schema_id is None else frame(schema_id, data)

    return encode
