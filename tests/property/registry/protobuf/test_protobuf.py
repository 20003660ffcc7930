"""Protobuf: our reading of .proto files is protoc's, and what is called compatible loses nothing."""

from __future__ import annotations

import base64
import itertools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from tests.conformance.registry_messages import compiled
from tidelog.registry.protobuf.schema import ParsedProtobufSchema, parse_protobuf
from tidelog.registry.refusal import Refusal
from tidelog.registry.schema import Schema

SCALARS = [
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64"),
    *("sfixed32", "sfixed64", "float", "double", "bool", "string", "bytes"),
]
NUMBERS = st.integers(1, 6)


def parsed(text: str) -> ParsedProtobufSchema:
    return parse_protobuf(Schema(text, "PROTOBUF"), {})


@st.composite
def fields(draw: st.DrawFn, number: int, in_oneof: bool = False) -> str:
    kind = draw(st.sampled_from([*SCALARS, "Kind", "Inner", "Outer.Inner", ".p.q.Other", "map"]))
    options = draw(st.sampled_from(["", " [deprecated = true]", f' [json_name = "other{number}"]']))
    if kind == "map" and not in_oneof:
        key, value = (
            draw(st.sampled_from(["string", "int64", "bool"])),
            draw(st.sampled_from([*SCALARS, "Inner"])),
        )
        return f"map<{key}, {value}> f{number} = {number}{options};"
    kind = "string" if kind == "map" else kind
    label = "" if in_oneof else draw(st.sampled_from(["", "optional ", "repeated "]))
    return f"{label}{kind} f{number} = {number}{options};"


@st.composite
def files(draw: st.DrawFn) -> str:
    numbers = draw(st.lists(NUMBERS, unique=True, max_size=5))
    split = draw(st.integers(0, len(numbers)))
    lines = [draw(fields(number)) for number in numbers[:split]]
    if numbers[split:]:
        inner = " ".join(draw(fields(number, True)) for number in numbers[split:])
        lines.insert(draw(st.integers(0, len(lines))), f"oneof choice {{ {inner} }}")
    inner = " ".join(draw(fields(number)) for number in draw(st.lists(NUMBERS, unique=True, max_size=2)))
    lines.append(f"message Inner {{ {inner} }}")
    lines.append(draw(st.sampled_from(["", "reserved 50 to 60, 99;", 'reserved "gone", "away";'])))
    lines.append(draw(st.sampled_from(["", "message Other { Inner other = 1; }", "message p { } p q = 7;"])))
    lines.append("enum Kind { option allow_alias = true; NONE = 0; ONE = 1; UNO = 1; }")
    body = "\n  ".join(line for line in lines if line)
    return f"""
// a comment with "quotes" and a brace {{
syntax = "proto3";
package p.q;
option java_package = "org.example";
message Outer {{
  {body}
}}
/* another one */
message Other {{ Outer back = 1; }}
service Shop {{ rpc Buy (Outer) returns (stream Other); }}
"""


def resolved(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    """With all names and defaults filled in, as every compiler does it."""
    pool = descriptor_pool.DescriptorPool()
    file.name = "default"
    pool.Add(file)
    out = descriptor_pb2.FileDescriptorProto()
    pool.FindFileByName("default").CopyToProto(out)
    for message in _messages(out.message_type):
        for field in message.field:
            if not field.HasField("json_name"):
                field.json_name = _json_name(field.name)
    return out


def _messages(messages: Any) -> Any:
    for message in messages:
        yield message
        yield from _messages(message.nested_type)


def _json_name(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@settings(max_examples=50)
@given(files())
def test_a_file_means_what_protoc_makes_of_it(text: str) -> None:
    theirs = compiled({"default": text}, "default")[-1]
    mine = parsed(text)
    packed = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(mine.formatted("serialized")))
    assert resolved(packed) == resolved(theirs)
    for form in (mine.canonical(), mine.normal()):
        again = compiled({"default": form}, "default")[-1]
        assert _in_order(resolved(again)) == _in_order(resolved(theirs)), form
    sent = base64.b64encode(theirs.SerializeToString()).decode()
    assert parsed(sent).canonical() == mine.canonical() and parsed(sent).normal() == mine.normal()


def _in_order(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    """The text has nested messages after fields and reserved words before: their order says nothing."""
    for message in _messages(file.message_type):
        for many in (message.field, message.nested_type):
            some = sorted(many, key=lambda one: one.name)
            del many[:]
            many.extend(some)
        message.reserved_name.sort()
        message.reserved_range.sort(key=lambda one: one.start)
        names = [one.name for one in message.oneof_decl]
        order = sorted(names)
        for field in message.field:
            if field.HasField("oneof_index"):
                field.oneof_index = order.index(names[field.oneof_index])
        del message.oneof_decl[:]
        for name in order:
            message.oneof_decl.add(name=name)
    return file


def _class(schema: ParsedProtobufSchema) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized"))))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.q.Outer"))


