"""Compatibility of types, enumerations, and bounds of numbers and strings in JSON schemas: constraints of the reader that
the writer does not guarantee.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import jsonschema_rs

from tidelog.registry.difference import Difference
from tidelog.registry.json.node import SchemaNode
from tidelog.registry.pair_comparison import Differences

ALL = frozenset(("null", "boolean", "object", "array", "string", "number", "integer"))
_SCALAR_KEYWORDS = (
    "type",
    "enum",
    "const",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
# (keyword, the type that it applies to, whether the reader's value must not be less)
LIMITS = (
    ("maxLength", "string", True),
    ("minLength", "string", False),
    ("maxItems", "array", True),
    ("minItems", "array", False),
    ("maxProperties", "object", True),
    ("minProperties", "object", False),
)


def types_of(written: Iterable[SchemaNode]) -> frozenset[str]:
    """The types that all of the schemas allow."""
    types = ALL
    for part in written:
        types &= _types(part)
    return types


def _types(part: SchemaNode) -> frozenset[str]:
    values = _values(part)
    declared = part.get("type")
    types = ALL
    if isinstance(declared, str):
        types = frozenset((declared,))
    elif isinstance(declared, list):
        types = frozenset(declared)
    if "number" in types:
        types |= {"integer"}
    if values is not None:
        types &= frozenset(_type(value) for value in values)
    return types


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def compare_types(
    part: SchemaNode, written: list[SchemaNode], types: frozenset[str], path: str
) -> Differences:
    if "type" not in part.schema:
        return []
    declared = part.schema["type"]
    wanted = {declared} if isinstance(declared, str) else set(declared)
    if "number" in wanted:
        wanted.add("integer")
    if types <= wanted:
        return []
    kind = "TYPE_NARROWED" if types & wanted else "TYPE_CHANGED"
    extra = ", ".join(sorted(types - wanted)) if types != ALL else "any type"
    words = (
        f"A type at path '{path}' is different: the {{reader}} schema does not take {extra}, which "
        f"the {{writer}} schema allows"
    )
    return [Difference(kind, path, words)]


def compare_scalars(
    part: SchemaNode, written: list[SchemaNode], types: frozenset[str], path: str
) -> Differences:
    values = _common_values(written)
    if values is not None:
        return _each_value(part, values, path)
    differences: Differences = []
    if _values(part) is not None:
        where = f"{path}/{'enum' if 'enum' in part.schema else 'const'}"
        words = (
            f"The {{reader}} schema allows only certain values at path '{where}', the {{writer}} "
            "schema others too"
        )
        differences.append(Difference("ENUM_ARRAY_NARROWED", where, words))
    if types & {"number", "integer"}:
        differences += _numbers(part, written, types, path)
    for keyword, type_, upper in LIMITS:
        if type_ in types:
            differences += _limit(part, written, keyword, upper, path)
    pattern = part.get("pattern")
    if "string" in types and pattern is not None and all(node.get("pattern") != pattern for node in written):
        had = any("pattern" in node.schema for node in written)
        where = f"{path}/pattern"
        words = f"The pattern at path '{where}' in the {{reader}} schema is not that of the {{writer}} schema"
        differences.append(Difference("PATTERN_CHANGED" if had else "PATTERN_ADDED", where, words))
    return differences


def _values(part: SchemaNode) -> list[Any] | None:
    if isinstance(part.schema, dict) and "const" in part.schema:
        return [part.schema["const"]]
    values = part.get("enum")
    return values if isinstance(values, list) else None


def _common_values(written: list[SchemaNode]) -> list[Any] | None:
    lists = [values for values in map(_values, written) if values is not None]
    if not lists:
        return None
    return [value for value in lists[0] if all(_has(values, value) for values in lists[1:])]


def _has(values: list[Any], value: Any) -> bool:
    return any(
        isinstance(candidate, bool) == isinstance(value, bool) and candidate == value for candidate in values
    )


def _each_value(part: SchemaNode, values: list[Any], path: str) -> Differences:
    """The writer enumerates its values: each is checked."""
    constraints = {name: part.schema[name] for name in _SCALAR_KEYWORDS if name in part.schema}
    for name in ("minimum", "maximum"):
        if (
            constraints.get(f"exclusive{name.capitalize()}") is True and name in constraints
        ):  # as draft 4 writes it
            constraints[f"exclusive{name.capitalize()}"] = constraints.pop(name)
        elif isinstance(constraints.get(f"exclusive{name.capitalize()}"), bool):
            del constraints[f"exclusive{name.capitalize()}"]
    missing = [value for value in values if constraints and not jsonschema_rs.is_valid(constraints, value)]
    if not missing:
        return []
    where = f"{path}/enum" if "enum" in part.schema else path
    shown = ", ".join(repr(value) for value in missing[:5])
    kind = "ENUM_ARRAY_NARROWED" if "enum" in part.schema or "const" in part.schema else "TYPE_NARROWED"
    words = (
        f"The {{reader}} schema does not allow {shown} at path '{where}', which the {{writer}} schema does"
    )
    return [Difference(kind, where, words)]


def _limit(part: SchemaNode, written: list[SchemaNode], keyword: str, upper: bool, path: str) -> Differences:
    wanted = part.get(keyword)
    if wanted is None or (not upper and wanted <= 0):
        return []
    given = [node.get(keyword) for node in written if node.get(keyword) is not None]
    promised = (min(given) if upper else max(given)) if given else None
    if promised is not None and (promised <= wanted if upper else promised >= wanted):
        return []
    return [_bound(keyword, wanted, promised, upper, path)]


def _bound(keyword: str, wanted: Any, promised: Any, upper: bool, path: str) -> Difference:
    stem = "".join(f"_{letter}" if letter.isupper() else letter for letter in keyword).upper()
    where = f"{path}/{keyword}"
    if promised is None:
        words = (
            f"The keyword at path '{where}' in the {{reader}} schema ({wanted}) is not present in "
            f"the {{writer}} schema"
        )
        return Difference(f"{stem}_ADDED", where, words)
    how = "less" if upper else "more"
    words = (
        f"The value at path '{where}' in the {{reader}} schema ({wanted}) is {how} than its value "
        f"in the {{writer}} schema ({promised})"
    )
    return Difference(f"{stem}_{'DECREASED' if upper else 'INCREASED'}", where, words)


Edge = tuple[Fraction, bool]  # a bound, and whether it is exclusive


def _numbers(part: SchemaNode, written: list[SchemaNode], types: frozenset[str], path: str) -> Differences:
    differences: Differences = []
    for name, upper in (("maximum", True), ("minimum", False)):
        wanted = _edge(part, name, upper)
        if wanted is None:
            continue
        given = [edge for edge in (_edge(node, name, upper) for node in written) if edge is not None]
        promised = _tightest(given, upper)
        if promised is None or not _within(promised, wanted, upper):
            keyword = f"exclusive{name.capitalize()}" if wanted[1] else name
            bound = None if promised is None else float(promised[0])
            differences.append(_bound(keyword, float(wanted[0]), bound, upper, path))
    return differences + _multiples(part, written, types, path)


def _edge(part: SchemaNode, name: str, upper: bool) -> Edge | None:
    """The bound.  In draft 4, `exclusiveMaximum` is a boolean that makes `maximum` exclusive; later it is a number."""
    plain, exclusive = part.get(name), part.get(f"exclusive{name.capitalize()}")
    edges: list[Edge] = []
    if isinstance(plain, int | float) and not isinstance(plain, bool):
        edges.append((_exact(plain), exclusive is True))
    if isinstance(exclusive, int | float) and not isinstance(exclusive, bool):
        edges.append((_exact(exclusive), True))
    return _tightest(edges, upper)


def _tightest(edges: list[Edge], upper: bool) -> Edge | None:
    if not edges:
        return None
    return min(edges, key=lambda edge: (edge[0] if upper else -edge[0], not edge[1]))


def _within(promised: Edge, wanted: Edge, upper: bool) -> bool:
    if promised[0] == wanted[0]:
        return promised[1] or not wanted[1]
    return promised[0] < wanted[0] if upper else promised[0] > wanted[0]


def _multiples(part: SchemaNode, written: list[SchemaNode], types: frozenset[str], path: str) -> Differences:
    wanted = part.get("multipleOf")
    if wanted is None:
        return []
    step = _exact(wanted)
    given = [_exact(node.get("multipleOf")) for node in written if node.get("multipleOf") is not None]
    if "number" not in types:
        given.append(Fraction(1))
    if any((number / step).denominator == 1 for number in given if step):
        return []
    where = f"{path}/multipleOf"
    words = (
        f"Not every number that the {{writer}} schema allows is a multiple of {wanted}, as path "
        f"'{where}' in the {{reader}} schema asks"
    )
    return [Difference("MULTIPLE_OF_CHANGED" if given else "MULTIPLE_OF_ADDED", where, words)]


def _exact(number: Any) -> Fraction:
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)
