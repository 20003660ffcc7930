"""Coordinator records: the records of an internal topic, encoded and decoded as messages.

As in Kafka, a record's key begins with the number of its record type, and its value with the version that it is written
in, so that Kafka's tools can read these topics.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from tidelog.errors import InvalidRecord
from tidelog.wire.message import Message
from tidelog.wire.primitives import Malformed

_NUMBER = Struct(">h")


class CoordinatorRecord(NamedTuple):
    """`value` None is a tombstone: it deletes the state of the key."""

    key: Any  # a generated ...Key message
    value: Any  # its ...Value message, or None


class RecordType(NamedTuple):
    """The messages of a record's key and value.  Values are written in `version` (or in the version that the function
    chooses for a value); all versions are read."""

    key: type[Message]
    value: type[Message]
    version: int | Callable[[Any], int]


class RecordTypes:
    """The record types of one internal topic."""

    def __init__(self, *kinds: RecordType) -> None:
        self._by_number: dict[int, RecordType] = {kind.key.RECORD_TYPE: kind for kind in kinds}  # type: ignore[attr-defined]

    def encode(self, entry: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        number: int = entry.key.RECORD_TYPE
        key = _NUMBER.pack(number) + entry.key.encode(0)
        if entry.value is None:
            return key, None
        version = self._by_number[number].version
        if not isinstance(version, int):
            version = version(entry.value)
        return key, _NUMBER.pack(version) + entry.value.encode(version)

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
        """The record; None for an unknown record type or a newer version, which a newer broker has written.  Raises
        InvalidRecord for bytes that cannot be decoded."""
        if key is None or len(key) < _NUMBER.size:
            raise InvalidRecord("the record's key does not begin with a record type")
        (number,) = _NUMBER.unpack_from(key)
        kind = self._by_number.get(number)
        if kind is None:
            return None
        try:
            name = kind.key.decode(key, 0, _NUMBER.size)
            if value is None:
                return CoordinatorRecord(name, None)
            if len(value) < _NUMBER.size:
                raise InvalidRecord(f"the value of {name} has no version")
            (version,) = _NUMBER.unpack_from(value)
            if version > kind.value.VERSIONS[1]:
                return None
            return CoordinatorRecord(name, kind.value.decode(value, version, _NUMBER.size))
        except Malformed as problem:
            raise InvalidRecord(str(problem)) from None
