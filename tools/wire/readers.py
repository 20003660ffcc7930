"""Generates `_read_*`: straight-line decoding of one struct in one regime.

Neighbouring fields of fixed size are unpacked together, with the length that follows them.
"""

from __future__ import annotations

from tools.wire.code import (
    ALWAYS,
    Emitter,
    annotation,
    codes_name,
    condition,
    default,
    element_size_min,
    function,
    local,
    optional,
    where,
)
from tools.wire.schema import FIXED, SIZES, Field, Versions

VALUES = {
    "string": 'str(data[at:end], "utf-8")',
    "bytes": "bytes(data[at:end])",
    "records": "records_of(data, at, end)",
}


class Reader(Emitter):
    def emit(self) -> None:
        name = function("read", self.regime, self.struct)
        kind = self.struct.class_name
        with self.code.block(f"def {name}(data: Buffer, at: int, version: int) -> tuple[{kind}, int]:"):
            self._declarations()
            self._plain()
            if self.regime.flexible:
                self._tagged()
            self._flush()
            arguments = [
                local(one) if one.versions & self.within else default(self.message, one)
                for one in self.struct.fields
            ]
            self.code.call(f"return {kind}", arguments, ", at")

    def _declarations(self) -> None:
        """Types of variables that are assigned in more than one place."""
        for one in self.struct.fields:
            if one.versions & self.within and (one.array or (optional(one) and one.type not in FIXED)):
                self.code(f"{local(one)}: {annotation(self.message, one)}")

    def _absent(self, fields: list[Field]) -> None:
        for one in fields:
            self.code(f"{local(one)} = {default(self.message, one)}")

    def _flush(self) -> None:
        if not self.run:
            return
        codes = [code for code, _ in self.run]
        targets = [target for _, target in self.run]
        self.run = []
        if codes == ["B"]:
            self.code(f"{targets[0]} = data[at]")
        else:
            left = f"({targets[0]},)" if len(targets) == 1 else ", ".join(targets)
            self.code(f"{left} = _get_{codes_name(codes)}(data, at)")
        self.code(f"at += {sum(SIZES[code] for code in codes)}")
        for code, target in zip(codes, targets, strict=True):
            if code == "16s":
                self.code(f"{target} = uuid_of({target})")

    def _field(self, one: Field) -> None:
        target = local(one)
        if one.array:
            self._array(one, target)
        elif one.type in FIXED:
            self.run.append((FIXED[one.type], target))
        elif one.is_struct:
            self._struct(one, target)
        else:
            self._bytes(one, one.nullable, f"{target} = ", "")

    def _struct(self, one: Field, target: str) -> None:
        inner = self.message.struct_of(one)
        read = f"{target}, at = {function('read', self.regime, inner)}(data, at, version)"
        nullable = condition(one.nullable, self.within & one.versions)
        assert nullable in (ALWAYS, None), (
            f"{one.name} is nullable in some versions: its mark would come and go"
        )
        if nullable is None:
            self._flush()
            self.code(read)
            return
        # A mark precedes it: a signed byte, below zero for null; in a tagged field a varint, zero for null.
        self.run.append(("B" if one.tag is not None else "b", "present"))
        self._flush()
        with self.code.block(f"if {'not present' if one.tag is not None else 'present < 0'}:"):
            self.code(f"{target} = None")
        with self.code.block("else:"):
            self.code(read)

    def _length(self, variable: str, one: Field) -> None:
        """Into `variable`: a length or count, -1 for null."""
        element = one.element if variable == "size" else one.type
        if not self.regime.flexible:
            self.run.append(("h" if element == "string" else "i", variable))
            self._flush()
            return
        self.run.append(("B", variable))
        self._flush()
        with self.code.block(f"if {variable} > 127:"):
            finish = "string_size" if element == "string" else "uvarint"
            self.code(f"{variable}, at = {finish}(data, at, {variable})")
        self.code(f"{variable} -= 1")

    def _bytes(self, one: Field, nullable_in: Versions, before: str, after: str) -> None:
        """A string or bytes, given to `before ... after`."""
        self._length("size", one)
        nullable = condition(nullable_in, self.within & one.versions)
        value = VALUES[one.element]
        problem = f"raise bad_null({where(self.struct, one)}, size)"
        if nullable is None:
            with self.code.block("if size < 0:"):
                self.code(problem)
        with self.code.block("" if nullable is None else "if size >= 0:"):
            self.code("end = at + size")
            self.code(f"{before}{value}{after}")
            self.code("at = end")
        if nullable == ALWAYS and self.regime.flexible:
            with self.code.block("else:"):
                self.code(f"{before}None{after}")
        elif nullable is not None:
            with self.code.block("elif size == -1" + (f" and {nullable}:" if nullable else ":")):
                self.code(f"{before}None{after}")
            with self.code.block("else:"):
                self.code(problem)

    def _array(self, one: Field, target: str) -> None:
        self._length("count", one)
        nullable = condition(one.nullable, self.within & one.versions)
        if nullable is not None:
            with self.code.block("if count == -1" + (f" and {nullable}:" if nullable else ":")):
                self.code(f"{target} = None")
        with self.code.block("" if nullable is None else "else:"):
            least = element_size_min(self.message, one, self.regime)
            bytes_min = "count" if least == 1 else f"count * {least}"
            with self.code.block(f"if count < 0 or {bytes_min} > len(data) - at:"):
                self.code(f"raise bad_count({where(self.struct, one)}, count, len(data) - at)")
            self._elements(one, target)

    def _elements(self, one: Field, target: str) -> None:
        if one.element == "uuid":
            self.code(
                f"{target} = [uuid_of(bytes(data[i : i + 16])) for i in range(at, at + 16 * count, 16)]"
            )
            self.code("at += 16 * count")
        elif one.element in FIXED:
            code = FIXED[one.element]
            self.code(f'{target} = list(unpack_from(f">{{count}}{code}", data, at)) if count else []')
            self.code(f"at += {SIZES[code]} * count")
        else:
            self.code(f"{target} = []")
            with self.code.block("for _ in range(count):"):
                if one.element in self.message.structs:
                    read = function("read", self.regime, self.message.struct_of(one))
                    self.code(f"{target}_item, at = {read}(data, at, version)")
                    self.code(f"{target}.append({target}_item)")
                else:
                    self._bytes(one, Versions(0, -1), f"{target}.append(", ")")

    def _tagged(self) -> None:
        self.run.append(("B", "tagged"))
        self._flush()
        known = [one for one in self.struct.fields if one.tag is not None and one.versions & self.within]
        for one in known:
            # The constructor makes default structs itself.
            value = "DEFAULT" if one.is_struct else default(self.message, one)
            self.code(f"{local(one)} = {value}")
        with self.code.block("if tagged:"):
            if not known:
                self.code("at = skip_tagged(data, at, tagged)")
                return
            with self.code.block("if tagged > 127:"):
                self.code("tagged, at = uvarint(data, at, tagged)")
            with self.code.block("for _ in range(tagged):"):
                self.code("tag, at, tag_end = tag_at(data, at)")
                for number, one in enumerate(known):
                    self._tagged_field(one, "if" if number == 0 else "elif")
                with self.code.block("else:"):
                    self.code("at = tag_end")

    def _tagged_field(self, one: Field, keyword: str) -> None:
        test = condition(one.versions, self.within)
        with self.code.block(f"{keyword} tag == {one.tag}" + (f" and {test}:" if test else ":")):
            self._field(one)
            self._flush()
            with self.code.block("if at != tag_end:"):
                self.code(f"raise bad_tagged({where(self.struct, one)})")
