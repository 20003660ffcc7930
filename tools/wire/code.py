"""What generated readers, writers and classes have in common: lines, names, conditions, defaults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tools.wire.schema import FIXED, SIZES, Field, Message, Struct, Versions, snake

WIDTH = 110
ALWAYS = ""
TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "UUID",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
}
LETTERS = {"?": "t", "16s": "u"}  # in names of struct functions; all other codes are letters already
# Names that the generated functions use themselves.
TAKEN = {
    "data",
    "at",
    "end",
    "version",
    "size",
    "count",
    "present",
    "tag",
    "tag_end",
    "tagged",
    "raw",
    "section",
    "part",
    "x",
}


class Code:
    """Lines of Python and the current indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def __call__(self, line: str = "") -> None:
        self.lines.append("    " * self.depth + line if line else "")

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """The lines under `head`; under nothing, at the same depth."""
        if head:
            self(head)
            self.depth += 1
        yield
        if head:
            self.depth -= 1

    def call(self, head: str, arguments: list[str], tail: str) -> None:
        """`head(arguments)tail`, on one line if it fits."""
        line = f"{head}({', '.join(arguments)}){tail}"
        if 4 * self.depth + len(line) <= WIDTH:
            self(line)
            return
        self(f"{head}(")
        for argument in arguments:
            self(f"    {argument},")
        self(f"){tail}")


@dataclass(frozen=True, slots=True)
class Regime:
    """Versions of one encoding: flexible (compact lengths, tagged fields) or plain."""

    name: str
    versions: Versions

    @property
    def flexible(self) -> bool:
        return self.name == "flexible"


class Emitter(ABC):
    """Writes one function for one struct in one regime: what readers and writers have in common."""

    def __init__(self, code: Code, message: Message, struct: Struct, regime: Regime) -> None:
        self.code = code
        self.message = message
        self.struct = struct
        self.regime = regime
        self.within = struct.versions & regime.versions
        self.run: list[
            tuple[str, str]
        ] = []  # struct codes that wait to be written together, and their variables

    @abstractmethod
    def emit(self) -> None: ...

    @abstractmethod
    def _field(self, one: Field) -> None: ...

    @abstractmethod
    def _absent(self, fields: list[Field]) -> None:
        """What is done about fields in versions that lack them."""

    @abstractmethod
    def _flush(self) -> None: ...

    def _plain(self) -> None:
        """All fields without a tag, neighbours of the same versions together."""
        plain = [one for one in self.struct.fields if one.tag is None and one.versions & self.within]
        for group in grouped(plain, self.within):
            test = condition(group[0].versions, self.within)
            assert test is not None
            if test == ALWAYS:
                self._each(group)
                continue
            self._flush()
            with self.code.block(f"if {test}:"):
                self._each(group)
                self._flush()
            self._otherwise(group)

    def _each(self, group: list[Field]) -> None:
        for one in group:
            self._field(one)

    def _otherwise(self, group: list[Field]) -> None:
        with self.code.block("else:"):
            self._absent(group)


def regimes(message: Message) -> list[Regime]:
    plain = Versions(message.versions.low, min(message.versions.high, message.flexible.low - 1))
    both = [Regime("flexible", message.flexible), Regime("plain", plain)]
    return [regime for regime in both if regime.versions]


def condition(wanted: Versions, within: Versions) -> str | None:
    """The test that a version known to be `within` is one of `wanted`: ALWAYS (empty), or None for never."""
    common = wanted & within
    if not common:
        return None
    if common == within:
        return ALWAYS
    if common.high == within.high:
        return f"version >= {common.low}"
    if common.low == within.low:
        return f"version <= {common.high}"
    return f"{common.low} <= version <= {common.high}"


def grouped(fields: list[Field], within: Versions) -> list[list[Field]]:
    """Neighbours that are present in the same versions."""
    groups: list[list[Field]] = []
    for one in fields:
        if groups and condition(groups[-1][0].versions, within) == condition(one.versions, within):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def outside(test: str) -> str:
    """The opposite of a `condition`."""
    if " <= version" in test:
        return f"not {test}"
    return test.replace(">=", "<") if ">=" in test else test.replace("<=", ">")


def codes_name(codes: list[str]) -> str:
    return "".join(LETTERS.get(code, code) for code in codes)


def function(verb: str, regime: Regime, struct: Struct) -> str:
    return f"_{verb}_{regime.name}_{snake(struct.class_name)}"


def local(one: Field) -> str:
    return one.attribute + "_" if one.attribute in TAKEN else one.attribute


def where(struct: Struct, one: Field) -> str:
    return f'"{struct.class_name}.{one.attribute}"'


def null_default(one: Field) -> bool:
    return one.default == "null" or one.type == "records"


def optional(one: Field) -> bool:
    """Whether None is among the field's values, in whatever version."""
    return bool(one.nullable) or null_default(one)


def element_type(message: Message, one: Field) -> str:
    if one.element in message.structs:
        return message.struct_of(one).class_name
    return TYPES.get(one.element, "int")


def annotation(message: Message, one: Field) -> str:
    name = element_type(message, one)
    return (f"list[{name}]" if one.array else name) + (" | None" if optional(one) else "")


def default(message: Message, one: Field) -> str:
    """The default as an expression that makes a new object where it must."""
    if null_default(one):
        return "None"
    if one.array:
        return "[]"
    if one.is_struct:
        return f"{message.struct_of(one).class_name}()"
    if one.type == "bool":
        return "True" if one.default == "true" else "False"
    implied = {"string": '""', "bytes": 'b""', "float64": "0.0", "uuid": "ZERO_UUID"}
    return one.default or implied.get(one.type, "0")


def not_default(message: Message, one: Field, value: str) -> str:
    """The test that `value` of this field is not its default."""
    if null_default(one):
        return f"{value} is not None"
    if one.array:
        return f"{value} is None or {value}" if optional(one) else value
    if one.is_struct:
        inner = message.struct_of(one).fields
        parts = [not_default(message, part, f"{value}.{part.attribute}") for part in inner]
        return " or ".join([f"{value} is None", *parts] if optional(one) else parts)
    if one.type == "bool":
        return f"not {value}" if one.default == "true" else value
    return f"{value} != {default(message, one)}"


def size_min(message: Message, struct: Struct, regime: Regime) -> int:
    """The least bytes that one struct can take: it bounds how many may be claimed."""
    within = struct.versions & regime.versions
    total = 1 if regime.flexible else 0
    for one in struct.fields:
        if one.tag is None and condition(one.versions, within) == ALWAYS:
            total += field_size_min(message, one, regime)
    return total


def field_size_min(message: Message, one: Field, regime: Regime) -> int:
    if one.is_struct:
        return 1 if one.nullable else size_min(message, message.struct_of(one), regime)
    if one.type in FIXED:
        return SIZES[FIXED[one.type]]
    if regime.flexible:
        return 1
    return 2 if one.type == "string" else 4


def element_size_min(message: Message, one: Field, regime: Regime) -> int:
    if one.element in message.structs:
        least = size_min(message, message.struct_of(one), regime)
    elif one.element in FIXED:
        least = SIZES[FIXED[one.element]]
    else:
        least = 1 if regime.flexible else 2 if one.element == "string" else 4
    assert least, f"{message.name}: an element of {one.name} may take no bytes, so its count has no bound"
    return least
