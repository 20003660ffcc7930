"""The state that a `process` function keeps for each key: values, lists and maps, in RocksDB, with a time to live.

The declaration names the fields; functions read and write them as rows or as single values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidelog.pipeline.streams.decode import struct_type
from tidelog.pipeline.streams.durations import duration_ms
from tidelog.pipeline.streams.rows import Row


@dataclass(frozen=True)
class Value:
    """One value or row: `Value("double")`, `Value("count int, total double")`."""

    schema: str
    ttl: str | None = None


@dataclass(frozen=True)
class List:
    """A list of values or rows, in the order in which they were added."""

    schema: str
    ttl: str | None = None


@dataclass(frozen=True)
class Map:
    """Values by a key of the map: `Map("country string", "count int")`."""

    key: str
    schema: str
    ttl: str | None = None


Declared = Value | List | Map


class StoreSchema:
    """The schema of a store, declared as `double` or `count int, total double`; converts rows to and from state.

    It is made on the driver, where Spark can parse the text, and pickled to the executors."""

    def __init__(self, text: str) -> None:
        # `double` is one column without a name; `a int` and `a int, b int` have names.
        self.single = " " not in text.split("<")[0].split("(")[0].strip()
        self.type = struct_type(f"value {text}" if self.single else text)

    def packed(self, value: Any) -> tuple[Any, ...]:
        if self.single:
            return (value,)
        if isinstance(value, dict):
            return tuple(value.get(name) for name in self.type.names)
        if isinstance(value, tuple | list):
            return tuple(value)
        return (value,)

    def unpacked(self, values: Any) -> Any:
        fields = [aware(field) for field in values]
        return fields[0] if self.single else Row(zip(self.type.names, fields, strict=True))


def aware(value: Any) -> Any:
    """Timestamps of rows are in UTC; Spark's state returns them in local time and without a zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, list):
        return [aware(element) for element in value]
    if isinstance(value, dict):
        return {name: aware(element) for name, element in value.items()}
    return value


class ValueStore:
    def __init__(self, handle: Any, name: str, shape: StoreSchema, ttl_ms: int | None) -> None:
        self._shape = shape
        self._state = handle.getValueState(name, shape.type, ttl_ms)

    def get(self, default: Any = None) -> Any:
        values = self._state.get() if self._state.exists() else None
        return default if values is None else self._shape.unpacked(values)

    def set(self, value: Any) -> None:
        self._state.update(self._shape.packed(value))

    def clear(self) -> None:
        self._state.clear()


class ListStore:
    def __init__(self, handle: Any, name: str, shape: StoreSchema, ttl_ms: int | None) -> None:
        self._shape = shape
        self._state = handle.getListState(name, shape.type, ttl_ms)

    def __iter__(self) -> Iterator[Any]:
        if self._state.exists():
            # Read at once: an iterator that is not exhausted disturbs the next call to the state.
            yield from [self._shape.unpacked(values) for values in list(self._state.get())]

    def append(self, value: Any) -> None:
        self._state.appendValue(self._shape.packed(value))

    def set(self, values: Iterable[Any]) -> None:
        packed = [self._shape.packed(value) for value in values]
        if packed:
            self._state.put(packed)
        else:
            self._state.clear()

    def clear(self) -> None:
        self._state.clear()


class MapStore:
    def __init__(
        self, handle: Any, name: str, key: StoreSchema, shape: StoreSchema, ttl_ms: int | None
    ) -> None:
        self._key, self._shape = key, shape
        self._state = handle.getMapState(name, key.type, shape.type, ttl_ms)

    def __contains__(self, key: Any) -> bool:
        return bool(self._state.exists() and self._state.containsKey(self._key_packed(key)))

    def get(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            return default
        return self._shape.unpacked(self._state.getValue(self._key_packed(key)))

    def set(self, key: Any, value: Any) -> None:
        self._state.updateValue(self._key_packed(key), self._shape.packed(value))

    def remove(self, key: Any) -> None:
        self._state.removeKey(self._key_packed(key))

    def items(self) -> Iterator[tuple[Any, Any]]:
        if self._state.exists():
            for key, values in list(self._state.iterator()):
                single = len(self._key.type.names) == 1
                yield aware(key[0]) if single else self._key.unpacked(key), self._shape.unpacked(values)

    def clear(self) -> None:
        self._state.clear()

    def _key_packed(self, key: Any) -> tuple[Any, ...]:
        return self._key.packed(key) if isinstance(key, dict | tuple) else (key,)


class StoreOpener:
    """A declared store, ready to be opened on an executor."""

    def __init__(self, declared: Declared) -> None:
        self._shape = StoreSchema(declared.schema)
        self._key = StoreSchema(declared.key) if isinstance(declared, Map) else None
        self._many = isinstance(declared, List)
        self._ttl_ms = duration_ms(declared.ttl)

    def opened(self, handle: Any, name: str) -> ValueStore | ListStore | MapStore:
        if self._key is not None:
            return MapStore(handle, name, self._key, self._shape, self._ttl_ms)
        if self._many:
            return ListStore(handle, name, self._shape, self._ttl_ms)
        return ValueStore(handle, name, self._shape, self._ttl_ms)
