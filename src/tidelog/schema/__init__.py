"""Keys and values as something else than bytes: text, JSON, and Avro, Protobuf and JSON Schema with a registry.

    Producer(value_serializer=Json())
    Consumer(value_deserializer=Avro(registry=Registry("http://127.0.0.1:8081")))

Each class works in both directions.  Avro, Protobuf and JSON Schema need `pip install 'tidelog[schema]'`; their
bytes and requests are Confluent's, so any registry and any other client understands them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.schema.avro import Avro as Avro
    from tidelog.schema.json_schema import JsonSchema as JsonSchema
    from tidelog.schema.protobuf import Protobuf as Protobuf
    from tidelog.schema.registry import Registered as Registered
    from tidelog.schema.registry import Registry as Registry
    from tidelog.schema.registry import RegistryError as RegistryError
    from tidelog.schema.serializer import Bytes as Bytes
    from tidelog.schema.serializer import Deserializer as Deserializer
    from tidelog.schema.serializer import Json as Json
    from tidelog.schema.serializer import SerializationError as SerializationError
    from tidelog.schema.serializer import Serializer as Serializer
    from tidelog.schema.serializer import Text as Text

_HOMES = {
    "Avro": "avro",
    "Bytes": "serializer",
    "Deserializer": "serializer",
    "Json": "serializer",
    "JsonSchema": "json_schema",
    "Protobuf": "protobuf",
    "Registered": "registry",
    "Registry": "registry",
    "RegistryError": "registry",
    "SerializationError": "serializer",
    "Serializer": "serializer",
    "Text": "serializer",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
