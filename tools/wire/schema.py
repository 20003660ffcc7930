"""The table of message definitions as objects: read, checked, and clipped to the versions that exist.

The generator and the tests use this; the package itself never does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

DEFINITIONS = Path(__file__).with_name("definitions.txt")
EXTENSIONS = DEFINITIONS.with_name("extensions.txt")
OWN_TAGS_FROM = 10_000

FORMAT = """\
# Messages of the Kafka protocol, version 4.3: names, types and versions.  Written by tools/wire/extract.py.
#
#   KIND Name key=N versions=A-B flexible=V [listeners=...] [unstable]
#     struct Name V                      shared by several fields of the message; its fields follow, indented
#     Field TYPE V [nullable=V] [tag=N] [default=X] [ignorable]
#
# KIND      request, response; data (framed by its user); key, value (records of internal topics);
#           record (tiered storage)
# key       the API key, or the number that tells records of one topic apart
# V         versions: 3 (only that one), 0-4 (to 4 inclusive), 2+ (and all later ones), none
# TYPE      bool int8 int16 uint16 int32 uint32 int64 float64 uuid string bytes records, or the name of a
#           struct, whose fields follow, indented; [] before it makes an array
# nullable  versions in which the field may be null
# tag       the field is tagged, in all of its versions
# default   other than zero, false, empty, a struct of defaults; of `records` null is always the default
# ignorable may be dropped silently where the version lacks it; any other field must then have its default
# unstable  the newest version is not final and not advertised
"""

NEVER = 1 << 15  # one past every version: the start of "none"
FIXED = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "float64": "d", "uuid": "16s",
}  # fmt: skip
SIZES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
VARIABLE = ("string", "bytes", "records")


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range; empty when `low > high`."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text == "none":
            return cls(NEVER, NEVER - 1)
        if text.endswith("+"):
            return cls(int(text[:-1]), NEVER - 1)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __and__(self, other: Versions) -> Versions:
        return Versions(max(self.low, other.low), min(self.high, other.high))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))


NONE = Versions.parse("none")


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: str
    versions: Versions
    nullable: Versions = NONE
    tag: int | None = None
    default: str | None = None
    ignorable: bool = False

    @property
    def attribute(self) -> str:
        return snake(self.name)

    @property
    def own(self) -> bool:
        """A field of extensions.txt, which Kafka does not have."""
        return self.tag is not None and self.tag >= OWN_TAGS_FROM

    @property
    def array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """Of a struct type, not an array of one."""
        return self.type[0].isupper()


@dataclass(slots=True, eq=False)
class Struct:
    name: str
    versions: Versions
    fields: list[Field] = field(default_factory=list)
    class_name: str = ""


@dataclass(slots=True, eq=False)
class Message:
    kind: str
    name: str
    key: int | None
    versions: Versions
    flexible: Versions
    listeners: tuple[str, ...]
    unstable: bool
    structs: dict[str, Struct] = field(default_factory=dict)

    @property
    def root(self) -> Struct:
        return self.structs[self.name]

    @property
    def module(self) -> str:
        """The file its class lives in: request with response, key with value."""
        if self.kind in ("request", "response"):
            return snake(re.sub("(Request|Response)$", "", self.name))
        if self.kind in ("key", "value"):
            return snake(re.sub("(Key|Value)$", "", self.name)) + "_record"
        return snake(self.name)

    def struct_of(self, one: Field) -> Struct:
        return self.structs[one.element]


def snake(name: str) -> str:
    """TopicId -> topic_id, KRaftVersion -> kraft_version."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


def load(path: Path = DEFINITIONS, extensions: Path | None = EXTENSIONS) -> list[Message]:
    """All messages of the table, in its order, with class names that are unique in their module.  `extensions`: the
    file of fields that are our own; None: as Kafka has them."""
    messages: list[Message] = []
    open_structs: list[Struct] = []  # by depth of indentation
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        words = line.split()
        if depth == 0:
            messages.append(_message(words))
            open_structs = [messages[-1].root]
        elif words[0] == "struct":
            struct = Struct(words[1], Versions.parse(words[2]) & messages[-1].versions)
            messages[-1].structs[struct.name] = struct
            open_structs[1:] = [struct]
        else:
            if depth == 1:
                del open_structs[1:]
            _add_field(messages[-1], open_structs, depth, words, f"{path.name}:{number}")
    if extensions is not None:
        _extend({message.name: message for message in messages}, extensions)
    for message in messages:
        _check(message)
    _name_classes(messages)
    return messages


