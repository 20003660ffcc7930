"""The schema of a topic's values, from options or from a registry: its Spark types and its decoder.

The driver looks up the schema and pins it, with the registry's id.  Tasks get the schema as text, and ask the registry
only for the schemas of records that were written with another schema.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.types import StructType

from tidelog.pipeline.needs import need_format
from tidelog.pipeline.options.source import ValueOptions
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.values.ddl_types import spark_schema_of_ddl
from tidelog.pipeline.values.json_schema_types import spark_schema_of_json
from tidelog.pipeline.values.row_decoding import Failures
from tidelog.schema.registry import Registered, Registry, RegistryError

if TYPE_CHECKING:
    import pyarrow as pa

OF_REGISTRY = {"json": "JSON", "avro": "AVRO", "protobuf": "PROTOBUF"}

VALUE_BYTES_MAX = 2**31 - 1


class ValueDecoder(Protocol):
    def decode(self, values: pa.BinaryArray, topic: str) -> tuple[pa.StructArray, Failures]: ...


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """A format and its schema.  `text`: an Avro schema, or a Protobuf file set in base64; empty for JSON."""

    name: str
    fields: StructType
    text: str
    message: str | None
    registry: str | None
    schema_id: int | None

    def values(self, kind: pa.StructType) -> ValueDecoder:
        """The decoder for a task.  `kind`: the columns in Arrow's types."""
        registry = Registry(self.registry.split(",")) if self.registry else None
        if self.name == "json":
            from tidelog.pipeline.values.json_decoding import JsonDecoder

            return _UnframingDecoder(JsonDecoder(kind)) if registry else JsonDecoder(kind)
        if self.name == "avro":
            from tidelog.pipeline.values import avro

            return avro.AvroDecoder(json.loads(self.text), kind, registry)
        from tidelog.pipeline.values import protobuf

        message = protobuf.message_of(base64.b64decode(self.text), self.message)
        return protobuf.ProtobufDecoder(message, kind, registry is not None)


def value_format(
    decoding: ValueOptions, topics: tuple[str, ...], given: StructType | None = None
) -> ValueFormat:
    """`given`: the columns that the user has passed to `.schema(...)`."""
    from_registry, schema_id = None, None
    if decoding.registry is not None and decoding.schema is None:
        schema_id, from_registry = _latest(decoding, topics)
    text = decoding.schema if from_registry is None else from_registry.text
    if decoding.format == "json":
        fields = given if given is not None and text is None else _json_fields(text)
        return ValueFormat("json", fields, "", None, decoding.registry, schema_id)
    if text is None:
        raise PipelineError(f"format {decoding.format} needs option 'schema' or 'registry'")
    need_format(decoding.format)
    if decoding.format == "avro":
        from tidelog.pipeline.values import avro

        registry = Registry(decoding.registry.split(",")) if decoding.registry else None
        parsed = avro.registered(registry, from_registry) if registry and from_registry else avro.parse(text)
        fields = avro.spark_schema(parsed)
        return ValueFormat("avro", fields, json.dumps(parsed), None, decoding.registry, schema_id)
    return _protobuf(decoding, from_registry, text, schema_id)


def _protobuf(
    decoding: ValueOptions, from_registry: Registered | None, text: str, schema_id: int | None
) -> ValueFormat:
    from tidelog.pipeline.values import protobuf

    if from_registry is not None and decoding.registry is not None:
        files = protobuf.registered_files(Registry(decoding.registry.split(",")), from_registry)
    else:
        files = protobuf.file_set(text)
    message = protobuf.message_of(files, decoding.message)
    return ValueFormat(
        "protobuf",
        protobuf.spark_schema(message),
        base64.b64encode(files).decode(),
        message.DESCRIPTOR.full_name,
        decoding.registry,
        schema_id,
    )


def _latest(decoding: ValueOptions, topics: tuple[str, ...]) -> tuple[int, Registered]:
    subject = decoding.subject
    if subject is None:
        if len(topics) != 1:
            raise PipelineError("option 'subject' is needed: it names the schema that several topics share")
        subject = f"{topics[0]}-value"
    assert decoding.registry is not None
    try:
        schema_id, schema = Registry(decoding.registry.split(",")).latest(subject)
    except (RegistryError, ValueError) as problem:
        raise PipelineError(f"subject {subject!r}: {problem}") from None
    if schema.kind != OF_REGISTRY[decoding.format]:
        raise PipelineError(
            f"subject {subject!r} has a schema of kind {schema.kind}, but option 'format' is {decoding.format}"
        )
    return schema_id, schema


def _json_fields(text: str | None) -> StructType:
    if text is None:
        raise PipelineError("format json needs option 'schema', like 'id bigint, name string', or 'registry'")
    if text.lstrip().startswith("{"):
        return spark_schema_of_json(text)
    return spark_schema_of_ddl(text)


class _UnframingDecoder:
    """Decodes JSON that follows the schema id of a registry's serializer."""

    def __init__(self, inner: ValueDecoder) -> None:
        self._inner = inner

    def decode(self, values: pa.BinaryArray, topic: str) -> tuple[pa.StructArray, Failures]:
        import pyarrow as pa
        import pyarrow.compute as pc

        framed = pc.equal(pc.binary_slice(values, 0, 1), pa.scalar(b"\0", pa.binary()))
        # With an explicit end: without it, pyarrow 26 fails for more than one value.
        content = pc.if_else(framed, pc.binary_slice(values, 5, VALUE_BYTES_MAX), pa.scalar(b"", pa.binary()))
        decoded, failures = self._inner.decode(content, topic)
        for index, is_framed in enumerate(framed.to_pylist()) if failures else ():
            if is_framed is False:
                failures[index] = "the value has no schema id: was it written without a registry?"
        return decoded, failures
