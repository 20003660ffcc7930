"""From a FileDescriptorProto back to the text of a .proto file: the form in which Protobuf schemas are kept and told,
however they came.  Comments are not kept.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import message_factory, text_format

from tidelog.schema.proto.parser import ENUM_MAX, NUMBER_MAX, SCALARS

Field = pb.FieldDescriptorProto
_TYPES = {number: name for name, number in SCALARS.items()}
_LABELS = {
    Field.LABEL_REQUIRED: "required ",
    Field.LABEL_REPEATED: "repeated ",
    Field.LABEL_OPTIONAL: "optional ",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def proto_text(file: pb.FileDescriptorProto, pool: Any, names: frozenset[str], normal: bool) -> str:
    """`names` are the full names of all types in sight; `normal`: what has no order is sorted."""
    return _Printer(file, pool, names, normal).text()


class _Printer:
    def __init__(self, file: pb.FileDescriptorProto, pool: Any, names: frozenset[str], normal: bool) -> None:
        self._file = file
        self._pool = pool
        self._names = names
        self._normal = normal
        self._out: list[str] = []
        self._proto3 = file.syntax == "proto3"
        self._editions = file.syntax == "editions"

    def text(self) -> str:
        file = self._file
        if self._editions:
            edition = pb.Edition.Name(file.edition).removeprefix("EDITION_")
            self._line(0, f'edition = "{edition}";')
        else:
            self._line(0, f'syntax = "{file.syntax or "proto2"}";')
        if file.package:
            self._line(0, f"package {file.package};")
        self._imports()
        options = self._options(file.options)
        if options:
            self._line(0, "")
        for name, value in options:
            self._line(0, f"option {name} = {value};")
        scope = file.package
        for message in file.message_type:
            self._line(0, "")
            self._message(message, scope, 0)
        for enum in file.enum_type:
            self._line(0, "")
            self._enum(enum, 0)
        self._extensions(file.extension, file.message_type, scope, 0)
        for service in file.service:
            self._line(0, "")
            self._service(service, scope)
        return "\n".join(self._out) + "\n"

    def _line(self, depth: int, text: str) -> None:
        self._out.append("  " * depth + text if text else "")

    def _imports(self) -> None:
        file = self._file
        lines = []
        for at, path in enumerate(file.dependency):
            how = "public " if at in file.public_dependency else "weak " if at in file.weak_dependency else ""
            lines.append(f"import {how}{quoted(path)};")
        if lines:
            self._line(0, "")
        for line in sorted(lines) if self._normal else lines:
            self._line(0, line)

    # Messages

    def _message(self, message: pb.DescriptorProto, scope: str, depth: int) -> None:
        self._line(depth, f"message {message.name} {{")
        self._message_body(message, scope, depth)
        self._line(depth, "}")

    def _message_body(self, message: pb.DescriptorProto, scope: str, depth: int) -> None:
        full_name = f"{scope}.{message.name}" if scope else message.name
        for name, value in self._options(message.options):
            if name != "map_entry":
                self._line(depth + 1, f"option {name} = {value};")
        self._reserved(message, NUMBER_MAX, 1, depth + 1)
        for span in message.extension_range:
            options = _bracketed(self._options(span.options))
            self._line(depth + 1, f"extensions {_span(span.start, span.end - 1, NUMBER_MAX)}{options};")
        maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        groups = {
            field.type_name.rpartition(".")[2] for field in message.field if field.type == Field.TYPE_GROUP
        }
        shown: set[int] = set()
        fields = sorted(message.field, key=lambda field: field.number) if self._normal else message.field
        for field in fields:
            if field.HasField("oneof_index") and not field.proto3_optional:
                if field.oneof_index not in shown:
                    shown.add(field.oneof_index)
                    self._oneof(message, field.oneof_index, fields, full_name, depth + 1)
            else:
                self._field(field, message, maps, full_name, depth + 1)
        for nested in message.nested_type:
            if nested.name not in maps and nested.name not in groups:
                self._message(nested, full_name, depth + 1)
        for enum in message.enum_type:
            self._enum(enum, depth + 1)
        self._extensions(message.extension, message.nested_type, full_name, depth + 1)

    def _oneof(self, message: Any, index: int, fields: Iterable[Any], scope: str, depth: int) -> None:
        oneof = message.oneof_decl[index]
        self._line(depth, f"oneof {oneof.name} {{")
        for name, value in self._options(oneof.options):
            self._line(depth + 1, f"option {name} = {value};")
        for field in fields:
            if field.HasField("oneof_index") and field.oneof_index == index:
                self._field(field, message, {}, scope, depth + 1, label=False)
        self._line(depth, "}")

    def _field(
        self, field: Any, around: Any, maps: dict[str, Any], scope: str, depth: int, label: bool = True
    ) -> None:
        options = _bracketed(self._field_options(field))
        entry = maps.get(field.type_name.rpartition(".")[2]) if field.type == Field.TYPE_MESSAGE else None
        if entry is not None and field.label == Field.LABEL_REPEATED:
            key, value = (self._type(part, f"{scope}.{entry.name}") for part in entry.field)
            self._line(depth, f"map<{key}, {value}> {field.name} = {field.number}{options};")
            return
        shown = self._label(field) if label else ""
        if field.type == Field.TYPE_GROUP:
            name = field.type_name.rpartition(".")[2]
            group = next(nested for nested in around.nested_type if nested.name == name)
            self._line(depth, f"{shown}group {name} = {field.number}{options} {{")
            self._message_body(group, scope, depth)
            self._line(depth, "}")
            return
        self._line(depth, f"{shown}{self._type(field, scope)} {field.name} = {field.number}{options};")

    def _label(self, field: Any) -> str:
        if field.label != Field.LABEL_OPTIONAL:
            return _LABELS[field.label]
        plain = (self._proto3 and not field.proto3_optional) or self._editions
        return "" if plain else "optional "

    def _type(self, field: Any, scope: str) -> str:
        if field.type in _TYPES:
            return _TYPES[field.type]
        return self._nearest(field.type_name.lstrip("."), scope)

    def _nearest(self, full: str, scope: str) -> str:
        """The shortest name that means this type when it is said in `scope`."""
        if self._normal:
            return f".{full}"
        parts = full.split(".")
        for at in range(len(parts) - 1, -1, -1):
            short = ".".join(parts[at:])
            if self._meant(short, scope) == full:
                return short
        return f".{full}"

    def _meant(self, name: str, scope: str) -> str | None:
        """As protoc looks for it: the first part in the nearest scope that has it."""
        first = name.partition(".")[0]
        while True:
            prefix = f"{scope}." if scope else ""
            if f"{prefix}{first}" in self._names:
                whole = f"{prefix}{name}"
                return whole if whole in self._names else None
            if not scope:
                return None
            scope = scope.rpartition(".")[0]

    def _extensions(self, extensions: Any, nested: Any, scope: str, depth: int) -> None:
        by_target: dict[str, list[Any]] = {}
        for extension in extensions:
            by_target.setdefault(extension.extendee, []).append(extension)
        for target, fields in by_target.items():
            self._line(0, "") if depth == 0 else None
            self._line(depth, f"extend {self._nearest(target.lstrip('.'), scope)} {{")
            for field in fields:
                self._field(field, _Around(nested), {}, scope, depth + 1)
            self._line(depth, "}")

    def _reserved(self, where: Any, most: int, exclusive: int, depth: int) -> None:
        spans = [(span.start, span.end - exclusive) for span in where.reserved_range]
        if spans:
            numbers = ", ".join(_span(start, last, most) for start, last in self._in_order(spans))
            self._line(depth, f"reserved {numbers};")
        if where.reserved_name:
            bare = self._editions
            names = [name if bare else quoted(name) for name in self._in_order(list(where.reserved_name))]
            self._line(depth, f"reserved {', '.join(names)};")

    def _in_order(self, values: list[Any]) -> list[Any]:
        return sorted(values) if self._normal else values

    # Enums and services

    def _enum(self, enum: pb.EnumDescriptorProto, depth: int) -> None:
        self._line(depth, f"enum {enum.name} {{")
        for name, value in self._options(enum.options):
            self._line(depth + 1, f"option {name} = {value};")
        self._reserved(enum, ENUM_MAX, 0, depth + 1)
        for enum_value in enum.value:
            options = _bracketed(self._options(enum_value.options))
            self._line(depth + 1, f"{enum_value.name} = {enum_value.number}{options};")
        self._line(depth, "}")

    def _service(self, service: pb.ServiceDescriptorProto, scope: str) -> None:
        self._line(0, f"service {service.name} {{")
        for name, value in self._options(service.options):
            self._line(1, f"option {name} = {value};")
        for method in service.method:
            given = "stream " * method.client_streaming + self._nearest(method.input_type.lstrip("."), scope)
            output = "stream " * method.server_streaming + self._nearest(
                method.output_type.lstrip("."), scope
            )
            line = f"rpc {method.name} ({given}) returns ({output})"
            options = self._options(method.options)
            self._line(1, line + (" {" if options else ";"))
            for name, value in options:
                self._line(2, f"option {name} = {value};")
            if options:
                self._line(1, "}")
        self._line(0, "}")

    # Options

    def _field_options(self, field: Any) -> list[tuple[str, str]]:
        options_text = []
        if field.HasField("default_value"):
            value = field.default_value
            if field.type == Field.TYPE_STRING:
                value = quoted(value)
            elif field.type == Field.TYPE_BYTES:
                value = f'"{value}"'
            options_text.append(("default", value))
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            options_text.append(("json_name", quoted(field.json_name)))
        return options_text + self._options(field.options)

    def _options(self, options: Any) -> list[tuple[str, str]]:
        """Name and value of each, in the order of names."""
        option_texts = [
            (_option_name(option), _option_value(option))
            for option in getattr(options, "uninterpreted_option", ())
        ]
        for field, value in self._read(options).ListFields():
            if field.name != "uninterpreted_option":
                name = f"({field.full_name})" if field.is_extension else field.name
                for item in value if field.is_repeated else [value]:
                    option_texts += _flattened(name, field, item)
        return sorted(option_texts)

    def _read(self, options: Any) -> Any:
        """With the eyes of the schema's own pool: it may know custom options that this program does not."""
        try:
            descriptor = self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        except KeyError:
            return options
        return message_factory.GetMessageClass(descriptor).FromString(options.SerializeToString())


