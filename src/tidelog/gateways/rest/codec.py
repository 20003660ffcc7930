"""Values of one schema as JSON and as bytes.  Avro in its own JSON encoding (a value of a union says its type), and also
without the types; Protobuf in Protobuf's JSON; JSON Schema as it is, checked.

A codec is built in a thread: the libraries take a while to load and to understand a schema."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidelog.extras import need
from tidelog.gateways.console.decoding import descriptor
from tidelog.gateways.http.json_text import parse, written
from tidelog.schema.avro_reading import AvroReader
from tidelog.schema.avro_reading import parse as parse_avro
from tidelog.schema.framing import get_indexes, put_indexes

FIELDS_FEW = 200
FIELDS_PRINTED_MAX = 1_000_000


class Codec(NamedTuple):
    kind: str
    """AVRO, JSONSCHEMA or PROTOBUF."""
    name: str | None
    """Of the record or message."""
    encode: Callable[[Any], bytes]
    """From JSON; whatever it raises means that the value does not fit."""
    decode: Callable[[bytes], Any]
    slow: bool = False
    """To decode even a short message may take a while."""


PACKAGES_OF = {
    "AVRO": ("fastavro", "Avro schemas"),
    "JSON": ("jsonschema_rs", "JSON schemas"),
    "PROTOBUF": ("google.protobuf", "Protobuf schemas"),
}

Found = dict[str, Any]
"""A schema as the registry tells it."""


def codec_of(found: Found, needed: dict[str, Found]) -> Codec:
    """`needed`: what it refers to, by name, those first that others refer to."""
    kind = found.get("schemaType") or "AVRO"
    if kind in PACKAGES_OF:
        need(*PACKAGES_OF[kind])
    if kind == "AVRO":
        return _avro(found, needed)
    return _protobuf(found, needed) if kind == "PROTOBUF" else _json_schema(found, needed)


def _avro(found: Found, needed: dict[str, Found]) -> Codec:
    import fastavro

    named: dict[str, Any] = {}
    for one in needed.values():
        parse_avro(one["schema"], named)
    parsed: Any = parse_avro(found["schema"], named)
    reader = AvroReader(parsed, named)

    def encode(value: Any) -> bytes:
        try:
            return put(next(iter(fastavro.json_reader(io.StringIO(json.dumps(value)), parsed))))
        except Exception:  # the library raises anything: then it may be JSON without the types of unions
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
    return Codec("AVRO", name, encode, decode, not reader.tame)


def _speakable(value: Any) -> Any:
    """Doubles that JSON has no number for, as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _speakable(one) for key, one in value.items()}
    return [_speakable(one) for one in value] if isinstance(value, list) else value


def _json_schema(found: Found, needed: dict[str, Found]) -> Codec:
    import jsonschema_rs

    others = {name: json.loads(one["schema"]) for name, one in needed.items()}

    def retrieve(uri: str) -> Any:
        for name, other in others.items():
            if uri == name or uri.endswith("/" + name):
                return other
        raise ValueError(f"no reference has the name {uri}")

    root = json.loads(found["schema"])
    known = jsonschema_rs.Registry(list(others.items()), draft=jsonschema_rs.Draft7, retriever=retrieve)
    if isinstance(root, dict) and "$schema" not in root:
        validator: Any = jsonschema_rs.Draft7Validator(root, registry=known, retriever=retrieve)
    else:
        validator = jsonschema_rs.validator_for(root, registry=known, retriever=retrieve)

    def encode(value: Any) -> bytes:
        problem = next(validator.iter_errors(value), None)
        if problem is not None:
            where = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in problem.instance_path)
            raise ValueError(f"at ${where}: {problem.message}")
        return written(value)

    return Codec("JSONSCHEMA", root.get("title") if isinstance(root, dict) else None, encode, parse)


def _protobuf(found: Found, needed: dict[str, Found]) -> Codec:
    """The first message of the file is the one that is written."""
    from google.protobuf import json_format, message_factory

    file = descriptor(found["schema"], {name: one["schema"] for name, one in needed.items()})
    first = next(iter(file.message_types_by_name.values()), None)

    def message(path: list[int]) -> Any:
        here = list(file.message_types_by_name.values())[path[0]]
        for index in path[1:]:
            here = list(here.nested_types)[index]
        return message_factory.GetMessageClass(here)()

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

    wide = any(len(one.fields) > FIELDS_FEW for one in _messages_of(file))
    return Codec("PROTOBUF", None if first is None else first.full_name, encode, decode, wide)


def _messages_of(file: Any) -> Iterator[Any]:
    """Of this file and those that it imports, the inner ones too."""
    left, seen = [file], set()
    while left:
        one = left.pop()
        if one.name not in seen:
            seen.add(one.name)
            left += one.dependencies
            inside = list(one.message_types_by_name.values())
            while inside:
                yield (message := inside.pop())
                inside += message.nested_types


def _check_printed(message: Any) -> None:
    """Fields without a value are printed too: two bytes can be a message of thousands."""
    left, printed = [message], 0
    while left:
        one = left.pop()
        printed += len(one.DESCRIPTOR.fields)
        if printed > FIELDS_PRINTED_MAX:
            raise ValueError(
                f"there are more than {FIELDS_PRINTED_MAX} fields in it, with those that are not set"
            )
        for field, value in one.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                if field.message_type.fields_by_name["value"].message_type is not None:
                    left += value.values()
            elif hasattr(value, "DESCRIPTOR"):
                left.append(value)
            else:
                left += value
