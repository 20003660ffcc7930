"""Protobuf files that belong together: read from text or from descriptors, and linked in a descriptor pool.

The pool belongs to its caller: two schemas may define one name differently.  `ProtoError` says what is wrong with a
file.  Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from tidelog.schema.proto.known import KNOWN
from tidelog.schema.proto.parser import parse_proto
from tidelog.schema.proto.tokens import ProtoError

_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
_MODULE = re.compile(r"google/(?:protobuf(?:/compiler)?|type)/[a-z0-9_]+\.proto")


def read_file(text: str, name: str) -> pb.FileDescriptorProto:
    """The file called `name`: `text` is a .proto file, or a FileDescriptorProto in base64."""
    if not _BASE64.fullmatch(text):
        return parse_proto(text, name)
    try:
        file = pb.FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError, ValueError):
        raise ProtoError("it is neither a .proto file nor a FileDescriptorProto in base64") from None
    file.name = name
    file.ClearField("source_code_info")
    return file


def link(
    roots: Iterable[pb.FileDescriptorProto], others: Mapping[str, pb.FileDescriptorProto]
) -> DescriptorPool:
    """A pool that holds `roots` and everything they import: from `others` by name, or a well-known file."""
    pool, added = DescriptorPool(), set[str]()

    def add(file: pb.FileDescriptorProto, importers: tuple[str, ...]) -> None:
        for path in file.dependency:
            if path in (*importers, file.name):
                through = " and ".join((*importers, file.name)[1:])
                raise ProtoError(f"{path!r} imports itself, by way of {through or 'nothing'}")
            if path not in added:
                imported = others.get(path) or well_known(path)
                if imported is None:
                    raise ProtoError(f"it imports {path!r}, but no reference has this name")
                add(imported, (*importers, file.name))
        if file.name in added:
            return
        added.add(file.name)
        try:
            pool.Add(file)
        except (TypeError, ValueError) as problem:
            why = str(problem).split(":", 1)[-1].strip() or str(problem)
            raise ProtoError(why + (f" (in {file.name})" if importers else "")) from None

    for root in roots:
        add(root, ())
    return pool


@lru_cache(maxsize=64)
def well_known(path: str) -> pb.FileDescriptorProto | None:
    """Files that need not be registered: Protobuf's own, Google's common types, and those of Confluent's tools."""
    if path in KNOWN:
        return parse_proto(KNOWN[path], path)
    if not _MODULE.fullmatch(path):
        return None
    try:
        module = import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    file = pb.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file
