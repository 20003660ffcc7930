"""Generates `_write_*`: straight-line encoding of one struct in one regime into one bytearray."""

from __future__ import annotations

from tools.wire.code import (
    ALWAYS,
    Emitter,
    codes_name,
    condition,
    function,
    local,
    not_default,
    optional,
    outside,
    where,
)
from tools.wire.schema import FIXED, Field

NULL = {"string": r'b"\xff\xff"', "bytes": r'b"\xff\xff\xff\xff"'}


class Writer(Emitter):
    out = "out"

    def emit(self) -> None:
        name = function("write", self.regime, self.struct)
        with self.code.block(
            f"def {name}(out: bytearray, x: {self.struct.class_name}, version: int) -> None:"
        ):
            start = len(self.code.lines)
            self._absent([one for one in self.struct.fields if not one.versions & self.within])
            self._plain()
            if self.regime.flexible:
                self._tagged()
            self._flush()
            if len(self.code.lines) == start:
                self.code("pass")

    def _otherwise(self, group: list[Field]) -> None:
        if not all(one.ignorable for one in group):
            super()._otherwise(group)

    def _absent(self, fields: list[Field]) -> None:
        for one in fields:
            if not one.ignorable:
                with self.code.block(f"if {not_default(self.message, one, f'x.{one.attribute}')}:"):
                    self.code(f"raise unsupported({where(self.struct, one)}, version)")

    def _flush(self) -> None:
        codes = [code for code, _ in self.run]
        values = [value for _, value in self.run if value]
        self.run = []
        if codes == ["x"]:
            self.code(f"{self.out}.append(0)")
        elif codes:
            self.code.call(f"{self.out} += _put_{codes_name(codes)}", values, "")

    def _field(self, one: Field) -> None:
        value = f"x.{one.attribute}"
        if one.type in FIXED:
            self.run.append((FIXED[one.type], f"{value}.bytes" if one.type == "uuid" else value))
            return
        if optional(one):
            self._flush()
            self._nullable(one, value)
            return
        self._value(one, value)

    def _nullable(self, one: Field, value: str) -> None:
        nullable = condition(one.nullable, self.within & one.versions)
        problem = f"raise unsupported_null({where(self.struct, one)}, version)"
        with self.code.block(f"if {value} is None:"):
            if nullable is None:
                self.code(problem)
            elif nullable != ALWAYS:
                with self.code.block(f"if {outside(nullable)}:"):
                    self.code(problem)
            if nullable is not None:
                self._null(one)
        with self.code.block("" if nullable is None else "else:"):
            if one.is_struct and nullable is not None:
                self.code(f"{self.out}.append(1)")
            self._value(one, value)
            if nullable is not None:
                self._flush()

    def _null(self, one: Field) -> None:
        if one.is_struct:
            self.code(f"{self.out}.append({255 if one.tag is None else 0})")
        elif self.regime.flexible:
            self.code(f"{self.out}.append(0)")
        else:
            self.code(f"{self.out} += {NULL['string' if one.type == 'string' else 'bytes']}")

    def _value(self, one: Field, value: str) -> None:
        if one.array:
            self._array(one, value)
        elif one.is_struct:
            self._flush()
            self.code(
                f"{function('write', self.regime, self.message.struct_of(one))}({self.out}, {value}, version)"
            )
        else:
            self._bytes(one, value)

    def _bytes(self, one: Field, value: str) -> None:
        raw = "section" if one.element == "records" else "raw"
        self.code(f"{raw} = {value}.encode()" if one.element == "string" else f"{raw} = {value}")
        self._length(raw, one.element)
        self._flush()
        self.code(f"{self.out} += {raw}")

    def _length(self, variable: str, kind: str) -> None:
        if not self.regime.flexible:
            self.run.append(("h" if kind == "string" else "i", f"len({variable})"))
            return
        self._flush()
        self.code(f"size = len({variable})")
        with self.code.block("if size < 127:"):
            self.code(f"{self.out}.append(size + 1)")
        with self.code.block("else:"):
            if kind == "string":
                self.code(f"put_string_size({self.out}, size)")
            else:
                self.code(f"put_uvarint({self.out}, size + 1)")

    def _array(self, one: Field, value: str) -> None:
        items = local(one)
        self.code(f"{items} = {value}")
        self._length(items, one.type)
        self._flush()
        if one.element in FIXED and one.element != "uuid":
            with self.code.block(f"if {items}:"):
                self.code(f'{self.out} += pack(f">{{len({items})}}{FIXED[one.element]}", *{items})')
            return
        item = f"{items}_item"
        with self.code.block(f"for {item} in {items}:"):
            if one.element in self.message.structs:
                write = function("write", self.regime, self.message.struct_of(one))
                self.code(f"{write}({self.out}, {item}, version)")
            elif one.element == "uuid":
                self.code(f"{self.out} += {item}.bytes")
            else:
                self._bytes(one, item)

    def _tagged(self) -> None:
        known = [one for one in self.struct.fields if one.tag is not None and one.versions & self.within]
        if not known:
            self.run.append(("x", ""))  # a pad byte: no tagged fields
            return
        self._flush()
        self.code("tagged: list[tuple[int, bytearray]] = []")
        for one in sorted(known, key=lambda one: one.tag or 0):
            test = condition(one.versions, self.within)
            set_ = not_default(self.message, one, f"x.{one.attribute}")
            with self.code.block(f"if {set_}:"):
                if test != ALWAYS and not one.ignorable:
                    with self.code.block(f"if {outside(test or '')}:"):
                        self.code(f"raise unsupported({where(self.struct, one)}, version)")
                with self.code.block(f"if {test}:" if test != ALWAYS and one.ignorable else ""):
                    self._tagged_field(one)
        with self.code.block("if tagged:"):
            self.code("put_tagged(out, tagged)")
        with self.code.block("else:"):
            self.code("out.append(0)")

    def _tagged_field(self, one: Field) -> None:
        self.code("part = bytearray()")
        self.out = "part"
        self._field(one)
        self._flush()
        self.out = "out"
        self.code(f"tagged.append(({one.tag}, part))")