def _extend(messages: dict[str, Message], path: Path) -> None:
    open_structs: list[Struct] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        words = line.split()
        if depth == 0:
            message = messages[words[1]]
            open_structs = [message.structs[words[2]]]
        else:
            _add_field(message, open_structs, depth, words, f"{path.name}:{number}")


def _message(words: list[str]) -> Message:
    kind, name = words[:2]
    facts = dict(word.split("=", 1) for word in words[2:] if "=" in word)
    versions = Versions.parse(facts["versions"])
    message = Message(
        kind=kind,
        name=name,
        key=int(facts["key"]) if "key" in facts else None,
        versions=versions,
        flexible=Versions.parse(facts["flexible"]) & versions,
        listeners=tuple(facts["listeners"].split(",")) if "listeners" in facts else (),
        unstable="unstable" in words,
    )
    message.structs[name] = Struct(name, versions)
    return message


def _add_field(
    message: Message, open_structs: list[Struct], depth: int, words: list[str], where: str
) -> None:
    facts = dict(word.split("=", 1) for word in words[3:] if "=" in word)
    del open_structs[depth:]
    parent = open_structs[-1]
    one = Field(
        name=words[0],
        type=words[1],
        versions=Versions.parse(words[2]) & parent.versions,
        tag=int(facts["tag"]) if "tag" in facts else None,
        default=facts.get("default"),
        ignorable="ignorable" in words[3:],
    )
    one.nullable = Versions.parse(facts.get("nullable", "none")) & one.versions
    assert len(open_structs) == depth and one.versions, f"{where}: misplaced, or in no valid version"
    parent.fields.append(one)
    if one.element[0].isupper() and one.element not in message.structs:
        message.structs[one.element] = Struct(one.element, one.versions)
    if one.element[0].isupper():
        open_structs.append(message.structs[one.element])


def _check(message: Message) -> None:
    """What the generator relies on."""
    for struct in message.structs.values():
        assert struct.fields or struct is message.root, f"{message.name}.{struct.name} has no fields"
        for own, first in ((False, 0), (True, OWN_TAGS_FROM)):
            tags = sorted(one.tag for one in struct.fields if one.tag is not None and one.own == own)
            assert tags == list(range(first, first + len(tags))), (
                f"{message.name}.{struct.name} has gaps in its tags"
            )
        attributes = [one.attribute for one in struct.fields]
        assert len(set(attributes)) == len(attributes), f"{message.name}.{struct.name} repeats a field"
        for one in struct.fields:
            known = one.element in FIXED or one.element in VARIABLE or one.element in message.structs
            assert known, f"{message.name}.{struct.name}.{one.name}: unknown type {one.type}"
            if one.tag is not None:
                assert one.versions & message.flexible == one.versions, (
                    f"{one.name} is tagged but not flexible"
                )
            assert not _within(message, one.element, struct.name), (
                f"{message.name}.{struct.name} holds itself"
            )


def _within(message: Message, inner: str, name: str) -> bool:
    """Whether a struct of type `name` can occur inside one of type `inner`."""
    if inner not in message.structs:
        return False
    return inner == name or any(_within(message, one.element, name) for one in message.structs[inner].fields)


def _name_classes(messages: list[Message]) -> None:
    """A struct keeps its Kafka name unless request and response give one name to different things."""
    for message in messages:
        others = [m for m in messages if m.module == message.module and m is not message]
        for struct in message.structs.values():
            clash = any(
                struct.name in other.structs and shape(other, struct.name) != shape(message, struct.name)
                for other in others
            )
            struct.class_name = message.name + struct.name if clash else struct.name


def shape(message: Message, name: str) -> object:
    """Everything that decides how a struct looks and is encoded."""
    struct = message.structs[name]
    inner = [shape(message, one.element) if one.element in message.structs else None for one in struct.fields]
    return message.versions, message.flexible, struct.versions, str(struct.fields), inner
