"""Converters: keys and values from objects to bytes and back.  Pure.

`json` is Connect's JsonConverter, with and without schemas; `string` its StringConverter; `bytes` its
ByteArrayConverter."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from typing import Any, Protocol

from tidelog.connect.records import ConnectSchema
from tidelog.connect.settings import ConnectorConfig
from tidelog.errors import InvalidConfig

NAMES = {
    "json": "json",
    "org.apache.kafka.connect.json.JsonConverter": "json",
    "string": "string",
    "org.apache.kafka.connect.storage.StringConverter": "string",
    "bytes": "bytes",
    "org.apache.kafka.connect.converters.ByteArrayConverter": "bytes",
}


class NotConverted(ValueError):
    """Bytes that are not of the converter's format, or an object that the converter has no bytes for."""


class Converter(Protocol):
    def to_bytes(self, schema: ConnectSchema | None, value: Any) -> bytes | None: ...
    def to_object(self, data: bytes | None) -> tuple[ConnectSchema | None, Any]: ...


def converter_of(config: ConnectorConfig, which: str) -> Converter:
    """`which`: key or value."""
    name = config.text(f"{which}.converter")
    kind = NAMES.get(name)
    if kind == "json":
        return JsonConverter(config.flag(f"{which}.converter.schemas.enable"))
    if kind == "string":
        return StringConverter()
    if kind == "bytes":
        return BytesConverter()
    raise InvalidConfig(f"{which}.converter cannot be {name!r}: use json, string or bytes")


def _other(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    raise NotConverted(f"JSON has no form for a {type(value).__name__}")


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_other).encode


class JsonConverter:
    def __init__(self, with_schemas: bool) -> None:
        self._with_schemas = with_schemas

    def to_bytes(self, schema: ConnectSchema | None, value: Any) -> bytes | None:
        if value is None and not (self._with_schemas and schema is not None):
            return None
        try:
            text = _encode(value)
        except ValueError as problem:
            raise NotConverted(str(problem)) from None
        if self._with_schemas:
            text = f'{{"schema":{"null" if schema is None else schema.text},"payload":{text}}}'
        return text.encode("utf-8", "surrogatepass")

    def to_object(self, data: bytes | None) -> tuple[ConnectSchema | None, Any]:
        if data is None:
            return None, None
        try:
            value = json.loads(data)
        except ValueError as problem:
            raise NotConverted(
                f"Converting byte[] to Kafka Connect data failed: not JSON: {problem}"
            ) from None
        if not self._with_schemas:
            return None, value
        if not isinstance(value, dict) or set(value) != {"schema", "payload"}:
            raise NotConverted(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional '
                "fields.  If you are trying to deserialize plain JSON data, set schemas.enable=false."
            )
        if value["schema"] is None:
            return None, value["payload"]
        try:
            return ConnectSchema.of_json(value["schema"]), value["payload"]
        except (ValueError, AttributeError) as problem:
            raise NotConverted(f"not a schema of Connect: {problem}") from None


class StringConverter:
    def to_bytes(self, schema: ConnectSchema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        return value.encode() if isinstance(value, str) else _encode(value).encode()

    def to_object(self, data: bytes | None) -> tuple[ConnectSchema | None, Any]:
        if data is None:
            return None, None
        try:
            return ConnectSchema("string", optional=True), data.decode()
        except UnicodeDecodeError:
            raise NotConverted("not UTF-8 text") from None


class BytesConverter:
    def to_bytes(self, schema: ConnectSchema | None, value: Any) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise NotConverted(f"the bytes converter takes bytes, not a {type(value).__name__}")

    def to_object(self, data: bytes | None) -> tuple[ConnectSchema | None, Any]:
        return ConnectSchema("bytes", optional=True), data
