"""Records of an internal topic as messages: what a coordinator writes, and what it reads back when it loads.

A record's key begins with the number of its kind, its value with the version it is written in, as in Kafka, so that
tools which read these topics understand them.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from tidelog.errors import InvalidRecord
from tidelog.wire.message import Message
from tidelog.wire.primitives import Malformed

_NUMBER = Struct(">h")


class CoordinatorRecord(NamedTuple):
    """`value` None deletes what the key stands for."""

    key: Any  # a generated ...Key message
    value: Any  # its ...Value message, or None


class RecordType(NamedTuple):
    """Which messages a record consists of; `version` is the one its values are written in (or what chooses it for a
    value), all are read."""

    key: type[Message]
    value: type[Message]
    version: int | Callable[[Any], int]


class RecordTypes:
    """The kinds of records that one internal topic holds."""

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
        """None for a kind that is not known here: a newer broker wrote it, and what it says can wait for one.
        InvalidRecord for bytes that are no record of any."""
        if key is None or len(key) < _NUMBER.size:
            raise InvalidRecord("a record without the number of its kind")
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