class _Around:
    def __init__(self, nested: Any) -> None:
        self.nested_type = nested


def _flattened(name: str, field: Any, value: Any) -> list[tuple[str, str]]:
    if field.message_type is not None:
        if not field.is_extension:  # features
            return [
                pair
                for inner, item in value.ListFields()
                for pair in _flattened(f"{name}.{inner.name}", inner, item)
            ]
        return [(name, "{ " + text_format.MessageToString(value, as_one_line=True) + " }")]
    return [(name, _told(field, value))]


def _told(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | bytes):
        return quoted(value)
    return repr(value)


def _option_name(option: Any) -> str:
    return ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)


def _option_value(option: Any) -> str:
    tell: Callable[[], str]
    for field, tell in (
        ("identifier_value", lambda: option.identifier_value),
        ("positive_int_value", lambda: str(option.positive_int_value)),
        ("negative_int_value", lambda: str(option.negative_int_value)),
        ("double_value", lambda: repr(option.double_value)),
        ("string_value", lambda: quoted(option.string_value)),
        ("aggregate_value", lambda: "{ " + " ".join(option.aggregate_value.split()) + " }"),
    ):
        if option.HasField(field):
            return tell()
    return '""'


def _bracketed(options: list[tuple[str, str]]) -> str:
    return " [" + ", ".join(f"{name} = {value}" for name, value in options) + "]" if options else ""


def _span(start: int, last: int, most: int) -> str:
    if start == last:
        return str(start)
    return f"{start} to {'max' if last >= most else last}"


def _json_name(name: str) -> str:
    out, upper = [], False
    for letter in name:
        if letter == "_":
            upper = True
        else:
            out.append(letter.upper() if upper else letter)
            upper = False
    return "".join(out)


def quoted(value: str | bytes) -> str:
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if text is not None and all(letter.isprintable() for letter in text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return (
        '"'
        + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in data)
        + '"'
    )
