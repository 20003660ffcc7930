"""The schema format Protobuf: the text of a .proto file, or its FileDescriptorProto in base64.

Every schema has its own descriptor pool, which also holds its imports: referenced schemas, and files that come with
Protobuf.  Pure."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from tidelog.registry.difference import Difference
from tidelog.registry.protobuf.compatibility import differences
from tidelog.registry.protobuf.known_files import KNOWN
from tidelog.registry.protobuf.parser import parse_proto
from tidelog.registry.protobuf.text import proto_text
from tidelog.registry.refusal import invalid_schema
from tidelog.registry.schema import Resolved, Schema

NAME = "default"
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
_MODULE = re.compile(r"google/(?:protobuf(?:/compiler)?|type)/[a-z0-9_]+\.proto")


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
    pool = DescriptorPool()
    others = {name: _read(reference.text, name) for name, reference in references.items()}
    added: set[str] = set()
    proto = _read(schema.text, NAME)
    _add_imports(proto, others, pool, added, (NAME,))
    _add(proto, pool)
    return ParsedProtobufSchema(pool.FindFileByName(NAME), pool)


def _read(text: str, name: str) -> pb.FileDescriptorProto:
    if _BASE64.fullmatch(text):
        try:
            proto = pb.FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
        except (binascii.Error, DecodeError, ValueError):
            raise invalid_schema("it is neither a .proto file nor a FileDescriptorProto in base64") from None
        proto.name = name
        proto.ClearField("source_code_info")
        return proto
    return parse_proto(text, name)


def _add_imports(
    proto: pb.FileDescriptorProto, others: dict[str, Any], pool: Any, added: set[str], above: tuple[str, ...]
) -> None:
    for path in proto.dependency:
        if path in above:
            raise invalid_schema(f"{path!r} imports itself, by way of {' and '.join(above[1:]) or 'nothing'}")
        if path in added:
            continue
        inner = others.get(path) or _known(path)
        if inner is None:
            raise invalid_schema(f"it imports {path!r}, but no reference has this name")
        _add_imports(inner, others, pool, added, (*above, path))
        _add(inner, pool)
        added.add(path)


def _add(proto: pb.FileDescriptorProto, pool: Any) -> None:
    try:
        pool.Add(proto)
    except (TypeError, ValueError) as problem:
        reason = str(problem).split(":", 1)[-1].strip() or str(problem)
        where = "" if proto.name == NAME else f" (in {proto.name})"
        raise invalid_schema(reason + where) from None


@lru_cache(maxsize=64)
def _known(path: str) -> pb.FileDescriptorProto | None:
    """Files that need no registration: Protobuf's own, Google's common types, and those of Confluent's tools."""
    if path in KNOWN:
        return parse_proto(KNOWN[path], path)
    if not _MODULE.fullmatch(path):
        return None
    try:
        module = import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    proto = pb.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(proto)
    return proto


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
