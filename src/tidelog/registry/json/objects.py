"""Compatibility of objects and arrays in JSON schemas: properties, items, and whether further ones are allowed.  Pure."""

from __future__ import annotations

from typing import Protocol

from tidelog.registry.difference import Difference
from tidelog.registry.json.node import SchemaNode
from tidelog.registry.json.property_patterns import finds
from tidelog.registry.pair_comparison import Differences


class Accepts(Protocol):
    def accepts(self, reader: SchemaNode, writers: list[SchemaNode], path: str) -> Differences: ...


def compare_objects(by: Accepts, part: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
    differences = _required(part, written, path)
    properties = part.get("properties") or {}
    names = dict.fromkeys(properties)
    for other in written:
        names.update(dict.fromkeys(other.get("properties") or {}))
    for name in names:
        differences += _property(by, part, written, name, f"{path}/properties/{name}")
    differences += _patterns(by, part, written, path)
    differences += _additional(by, part, written, path)
    differences += _dependencies(by, part, written, path)
    names_schema = part.get("propertyNames")
    if names_schema is not None:
        theirs = [part.at(_TEXT)]
        theirs += [
            other.at(other.get("propertyNames"))
            for other in written
            if other.get("propertyNames") is not None
        ]
        differences += by.accepts(part.at(names_schema), theirs, f"{path}/propertyNames")
    return differences


def _patterns(by: Accepts, part: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
    differences: Differences = []
    mine = part.get("patternProperties") or {}
    for pattern, schema in mine.items():
        where = f"{path}/patternProperties/{pattern}"
        same = [other for other in written if pattern in (other.get("patternProperties") or {})]
        if same:
            theirs = [other.at(other.get("patternProperties")[pattern]) for other in same]
            differences += by.accepts(part.at(schema), theirs, where)
            continue
        # A name that it matches may match any of theirs, or none.
        tried: list[Differences] = []
        for other in written or [part.at({})]:
            others = [_promised(other, len(written)), *(other.get("patternProperties") or {}).values()]
            tried.append(
                [
                    difference
                    for given in others
                    for difference in by.accepts(part.at(schema), [other.at(given)], where)
                ]
            )
        nearest: Differences = min(tried, key=len)
        differences += nearest
    for other in written:
        for pattern, schema in (other.get("patternProperties") or {}).items():
            if pattern not in mine:
                where = f"{path}/patternProperties/{pattern}"
                differences += by.accepts(part.at(_more(part)), [other.at(schema)], where)
    return differences


def _more(part: SchemaNode) -> object:
    """The reader's constraint on properties that are not named."""
    return part.get("additionalProperties", part.get("unevaluatedProperties", True))


def _promised(part: SchemaNode, parts: int) -> object:
    """The writer's constraint on properties that are not named.  `unevaluatedProperties` depends on neighbouring
    keywords, so it only counts if there are none."""
    more = part.get("additionalProperties")
    if more is not None:
        return more
    alone = parts == 1 and _BESIDE.isdisjoint(part.schema)
    return part.get("unevaluatedProperties", True) if alone else True


_BESIDE = frozenset(("anyOf", "oneOf", "if", "dependentSchemas", "dependencies", "$ref", "not"))
_TEXT = {"type": "string"}


def _asked(part: SchemaNode, name: str, more: object) -> list[SchemaNode]:
    """All constraints of a schema on the property of this name."""
    properties = part.get("properties") or {}
    constraints = [part.at(properties[name])] if name in properties else []
    for pattern, schema in (part.get("patternProperties") or {}).items():
        if finds(pattern, name):
            constraints.append(part.at(schema))
    return constraints or [part.at(more)]


def _given(written: list[SchemaNode], name: str) -> list[SchemaNode]:
    return [
        constraint for other in written for constraint in _asked(other, name, _promised(other, len(written)))
    ]


def _property(by: Accepts, part: SchemaNode, written: list[SchemaNode], name: str, path: str) -> Differences:
    theirs, asks = _given(written, name), _asked(part, name, _more(part))
    inner = [difference for constraint in asks for difference in by.accepts(constraint, theirs, path)]
    if not inner:
        return []
    in_reader = name in (part.get("properties") or {})
    if in_reader and any(name in (other.get("properties") or {}) for other in written):
        return inner
    if in_reader:
        return [_added(part, written, name, path), *(inner if _covers(theirs) else [])]
    if any(constraint.accepts_nothing for constraint in asks):
        kind = "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
        words = (
            f"The {{reader}} schema has a closed content model and is missing a property present "
            f"at path '{path}' in the {{writer}} schema"
        )
        return [Difference(kind, path, words)]
    kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    words = (
        f"A property is missing in the {{reader}} schema but present at path '{path}' in the "
        f"{{writer}} schema, and what the {{reader}} schema says of other properties does not "
        "cover it"
    )
    return [Difference(kind, path, words), *inner]


def _covers(theirs: list[SchemaNode]) -> bool:
    return not all(node.accepts_all for node in theirs)


def _added(part: SchemaNode, written: list[SchemaNode], name: str, path: str) -> Difference:
    if _covers(_given(written, name)):
        words = (
            f"The {{reader}} schema has a property at path '{path}' which is missing in the "
            f"{{writer}} schema and not covered by its partially open content model"
        )
        return Difference("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path, words)
    words = (
        f"The {{writer}} schema has an open content model and is missing the property at path "
        f"'{path}' of the {{reader}} schema: it may have been written with any type"
    )
    if name in (part.get("required") or ()) and not _has_default(part, name):
        return Difference("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path, words)
    if name in (part.get("required") or ()):
        return Difference("REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL", path, words)
    return Difference("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path, words)


def _has_default(part: SchemaNode, name: str) -> bool:
    schema = (part.get("properties") or {}).get(name)
    return isinstance(schema, dict) and "default" in schema


def _required(part: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
    differences: Differences = []
    required = part.get("required")
    for name in required if isinstance(required, list) else []:
        if any(name in (other.get("required") or ()) for other in written) or _has_default(part, name):
            continue
        if any(name in (other.get("properties") or {}) for other in written):
            where, kind = f"{path}/required/{name}", "REQUIRED_ATTRIBUTE_ADDED"
            words = (
                f"The property at path '{where}' is required in the {{reader}} schema and not in "
                f"the {{writer}} schema"
            )
        else:
            where, kind = f"{path}/properties/{name}", "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
            words = (
                f"The {{reader}} schema has a required property at path '{where}' which is missing "
                f"in the {{writer}} schema, and it has no default"
            )
        differences.append(Difference(kind, where, words))
    return differences


def _additional(by: Accepts, part: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
    more = part.at(_more(part))
    theirs = [other.at(_promised(other, len(written))) for other in written]
    where = f"{path}/additionalProperties"
    inner = by.accepts(more, theirs, where)
    if not inner:
        return inner
    if more.accepts_nothing:
        words = (
            f"The {{reader}} schema does not take additional properties at path '{where}', the "
            f"{{writer}} schema allows them"
        )
        return [Difference("ADDITIONAL_PROPERTIES_REMOVED", where, words)]
    if not _covers(theirs):
        words = (
            f"The {{reader}} schema restricts additional properties at path '{where}', the "
            f"{{writer}} schema does not"
        )
        return [Difference("ADDITIONAL_PROPERTIES_NARROWED", where, words)]
    return inner


def _dependencies(by: Accepts, part: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
    differences: Differences = []
    for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
        for name, dependency in (part.get(keyword) or {}).items():
            where = f"{path}/{keyword}/{name}"
            if isinstance(dependency, list):
                promised: set[str] = set()
                for other in written:
                    promised.update(other.get("required") or ())
                    for place in ("dependencies", "dependentRequired"):
                        given = (other.get(place) or {}).get(name)
                        promised.update(given if isinstance(given, list) else ())
                if not promised.issuperset(dependency):
                    words = (
                        f"The {{reader}} schema asks for more properties beside '{name}' than the "
                        f"{{writer}} schema at path '{where}'"
                    )
                    differences.append(Difference("DEPENDENCY_ARRAY_EXTENDED", where, words))
                continue
            theirs = list(written)
            for other in written:
                for place in ("dependencies", "dependentSchemas"):
                    given = (other.get(place) or {}).get(name)
                    if isinstance(given, dict):
                        theirs.append(other.at(given))
            differences += by.accepts(part.at(dependency), theirs, where)
    return differences


# Arrays


def compare_arrays(by: Accepts, part: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
    differences: Differences = []
    mine, rest = _items(part, True)
    theirs = [_items(other, len(written) == 1 and _BESIDE.isdisjoint(other.schema)) for other in written]
    most = max([len(mine), *(len(prefix) for prefix, _ in theirs)])
    for at in range(most):
        item = mine[at] if at < len(mine) else rest
        given = [prefix[at] if at < len(prefix) else more for prefix, more in theirs]
        inner = by.accepts(item, given, f"{path}/items/{at}")
        if inner:
            differences += _item(at, len(mine), theirs, item, given, inner, f"{path}/items/{at}")
    where = f"{path}/{'additionalItems' if mine else 'items'}"
    differences += by.accepts(rest, [more for _, more in theirs], where)
    if part.get("uniqueItems") is True and not any(other.get("uniqueItems") is True for other in written):
        words = (
            f"Items at path '{path}/uniqueItems' are unique in the {{reader}} schema, not in the "
            f"{{writer}} schema"
        )
        differences.append(Difference("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems", words))
    return differences


def _items(part: SchemaNode, alone: bool) -> tuple[list[SchemaNode], SchemaNode]:
    """The constraints on the first items, one by one, and the constraint on all further items."""
    items, prefix = part.get("items"), part.get("prefixItems")
    more = part.get("unevaluatedItems", True) if alone else True
    if isinstance(prefix, list):
        return [part.at(item) for item in prefix], part.at(more if items is None else items)
    if isinstance(items, list):
        return [part.at(item) for item in items], part.at(part.get("additionalItems", more))
    return [], part.at(more if items is None else items)


def _item(
    at: int,
    have: int,
    theirs: list[tuple[list[SchemaNode], SchemaNode]],
    item: SchemaNode,
    given: list[SchemaNode],
    inner: Differences,
    path: str,
) -> Differences:
    if at < have and any(at < len(prefix) for prefix, _ in theirs):
        return inner
    if at < have:
        kind = "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        if all(node.accepts_all for node in given):
            kind = "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"
        words = (
            f"The {{reader}} schema has an item at path '{path}' which is missing in the "
            f"{{writer}} schema, where anything may stand"
        )
        return [Difference(kind, path, words)]
    kind = "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    if item.accepts_nothing:
        kind = "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"
    words = f"The {{reader}} schema does not take the item at path '{path}' of the {{writer}} schema"
    return [Difference(kind, path, words), *inner]
