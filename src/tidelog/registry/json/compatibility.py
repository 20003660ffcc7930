"""Whether all that one JSON schema lets a writer write is accepted by another, and if not, what is in the way.

The writer's schema is seen as a list of simple ones that all hold for what he writes; each thing that the reader's asks
for must follow from them.  Content models come out of this by themselves: a property that a reader describes and a writer
does not is only fine where the writer's schema is closed to it.  As in Confluent's registry, a required property with a
default counts as optional, and `oneOf` as `anyOf`.  The names of differences are Confluent's.  Pure."""

from __future__ import annotations

import json

from tidelog.registry.difference import Difference
from tidelog.registry.json.node import SchemaNode, SchemaNodes
from tidelog.registry.json.objects import compare_arrays, compare_objects
from tidelog.registry.json.scalars import compare_scalars, compare_types, types_of
from tidelog.registry.pair_comparison import Found, PairComparison, settled

# What a subject with compatibilityPolicy=LENIENT lets pass.
LENIENT = frozenset(
    (
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    )
)
SUMS = ("anyOf", "oneOf")
_EQUAL_ONLY = ("if", "contains")


def differences(reader: SchemaNode, writer: SchemaNode, lenient: bool = False) -> Found:
    nodes = SchemaNodes()
    found = settled(lambda pairs: JsonComparison(pairs, nodes, lenient).accepts(reader, [writer], "#"))
    return list(dict.fromkeys(found))


class JsonComparison:
    def __init__(self, pairs: PairComparison, nodes: SchemaNodes, lenient: bool) -> None:
        self._pairs = pairs
        self._lenient = lenient
        self.nodes = nodes

    def accepts(self, reader: SchemaNode, writers: list[SchemaNode], path: str) -> Found:
        """What of `reader` does not follow from all of `writers`."""
        if any(_word_for_word(reader, writer, '"$') for writer in writers):
            return []
        written = [part for writer in writers for part in self.nodes.simple(writer)]
        return self._accepts(reader, written, path)

    def _accepts(self, reader: SchemaNode, written: list[SchemaNode], path: str) -> Found:
        if reader.accepts_all or any(part.accepts_nothing for part in written):
            return []
        pair = (id(reader.schema), *(id(part.schema) for part in written))
        return self._pairs.compare(pair, lambda: self._compare(reader, written, path))

    def _compare(self, reader: SchemaNode, written: list[SchemaNode], path: str) -> Found:
        found: Found = []
        for part in self.nodes.simple(reader):
            if not any(_word_for_word(part, other, '"$', '"unevaluated') for other in written):
                found += self._part(part, written, path)
        return found

    def _part(self, part: SchemaNode, written: list[SchemaNode], path: str) -> Found:
        if part.accepts_nothing:
            return [_changed("TYPE_CHANGED", path)]
        found = self._whole(part, written, path)
        if not found:
            return []
        # What the writer's alternatives have in common was not enough: each of them must do.
        for at, other in enumerate(written):
            for keyword in SUMS:
                if isinstance(other.get(keyword), list):
                    rest = [*written[:at], self.nodes.without(other, keyword), *written[at + 1 :]]
                    return self._branches(part, other, keyword, rest, path)
        return found

    def _branches(
        self, part: SchemaNode, other: SchemaNode, keyword: str, rest: list[SchemaNode], path: str
    ) -> Found:
        found: Found = []
        for branch in other.get(keyword):
            more = [*rest, *self.nodes.simple(other.at(branch))]
            if not any(one.accepts_nothing for one in more):
                for one in self._part(part, more, path):
                    if one not in found:
                        found.append(one)
        return found

    def _whole(self, part: SchemaNode, written: list[SchemaNode], path: str) -> Found:
        """Each thing that this simple schema asks for."""
        types = types_of(written)
        found = compare_types(part, written, types, path)
        if found:
            return found
        found = compare_scalars(part, written, types, path)
        if "object" in types:
            found += compare_objects(self, part, written, path)
        if "array" in types:
            found += compare_arrays(self, part, written, path)
        for keyword in SUMS:
            if isinstance(part.get(keyword), list):
                found += self._sum(part, keyword, written, path)
        if "not" in part.schema:
            found += self._not(part, written, path)
        for keyword in _EQUAL_ONLY:
            if keyword in part.schema and not any(_same(part, other, keyword) for other in written):
                found.append(_changed("COMBINED_TYPE_CHANGED", f"{path}/{keyword}"))
        return [one for one in found if not (self._lenient and one.kind in LENIENT)]

    def _sum(self, part: SchemaNode, keyword: str, written: list[SchemaNode], path: str) -> Found:
        """One alternative takes it all; or the writer has alternatives, and each of those finds one (see `_part`)."""
        tried = [
            self._accepts(part.at(branch), written, f"{path}/{keyword}/{at}")
            for at, branch in enumerate(part.get(keyword))
        ]
        if any(not one for one in tried):
            return []
        had = next((len(other.get(keyword)) for other in written if other.get(keyword)), 0)
        kind = "SUM_TYPE_NARROWED" if had > len(tried) else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
        words = (
            f"None of the {len(tried)} alternatives at path '{path}/{keyword}' in the {{reader}} schema accepts "
            "what the {writer} schema allows there"
        )
        nearest = min(tried, key=len, default=[])
        return [Difference(kind, f"{path}/{keyword}", words), *nearest[:1]]

    def _not(self, part: SchemaNode, written: list[SchemaNode], path: str) -> Found:
        """What the reader rules out, the writer must rule out as well."""
        ruled_out = part.at(part.schema["not"])
        for other in written:
            if "not" in other.schema and not self.accepts(
                other.at(other.schema["not"]), [ruled_out], f"{path}/not"
            ):
                return []
        types = types_of(written)
        if not types & types_of(self.nodes.simple(ruled_out)):
            return []
        return [_changed("NOT_TYPE_EXTENDED", f"{path}/not")]


def _word_for_word(part: SchemaNode, other: SchemaNode, *without: str) -> bool:
    """Equal text means the same when nothing in it refers to another place, nor, where a schema was taken apart, to what
    stood beside it."""
    if part.schema != other.schema:
        return False
    text = json.dumps(part.schema)
    return text == json.dumps(other.schema) and not any(word in text for word in without)


def _same(part: SchemaNode, other: SchemaNode, keyword: str) -> bool:
    names = ("if", "then", "else") if keyword == "if" else (keyword, "minContains", "maxContains")
    return all(part.get(name) == other.get(name) for name in names)


def _changed(kind: str, path: str) -> Difference:
    return Difference(
        kind,
        path,
        f"The schema at path '{path}' is different between the {{reader}} and the {{writer}} schema",
    )
