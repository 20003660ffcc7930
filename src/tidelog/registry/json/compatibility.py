"""Compatibility of JSON schemas: the differences that keep a reader's schema from accepting all values of a writer's.

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
from tidelog.registry.pair_comparison import Differences, PairComparison, settled

# Differences that compatibilityPolicy=LENIENT ignores.
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


def differences(reader: SchemaNode, writer: SchemaNode, lenient: bool = False) -> Differences:
    nodes = SchemaNodes()
    all_differences = settled(
        lambda pairs: JsonComparison(pairs, nodes, lenient).accepts(reader, [writer], "#")
    )
    return list(dict.fromkeys(all_differences))


class JsonComparison:
    def __init__(self, pairs: PairComparison, nodes: SchemaNodes, lenient: bool) -> None:
        self._pairs = pairs
        self._lenient = lenient
        self.nodes = nodes

    def accepts(self, reader: SchemaNode, writers: list[SchemaNode], path: str) -> Differences:
        """The differences: constraints of `reader` that do not follow from all of `writers`."""
        if any(_word_for_word(reader, writer, '"$') for writer in writers):
            return []
        written = [part for writer in writers for part in self.nodes.simple(writer)]
        return self._accepts(reader, written, path)

    def _accepts(self, reader: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
        if reader.accepts_all or any(part.accepts_nothing for part in written):
            return []
        pair = (id(reader.schema), *(id(part.schema) for part in written))
        return self._pairs.compare(pair, lambda: self._compare(reader, written, path))

    def _compare(self, reader: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
        differences: Differences = []
        for part in self.nodes.simple(reader):
            if not any(_word_for_word(part, other, '"$', '"unevaluated') for other in written):
                differences += self._part(part, written, path)
        return differences

    def _part(self, part: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
        self._pairs.spend(1 + len(written))
        if part.accepts_nothing:
            return [_changed("TYPE_CHANGED", path)]
        differences = self._whole(part, written, path)
        if not differences:
            return []
        # The common part of the writer's alternatives is not enough: each alternative must be accepted.
        for at, other in enumerate(written):
            for keyword in SUMS:
                if isinstance(other.get(keyword), list):
                    rest = [*written[:at], self.nodes.without(other, keyword), *written[at + 1 :]]
                    return self._branches(part, other, keyword, rest, path)
        return differences

    def _branches(
        self, part: SchemaNode, other: SchemaNode, keyword: str, rest: list[SchemaNode], path: str
    ) -> Differences:
        differences: Differences = []
        for branch in other.get(keyword):
            more = [*rest, *self.nodes.simple(other.at(branch))]
            if not any(alternative.accepts_nothing for alternative in more):
                for difference in self._part(part, more, path):
                    if difference not in differences:
                        differences.append(difference)
        return differences

    def _whole(self, part: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
        """Compares each constraint of this simple schema."""
        types = types_of(written)
        differences = compare_types(part, written, types, path)
        if differences:
            return differences
        differences = compare_scalars(part, written, types, path)
        if "object" in types:
            differences += compare_objects(self, part, written, path)
        if "array" in types:
            differences += compare_arrays(self, part, written, path)
        for keyword in SUMS:
            if isinstance(part.get(keyword), list):
                differences += self._sum(part, keyword, written, path)
        if "not" in part.schema:
            differences += self._not(part, written, path)
        for keyword in _EQUAL_ONLY:
            if keyword in part.schema and not any(_same(part, other, keyword) for other in written):
                differences.append(_changed("COMBINED_TYPE_CHANGED", f"{path}/{keyword}"))
        return [
            difference for difference in differences if not (self._lenient and difference.kind in LENIENT)
        ]

    def _sum(self, part: SchemaNode, keyword: str, written: list[SchemaNode], path: str) -> Differences:
        """One alternative of the reader accepts everything; or each alternative of the writer finds one (see `_part`)."""
        tried = [
            self._accepts(part.at(branch), written, f"{path}/{keyword}/{at}")
            for at, branch in enumerate(part.get(keyword))
        ]
        if any(not attempt for attempt in tried):
            return []
        had = next((len(other.get(keyword)) for other in written if other.get(keyword)), 0)
        kind = "SUM_TYPE_NARROWED" if had > len(tried) else "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
        words = (
            f"None of the {len(tried)} alternatives at path '{path}/{keyword}' in the {{reader}} schema accepts "
            "what the {writer} schema allows there"
        )
        nearest = min(tried, key=len, default=[])
        return [Difference(kind, f"{path}/{keyword}", words), *nearest[:1]]

    def _not(self, part: SchemaNode, written: list[SchemaNode], path: str) -> Differences:
        """Values that the reader's `not` excludes must be excluded by the writer, too."""
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
    """True if both schemas have the same text, and the text does not depend on other places: it has no `$ref`, and no
    keyword that refers to its neighbours."""
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