def _filled(draw: Any, message: Any, depth: int) -> Any:
    """Every field that can be set at the same time has some value that is not its default."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and (depth == 0 or field.message_type.GetOptions().map_entry):
            continue
        if field.message_type is not None:
            inner = getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name)
            _filled(draw, inner, depth - 1)
            if not field.is_repeated:
                inner.SetInParent()
        elif field.is_repeated:
            getattr(message, field.name).extend([_value(draw, field)])
        else:
            setattr(message, field.name, _value(draw, field))
    return message


def _value(draw: Any, field: Any) -> Any:
    if field.type == field.TYPE_BOOL:
        return True
    if field.type == field.TYPE_STRING:
        return draw(st.text(min_size=1, max_size=3, alphabet="abc"))
    if field.type == field.TYPE_BYTES:
        return draw(st.text(min_size=1, max_size=3, alphabet="abc")).encode()
    return 1


@given(files(), files(), st.data())
def test_what_is_compatible_keeps_every_value_that_both_know(old: str, new: str, data: st.DataObject) -> None:
    try:
        writer, reader = parsed(old), parsed(new)
    except Refusal:
        assume(False)
    differences = reader.differences(writer)
    event("compatible" if not differences else "not")
    if differences:
        return
    written = _filled(data.draw, _class(writer)(), 1)
    read = _class(reader).FromString(written.SerializeToString())
    for field, value in written.ListFields():
        mine = read.DESCRIPTOR.fields_by_number.get(field.number)
        if mine is None or field.message_type is not None:
            continue
        got = getattr(read, mine.name)
        single = value[0] if field.is_repeated else value
        got = got[0] if mine.is_repeated and len(got) else got
        plain = [one.encode() if isinstance(one, str) else one for one in (single, got)]
        assert plain[0] == plain[1], (field.name, value, got)


@given(st.text(alphabet='syntax="proto3";message A{int32 a=1;}[]<>()./*\n\'\\option ', max_size=60))
def test_anything_else_is_refused_in_words(text: str) -> None:
    try:
        parsed(text)
    except Refusal as problem:
        assert problem.number == 42201 and len(str(problem)) > 10


FIELDS = [
    f"{label}{kind} f = 1;"
    for kind in [*SCALARS, "Kind", "Inner", "Other"]
    for label in ("", "optional ", "repeated ")
] + [f"oneof choice {{ {kind} f = 1; }}" for kind in ("int32", "string")]


def test_every_pair_of_types_of_a_field() -> None:
    made = [
        parsed(
            f'syntax = "proto3"; package p.q; message Outer {{ {field} message Inner {{ int32 x = 1; }} '
            "message Other { string x = 1; } enum Kind { NONE = 0; ONE = 1; } }"
        )
        for field in FIELDS
    ]
    classes = [_class(one) for one in made]
    compatible = 0
    for (reader, read), (writer, write) in itertools.product(zip(made, classes, strict=True), repeat=2):
        if reader.differences(writer):
            continue
        compatible += 1
        message = write()
        field = message.DESCRIPTOR.fields_by_number[1]
        value: Any = b"a" if field.type == field.TYPE_BYTES else "a" if field.type == field.TYPE_STRING else 1
        if field.message_type is not None:
            inner = message.f.add() if field.is_repeated else message.f
            inner.x = value = "a" if field.message_type.name == "Other" else 1
        elif field.is_repeated:
            message.f.append(value)
        else:
            message.f = value
        got: Any = read.FromString(message.SerializeToString()).f
        mine = read.DESCRIPTOR.fields_by_number[1]
        got = got[0] if mine.is_repeated else got
        got = got.x if mine.message_type is not None else got
        assert (got.encode() if isinstance(got, str) else got) == (
            value.encode() if isinstance(value, str) else value
        ), (FIELDS[made.index(reader)], FIELDS[made.index(writer)])
    assert compatible > len(FIELDS)
