"""The parser of Avro schemas: makes every check of the specification, so that the registry stores no schema that a client
cannot parse.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tidelog.registry.refusal import invalid_schema

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
NAMED = frozenset(("record", "error", "enum", "fixed"))
COMPLEX = NAMED | {"array", "map"}
DEPTH_MAX = 200
MISSING = object()
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS = frozenset(("ascending", "descending", "ignore"))
_OWN_ATTRIBUTES = frozenset(
    ("type", "name", "namespace", "doc", "fields", "aliases", "symbols", "size", "items", "values", "default")
)
_OWN_OF_FIELD = frozenset(("name", "type", "doc", "default", "order", "aliases"))
_INT = range(-(1 << 31), 1 << 31)
_LONG = range(-(1 << 63), 1 << 63)


class AvroField:
    __slots__ = ("aliases", "default", "doc", "extra", "name", "order", "type")

    def __init__(self, name: str, type_: AvroType, given: Mapping[str, Any]) -> None:
        self.name = name
        self.type = type_
        self.doc = given.get("doc")
        self.default: Any = given.get("default", MISSING)
        self.order = given.get("order", "ascending")
        self.aliases: tuple[str, ...] = tuple(given.get("aliases") or ())
        self.extra = {key: value for key, value in given.items() if key not in _OWN_OF_FIELD}


class AvroType:
    """`kind` is a primitive's name, record, error, enum, fixed, array, map or union; other fields depend on the kind."""

    __slots__ = (
        "aliases",
        "branches",
        "default",
        "doc",
        "extra",
        "fields",
        "items",
        "kind",
        "name",
        "size",
        "symbols",
    )

    def __init__(self, kind: str, name: str = "", extra: Mapping[str, Any] | None = None) -> None:
        self.kind = kind
        self.name = name
        """The full name with its namespace; empty for types without a name."""
        self.extra: Mapping[str, Any] = extra or {}
        self.aliases: tuple[str, ...] = ()
        self.doc: Any = None
        self.fields: list[AvroField] = []
        self.symbols: list[str] = []
        self.default: Any = None
        self.size = 0
        self.items: AvroType | None = None  # the items of an array, or the values of a map
        self.branches: list[AvroType] = []

    @property
    def shown(self) -> str:
        return self.name or self.kind

    @property
    def of_items(self) -> AvroType:
        assert self.items is not None
        return self.items

    def children(self) -> Iterator[AvroType]:
        if self.items is not None:
            yield self.items
        yield from self.branches
        yield from (field.type for field in self.fields)


Names = dict[str, AvroType]


def parse(given: Any, names: Names) -> AvroType:
    """`names` holds the types that the schema may refer to; the types that it defines are added."""
    return _AvroParser(names).type(given, "", "", 0)


