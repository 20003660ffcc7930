"""Compatibility of Protobuf schemas: the differences that keep a reader's schema from reading a writer's records.

Protobuf itself reads almost anything; what counts here is that nothing a writer said is lost or taken for something else.
The rules and the names of differences are Confluent's; messages are followed into other files.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelog.registry.difference import Difference
from tidelog.registry.pair_comparison import Differences, PairComparison, settled

_KINDS = {
    "GENERAL_NUMBER": ("INT32", "INT64", "UINT32", "UINT64", "BOOL", "ENUM"),
    "SIGNED_NUMBER": ("SINT32", "SINT64"),
    "FIXED32": ("FIXED32", "SFIXED32"),
    "FIXED64": ("FIXED64", "SFIXED64"),
    "FLOAT": ("FLOAT",),
    "DOUBLE": ("DOUBLE",),
    "STRING_OR_BYTES": ("STRING", "BYTES"),
}


def differences(reader: Any, writer: Any) -> Differences:
    """Both are FileDescriptors."""
    all_differences = settled(lambda pairs: _ProtobufComparison(pairs).files(reader, writer))
    return list(dict.fromkeys(all_differences))


class _ProtobufComparison:
    def __init__(self, pairs: PairComparison) -> None:
        self._pairs = pairs

    def files(self, reader: Any, writer: Any) -> Differences:
        differences: Differences = []
        if reader.package != writer.package:
            words = (
                f"The package of the {{reader}} schema ('{reader.package}') does not match the package of the "
                f"{{writer}} schema ('{writer.package}')"
            )
            differences.append(Difference("PACKAGE_CHANGED", "#/", words))
        return differences + self._types(reader.message_types_by_name, writer.message_types_by_name, "#/")

    def _types(self, reader: Any, writer: Any, path: str) -> Differences:
        differences: Differences = []
        for name, written in writer.items():
            if written.GetOptions().map_entry:
                continue
            if name not in reader:
                words = (
                    f"The {{reader}} schema is missing the message at path '{path}{name}' of the "
                    f"{{writer}} schema"
                )
                differences.append(Difference("MESSAGE_REMOVED", f"{path}{name}", words))
            else:
                differences += self.messages(reader[name], written, f"{path}{name}")
        return differences

    def messages(self, reader: Any, writer: Any, path: str) -> Differences:
        pair = (reader.full_name, reader.file.name, writer.full_name, writer.file.name)
        return self._pairs.compare(pair, lambda: self._messages(reader, writer, path))

    def _messages(self, reader: Any, writer: Any, path: str) -> Differences:
        differences = list(_newly_exclusive(reader, writer, path))
        gone = {
            name
            for name, oneof in _oneofs(writer).items()
            if name not in _oneofs(reader)
            and not any(field.number in reader.fields_by_number for field in oneof.fields)
        }
        for number, written in sorted(writer.fields_by_number.items()):
            mine = reader.fields_by_number.get(number)
            if mine is None:
                differences += _removed(written, gone, path)
            else:
                differences += self._fields(mine, written, f"{path}/{number}")
        for number, mine in sorted(reader.fields_by_number.items()):
            if number not in writer.fields_by_number and mine.is_required:
                words = (
                    f"The required field '{mine.name}' at path '{path}/{number}' in the {{reader}} "
                    f"schema is missing in the {{writer}} schema"
                )
                differences.append(Difference("REQUIRED_FIELD_ADDED", f"{path}/{number}", words))
        return differences + self._types(reader.nested_types_by_name, writer.nested_types_by_name, f"{path}/")

    def _fields(self, reader: Any, writer: Any, path: str) -> Differences:
        mine, theirs = _kind(reader), _kind(writer)
        if mine != theirs:
            words = (
                f"The type of the field at path '{path}' in the {{reader}} schema "
                f"({_shown(reader)}) does not match the {{writer}} schema ({_shown(writer)})"
            )
            scalar = "MESSAGE" not in (mine, theirs) and "MAP" not in (mine, theirs)
            return [Difference("FIELD_SCALAR_KIND_CHANGED" if scalar else "FIELD_KIND_CHANGED", path, words)]
        if mine == "MAP":
            inner = reader.message_type.fields_by_number, writer.message_type.fields_by_number
            return [
                difference
                for number in (1, 2)
                for difference in self._fields(inner[0][number], inner[1][number], path)
            ]
        if mine == "MESSAGE":
            return self._named(reader, writer, path)
        if mine != "STRING_OR_BYTES" and reader.is_repeated != writer.is_repeated:
            words = (
                f"The label of the numeric field at path '{path}' in the {{reader}} schema does "
                f"not match its label in the {{writer}} schema: one of them is repeated"
            )
            return [Difference("FIELD_NUMERIC_LABEL_CHANGED", path, words)]
        return []

    def _named(self, reader: Any, writer: Any, path: str) -> Differences:
        mine, theirs = reader.message_type, writer.message_type
        if _local(mine) != _local(theirs):
            words = (
                f"The type of the message field at path '{path}' in the {{reader}} schema "
                f"({mine.full_name}) does not match its type in the {{writer}} schema "
                f"({theirs.full_name})"
            )
            return [Difference("FIELD_NAMED_TYPE_CHANGED", path, words)]
        if (reader.type == reader.TYPE_GROUP) != (writer.type == writer.TYPE_GROUP):
            words = f"The field at path '{path}' is a group in one schema and a message in the other"
            return [Difference("FIELD_KIND_CHANGED", path, words)]
        return self.messages(mine, theirs, path)


def _oneofs(message: Any) -> dict[str, Any]:
    """The oneofs of a message, without the synthetic ones of `optional` fields."""
    return {oneof.name: oneof for oneof in message.oneofs if not _synthetic(oneof)}


def _synthetic(oneof: Any) -> bool:
    return len(oneof.fields) == 1 and oneof.name.lstrip("X") == f"_{oneof.fields[0].name}"


def _oneof_of(field: Any) -> Any:
    oneof = field.containing_oneof
    return None if oneof is None or _synthetic(oneof) else oneof


def _removed(field: Any, gone: set[str], path: str) -> Differences:
    oneof = _oneof_of(field)
    if oneof is not None and oneof.name not in gone:
        where = f"{path}/{oneof.name}/{field.number}"
        words = (
            f"The {{reader}} schema is missing the field '{field.name}' of the oneof at path "
            f"'{where}' in the {{writer}} schema"
        )
        return [Difference("ONEOF_FIELD_REMOVED", where, words)]
    if field.is_required:
        where = f"{path}/{field.number}"
        words = (
            f"The {{reader}} schema is missing the required field '{field.name}' at path '{where}' "
            f"in the {{writer}} schema"
        )
        return [Difference("REQUIRED_FIELD_REMOVED", where, words)]
    return []


def _newly_exclusive(reader: Any, writer: Any, path: str) -> Iterator[Difference]:
    """Fields that a writer can set together, but that are in one oneof of the reader: one of the pair would be lost."""
    for name, oneof in _oneofs(reader).items():
        groups, moved = set(), 0
        for field in oneof.fields:
            before = writer.fields_by_number.get(field.number)
            if before is not None:
                outer = _oneof_of(before)
                groups.add(str(field.number) if outer is None else outer.name)
                moved += outer is None
        if len(groups) > 1:
            where = f"{path}/{name}"
            if moved > 1:
                words = (
                    f"Multiple fields in the oneof at path '{where}' in the {{reader}} schema are "
                    f"outside a oneof in the {{writer}} schema"
                )
                yield Difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF", where, words)
            else:
                words = (
                    f"A field in the oneof at path '{where}' in the {{reader}} schema is outside "
                    f"of it in the {{writer}} schema"
                )
                yield Difference("FIELD_MOVED_TO_EXISTING_ONEOF", where, words)


def _kind(field: Any) -> str:
    if field.message_type is not None:
        return "MAP" if field.message_type.GetOptions().map_entry else "MESSAGE"
    return _BY_TYPE[field.type]


def _by_type() -> dict[int, str]:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return {
        FieldDescriptorProto.Type.Value(f"TYPE_{name}"): kind
        for kind, names in _KINDS.items()
        for name in names
    }


_BY_TYPE = _by_type()


def _shown(field: Any) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    if field.message_type is not None:
        return "map" if field.message_type.GetOptions().map_entry else str(field.message_type.full_name)
    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _local(message: Any) -> str:
    """A type's name within its package; the packages of reader and writer may differ."""
    package = message.file.package
    name = str(message.full_name)
    return name.removeprefix(f"{package}.") if package else name
