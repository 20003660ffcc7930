"""Protobuf values: the message in Spark's types, and its decoder and encoder.

A schema is the text of a .proto file, or a serialized FileDescriptorSet or FileDescriptorProto in base64, as registries
keep it.  A field without presence that is not set has its default value; a field with presence is null.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.values.row_decoding import Failures, decode_rows
from tidelog.schema.framing import frame, get_indexes, put_indexes, unframe
from tidelog.schema.proto.files import link, read_file
from tidelog.schema.proto.tokens import ProtoError
from tidelog.schema.registry import Registered, Registry

TIMESTAMP = "google.protobuf.Timestamp"
WRAPPED = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
SCALARS: dict[int, DataType] = {
    FieldDescriptor.CPPTYPE_INT32: IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: LongType(),
    FieldDescriptor.CPPTYPE_UINT32: LongType(),
    FieldDescriptor.CPPTYPE_UINT64: DecimalType(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: DoubleType(),
    FieldDescriptor.CPPTYPE_FLOAT: FloatType(),
    FieldDescriptor.CPPTYPE_BOOL: BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: StringType(),
    FieldDescriptor.CPPTYPE_STRING: StringType(),
}


# Schemas


def file_set(text: str) -> bytes:
    """The serialized FileDescriptorSet of a schema's text."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return _as_set([_read(text, "schema.proto")])
    for kind in (descriptor_pb2.FileDescriptorSet, descriptor_pb2.FileDescriptorProto):
        try:
            parsed: Any = kind.FromString(data)
        except DecodeError:
            continue
        if isinstance(parsed, descriptor_pb2.FileDescriptorSet):
            if parsed.file and parsed.file[-1].message_type:
                return data
        elif parsed.message_type:
            return _as_set([parsed])
    raise PipelineError("option 'schema' is neither a .proto file nor a file descriptor in base64")


def registered_files(registry: Registry, schema: Registered) -> bytes:
    """A schema of the registry with everything it imports, as a serialized FileDescriptorSet."""
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def collect(name: str, file: Registered) -> None:
        for needed, subject, version in file.references:
            collect(needed, registry.version(subject, version))
        files[name] = _read(file.text, name)

    collect("schema.proto", schema)
    return _as_set(list(files.values()))


