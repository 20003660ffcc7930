"""Reads Avro from untrusted writers: a few bytes must not expand to gigabytes, minutes of work, or a stack overflow.

Values of some types take no bytes (null, a record of nulls), so an array's count can promise any number of them; a
recursive type can be as deep as the message is long, and fastavro recurses on the C stack; a decimal of a megabyte takes
minutes of arithmetic.  Types without such values, which is nearly all, are read directly.  Messages of other types are
walked first, in plain Python, and refused with a ValueError if they exceed the limits."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

VALUES_FREE = 10_000  # in one message, whatever its length
VALUES_PER_BYTE = 16
DEPTH_MAX = 1_000
DECIMAL_BYTES_MAX = 4_096

SCALARS = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
"""The least number of bytes of each type."""


def parse(text: str, named: dict[str, Any]) -> Any:
    """The schema for fastavro.  `named` holds the types that it may refer to; its own types are added.

    An invalid decimal is read as bytes, as Avro's specification says: fastavro would refuse the schema or each message."""
    import fastavro

    return fastavro.parse_schema(_without_bad_decimals(json.loads(text)), named_schemas=named)


def _without_bad_decimals(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_bad_decimals(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: inner if name == "default" else _without_bad_decimals(inner) for name, inner in schema.items()
    }
    if made.get("logicalType") == "decimal" and not _makes_sense(made):
        for name in ("logicalType", "precision", "scale"):
            made.pop(name, None)
    return made


def _makes_sense(schema: dict[str, Any]) -> bool:
    precision, scale, size = schema.get("precision"), schema.get("scale", 0), schema.get("size")
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision == 0:
        return False
    if schema.get("type") != "fixed":
        return schema.get("type") == "bytes"
    return type(size) is int and size > 0 and len(str(2 ** (8 * min(size, 10_000) - 1))) > precision


class AvroReader:
    """Reads messages of one schema, which `parse` has returned.  `named`: the types that were passed to `parse`."""

    def __init__(self, schema: Any, named: Mapping[str, Any] | None = None) -> None:
        import fastavro

        self._read = fastavro.schemaless_reader
        self._schema = schema
        self._named = dict(named or {})
        for branch in schema if isinstance(schema, list) else [schema]:
            if isinstance(branch, dict):
                self._named |= branch.get("__named_schemas", {})
        weight = _Weight(self._named)
        self.tame = weight.is_tame(schema)
        """True if reading a message of this size takes a short time."""
        self._decimals = weight.decimals

    def read(self, data: bytes | memoryview, into: Any = None, whole: bool = False) -> Any:
        """`into`: the reader's schema.  `whole`: no bytes may be left over.  Raises ValueError or an error of fastavro."""
        if not self.tame or (self._decimals and len(data) > DECIMAL_BYTES_MAX):
            _Walk(bytes(data), self._named).over(self._schema)
        source = io.BytesIO(data)
        value = self._read(source, self._schema, into)
        if whole and source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes are left over after the record")
        return value


class _Weight:
    """The least number of values of a type, and their least number of bytes."""

    def __init__(self, named: dict[str, Any]) -> None:
        self.decimals = False
        self._named = named
        self._known: dict[str, tuple[int, int]] = {}
        self._inside: set[str] = set()
        self._dense = Fraction(0)

    def is_tame(self, schema: Any) -> bool:
        """True if every message of this type is within the limits of values and depth."""
        try:
            values, _ = self._of(schema)
        except (_Recursive, RecursionError):
            return False
        return values <= VALUES_FREE and self._dense * 2 <= VALUES_PER_BYTE

    def _of(self, schema: Any) -> tuple[int, int]:
        if isinstance(schema, list):
            for branch in schema:
                self._repeated(branch, 1)
            return 1, 1
        kind = schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str):
            return self._of(kind)
        if kind in SCALARS:
            self._note(schema)
            return 1, SCALARS[kind]
        if kind == "array":
            self._repeated(schema["items"], 0)
            return 1, 1
        if kind == "map":
            self._repeated(schema["values"], 1)
            return 1, 1
        if kind == "enum":
            return 1, 1
        if kind == "fixed":
            self._note(schema)
            return 1, int(schema["size"])
        if kind in ("record", "error"):
            return self._record(schema)
        return self._of(self._named[kind])

    def _record(self, schema: dict[str, Any]) -> tuple[int, int]:
        name = schema["name"]
        if name in self._inside:
            raise _Recursive
        if name not in self._known:
            self._inside.add(name)
            parts = [self._of(field["type"]) for field in schema["fields"]]
            self._inside.discard(name)
            self._known[name] = 1 + sum(weight for weight, _ in parts), sum(size for _, size in parts)
        return self._known[name]

    def _repeated(self, schema: Any, more: int) -> None:
        """`more`: the bytes before each value."""
        values, size = self._of(schema)
        if size + more == 0:
            self._dense = Fraction(2**62)
        else:
            self._dense = max(self._dense, Fraction(values, size + more))

    def _note(self, schema: Any) -> None:
        if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            self.decimals = True


