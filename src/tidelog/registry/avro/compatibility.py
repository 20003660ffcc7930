"""Compatibility of Avro schemas: the differences that keep a reader's schema from reading a writer's records.

The rules are those of schema resolution in Avro's specification; the names of differences are Java's.  Pure."""

from __future__ import annotations

from tidelog.registry.avro.types import MISSING, AvroField, AvroType
from tidelog.registry.difference import Difference
from tidelog.registry.pair_comparison import PairComparison, settled

_PROMOTED = {
    "long": frozenset(("int",)),
    "float": frozenset(("int", "long")),
    "double": frozenset(("int", "long", "float")),
    "bytes": frozenset(("string",)),
    "string": frozenset(("bytes",)),
}


def differences(reader: AvroType, writer: AvroType) -> list[Difference]:
    """All differences; empty if the reader can read every record."""
    all_differences = settled(lambda pairs: _AvroComparison(pairs).compare(reader, writer, "/"))
    return list(dict.fromkeys(all_differences))


class _AvroComparison:
    def __init__(self, pairs: PairComparison) -> None:
        self._pairs = pairs

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        return self._pairs.compare((id(reader), id(writer)), lambda: self._compare(reader, writer, path))

    def _compare(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        if writer.kind == "union":
            return self._each_branch(reader, writer, path)
        if reader.kind == "union":
            if any(not self.compare(branch, writer, path) for branch in reader.branches):
                return []
            return [_missing_branch(reader, writer, path)]
        if _kind(reader) != _kind(writer):
            if writer.kind in _PROMOTED.get(reader.kind, ()):
                return []
            return [
                Difference(
                    "TYPE_MISMATCH",
                    path,
                    f"The type (path '{path}') of a field in the {{reader}} schema does not match with the "
                    f"{{writer}} schema: {reader.shown} cannot read {writer.shown}",
                    f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}",
                )
            ]
        if reader.kind == "array":
            return self.compare(reader.of_items, writer.of_items, _join(path, "items"))
        if reader.kind == "map":
            return self.compare(reader.of_items, writer.of_items, _join(path, "values"))
        if reader.kind == "fixed":
            return self._fixed(reader, writer, path)
        if reader.kind == "enum":
            return self._enum(reader, writer, path)
        if _kind(reader) == "record":
            return self._record(reader, writer, path)
        return []

    def _each_branch(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        differences = []
        for at, branch in enumerate(writer.branches):
            inner = self.compare(reader, branch, path)
            if inner and reader.kind == "union":
                differences.append(_missing_branch(reader, branch, _join(path, str(at))))
            else:
                differences.extend(inner)
        return differences

    def _fixed(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        differences = _names(reader, writer, path)
        if reader.size != writer.size:
            at = _join(path, "size")
            differences.append(
                Difference(
                    "FIXED_SIZE_MISMATCH",
                    at,
                    f"The size of FIXED type field at path '{at}' in the {{reader}} schema ({reader.size}) does "
                    f"not match with the {{writer}} schema ({writer.size})",
                    f"expected: {writer.size}, found: {reader.size}",
                )
            )
        return differences

    def _enum(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        differences = _names(reader, writer, path)
        missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
        if missing and reader.default is None:
            at = _join(path, "symbols")
            differences.append(
                Difference(
                    "MISSING_ENUM_SYMBOLS",
                    at,
                    f"The {{reader}} schema is missing enum symbols '[{', '.join(missing)}]' at path '{at}' "
                    f"in the {{writer}} schema, and enum {reader.name} has no default",
                    f"[{', '.join(missing)}]",
                )
            )
        return differences

    def _record(self, reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
        differences = _names(reader, writer, path)
        if differences:
            return differences  # another record: its fields need no comparison
        by_name = {field.name: field for field in writer.fields}
        for at, field in enumerate(reader.fields):
            where = _join(path, f"fields/{at}")
            written = _written(field, by_name)
            if written is not None:
                differences += self.compare(field.type, written.type, _join(where, "type"))
            elif field.default is MISSING:
                differences.append(
                    Difference(
                        "READER_FIELD_MISSING_DEFAULT_VALUE",
                        where,
                        f"The field '{field.name}' at path '{where}' in the {{reader}} schema has no default value "
                        "and is missing in the {writer} schema",
                        field.name,
                    )
                )
        return differences


def _written(field: AvroField, by_name: dict[str, AvroField]) -> AvroField | None:
    for name in (field.name, *field.aliases):
        if name in by_name:
            return by_name[name]
    return None


def _names(reader: AvroType, writer: AvroType, path: str) -> list[Difference]:
    if reader.name == writer.name or writer.name in reader.aliases:
        return []
    at = _join(path, "name")
    return [
        Difference(
            "NAME_MISMATCH",
            at,
            f"The name of the schema has changed (path '{at}'): {reader.name} in the {{reader}} schema, "
            f"{writer.name} in the {{writer}} schema",
            f"expected: {writer.name}",
        )
    ]


def _missing_branch(reader: AvroType, writer: AvroType, path: str) -> Difference:
    have = ", ".join(branch.shown for branch in reader.branches)
    return Difference(
        "MISSING_UNION_BRANCH",
        path,
        f"The {{reader}} schema is missing a type inside a union field at path '{path}' in the {{writer}} schema: "
        f"none of [{have}] can read {writer.shown}",
        f"reader union lacking writer type: {writer.kind.upper()}",
    )


def _kind(type_: AvroType) -> str:
    return "record" if type_.kind == "error" else type_.kind


def _join(path: str, more: str) -> str:
    return f"/{more}" if path == "/" else f"{path}/{more}"
