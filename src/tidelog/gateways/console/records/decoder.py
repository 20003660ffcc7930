"""Decodes keys and values in Confluent's framing with the schema that their id names, and encodes with the latest schema
of a subject.  Schemas are cached: the schema of an id never changes."""

from __future__ import annotations

import asyncio
import io
import json
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tidelog.extras import need
from tidelog.gateways.console.records.readable import Readable, Unreadable, of_value, readable, typed_json
from tidelog.gateways.console.records.registry_client import RegistryClient
from tidelog.gateways.http.problem import Problem
from tidelog.schema.avro_reading import AvroReader
from tidelog.schema.avro_reading import parse as parse_avro
from tidelog.schema.framing import frame, get_indexes, put_indexes

if TYPE_CHECKING:
    from tidelog.client.consumer.fetch.assigned_partition import Record

SCHEMAS_MAX = 500
REFERENCES_MAX = 50
MISSING_S = 5.0
PREFIX = struct.Struct(">bI")

Decode = Callable[[bytes], Any]


class SchemaCodec:
    def __init__(self, kind: str, decode: Decode, encode: Callable[[Any], bytes]) -> None:
        self.kind = kind
        self.decode = decode
        self.encode = encode


class Decoder:
    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self._schemas: OrderedDict[int, SchemaCodec] = OrderedDict()
        self._missing: dict[int, tuple[float, str]] = {}
        """By id of a schema that could not be loaded: when to ask again, and the text to show until then."""

    async def prepare(self, records: Iterable[Record]) -> None:
        """Fetches the schemas that the records need: Protobuf schemas as descriptors, the others as text."""
        ids = {schema_id(data) for record in records for data in (record.key, record.value)}
        now = asyncio.get_running_loop().time()
        self._missing = {number: entry for number, entry in self._missing.items() if entry[0] > now}
        for number in ids - set(self._schemas) - set(self._missing) - {None}:
            assert number is not None
            try:
                self._schemas[number] = await self._load(number)
            except Problem as problem:
                # 404: four bytes that happen to look like an id, or a schema that was deleted.
                text = "" if problem.status == 404 else f", schema {number} is unknown: {problem.message}"
                self._missing[number] = now + MISSING_S, text
        while len(self._schemas) > SCHEMAS_MAX:
            self._schemas.popitem(last=False)

    def read(self, data: bytes | None, whole: bool = False) -> Readable:
        """Decodes `data`, which must be prepared; bytes without a known schema are shown as they are.  May take long: call
        it on a thread."""
        number = schema_id(data)
        schema = None if number is None else self._schemas.get(number)
        if data is None or schema is None:
            plain = readable(data, whole)
            _, text = self._missing.get(-1 if number is None else number, (0, ""))
            return plain._replace(kind=(plain.kind + text)[:200])
        try:
            return of_value(f"{schema.kind} {number}", schema.decode(data[PREFIX.size :]), whole)
        except Exception as problem:  # libraries raise all kinds of errors for malformed bytes
            plain = readable(data, whole)
            return Readable(f"{plain.kind}, not {schema.kind} {number}: {problem}"[:200], plain.text)

    async def encode(self, subject: str, text: str) -> bytes:
        """Encodes typed JSON with the latest schema of the subject."""
        registered = await self._registry.ask(
            "GET", "subjects", subject, "versions", "latest", format="serialized"
        )
        schema = await self._schema(registered)
        value = typed_json(text)
        try:
            return frame(int(registered["id"]), schema.encode(value))
        except Exception as problem:  # each library raises errors of its own
            raise Unreadable(f"the value does not fit the latest schema of {subject!r}: {problem}") from None

    async def _load(self, number: int) -> SchemaCodec:
        registered = await self._registry.ask("GET", "schemas", "ids", number, format="serialized")
        try:
            return await self._schema(registered)
        except Problem:
            raise
        except Exception as problem:  # a schema that the registry accepts and the library rejects
            return _unusable(str(registered.get("schemaType") or "AVRO").capitalize(), problem)

    async def _schema(self, registered: dict[str, Any]) -> SchemaCodec:
        kind = registered.get("schemaType") or "AVRO"
        if kind == "JSON":
            return SchemaCodec("JSON Schema", json.loads, _encode_json)
        needed: dict[str, dict[str, Any]] = {}
        await self._references(registered, needed)
        if kind == "AVRO":
            return await asyncio.to_thread(_avro, registered, list(needed.values()))
        if kind == "PROTOBUF":
            return await asyncio.to_thread(_protobuf, registered, needed)
        raise Problem(501, f"schemas of type {kind} cannot be shown")

    async def _references(self, registered: dict[str, Any], needed: dict[str, dict[str, Any]]) -> None:
        """Collects the schemas that this one refers to, dependencies first."""
        for reference in registered.get("references") or ():
            if reference["name"] in needed or len(needed) >= REFERENCES_MAX:
                continue
            where = "subjects", reference["subject"], "versions", reference["version"]
            other = await self._registry.ask("GET", *where, format="serialized")
            await self._references(other, needed)
            needed[reference["name"]] = other


def schema_id(data: bytes | None) -> int | None:
    if data is None or len(data) <= PREFIX.size or data[0] != 0:
        return None
    number: int = PREFIX.unpack_from(data)[1]
    return number


def _unusable(kind: str, why: Exception) -> SchemaCodec:
    text = f"its schema cannot be used: {why}"

    def refuse(_: Any) -> Any:
        raise ValueError(text)

    return SchemaCodec(kind, refuse, refuse)


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _avro(registered: dict[str, Any], needed: list[dict[str, Any]]) -> SchemaCodec:
    need("fastavro", "Avro schemas")
    import fastavro

    named: dict[str, Any] = {}
    for schema in needed:
        parse_avro(schema["schema"], named)
    parsed = parse_avro(registered["schema"], named)
    reader = AvroReader(parsed, named)

    def encode(value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value, strict=True)
        return out.getvalue()

    return SchemaCodec("Avro", reader.read, encode)


def _protobuf(registered: dict[str, Any], needed: dict[str, dict[str, Any]]) -> SchemaCodec:
    """Encodes as the first message of the file."""
    need("google.protobuf", "Protobuf schemas")
    from google.protobuf import json_format, message_factory

    file = descriptor(registered["schema"], {name: schema["schema"] for name, schema in needed.items()})

    def message(path: list[int]) -> Any:
        kind = list(file.message_types_by_name.values())[path[0]]
        for index in path[1:]:
            kind = list(kind.nested_types)[index]
        return message_factory.GetMessageClass(kind)()

    def decode(data: bytes) -> Any:
        path, content = get_indexes("", memoryview(data))
        parsed = message(path)
        parsed.ParseFromString(bytes(content))
        return json_format.MessageToDict(parsed, preserving_proto_field_name=True)

    def encode(value: Any) -> bytes:
        encoded: bytes = json_format.ParseDict(value, message([0])).SerializeToString()
        return put_indexes([0]) + encoded

    return SchemaCodec("Protobuf", decode, encode)


def descriptor(data: str, needed: dict[str, str]) -> Any:
    """The file of a schema, with the files that it imports; each a FileDescriptorProto in base64."""
    from tidelog.schema.proto.files import link, read_file

    others = {name: read_file(text, name) for name, text in needed.items()}
    return link([read_file(data, "default")], others).FindFileByName("default")
