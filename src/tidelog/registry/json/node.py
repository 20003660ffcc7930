"""Nodes of JSON Schema documents: resolves `$ref` within and across documents, and splits a schema into simple schemas,
all of which must hold.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

OLD_DRAFTS = ("draft-04", "draft-06", "draft-07")
REFS_MAX = 100
AFTER_DRAFT_4 = frozenset(("const", "contains", "propertyNames", "if", "then", "else"))
AFTER_DRAFT_7 = frozenset(
    (
        "prefixItems",
        "unevaluatedProperties",
        "unevaluatedItems",
        "dependentRequired",
        "dependentSchemas",
        "minContains",
        "maxContains",
        "$dynamicRef",
        "$recursiveRef",
    )
)
# Keywords that do not restrict the values.
SILENT = frozenset(
    (
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$comment",
        "$defs",
        "definitions",
        "$vocabulary",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "format",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    )
)


class Document:
    """`others` are the documents that this one refers to, by reference name."""

    def __init__(self, root: Any, others: Mapping[str, Document]) -> None:
        self.root = root
        self.others = others
        draft_uri = str(root.get("$schema", "")) if isinstance(root, dict) else ""
        self.ref_stands_alone = not draft_uri or any(draft in draft_uri for draft in OLD_DRAFTS)
        """In older drafts, keywords beside a `$ref` are ignored."""
        self.unknown = _unknown_in(draft_uri)
        self._named: dict[str, Any] | None = None

    def find(self, ref: str) -> SchemaNode | None:
        where, _, fragment = ref.partition("#")
        document = self._document(where)
        if document is None:
            inner = self._names().get(where)
            return None if inner is None else _walk(self, inner, fragment)
        return _walk(document, document.root, fragment)

    def _document(self, where: str) -> Document | None:
        if not where or (
            isinstance(self.root, dict) and where in (self.root.get("$id"), self.root.get("id"))
        ):
            return self
        for name, other in self.others.items():
            if where == name or where.endswith("/" + name) or name.endswith("/" + where):
                return other
        return None

    def _names(self) -> dict[str, Any]:
        """The parts with an id or an anchor, by name."""
        if self._named is None:
            self._named = {}
            for part in _parts(self.root):
                for key in ("$id", "id", "$anchor", "$dynamicAnchor"):
                    name = part.get(key)
                    if isinstance(name, str):
                        self._named.setdefault(name.lstrip("#"), part)
        return self._named

    def anchored(self, name: str) -> Any:
        return self._names().get(name)


def _unknown_in(draft_uri: str) -> frozenset[str]:
    """Keywords that are not part of the draft: they have no meaning there, and may hold any value."""
    if not draft_uri or any(draft in draft_uri for draft in OLD_DRAFTS):
        return AFTER_DRAFT_7 | AFTER_DRAFT_4 if "draft-04" in draft_uri else AFTER_DRAFT_7
    return frozenset(("additionalItems",)) if "2020-12" in draft_uri else frozenset(("prefixItems",))


class SchemaNode(NamedTuple):
    """`schema` is a dictionary, or true or false."""

    schema: Any
    document: Document

    @property
    def accepts_all(self) -> bool:
        return self.schema is True or (isinstance(self.schema, dict) and SILENT.issuperset(self.schema))

    @property
    def accepts_nothing(self) -> bool:
        return self.schema is False

    def at(self, schema: Any) -> SchemaNode:
        return SchemaNode(schema, self.document)

    def get(self, keyword: str, otherwise: Any = None) -> Any:
        return self.schema.get(keyword, otherwise) if isinstance(self.schema, dict) else otherwise


class SchemaNodes:
    """Cache of simple schemas, so that the same part is always the same object."""

    def __init__(self) -> None:
        self._simple: dict[int, list[SchemaNode]] = {}
        self._without: dict[tuple[int, str], SchemaNode] = {}
        self._kept: list[Any] = []  # keeps objects alive that are identified by `id`

    def simple(self, node: SchemaNode) -> list[SchemaNode]:
        """The schemas without `$ref` and `allOf` that together are equivalent to this one."""
        key = id(node.schema)
        if isinstance(node.schema, bool):
            return [] if node.schema else [node]
        nodes = self._simple.get(key)
        if nodes is None:
            self._simple[key] = []  # a schema that only refers to itself accepts everything
            # Each once: parts that refer to parts twice would double with every level.
            nodes = list({id(part.schema): part for part in self._taken_apart(node, 0)}.values())
            self._simple[key] = nodes
            self._kept.append(node.schema)
        return nodes

    def _taken_apart(self, node: SchemaNode, depth: int) -> Iterator[SchemaNode]:
        schema = node.schema
        if not isinstance(schema, dict) or depth > REFS_MAX:
            return  # the reference does not point to a schema
        unknown = node.document.unknown
        rest = {word: value for word, value in schema.items() if word not in unknown}
        ref = schema.get("$ref", schema.get("$dynamicRef", schema.get("$recursiveRef")))
        if isinstance(ref, str):
            target = node.document.find(ref)
            if target is not None:
                yield from self.simple(target)
                if node.document.ref_stands_alone:
                    return
                for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
                    rest.pop(keyword, None)
        every = rest.pop("allOf", None)
        if isinstance(every, list):
            for inner in every:
                yield from self.simple(node.at(inner))
        made = node.at(rest) if len(rest) < len(schema) else node
        self._kept.append(made.schema)
        if not made.accepts_all:
            yield made

    def without(self, node: SchemaNode, keyword: str) -> SchemaNode:
        """The node without one keyword; always the same object."""
        key = (id(node.schema), keyword)
        reduced = self._without.get(key)
        if reduced is None:
            rest = {name: value for name, value in node.schema.items() if name != keyword}
            reduced = self._without[key] = node.at(rest)
            self._kept.append(node.schema)
        return reduced


def _walk(document: Document, start: Any, fragment: str) -> SchemaNode | None:
    if not fragment:
        return SchemaNode(start, document)
    if not fragment.startswith("/"):
        part = document.anchored(fragment)
        return None if part is None else SchemaNode(part, document)
    place = start
    for step in fragment[1:].split("/"):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and name in place:
            place = place[name]
        elif isinstance(place, list) and name.isdigit() and int(name) < len(place):
            place = place[int(name)]
        else:
            return None
    return SchemaNode(place, document)


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _parts(inner)
