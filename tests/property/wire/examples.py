"""Messages made at random from the table of definitions: every type, null where it may be, edges more often.

The same code runs on `random.Random(seed)`, to visit every message and version, and on Hypothesis's randoms,
which shrink.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any
from uuid import UUID

from tidelog.wire.message import Message as WireMessage
from tidelog.wire.primitives import ZERO_UUID
from tools.wire.generate import module_of
from tools.wire.schema import Field, Message, Struct, load

MESSAGES = load()
CASES = [(message, version) for message in MESSAGES for version in message.versions]
# Without the fields that are our own.
KAFKA_CASES = [(message, version) for message in load(extensions=None) for version in message.versions]
EXTENDED_CASES = [
    (message, version)
    for message, version in CASES
    if any(
        one.own and version in one.versions for struct in message.structs.values() for one in struct.fields
    )
]

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
STRINGS = ["", "a", "orders-1", "Größe", "漢字", "\U0001f30a", "x" * 126, "x" * 127, "é" * 70, "y" * 300]


@cache
def class_of(message: Message, name: str | None = None) -> type[Any]:
    """The generated class of a message, or of one of its structs."""
    loaded: type[Any] = getattr(module_of(message.module), message.structs[name or message.name].class_name)
    return loaded


Scalar = Callable[[Random, Field], Any]


def short(random: Random, one: Field) -> Any:
    """Like `scalar`, in few bytes: for tests that visit every byte."""
    if one.element == "string":
        return random.choice(["", "a", "é"])
    if one.element in ("bytes", "records"):
        return random.choice([b"", b"z"])
    return scalar(random, one)


def scalar(random: Random, one: Field) -> Any:
    """A value of the field's element type."""
    kind = one.element
    if kind in BITS:
        low = -(1 << BITS[kind] - 1)
        return random.choice([0, 1, -1, low, -low - 1, random.randrange(low, -low)])
    if kind in ("uint16", "uint32"):
        end = 1 << int(kind[4:])
        return random.choice([0, 1, end - 1, random.randrange(end)])
    if kind == "bool":
        return random.random() < 0.5
    if kind == "float64":
        return random.choice([0.0, -1.5, 1e300, random.random()])
    if kind == "uuid":
        return random.choice([ZERO_UUID, UUID(int=random.getrandbits(128)), UUID(int=1)])
    if kind == "string":
        return random.choice(STRINGS)
    return random.choice([b"", b"\0", b"\xff" * 5, random.randbytes(20), b"z" * 200])


def make(random: Random, message: Message, version: int, scalar: Scalar = scalar) -> WireMessage:
    """A message whose fields are set wherever the version has them."""
    made: WireMessage = _struct(random, message, message.root, version, scalar)
    return made


def _struct(random: Random, message: Message, struct: Struct, version: int, scalar: Scalar) -> Any:
    values = {}
    for one in struct.fields:
        left_at_default = one.tag is not None and random.random() < 0.5
        if version in one.versions and not left_at_default:
            values[one.attribute] = _field(random, message, one, version, scalar)
    return class_of(message, struct.name)(**values)


def _field(random: Random, message: Message, one: Field, version: int, scalar: Scalar) -> Any:
    if version in one.nullable and random.random() < 0.25:
        return None

    def element() -> Any:
        if one.element in message.structs:
            return _struct(random, message, message.structs[one.element], version, scalar)
        return scalar(random, one)

    if not one.array:
        return element()
    longest = 2 if scalar is short else 130
    counts = [0, 1, 1, 2, 3] if one.element in message.structs else [0, 1, 2, longest]
    return [element() for _ in range(random.choice(counts))]
