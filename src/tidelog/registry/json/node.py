"""Places in JSON Schema documents: following `$ref` within a document and into those it refers to, and seeing a schema as
the simple ones that all must hold.  Pure."""

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
# Keywords that say nothing about which values fit.
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
    """`others` are the documents that this one refers to, by the names it uses."""

    def __init__(self, root: Any, others: Mapping[str, Document]) -> None:
        self.root = root
        self.others = others
        said = str(root.get("$schema", "")) if isinstance(root, dict) else ""
        self.ref_stands_alone = not said or any(draft in said for draft in OLD_DRAFTS)
        """In older drafts nothing beside a `$ref` counts."""
        self.unknown = _unknown_in(said)
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
        """Parts that have an id or an anchor of their own."""
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


def _unknown_in(said: str) -> frozenset[str]:
    """Keywords that came after the draft or went before it: they mean nothing there, and may hold anything."""
    if not said or any(draft in said for draft in OLD_DRAFTS):
        return AFTER_DRAFT_7 | AFTER_DRAFT_4 if "draft-04" in said else AFTER_DRAFT_7
    return frozenset(("additionalItems",)) if "2020-12" in said else frozenset(("prefixItems",))


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
    """Schemas taken apart, each once, so that the same part is the same object whenever it is met."""

    def __init__(self) -> None:
        self._simple: dict[int, list[SchemaNode]] = {}
        self._without: dict[tuple[int, str], SchemaNode] = {}
        self._kept: list[Any] = []  # what is known by identity must not go away

    def simple(self, node: SchemaNode) -> list[SchemaNode]:
        """Schemas without `$ref` and `allOf` that together mean the same as this one."""
        key = id(node.schema)
        if isinstance(node.schema, bool):
            return [] if node.schema else [node]
        found = self._simple.get(key)
        if found is None:
            self._simple[key] = []  # a schema that is nothing but itself accepts everything
            found = self._simple[key] = list(self._taken_apart(node, 0))
            self._kept.append(node.schema)
        return found

    def _taken_apart(self, node: SchemaNode, depth: int) -> Iterator[SchemaNode]:
        schema = node.schema
        if not isinstance(schema, dict) or depth > REFS_MAX:
            return  # a reference to something that is no schema
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
            for one in every:
                yield from self.simple(node.at(one))
        made = node.at(rest) if len(rest) < len(schema) else node
        self._kept.append(made.schema)
        if not made.accepts_all:
            yield made

    def without(self, node: SchemaNode, keyword: str) -> SchemaNode:
        """The same without one keyword; the same object each time."""
        key = (id(node.schema), keyword)
        found = self._without.get(key)
        if found is None:
            rest = {name: value for name, value in node.schema.items() if name != keyword}
            found = self._without[key] = node.at(rest)
            self._kept.append(node.schema)
        return found


def _walk(document: Document, start: Any, fragment: str) -> SchemaNode | None:
    if not fragment:
        return SchemaNode(start, document)
    if not fragment.startswith("/"):
        found = document.anchored(fragment)
        return None if found is None else SchemaNode(found, document)
    here = start
    for step in fragment[1:].split("/"):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isdigit() and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
    return SchemaNode(here, document)


def _parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _parts(inner)