class _AvroParser:
    def __init__(self, names: Names) -> None:
        self._names = names

    def type(self, given: Any, namespace: str, path: str, depth: int) -> AvroType:
        if depth > DEPTH_MAX:
            raise invalid_schema(f"it is nested more than {DEPTH_MAX} levels deep")
        if isinstance(given, str):
            return self._named(given, namespace, path)
        if isinstance(given, list):
            return self._union(given, namespace, path, depth)
        if not isinstance(given, dict):
            raise invalid_schema(f"a type is needed{_at(path)}, not {_short(given)}")
        kind = given.get("type", MISSING)
        if kind is MISSING:
            raise invalid_schema(f"'type' is missing{_at(path)}")
        if isinstance(kind, list | dict):
            return self.type(kind, namespace, path, depth + 1)
        if not isinstance(kind, str):
            raise invalid_schema(f"'type'{_at(path)} is {_short(kind)}, which is not a type")
        if kind not in COMPLEX:
            named = self._named(kind, namespace, path)
            extra = _extra(given)
            if named.kind in PRIMITIVES and extra:
                named = AvroType(named.kind, extra=extra)
            return named
        made = getattr(self, f"_{'record' if kind == 'error' else kind}")(given, namespace, path, depth + 1)
        assert isinstance(made, AvroType)
        return made

    def _named(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        type_ = self._names.get(full) or self._names.get(name)
        if type_ is None:
            raise invalid_schema(
                f"the type {name!r}{_at(path)} is not defined: define it before its first use, "
                "or name the schema that has it in 'references'"
            )
        return type_

    def _union(self, given: list[Any], namespace: str, path: str, depth: int) -> AvroType:
        union = AvroType("union")
        seen: set[str] = set()
        for at, branch_schema in enumerate(given):
            branch = self.type(branch_schema, namespace, f"{path}/{at}", depth + 1)
            if branch.kind == "union":
                raise invalid_schema(f"a union must not contain a union{_at(path)}")
            if branch.shown in seen:
                raise invalid_schema(f"the union{_at(path)} has {branch.shown!r} twice")
            seen.add(branch.shown)
            union.branches.append(branch)
        return union

    def _array(self, given: dict[str, Any], namespace: str, path: str, depth: int) -> AvroType:
        made = AvroType("array", extra=_extra(given))
        if "items" not in given:
            raise invalid_schema(f"the array{_at(path)} has no 'items'")
        made.items = self.type(given["items"], namespace, f"{path}/items", depth)
        return made

    def _map(self, given: dict[str, Any], namespace: str, path: str, depth: int) -> AvroType:
        made = AvroType("map", extra=_extra(given))
        if "values" not in given:
            raise invalid_schema(f"the map{_at(path)} has no 'values'")
        made.items = self.type(given["values"], namespace, f"{path}/values", depth)
        return made

    def _fixed(self, given: dict[str, Any], namespace: str, path: str, depth: int) -> AvroType:
        made, _ = self._define(given, namespace, path)
        size = given.get("size")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise invalid_schema(f"the size of fixed {made.name!r} is {_short(size)}, not a number of bytes")
        made.size = size
        return made

    def _enum(self, given: dict[str, Any], namespace: str, path: str, depth: int) -> AvroType:
        made, _ = self._define(given, namespace, path)
        symbols = given.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise invalid_schema(f"enum {made.name!r} needs a list of 'symbols'")
        for symbol in symbols:
            _check_name(symbol, f"symbol of enum {made.name!r}")
        if len(set(symbols)) < len(symbols):
            raise invalid_schema(f"enum {made.name!r} has a symbol twice")
        made.symbols = symbols
        made.default = given.get("default")
        if made.default is not None and made.default not in symbols:
            raise invalid_schema(
                f"the default {_short(made.default)} of enum {made.name!r} is none of its symbols"
            )
        return made

    def _record(self, given: dict[str, Any], namespace: str, path: str, depth: int) -> AvroType:
        made, space = self._define(given, namespace, path)
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise invalid_schema(f"record {made.name!r} needs a list of 'fields'")
        seen: set[str] = set()
        for at, field_schema in enumerate(fields):
            field = self._field(field_schema, made, space, f"{path}/fields/{at}", depth)
            if field.name in seen:
                raise invalid_schema(f"record {made.name!r} has field {field.name!r} twice")
            seen.add(field.name)
            made.fields.append(field)
        return made

    def _field(self, given: Any, record: AvroType, namespace: str, path: str, depth: int) -> AvroField:
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            raise invalid_schema(f"a field of record {record.name!r} has no name{_at(path)}")
        name = given["name"]
        _check_name(name, f"field of record {record.name!r}")
        if "type" not in given:
            raise invalid_schema(f"field {name!r} of record {record.name!r} has no type")
        _check_aliases(given, path)
        if given.get("order", "ascending") not in _ORDERS:
            raise invalid_schema(f"the order of field {name!r} is {_short(given['order'])}")
        field = AvroField(name, self.type(given["type"], namespace, f"{path}/type", depth), given)
        if field.default is not MISSING and not fits(field.type, field.default):
            raise invalid_schema(
                f"the default {_short(field.default)} of field {name!r} in record {record.name!r} "
                f"does not fit its type {field.type.shown}"
            )
        return field

    def _define(self, given: dict[str, Any], namespace: str, path: str) -> tuple[AvroType, str]:
        """Defines the named type; returns the type and its namespace."""
        kind, name = given["type"], given.get("name")
        if not isinstance(name, str):
            raise invalid_schema(f"the {kind}{_at(path)} has no name")
        space = given.get("namespace", namespace)
        if not isinstance(space, str):
            raise invalid_schema(f"the namespace of {name!r} is {_short(space)}, which is not text")
        if "." in name:
            space, _, name = name.rpartition(".")
        for part in (*filter(None, space.split(".")), name):
            _check_name(part, f"{kind}")
        full = f"{space}.{name}" if space else name
        if full in self._names:
            raise invalid_schema(f"the type {full!r} is defined twice")
        if full in PRIMITIVES:
            raise invalid_schema(f"{full!r} is the name of a primitive type")
        made = AvroType(kind, full, _extra(given))
        made.doc = given.get("doc")
        _check_aliases(given, path)
        made.aliases = tuple(
            alias if "." in alias or not space else f"{space}.{alias}" for alias in given.get("aliases") or ()
        )
        self._names[full] = made
        return made, space


def fits(type_: AvroType, value: Any) -> bool:
    """True if a default in JSON is a value of the type; for a union, of any branch."""
    kind = type_.kind
    if kind == "union":
        return any(fits(branch, value) for branch in type_.branches)
    if kind in ("bytes", "fixed"):
        if not isinstance(value, str) or any(ord(letter) > 255 for letter in value):
            return False
        return kind == "bytes" or len(value) == type_.size
    if kind == "array":
        return isinstance(value, list) and all(fits(type_.of_items, item) for item in value)
    if kind == "map":
        return isinstance(value, dict) and all(fits(type_.of_items, item) for item in value.values())
    if kind in ("record", "error"):
        return isinstance(value, dict) and all(
            fits(field.type, value[field.name]) if field.name in value else field.default is not MISSING
            for field in type_.fields
        )
    return _fits_scalar(kind, type_, value)


def _fits_scalar(kind: str, type_: AvroType, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind == "enum":
        return isinstance(value, str) and value in type_.symbols
    if isinstance(value, bool):
        return False
    if kind in ("int", "long"):
        return isinstance(value, int) and value in (_INT if kind == "int" else _LONG)
    # NaN and infinities are written as text, as Java's parser does.
    return isinstance(value, int | float) or value in ("NaN", "Infinity", "-Infinity")


def _extra(given: Mapping[str, Any]) -> dict[str, Any]:
    """Logical types and other attributes of the schema's author."""
    own = _OWN_ATTRIBUTES if given["type"] in NAMED else {"type", "items", "values"}
    return {key: value for key, value in given.items() if key not in own}


def _check_name(name: str, kind: str) -> None:
    if not _NAME.fullmatch(name):
        raise invalid_schema(
            f"{name!r} is no name for a {kind}: letters, digits and underscores, not a digit first"
        )


def _check_aliases(given: Mapping[str, Any], path: str) -> None:
    aliases = given.get("aliases")
    if aliases is not None and not (
        isinstance(aliases, list) and all(isinstance(alias, str) for alias in aliases)
    ):
        raise invalid_schema(f"'aliases'{_at(path)} is not a list of names")


def _at(path: str) -> str:
    return f" at {path}" if path else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
