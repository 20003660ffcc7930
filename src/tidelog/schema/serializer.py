"""The interfaces of serializers and deserializers, and those that need no registry: bytes, text, JSON.  Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from tidelog.errors import TidelogError


class SerializationError(TidelogError):
    """A value does not fit its serializer, or bytes do not fit their deserializer."""


@runtime_checkable
class Serializer(Protocol):
    def serialize(self, topic: str, value: Any, is_key: bool = False) -> bytes | None: ...


@runtime_checkable
class Deserializer(Protocol):
    def deserialize(self, topic: str, data: bytes | None, is_key: bool = False) -> Any: ...


@runtime_checkable
class Remote(Protocol):
    """A serializer that may have to ask a registry first: this takes time, and must not happen on an event loop."""

    def ready(self, topic: str, is_key: bool = False) -> bool:
        """True if `serialize` needs no request to the registry."""
        ...

    def prepare(self, topic: str, is_key: bool = False) -> None:
        """Sends the request that `serialize` needs."""
        ...

    def knows(self, data: bytes | None) -> bool:
        """True if `deserialize` needs no request to the registry."""
        ...


class Bytes:
    """Bytes without conversion; values of other types are refused."""

    def serialize(self, topic: str, value: Any, is_key: bool = False) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise SerializationError(f"bytes are needed for topic {topic!r}, not {type(value).__name__}")

    def deserialize(self, topic: str, data: bytes | None, is_key: bool = False) -> bytes | None:
        return data


class Text:
    """Text, in UTF-8 unless another encoding is named."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, topic: str, value: Any, is_key: bool = False) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise SerializationError(f"text is needed for topic {topic!r}, not {type(value).__name__}")
        try:
            return value.encode(self._encoding)
        except UnicodeEncodeError as problem:
            raise SerializationError(f"text for topic {topic!r}: {problem}") from None

    def deserialize(self, topic: str, data: bytes | None, is_key: bool = False) -> str | None:
        try:
            return None if data is None else data.decode(self._encoding)
        except UnicodeDecodeError as problem:
            raise SerializationError(f"a record of topic {topic!r} is not text: {problem}") from None


class Json:
    """JSON without unneeded spaces; None is a null record, not the word."""

    def serialize(self, topic: str, value: Any, is_key: bool = False) -> bytes | None:
        if value is None:
            return None
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError) as problem:
            raise SerializationError(f"a value for topic {topic!r} cannot be JSON: {problem}") from None

    def deserialize(self, topic: str, data: bytes | None, is_key: bool = False) -> Any:
        try:
            return None if data is None else json.loads(data)
        except (ValueError, RecursionError) as problem:
            raise SerializationError(f"a record of topic {topic!r} is not JSON: {problem}") from None


class _Called:
    """A function that the user passes as a serializer."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def serialize(self, topic: str, value: Any, is_key: bool = False) -> bytes | None:
        made: bytes | None = self._function(value)
        return made

    def deserialize(self, topic: str, data: bytes | None, is_key: bool = False) -> Any:
        return self._function(data)


def serializer_of(given: Serializer | Callable[[Any], bytes | None] | None) -> Serializer | None:
    if given is None or isinstance(given, Serializer):
        return given
    if callable(given):
        return _Called(given)
    raise ValueError(
        f"{given!r} is not a serializer: pass an object with serialize(topic, value, is_key), or a function"
    )


def deserializer_of(given: Deserializer | Callable[[bytes | None], Any] | None) -> Deserializer | None:
    if given is None or isinstance(given, Deserializer):
        return given
    if callable(given):
        return _Called(given)
    raise ValueError(
        f"{given!r} is not a deserializer: pass an object with deserialize(topic, data, is_key), or a function"
    )