class _Recursive(Exception):
    pass


class _Walk:
    """Walks over the bytes of one message without decoding values."""

    def __init__(self, data: bytes, named: dict[str, Any]) -> None:
        self._data = data
        self._at = 0
        self._left = VALUES_FREE + VALUES_PER_BYTE * len(data)
        self._named = named

    def over(self, schema: Any) -> None:
        stack: list[Iterator[Any]] = [iter([schema])]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            self._take(1)
            inner = self._enter(node)
            if inner is not None:
                stack.append(inner)
                if len(stack) > DEPTH_MAX:
                    raise ValueError(f"it is more than {DEPTH_MAX} values deep")

    def _enter(self, schema: Any) -> Iterator[Any] | None:
        """The inner types, if the type has any."""
        while True:
            if isinstance(schema, list):
                branch = self._number()
                if not 0 <= branch < len(schema):
                    raise ValueError(f"a union has no type {branch}")
                schema = schema[branch]
            kind = schema if isinstance(schema, str) else schema["type"] if isinstance(schema, dict) else None
            if isinstance(kind, list | dict):
                schema = kind
            elif kind in self._named and kind not in SCALARS:
                schema = self._named[kind]
            elif kind is not None:
                break
        if kind in ("record", "error"):
            return (field["type"] for field in schema["fields"])
        if kind == "array":
            return self._items(schema["items"], False)
        if kind == "map":
            return self._items(schema["values"], True)
        self._scalar(kind, schema)
        return None

    def _items(self, schema: Any, keyed: bool) -> Iterator[Any]:
        while (count := self._number()) != 0:
            if count < 0:
                count = -count
                self._number()  # their bytes
            if count > self._left:
                self._take(count)
            for _ in range(count):
                if keyed:
                    self._skip(self._number())
                yield schema

    def _scalar(self, kind: str, schema: Any) -> None:
        size = 0
        if kind in ("int", "long", "enum"):
            self._number()
        elif kind in ("bytes", "string"):
            size = self._number()
        else:
            size = int(schema["size"]) if kind == "fixed" else SCALARS[kind]
        if size > DECIMAL_BYTES_MAX and isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            raise ValueError(f"a decimal of {size} bytes: {DECIMAL_BYTES_MAX} at most are read")
        self._skip(size)

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise ValueError(
                f"{len(self._data)} bytes that stand for more than "
                f"{VALUES_FREE + VALUES_PER_BYTE * len(self._data)} values"
            )

    def _skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError("it ends too early")
        self._at += size

    def _number(self) -> int:
        raw = 0
        for shift in range(0, 70, 7):
            if self._at >= len(self._data):
                raise ValueError("it ends too early")
            byte = self._data[self._at]
            self._at += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)
        raise ValueError("a number has more than ten bytes")
