"""The schema format Protobuf: the text of a .proto file, or its FileDescriptorProto in base64.

Every schema has its own descriptor pool, which also holds its imports: referenced schemas, and files that come with
Protobuf.  Pure."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pb2 as pb

from tidelog.registry.difference import Difference
from tidelog.registry.protobuf.compatibility import differences
from tidelog.registry.protobuf.text import proto_text
from tidelog.registry.refusal import invalid_schema
from tidelog.registry.schema import Resolved, Schema
from tidelog.schema.proto.files import link, read_file
from tidelog.schema.proto.tokens import ProtoError

NAME = "default"


class ParsedProtobufSchema:
    type = "PROTOBUF"

    def __init__(self, file: Any, pool: Any) -> None:
        self._file = file
        self._pool = pool
        self._proto = pb.FileDescriptorProto()
        file.CopyToProto(self._proto)
        self._names = frozenset(_all_names(file))

    @property
    def name(self) -> str | None:
        """The name of the first message, which is the default message of a record."""
        first = next(iter(self._proto.message_type), None)
        if first is None:
            return None
        return f"{self._proto.package}.{first.name}" if self._proto.package else first.name

    def canonical(self) -> str:
        return proto_text(self._proto, self._pool, self._names, False)

    def normal(self) -> str:
        return proto_text(self._proto, self._pool, self._names, True)

    def formatted(self, how: str) -> str:
        if how == "serialized":
            return base64.b64encode(self._proto.SerializeToString()).decode()
        return self.canonical()

    def differences(self, written: ParsedProtobufSchema) -> list[Difference]:
        return differences(self._file, written._file)


def parse_protobuf(schema: Schema, references: Resolved) -> ParsedProtobufSchema:
    try:
        others = {name: read_file(reference.text, name) for name, reference in references.items()}
        pool = link([read_file(schema.text, NAME)], others)
    except ProtoError as problem:
        raise invalid_schema(str(problem)) from None
    return ParsedProtobufSchema(pool.FindFileByName(NAME), pool)


def _all_names(file: Any) -> list[str]:
    """Full names of the packages and types in a file, and in the imports that are visible to it."""
    names: list[str] = []
    seen: set[str] = set()

    def visit(file: Any, direct: bool) -> None:
        if file.name in seen:
            return
        seen.add(file.name)
        parts = file.package.split(".") if file.package else []
        names.extend(".".join(parts[: at + 1]) for at in range(len(parts)))
        types = [*file.message_types_by_name.values()]
        names.extend(enum.full_name for enum in file.enum_types_by_name.values())
        while types:
            message = types.pop()
            names.append(message.full_name)
            names.extend(enum.full_name for enum in message.enum_types)
            types.extend(message.nested_types)
        for inner in file.dependencies if direct else file.public_dependencies:
            visit(inner, False)

    visit(file, True)
    return names
