"""Values of one schema as JSON and as bytes.  Avro in its own JSON encoding (a value of a union names its type), also
without the types; Protobuf in Protobuf's JSON; JSON Schema as it is, validated.

A codec is built on a thread: loading a library and parsing a schema take a while."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidelog.extras import need
from tidelog.gateways.console.records.decoder import descriptor
from tidelog.gateways.http.json_text import parse, written
from tidelog.schema.avro_reading import AvroReader
from tidelog.schema.avro_reading import parse as parse_avro
from tidelog.schema.framing import get_indexes, put_indexes

FIELDS_FEW = 200
FIELDS_PRINTED_MAX = 1_000_000


class ValueCodec(NamedTuple):
    kind: str
    """AVRO, JSONSCHEMA or PROTOBUF."""
    name: str | None
    """The name of the record or message."""
    encode: Callable[[Any], bytes]
    """From JSON to bytes; any exception means that the value does not fit the schema."""
    decode: Callable[[bytes], Any]
    slow: bool = False
    """True if decoding even a short message may take long."""


PACKAGES_OF = {
    "AVRO": ("fastavro", "Avro schemas"),
    "JSON": ("jsonschema_rs", "JSON schemas"),
    "PROTOBUF": ("google.protobuf", "Protobuf schemas"),
}

RegisteredSchema = dict[str, Any]
"""A schema as the registry answers it."""


def codec_of(registered: RegisteredSchema, needed: dict[str, RegisteredSchema]) -> ValueCodec:
    """`needed`: the schemas that it refers to, by name, dependencies first."""
    kind = registered.get("schemaType") or "AVRO"
    if kind in PACKAGES_OF:
        need(*PACKAGES_OF[kind])
    if kind == "AVRO":
        return _avro(registered, needed)
    return _protobuf(registered, needed) if kind == "PROTOBUF" else _json_schema(registered, needed)


def _avro(registered: RegisteredSchema, needed: dict[str, RegisteredSchema]) -> ValueCodec:
    import fastavro

    named: dict[str, Any] = {}
    for schema in needed.values():
        parse_avro(schema["schema"], named)
    parsed: Any = parse_avro(registered["schema"], named)
    reader = AvroReader(parsed, named)

    def encode(value: Any) -> bytes:
        try:
            return put(next(iter(fastavro.json_reader(io.StringIO(json.dumps(value)), parsed))))
        except Exception:  # the library raises anything: the value may be JSON without the types of unions
            return put(value)

    def put(value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value, strict=True)
        return out.getvalue()

    def decode(data: bytes) -> Any:
        out = io.StringIO()
        fastavro.json_writer(out, parsed, [reader.read(data)])
        return _speakable(json.loads(out.getvalue()))

    name = parsed.get("name") if isinstance(parsed, dict) else None
    return ValueCodec("AVRO", name, encode, decode, not reader.tame)


def _speakable(value: Any) -> Any:
    """Doubles that JSON has no number for, such as NaN, as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _speakable(inner) for key, inner in value.items()}
    return [_speakable(inner) for inner in value] if isinstance(value, list) else value


def _json_schema(registered: RegisteredSchema, needed: dict[str, RegisteredSchema]) -> ValueCodec:
    import jsonschema_rs

    others = {name: json.loads(schema["schema"]) for name, schema in needed.items()}

    def retrieve(uri: str) -> Any:
        for name, other in others.items():
            if uri == name or uri.endswith("/" + name):
                return other
        raise ValueError(f"the schema has no reference named {uri}")

    root = json.loads(registered["schema"])
    references = jsonschema_rs.Registry(list(others.items()), draft=jsonschema_rs.Draft7, retriever=retrieve)
    if isinstance(root, dict) and "$schema" not in root:
        validator: Any = jsonschema_rs.Draft7Validator(root, registry=references, retriever=retrieve)
    else:
        validator = jsonschema_rs.validator_for(root, registry=references, retriever=retrieve)

    def encode(value: Any) -> bytes:
        problem = next(validator.iter_errors(value), None)
        if problem is not None:
            where = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in problem.instance_path)
            raise ValueError(f"at ${where}: {problem.message}")
        return written(value)

    return ValueCodec("JSONSCHEMA", root.get("title") if isinstance(root, dict) else None, encode, parse)


def _protobuf(registered: RegisteredSchema, needed: dict[str, RegisteredSchema]) -> ValueCodec:
    """Encodes as the first message of the file."""
    from google.protobuf import json_format, message_factory

    file = descriptor(registered["schema"], {name: schema["schema"] for name, schema in needed.items()})
    first = next(iter(file.message_types_by_name.values()), None)

    def message(path: list[int]) -> Any:
        kind = list(file.message_types_by_name.values())[path[0]]
        for index in path[1:]:
            kind = list(kind.nested_types)[index]
        return message_factory.GetMessageClass(kind)()

    def encode(value: Any) -> bytes:
        if first is None:
            raise ValueError("the schema has no message")
        made: bytes = json_format.ParseDict(value, message([0])).SerializeToString()
        return put_indexes([0]) + made

    def decode(data: bytes) -> Any:
        path, content = get_indexes("", memoryview(data))
        made = message(path)
        made.ParseFromString(bytes(content))
        _check_printed(made)
        return json_format.MessageToDict(
            made, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )

    wide = any(len(message.fields) > FIELDS_FEW for message in _messages_of(file))
    return ValueCodec("PROTOBUF", None if first is None else first.full_name, encode, decode, wide)


def _messages_of(file: Any) -> Iterator[Any]:
    """The messages of this file and its imports, nested messages too."""
    left, seen = [file], set()
    while left:
        imported = left.pop()
        if imported.name not in seen:
            seen.add(imported.name)
            left += imported.dependencies
            inside = list(imported.message_types_by_name.values())
            while inside:
                yield (message := inside.pop())
                inside += message.nested_types


def _check_printed(message: Any) -> None:
    """Bounds the answer: fields without a value are printed, too, so that two bytes can be a message of thousands."""
    left, printed = [message], 0
    while left:
        message = left.pop()
        printed += len(message.DESCRIPTOR.fields)
        if printed > FIELDS_PRINTED_MAX:
            raise ValueError(f"the message has more than {FIELDS_PRINTED_MAX} fields, unset fields included")
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                if field.message_type.fields_by_name["value"].message_type is not None:
                    left += value.values()
            elif hasattr(value, "DESCRIPTOR"):
                left.append(value)
            else:
                left += value