def _read(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    try:
        return read_file(text, name)
    except ProtoError as problem:
        where = name if problem.line is None else f"{name}:{problem.line}"
        raise PipelineError(f"the Protobuf schema is wrong: {where}: {problem.why}") from None


def _linked(files: list[descriptor_pb2.FileDescriptorProto]) -> DescriptorPool:
    try:
        return link(files, {file.name: file for file in files})
    except ProtoError as problem:
        raise PipelineError(f"the Protobuf schema is wrong: {files[-1].name}: {problem}") from None


def _as_set(files: list[descriptor_pb2.FileDescriptorProto]) -> bytes:
    _linked(files)  # a wrong schema fails here, where the user named it
    data: bytes = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    return data


def message_of(files: bytes, name: str | None, path: Iterable[int] = (0,)) -> Any:
    """The class of a message, found by its name or by its place in the last file."""
    every = descriptor_pb2.FileDescriptorSet.FromString(files)
    pool = _linked(list(every.file))
    if name is not None:
        try:
            return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        except KeyError:
            raise PipelineError(f"option 'message': the schema has no message {name!r}") from None
    inner: Any = None
    last = pool.FindFileByName(every.file[-1].name)
    names = [message_type.name for message_type in every.file[-1].message_type]
    for place in path:
        messages = (
            list(inner.nested_types) if inner is not None else [last.message_types_by_name[n] for n in names]
        )
        if place >= len(messages):
            raise PipelineError("the schema has no message at the place that a record names")
        inner = messages[place]
    return message_factory.GetMessageClass(inner)


def spark_schema(message: Any) -> StructType:
    return _struct(message.DESCRIPTOR, ())


def _struct(descriptor: Descriptor, inside: tuple[str, ...]) -> StructType:
    if descriptor.full_name in inside:
        raise PipelineError(
            f"message {descriptor.full_name} contains itself: Spark has no such type. Read bytes instead"
        )
    within = (*inside, descriptor.full_name)
    return StructType([StructField(field.name, _field(field, within)) for field in descriptor.fields])


def _field(field: Any, inside: tuple[str, ...]) -> DataType:
    if _is_map(field):
        parts = field.message_type.fields_by_name
        return MapType(_single(parts["key"], inside), _single(parts["value"], inside))
    kind = _single(field, inside)
    return ArrayType(kind) if field.is_repeated else kind


def _single(field: Any, inside: tuple[str, ...]) -> DataType:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        name = field.message_type.full_name
        if name == TIMESTAMP:
            return TimestampType()
        if name in WRAPPED:
            return _single(field.message_type.fields_by_name["value"], inside)
        return _struct(field.message_type, inside)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return BinaryType()
    return SCALARS[field.cpp_type]


def _is_map(field: Any) -> bool:
    entry = field.message_type
    return entry is not None and entry.GetOptions().map_entry


# Values


class ProtobufDecoder:
    """`framed`: values begin with a schema id and the place of their message, as registries' serializers write them."""

    def __init__(self, message: Any, kind: pa.StructType, framed: bool) -> None:
        self._message = message
        self._kind = kind
        self._framed = framed
        self._read = _reader(message.DESCRIPTOR)

    def decode(self, values: pa.BinaryArray, topic: str) -> tuple[pa.StructArray, Failures]:
        def decode(data: bytes) -> Any:
            content = get_indexes(topic, unframe(topic, data)[1])[1] if self._framed else data
            return self._read(self._message.FromString(bytes(content)))

        return decode_rows(values, decode, self._kind)


def _reader(descriptor: Descriptor) -> Callable[[Any], dict[str, Any]]:
    fields = [(field.name, field.has_presence, _value_reader(field)) for field in descriptor.fields]

    def read(message: Any) -> dict[str, Any]:
        return {
            name: None if presence and not message.HasField(name) else convert(getattr(message, name))
            for name, presence, convert in fields
        }

    return read


def _value_reader(field: Any) -> Callable[[Any], Any]:
    if _is_map(field):
        item = _single_reader(field.message_type.fields_by_name["value"])
        return lambda value: [(name, item(entry)) for name, entry in value.items()]
    single = _single_reader(field)
    return (lambda value: [single(element) for element in value]) if field.is_repeated else single


def _single_reader(field: Any) -> Callable[[Any], Any]:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        name = field.message_type.full_name
        if name == TIMESTAMP:
            from datetime import UTC

            return lambda value: value.ToDatetime(tzinfo=UTC)
        if name in WRAPPED:
            return lambda value: value.value
        return _reader(field.message_type)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = {constant.number: constant.name for constant in field.enum_type.values}
        return lambda value: names.get(value, str(value))
    return lambda value: value


def path_of(message: Any) -> list[int]:
    """The message's place in its file: the index among its siblings, from the outermost message on."""
    path: list[int] = []
    inner = message.DESCRIPTOR
    while inner.containing_type is not None:
        path.insert(
            0, [message_type.name for message_type in inner.containing_type.nested_types].index(inner.name)
        )
        inner = inner.containing_type
    proto = descriptor_pb2.FileDescriptorProto()
    inner.file.CopyToProto(proto)
    return [[message_type.name for message_type in proto.message_type].index(inner.name), *path]


def encoder(message: Any, schema_id: int | None, path: list[int]) -> Callable[[dict[str, Any]], bytes]:
    """`schema_id`: the registry's id, written before the value together with the message's place in its file."""

    def encode(row: dict[str, Any]) -> bytes:
        made = message()
        _fill(made, row)
        data: bytes = made.SerializeToString()
        return data if schema_id is None else frame(schema_id, put_indexes(path) + data)

    return encode


def _fill(message: Any, row: dict[str, Any]) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in row.items():
        if value is None:
            continue
        field = fields[name]
        if _is_map(field):
            item = field.message_type.fields_by_name["value"]
            for key, entry in value.items() if isinstance(value, dict) else value:
                if item.message_type is not None:
                    _fill_message(getattr(message, name)[key], item.message_type, entry)
                else:
                    getattr(message, name)[key] = _plain(item, entry)
        elif field.is_repeated:
            for element in value:
                if field.message_type is not None:
                    _fill_message(getattr(message, name).add(), field.message_type, element)
                else:
                    getattr(message, name).append(_plain(field, element))
        elif field.message_type is not None:
            _fill_message(getattr(message, name), field.message_type, value)
        else:
            setattr(message, name, _plain(field, value))


def _fill_message(message: Any, kind: Any, value: Any) -> None:
    if kind.full_name == TIMESTAMP:
        message.FromDatetime(value)
    elif kind.full_name in WRAPPED:
        message.value = value
        message.SetInParent()
    else:
        message.SetInParent()
        _fill(message, value)


def _plain(field: Any, value: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        constant = field.enum_type.values_by_name.get(value)
        if constant is None:
            raise ValueError(f"{value!r} is not one of {', '.join(field.enum_type.values_by_name)}")
        return constant.number
    if field.cpp_type in (FieldDescriptor.CPPTYPE_UINT64, FieldDescriptor.CPPTYPE_UINT32):
        return int(value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING and isinstance(value, Decimal | date):
        # Protobuf has no type for decimals and dates.
        return value.isoformat() if isinstance(value, date) else str(value)
    return value
