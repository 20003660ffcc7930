"""Requests built and answers read by kio, a codec that shares nothing with Tidelog, over one blocking socket.

Fields carry Kafka's names in snake case (kio drops the `_ms` of durations; plain integers are milliseconds).
A field that the wanted version does not have is left out; one that no version has is a mistake in the test.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import io
import pkgutil
import socket
import struct
import types
import typing
import uuid
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

API_KEYS = {name: key for key, name in api_key_map.items()}
ZERO_UUID = uuid.UUID(int=0)
RESPONSE_SECONDS_MAX = 180
FRAME_BYTES_MAX = 256 * 1024 * 1024


class ConnectionClosed(Exception):
    """The broker ended the connection instead of answering."""


def encode_request(
    api: str, version: int, correlation_id: int, client_id: str | None = "raw", **fields: Any
) -> bytes:
    """A whole frame, length first."""
    request_type = load_request_schema(API_KEYS[api], version)
    unknown = fields.keys() - _field_names(api)
    assert not unknown, f"{api} has no field {unknown}"
    header_type: Any = request_type.__header_schema__
    header = header_type(
        request_api_key=request_type.__api_key__,
        request_api_version=request_type.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    out = io.BytesIO()
    entity_writer(header_type)(out, header)
    entity_writer(request_type)(out, build(request_type, fields))
    return struct.pack(">i", len(out.getvalue())) + out.getvalue()


def decode_response(api: str, version: int, frame: bytes) -> tuple[int, Any]:
    """Correlation id and answer of a frame without its length; every byte must be accounted for."""
    response_type = load_response_schema(API_KEYS[api], version)
    header, at = entity_reader(response_type.__header_schema__)(frame, 0)
    answer, size = entity_reader(response_type)(frame, at)
    assert at + size == len(frame), f"{len(frame) - at - size} bytes too many in the {api} v{version} answer"
    return header.correlation_id, answer


class Connection:
    """One client connection; also a context manager."""

    def __init__(self, bootstrap: str, client_id: str | None = "raw") -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=RESPONSE_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._last_correlation_id = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, api: str, version: int, **fields: Any) -> Any:
        expected = self.send(api, version, **fields)
        correlation_id, answer = self.receive(api, version)
        assert correlation_id == expected
        return answer

    def send(self, api: str, version: int, **fields: Any) -> int:
        self._last_correlation_id += 1
        frame = encode_request(api, version, self._last_correlation_id, self.client_id, **fields)
        self.socket.sendall(frame)
        return self._last_correlation_id

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, api: str, version: int) -> tuple[int, Any]:
        return decode_response(api, version, self.receive_frame())

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        assert 4 <= size <= FRAME_BYTES_MAX, f"a response of {size} bytes"
        return self._read(size)

    def closed_by_broker(self) -> bool:
        """True when the broker ends the connection without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise ConnectionClosed(f"after {len(data)} of {size} bytes")
            data += part
        return bytes(data)


def milliseconds(moment: datetime.datetime | None) -> int:
    """A timestamp as it was on the wire; kio shows -1 as None."""
    return -1 if moment is None else round(moment.timestamp() * 1000)


def build(entity: type[Any], values: dict[str, Any]) -> Any:
    """An instance of a kio class from plain values: dicts for structs, lists for arrays, integers for durations."""
    hints = typing.get_type_hints(entity)
    arguments = {}
    for field in dataclasses.fields(entity):
        if field.name in values:
            arguments[field.name] = _value(hints[field.name], field, values[field.name])
        elif field.default is dataclasses.MISSING:
            arguments[field.name] = _zero(hints[field.name], field)
    return entity(**arguments)


def _value(hint: Any, field: dataclasses.Field[Any], value: Any) -> Any:
    if value is None:
        return None
    origin, parameters = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = [p for p in parameters if p is not types.NoneType]
        return _value(inner, field, value)
    if origin is tuple:
        return tuple(_value(parameters[0], field, item) for item in value)
    if dataclasses.is_dataclass(hint):
        return value if dataclasses.is_dataclass(value) else build(typing.cast("type[Any]", hint), value)
    kind = field.metadata.get("kafka_type", "")
    if kind.startswith("timedelta") and isinstance(value, int):
        return datetime.timedelta(milliseconds=value)
    if kind == "error_code":
        return ErrorCode(value)
    return value


def _zero(hint: Any, field: dataclasses.Field[Any]) -> Any:
    origin, parameters = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return None
    if origin is tuple:
        return ()
    if dataclasses.is_dataclass(hint):
        return build(typing.cast("type[Any]", hint), {})
    del parameters
    kind = field.metadata.get("kafka_type", "")
    if kind.startswith("timedelta"):
        return datetime.timedelta(0)
    zeros: dict[str, Any] = {"string": "", "bytes": b"", "bool": False, "float64": 0.0, "uuid": ZERO_UUID}
    return zeros.get(kind, 0)


@functools.cache
def _field_names(api: str) -> frozenset[str]:
    """Of the request and its structs, over all versions."""
    names: set[str] = set()
    for paths in schema_name_map[api].values():
        module = pkgutil.resolve_name(paths[EntityType.request].split(":")[0])
        for thing in vars(module).values():
            if dataclasses.is_dataclass(thing):
                names |= {field.name for field in dataclasses.fields(thing)}
    return frozenset(names)
