"""From the text of a .proto file to its FileDescriptorProto: proto2, proto3 and editions.

Names of types stay as they are written; the descriptor pool resolves and checks them.  Custom options are kept
uninterpreted, as they were written.  Pure."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor import FieldDescriptor

from tidelog.schema.proto.tokens import Cursor, ProtoError

Field = pb.FieldDescriptorProto
DEPTH_MAX = 64
NUMBER_MAX = (1 << 29) - 1
ENUM_MAX = (1 << 31) - 1
SCALARS: dict[str, int] = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in Field.Type.items()
    if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
}
LABELS: dict[str, Any] = {
    "optional": Field.LABEL_OPTIONAL,
    "required": Field.LABEL_REQUIRED,
    "repeated": Field.LABEL_REPEATED,
}


def parse_proto(text: str, name: str) -> pb.FileDescriptorProto:
    return _ProtoParser(text).file(name)


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


class _ProtoParser:
    def __init__(self, text: str) -> None:
        self._at = Cursor(text)
        self._proto3 = False
        self._editions = False
        self._depth = 0

    def file(self, name: str) -> pb.FileDescriptorProto:
        at, file = self._at, pb.FileDescriptorProto(name=name)
        if at.here.text in ("syntax", "edition") and at.ahead().text == "=":
            self._syntax(file)
        while at.here.kind != "end":
            word = at.here.text
            if at.took(";"):
                continue
            if word == "import":
                self._import(file)
            elif word == "package":
                at.next()
                if file.package:
                    raise at.wrong("there is a package already: one is enough")
                file.package = at.dotted("the package")
                at.expect(";")
            elif word == "option":
                self._option_statement(file.options)
            elif word == "message":
                self._message(file.message_type.add())
            elif word == "enum":
                self._enum(file.enum_type.add())
            elif word == "extend":
                self._extend(file.extension, file.message_type)
            elif word == "service":
                self._service(file.service.add())
            else:
                raise at.wrong("a message, an enum, a service, an import, a package or an option is needed")
        return file

    def _syntax(self, file: pb.FileDescriptorProto) -> None:
        at = self._at
        keyword = at.next().text
        at.expect("=")
        name = at.text(f"the {keyword}").decode("utf-8", "replace")
        at.expect(";")
        if keyword == "edition":
            number = pb.Edition.DESCRIPTOR.values_by_name.get(f"EDITION_{name}")
            if number is None or not name[:1].isdigit():
                raise ProtoError(f"the edition {name!r} is not known")
            file.syntax, file.edition = "editions", number.number
            self._editions = True
        elif name in ("proto2", "proto3"):
            self._proto3 = name == "proto3"
            if self._proto3:
                file.syntax = name
        else:
            raise ProtoError(f"the syntax is proto2 or proto3, not {name!r}")

    def _import(self, file: pb.FileDescriptorProto) -> None:
        at = self._at
        at.next()
        how = at.next().text if at.here.kind == "name" else ""
        if how not in ("", "public", "weak"):
            raise at.wrong("an import is plain, public or weak")
        path = at.text("the file to import").decode("utf-8", "replace")
        at.expect(";")
        if path in file.dependency:
            raise ProtoError(f"{path!r} is imported twice")
        if how == "public":
            file.public_dependency.append(len(file.dependency))
        elif how == "weak":
            file.weak_dependency.append(len(file.dependency))
        file.dependency.append(path)

    # Messages

    def _message(self, message: pb.DescriptorProto) -> None:
        self._at.expect("message")
        message.name = self._at.name("a message")
        self._body(message)

    def _body(self, message: pb.DescriptorProto) -> None:
        at = self._at
        at.expect("{")
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ProtoError(f"messages are nested more than {DEPTH_MAX} levels deep")
        while not at.took("}"):
            if at.here.kind == "end":
                raise at.wrong(f"message {message.name!r} is not closed: '}}' is needed")
            if not at.took(";"):
                self._part(message)
        self._depth -= 1
        _after_synthetic_oneofs(message)

    def _part(self, message: pb.DescriptorProto) -> None:
        at = self._at
        word, then = at.here.text, at.ahead()
        named = then.kind == "name" and at.ahead(2).text == "{"
        if word == "message" and named:
            self._message(message.nested_type.add())
        elif word == "enum" and named:
            self._enum(message.enum_type.add())
        elif word == "oneof" and named:
            self._oneof(message)
        elif word == "extend" and then.kind in ("name", "sign") and then.text != "=":
            self._extend(message.extension, message.nested_type)
        elif word == "option" and then.text != "=":
            self._option_statement(message.options)
        elif word == "extensions" and then.kind == "int":
            self._extensions(message)
        elif word == "reserved" and then.kind in ("int", "text", "name") and at.ahead(2).text != "=":
            self._reserved(message, NUMBER_MAX, True)
        else:
            self._field(message.field.add(), message.nested_type)

    def _field(self, field: Any, nested: Any, in_oneof: bool = False) -> None:
        at = self._at
        label = at.here.text if at.here.text in LABELS and at.ahead().text != "=" else None
        if label is not None and (at.ahead().kind == "name" or at.ahead().text == "."):
            at.next()
            if in_oneof:
                raise ProtoError(f"a field in a oneof cannot be {label}")
        elif not (self._proto3 or in_oneof or at.here.text == "map" or self._editions):
            raise at.wrong("a field in proto2 is required, optional or repeated: one of these is needed")
        else:
            label = None
        field.label = LABELS[label or "optional"]
        if self._proto3 and label == "required":
            raise ProtoError("proto3 has no required fields")
        if at.here.text == "map" and at.ahead().text == "<":
            if label is not None:
                raise at.wrong("a map has no label")
            self._map(field, nested)
        elif at.here.text == "group" and at.ahead().kind == "name":
            self._group(field, nested)
            return
        else:
            self._typed(field, at.dotted("a type"))
            field.name = at.name("a field")
            field.number = self._number()
        if self._proto3 and label == "optional":
            field.proto3_optional = True
        self._field_options(field)
        at.expect(";")

    def _typed(self, field: Any, name: str) -> None:
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _number(self) -> int:
        self._at.expect("=")
        number = self._at.int("the number of a field")
        if not 1 <= number <= NUMBER_MAX:
            raise ProtoError(f"the number of a field is from 1 to {NUMBER_MAX}, not {number}")
        return number

    def _map(self, field: Any, nested: Any) -> None:
        at = self._at
        at.next()
        at.expect("<")
        key = at.dotted("the type of a map's keys")
        at.expect(",")
        value = at.dotted("the type of a map's values")
        at.expect(">")
        field.name = at.name("a map")
        field.number = self._number()
        field.label = Field.LABEL_REPEATED
        if key not in SCALARS or key in ("float", "double", "bytes"):
            raise ProtoError(
                f"keys of map {field.name!r} are {key}: they must be whole numbers, bool or string"
            )
        entry = nested.add(name=camel(field.name) + "Entry")
        entry.options.map_entry = True
        for at_number, (name, type_) in enumerate((("key", key), ("value", value)), 1):
            part = entry.field.add(name=name, number=at_number, label=Field.LABEL_OPTIONAL)
            self._typed(part, type_)
        field.type_name = entry.name

    def _group(self, field: Any, nested: Any) -> None:
        at = self._at
        if self._proto3:
            raise at.wrong("proto3 has no groups: a message is needed")
        at.next()
        name = at.name("a group")
        field.name, field.number = name.lower(), self._number()
        field.type, field.type_name = Field.TYPE_GROUP, name
        self._field_options(field)
        self._body(nested.add(name=name))

    def _oneof(self, message: pb.DescriptorProto) -> None:
        at = self._at
        at.next()
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=at.name("a oneof"))
        at.expect("{")
        while not at.took("}"):
            if at.here.kind == "end":
                raise at.wrong(f"oneof {oneof.name!r} is not closed: '}}' is needed")
            if at.took(";"):
                continue
            if at.here.text == "option" and at.ahead(2).text != "=":
                self._option_statement(oneof.options)
                continue
            if at.here.text == "option" and at.ahead().text == "(":
                self._option_statement(oneof.options)
                continue
            field = message.field.add(oneof_index=index)
            self._field(field, message.nested_type, in_oneof=True)

    def _extend(self, extensions: Any, nested: Any) -> None:
        at = self._at
        at.next()
        target = at.dotted("the message to extend")
        at.expect("{")
        while not at.took("}"):
            if at.here.kind == "end":
                raise at.wrong("'}' is needed")
            if not at.took(";"):
                field = extensions.add(extendee=target)
                self._field(field, nested)

    def _extensions(self, message: pb.DescriptorProto) -> None:
        at = self._at
        at.next()
        made = []
        for start, last in self._ranges(NUMBER_MAX):
            made.append(message.extension_range.add(start=start, end=last + 1))
        if at.took("["):
            self._options(made[0].options)
            for other in made[1:]:
                other.options.CopyFrom(made[0].options)
        at.expect(";")

    def _reserved(self, where: Any, most: int, exclusive: bool) -> None:
        at = self._at
        at.next()
        if at.here.kind in ("text", "name"):
            while True:
                if at.here.kind == "name":
                    where.reserved_name.append(at.next().text)
                else:
                    where.reserved_name.append(at.text("a reserved name").decode("utf-8", "replace"))
                if not at.took(","):
                    break
        else:
            for start, last in self._ranges(most):
                where.reserved_range.add(start=start, end=last + 1 if exclusive else last)
        at.expect(";")

    def _ranges(self, most: int) -> list[tuple[int, int]]:
        at, ranges = self._at, []
        while True:
            start = last = at.int("a number")
            if at.took("to"):
                last = most if at.took("max") else at.int("the end of a range")
            if last < start:
                raise ProtoError(f"the range {start} to {last} is empty")
            ranges.append((start, last))
            if not at.took(","):
                return ranges

    # Enums and services

    def _enum(self, enum: pb.EnumDescriptorProto) -> None:
        at = self._at
        at.expect("enum")
        enum.name = at.name("an enum")
        at.expect("{")
        while not at.took("}"):
            if at.here.kind == "end":
                raise at.wrong(f"enum {enum.name!r} is not closed: '}}' is needed")
            if at.took(";"):
                continue
            if at.here.text == "option" and at.ahead().text != "=":
                self._option_statement(enum.options)
            elif at.here.text == "reserved" and at.ahead().text != "=":
                self._reserved(enum, ENUM_MAX, False)
            else:
                value = enum.value.add(name=at.name("a value"))
                at.expect("=")
                value.number = self._enum_number(value.name)
                if at.took("["):
                    self._options(value.options)
                at.expect(";")

    def _enum_number(self, name: str) -> int:
        number = self._at.int(f"the number of {name}")
        if not -ENUM_MAX - 1 <= number <= ENUM_MAX:
            raise ProtoError(f"the number of {name!r} does not fit into 32 bits: {number}")
        return number

    def _service(self, service: pb.ServiceDescriptorProto) -> None:
        at = self._at
        at.next()
        service.name = at.name("a service")
        at.expect("{")
        while not at.took("}"):
            if at.took(";"):
                continue
            if at.here.text == "option":
                self._option_statement(service.options)
                continue
            at.expect("rpc")
            method = service.method.add(name=at.name("a method"))
            method.input_type, method.client_streaming = self._streamed()
            at.expect("returns")
            method.output_type, method.server_streaming = self._streamed()
            if not method.client_streaming:
                method.ClearField("client_streaming")
            if not method.server_streaming:
                method.ClearField("server_streaming")
            if at.took("{"):
                while not at.took("}"):
                    if not at.took(";"):
                        self._option_statement(method.options)
            else:
                at.expect(";")

    def _streamed(self) -> tuple[str, bool]:
        at = self._at
        at.expect("(")
        stream = at.here.text == "stream" and at.ahead().text != ")"
        if stream:
            at.next()
        name = at.dotted("a message")
        at.expect(")")
        return name, stream

    # Options

    def _option_statement(self, options: Any) -> None:
        self._at.expect("option")
        self._option(options)
        self._at.expect(";")

    def _options(self, options: Any) -> None:
        """In brackets, the first one behind us."""
        while True:
            self._option(options)
            if self._at.took("]"):
                return
            self._at.expect(",")

    def _field_options(self, field: Any) -> None:
        at = self._at
        if not at.took("["):
            return
        while True:
            if at.here.text == "default" and at.ahead().text == "=":
                at.next()
                at.next()
                field.default_value = self._default(field)
            elif at.here.text == "json_name" and at.ahead().text == "=":
                at.next()
                at.next()
                field.json_name = at.text("json_name").decode("utf-8", "replace")
            else:
                self._option(field.options)
            if at.took("]"):
                return
            at.expect(",")

    def _default(self, field: Any) -> str:
        at = self._at
        if self._proto3:
            raise at.wrong("proto3 has no defaults of one's own")
        if at.here.kind == "text":
            value = at.text("the default")
            if field.type == FieldDescriptor.TYPE_BYTES:
                return "".join(
                    chr(byte) if 32 <= byte < 127 and byte not in b"\"\\'" else f"\\{byte:03o}"
                    for byte in value
                )
            return value.decode("utf-8", "replace")
        sign = "-" if at.took("-") else ""
        if field.type in _WHOLE and at.here.kind == "int":
            return str(-at.int("the default") if sign else at.int("the default"))
        return sign + at.next().text

    def _option(self, options: Any) -> None:
        at = self._at
        parts: list[tuple[str, bool]] = []
        while True:
            if at.took("("):
                parts.append((at.dotted("an option"), True))
                at.expect(")")
            else:
                parts.append((at.name("an option"), False))
            if not at.took("."):
                break
        at.expect("=")
        if any(custom for _, custom in parts):
            self._uninterpreted(options.uninterpreted_option.add(), parts)
        else:
            self._known(options, [name for name, _ in parts])

    def _known(self, options: Any, names: list[str]) -> None:
        at, here = self._at, options
        for name in names[:-1]:
            if (
                name not in here.DESCRIPTOR.fields_by_name
                or not here.DESCRIPTOR.fields_by_name[name].message_type
            ):
                raise at.wrong(f"there is no option {'.'.join(names)!r}")
            here = getattr(here, name)
        option = here.DESCRIPTOR.fields_by_name.get(names[-1])
        if option is None or option.name == "uninterpreted_option":
            raise at.wrong(f"there is no option {'.'.join(names)!r}")
        try:
            if option.is_repeated:
                getattr(here, option.name).append(self._value(option))
            elif option.message_type is not None:
                from google.protobuf import text_format

                text_format.Merge(at.between_braces(), getattr(here, option.name))
            else:
                setattr(here, option.name, self._value(option))
        except (TypeError, ValueError) as problem:
            raise at.wrong(f"option {'.'.join(names)!r}: {problem}") from None

    def _value(self, option: Any) -> Any:
        at = self._at
        if option.type == FieldDescriptor.TYPE_BOOL:
            word = at.next().text
            if word not in ("true", "false"):
                raise at.wrong(f"option {option.name!r} is true or false")
            return word == "true"
        if option.type == FieldDescriptor.TYPE_STRING:
            return at.text(f"option {option.name!r}").decode("utf-8", "replace")
        if option.enum_type is not None:
            word = at.next().text
            value = option.enum_type.values_by_name.get(word)
            if value is None:
                raise at.wrong(f"option {option.name!r} cannot be {word!r}")
            return value.number
        return at.int(f"option {option.name!r}")

    def _uninterpreted(self, option: Any, parts: list[tuple[str, bool]]) -> None:
        at = self._at
        for name, custom in parts:
            option.name.add(name_part=name, is_extension=custom)
        here = at.here
        if here.kind == "text":
            option.string_value = at.text("an option")
        elif here.text == "{":
            option.aggregate_value = at.between_braces()
        elif here.kind == "float" or (here.text == "-" and at.ahead().kind in ("float", "name")):
            sign = -1 if at.took("-") else 1
            option.double_value = sign * float(at.next().text)
        elif here.kind == "name":
            option.identifier_value = at.next().text
        else:
            number = at.int("the value of an option")
            if number < 0:
                option.negative_int_value = number
            else:
                option.positive_int_value = number


_WHOLE = frozenset(
    SCALARS[name]
    for name in (
        *("int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64"),
    )
)


def _after_synthetic_oneofs(message: pb.DescriptorProto) -> None:
    """`optional` in proto3 is a oneof of its own, after those that somebody wrote."""
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            name = f"_{field.name}"
            while any(name == oneof.name for oneof in message.oneof_decl):
                name = f"X{name}"
            message.oneof_decl.add(name=name)
