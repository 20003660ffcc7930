"""Protobuf, as one of the formats of schemas: the text of a .proto file, or its FileDescriptorProto in base64.

Every schema has a descriptor pool of its own, with what it imports: the schemas it refers to, and what comes with
Protobuf.  Pure."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pb2 as pb

from tidelog.registry.difference import Difference
from tidelog.registry.proto_compatibility import differences
from tidelog.registry.proto_text import proto_text
from tidelog.registry.refusal import invalid_schema
from tidelog.registry.schema import Resolved, Schema
from tidelog.schema.proto.files import link, read_file
from tidelog.schema.proto.tokens import ProtoError

NAME = "default"


class ProtobufSchema:
    type = "PROTOBUF"

    def __init__(self, file: Any, pool: Any) -> None:
        self._file = file
        self._pool = pool
        self._proto = pb.FileDescriptorProto()
        file.CopyToProto(self._proto)
        self._names = frozenset(_all_names(file))

    @property
    def name(self) -> str | None:
        """Of the first message, which is the one that a record holds unless it says otherwise."""
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

    def differences(self, written: ProtobufSchema) -> list[Difference]:
        return differences(self._file, written._file)


def parse_protobuf(schema: Schema, references: Resolved) -> ProtobufSchema:
    try:
        others = {name: read_file(one.text, name) for name, one in references.items()}
        pool = link([read_file(schema.text, NAME)], others)
    except ProtoError as problem:
        raise invalid_schema(str(problem)) from None
    return ProtobufSchema(pool.FindFileByName(NAME), pool)


def _all_names(file: Any) -> list[str]:
    """Full names of packages and types in a file and in what it sees of others."""
    found: list[str] = []
    seen: set[str] = set()

    def visit(one: Any, direct: bool) -> None:
        if one.name in seen:
            return
        seen.add(one.name)
        parts = one.package.split(".") if one.package else []
        found.extend(".".join(parts[: at + 1]) for at in range(len(parts)))
        types = [*one.message_types_by_name.values()]
        found.extend(enum.full_name for enum in one.enum_types_by_name.values())
        while types:
            message = types.pop()
            found.append(message.full_name)
            found.extend(enum.full_name for enum in message.enum_types)
            types.extend(message.nested_types)
        for inner in one.dependencies if direct else one.public_dependencies:
            visit(inner, False)

    visit(file, True)
    return found
