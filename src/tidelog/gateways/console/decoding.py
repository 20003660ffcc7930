"""Keys and values in Confluent's framing, decoded with the schema that their id names, and encoded with the newest schema
of a subject.  Schemas are kept: an id never changes its meaning."""

from __future__ import annotations

import asyncio
import io
import json
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tidelog.extras import need
from tidelog.gateways.console.registry import Registry
from tidelog.gateways.console.values import Readable, Unreadable, of_value, readable, typed_json
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


class Schema:
    def __init__(self, kind: str, decode: Decode, encode: Callable[[Any], bytes]) -> None:
        self.kind = kind
        self.decode = decode
        self.encode = encode


class Decoder:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._schemas: OrderedDict[int, Schema] = OrderedDict()
        self._missing: dict[int, tuple[float, str]] = {}
        """Until when we do not ask again, and what is to be said.  A schema that is not there may come."""

    async def prepare(self, records: Iterable[Record]) -> None:
        """Fetches the schemas that these need.  Protobuf's come as descriptors, the others as they are."""
        ids = {schema_id(data) for one in records for data in (one.key, one.value)}
        now = asyncio.get_running_loop().time()
        self._missing = {one: found for one, found in self._missing.items() if found[0] > now}
        for one in ids - set(self._schemas) - set(self._missing) - {None}:
            assert one is not None
            try:
                self._schemas[one] = await self._load(one)
            except Problem as problem:
                # Not there: four bytes that happen to look like an id, or a schema that was deleted.
                said = "" if problem.status == 404 else f", schema {one} is unknown: {problem.message}"
                self._missing[one] = now + MISSING_S, said
        while len(self._schemas) > SCHEMAS_MAX:
            self._schemas.popitem(last=False)

    def read(self, data: bytes | None, whole: bool = False) -> Readable:
        """`prepare` it first; bytes whose schema is not known are shown as they are.  It may take
        a while: not on the loop."""
        number = schema_id(data)
        schema = None if number is None else self._schemas.get(number)
        if data is None or schema is None:
            plain = readable(data, whole)
            _, said = self._missing.get(-1 if number is None else number, (0, ""))
            return plain._replace(kind=(plain.kind + said)[:200])
        try:
            return of_value(f"{schema.kind} {number}", schema.decode(data[PREFIX.size :]), whole)
        except Exception as problem:  # whatever strange bytes make a library stumble over
            plain = readable(data, whole)
            return Readable(f"{plain.kind}, not {schema.kind} {number}: {problem}"[:200], plain.text)

    async def encode(self, subject: str, text: str) -> bytes:
        """JSON that a person typed, in the newest schema of the subject."""
        found = await self._registry.ask(
            "GET", "subjects", subject, "versions", "latest", format="serialized"
        )
        schema = await self._schema(found)
        value = typed_json(text)
        try:
            return frame(int(found["id"]), schema.encode(value))
        except Exception as problem:  # as many kinds as there are libraries
            raise Unreadable(f"this does not fit the newest schema of {subject!r}: {problem}") from None

    async def _load(self, number: int) -> Schema:
        found = await self._registry.ask("GET", "schemas", "ids", number, format="serialized")
        try:
            return await self._schema(found)
        except Problem:
            raise
        except Exception as problem:  # a schema that the registry takes and a library does not
            return _unusable(str(found.get("schemaType") or "AVRO").capitalize(), problem)

    async def _schema(self, found: dict[str, Any]) -> Schema:
        kind = found.get("schemaType") or "AVRO"
        if kind == "JSON":
            return Schema("JSON Schema", json.loads, _encode_json)
        needed: dict[str, dict[str, Any]] = {}
        await self._references(found, needed)
        if kind == "AVRO":
            return await asyncio.to_thread(_avro, found, list(needed.values()))
        if kind == "PROTOBUF":
            return await asyncio.to_thread(_protobuf, found, needed)
        raise Problem(501, f"schemas of type {kind} cannot be shown")

    async def _references(self, found: dict[str, Any], needed: dict[str, dict[str, Any]]) -> None:
        """All that it refers to, those first that others refer to."""
        for one in found.get("references") or ():
            if one["name"] in needed or len(needed) >= REFERENCES_MAX:
                continue
            where = "subjects", one["subject"], "versions", one["version"]
            other = await self._registry.ask("GET", *where, format="serialized")
            await self._references(other, needed)
            needed[one["name"]] = other


def schema_id(data: bytes | None) -> int | None:
    if data is None or len(data) <= PREFIX.size or data[0] != 0:
        return None
    number: int = PREFIX.unpack_from(data)[1]
    return number


def _unusable(kind: str, why: Exception) -> Schema:
    said = f"its schema cannot be used: {why}"

    def refuse(_: Any) -> Any:
        raise ValueError(said)

    return Schema(kind, refuse, refuse)


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _avro(found: dict[str, Any], needed: list[dict[str, Any]]) -> Schema:
    need("fastavro", "Avro schemas")
    import fastavro

    named: dict[str, Any] = {}
    for one in needed:
        parse_avro(one["schema"], named)
    parsed = parse_avro(found["schema"], named)
    reader = AvroReader(parsed, named)

    def encode(value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value, strict=True)
        return out.getvalue()

    return Schema("Avro", reader.read, encode)


def _protobuf(found: dict[str, Any], needed: dict[str, dict[str, Any]]) -> Schema:
    """The first message of the file is the one that is written."""
    need("google.protobuf", "Protobuf schemas")
    from google.protobuf import json_format, message_factory

    file = descriptor(found["schema"], {name: one["schema"] for name, one in needed.items()})

    def message(path: list[int]) -> Any:
        here = list(file.message_types_by_name.values())[path[0]]
        for index in path[1:]:
            here = list(here.nested_types)[index]
        return message_factory.GetMessageClass(here)()

    def decode(data: bytes) -> Any:
        path, content = get_indexes("", memoryview(data))
        made = message(path)
        made.ParseFromString(bytes(content))
        return json_format.MessageToDict(made, preserving_proto_field_name=True)

    def encode(value: Any) -> bytes:
        made: bytes = json_format.ParseDict(value, message([0])).SerializeToString()
        return put_indexes([0]) + made

    return Schema("Protobuf", decode, encode)


def descriptor(data: str, needed: dict[str, str]) -> Any:
    """The file of a schema, with those that it imports; each a FileDescriptorProto in base64."""
    from tidelog.schema.proto.files import link, read_file

    others = {name: read_file(text, name) for name, text in needed.items()}
    return link([read_file(data, "default")], others).FindFileByName("default")
