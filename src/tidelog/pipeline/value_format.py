"""The schema of a topic's values, from options or from a registry: what it is in Spark's types, and its decoder.

The driver finds the schema and pins it, with the registry's id; tasks get it as text and ask nobody but for the
schemas of records that were written with another one.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql.types import StructType

from tidelog.pipeline.ddl_types import spark_schema_of_ddl
from tidelog.pipeline.json_schema_types import spark_schema_of_json
from tidelog.pipeline.needs import need_format
from tidelog.pipeline.option_text import PipelineError
from tidelog.pipeline.row_values import Failures
from tidelog.pipeline.source_options import Decoding
from tidelog.schema.registry import Registered, Registry, RegistryError

if TYPE_CHECKING:
    import pyarrow as pa

OF_REGISTRY = {"json": "JSON", "avro": "AVRO", "protobuf": "PROTOBUF"}

VALUE_BYTES_MAX = 2**31 - 1


class Values(Protocol):
    def decode(self, values: pa.BinaryArray, topic: str) -> tuple[pa.StructArray, Failures]: ...


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """`text`: an Avro schema, a Protobuf file set in base64, nothing for JSON."""

    name: str
    fields: StructType
    text: str
    message: str | None
    registry: str | None
    schema_id: int | None

    def values(self, kind: pa.StructType) -> Values:
        """For a task; `kind` is the columns in Arrow's types."""
        registry = Registry(self.registry.split(",")) if self.registry else None
        if self.name == "json":
            from tidelog.pipeline.json_values import JsonValues

            return _Unframed(JsonValues(kind)) if registry else JsonValues(kind)
        if self.name == "avro":
            from tidelog.pipeline import avro_values

            return avro_values.AvroValues(json.loads(self.text), kind, registry)
        from tidelog.pipeline import protobuf_values

        message = protobuf_values.message_of(base64.b64decode(self.text), self.message)
        return protobuf_values.ProtobufValues(message, kind, registry is not None)


def value_format(decoding: Decoding, topics: tuple[str, ...], given: StructType | None = None) -> ValueFormat:
    """`given`: the columns that the user has named with `.schema(...)`."""
    found, schema_id = None, None
    if decoding.registry is not None and decoding.schema is None:
        schema_id, found = _latest(decoding, topics)
    text = decoding.schema if found is None else found.text
    if decoding.format == "json":
        fields = given if given is not None and text is None else _json_fields(text)
        return ValueFormat("json", fields, "", None, decoding.registry, schema_id)
    if text is None:
        raise PipelineError(f"format {decoding.format} needs option 'schema' or 'registry'")
    need_format(decoding.format)
    if decoding.format == "avro":
        from tidelog.pipeline import avro_values

        registry = Registry(decoding.registry.split(",")) if decoding.registry else None
        parsed = avro_values.registered(registry, found) if registry and found else avro_values.parse(text)
        fields = avro_values.spark_schema(parsed)
        return ValueFormat("avro", fields, json.dumps(parsed), None, decoding.registry, schema_id)
    return _protobuf(decoding, found, text, schema_id)


def _protobuf(decoding: Decoding, found: Registered | None, text: str, schema_id: int | None) -> ValueFormat:
    from tidelog.pipeline import protobuf_values

    if found is not None and decoding.registry is not None:
        files = protobuf_values.registered_files(Registry(decoding.registry.split(",")), found)
    else:
        files = protobuf_values.file_set(text)
    message = protobuf_values.message_of(files, decoding.message)
    return ValueFormat(
        "protobuf",
        protobuf_values.spark_schema(message),
        base64.b64encode(files).decode(),
        message.DESCRIPTOR.full_name,
        decoding.registry,
        schema_id,
    )


def _latest(decoding: Decoding, topics: tuple[str, ...]) -> tuple[int, Registered]:
    subject = decoding.subject
    if subject is None:
        if len(topics) != 1:
            raise PipelineError("option 'subject' is needed: which schema do several topics share?")
        subject = f"{topics[0]}-value"
    assert decoding.registry is not None
    try:
        schema_id, found = Registry(decoding.registry.split(",")).latest(subject)
    except (RegistryError, ValueError) as problem:
        raise PipelineError(f"subject {subject!r}: {problem}") from None
    if found.kind != OF_REGISTRY[decoding.format]:
        raise PipelineError(
            f"subject {subject!r} has a schema of kind {found.kind}, but option 'format' is {decoding.format}"
        )
    return schema_id, found


def _json_fields(text: str | None) -> StructType:
    if text is None:
        raise PipelineError("format json needs option 'schema', like 'id bigint, name string', or 'registry'")
    if text.lstrip().startswith("{"):
        return spark_schema_of_json(text)
    return spark_schema_of_ddl(text)


class _Unframed:
    """JSON behind the schema id that a registry's serializer puts in front."""

    def __init__(self, inner: Values) -> None:
        self._inner = inner

    def decode(self, values: pa.BinaryArray, topic: str) -> tuple[pa.StructArray, Failures]:
        import pyarrow as pa
        import pyarrow.compute as pc

        framed = pc.equal(pc.binary_slice(values, 0, 1), pa.scalar(b"\0", pa.binary()))
        # With an end: without one, pyarrow 26 fails for more than one value.
        content = pc.if_else(framed, pc.binary_slice(values, 5, VALUE_BYTES_MAX), pa.scalar(b"", pa.binary()))
        decoded, failures = self._inner.decode(content, topic)
        for index, well in enumerate(framed.to_pylist()) if failures else ():
            if well is False:
                failures[index] = "there is no schema id in front: was it written without a registry?"
        return decoded, failures
