"""kio, an independent implementation generated from the same facts, agrees on every message it has."""

from __future__ import annotations

import dataclasses
import datetime
import io
import re
import types
import typing
from functools import cache
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tests.property.wire.examples import KAFKA_CASES, MESSAGES, class_of, make, scalar
from tidelog.wire.primitives import ZERO_UUID
from tools.wire.schema import Field, Message, Versions

KINDS = {"request": EntityType.request, "response": EntityType.response, "data": EntityType.data}
ALL_VERSIONS = Versions.parse("0+")
YEAR_2100_MS = 4_102_444_800_000


def paths(message: Message) -> dict[int, str]:
    """Where kio keeps the message, by version."""
    name = message.module.replace("kraft", "k_raft")
    kind = KINDS.get(message.kind)
    known = schema_name_map.get(name, {})
    return {version: kinds[kind] for version, kinds in known.items() if kind in kinds}  # type: ignore[index]


@cache
def entity(path: str) -> type[Any]:
    module, _, name = path.partition(":")
    loaded: type[Any] = getattr(__import__(module, fromlist=[name]), name)
    return loaded


SHARED = [(message, version) for message, version in KAFKA_CASES if version in paths(message)]


def tame(random: Random, one: Field) -> Any:
    """kio makes errors of error codes and times of milliseconds, so not every integer passes through it."""
    if one.type == "int16" and one.name.endswith("ErrorCode"):
        return random.choice(list(ErrorCode)).value
    if one.type == "int64" and re.search(r"Timestamp|TimeMs|Period|Lifetime", one.name):
        return random.choice([0, 1, random.randrange(YEAR_2100_MS)])
    return scalar(random, one)


def kio_encode(kind: type[Any], value: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(kind)(out, value)
    return out.getvalue()


def test_kio_has_nearly_every_api() -> None:
    without = {message.module for message in MESSAGES if message.kind in KINDS and not paths(message)}
    assert without <= {"producer_snapshot"}
    assert len(SHARED) > 550


@pytest.mark.parametrize("part", range(8))
def test_kio_reads_what_we_write_and_writes_it_back_unchanged(part: int) -> None:
    for message, version in SHARED[part::8]:
        kind = entity(paths(message)[version])
        for seed in range(4):
            ours = make(Random(f"{message.name} {version} {seed}"), message, version, tame)
            data = ours.encode(version)
            theirs, size = entity_reader(kind)(data, 0)
            assert size == len(data)
            assert kio_encode(kind, theirs) == data, f"{message.name} version {version} seed {seed}"


@pytest.mark.parametrize("part", range(8))
def test_we_read_what_kio_writes_and_write_it_back_unchanged(part: int) -> None:
    for message, version in SHARED[part::8]:
        kind = entity(paths(message)[version])
        for seed in range(4):
            random = Random(f"kio {message.name} {version} {seed}")
            data = kio_encode(kind, kio_value(random, kind))
            ours = class_of(message).decode(data, version)
            assert ours.encode(version) == data, f"{message.name} version {version} seed {seed}"


def kio_value(random: Random, kind: Any) -> Any:
    """An entity of kio's, made from kio's own description of it."""
    hints = _hints(kind)
    return kind(**{one.name: _kio_field(random, one, hints[one.name]) for one in dataclasses.fields(kind)})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _kio_field(random: Random, one: dataclasses.Field[Any], hint: Any) -> Any:
    choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if types.NoneType in choices and random.random() < 0.25:
        return None
    inner = next(choice for choice in choices if choice is not types.NoneType)
    if typing.get_origin(inner) is tuple:
        element = typing.get_args(inner)[0]
        return tuple(_kio_element(random, one, element) for _ in range(random.choice([0, 1, 2, 3])))
    return _kio_element(random, one, inner)


def _kio_element(random: Random, one: dataclasses.Field[Any], kind: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        return kio_value(random, kind)
    name = one.metadata["kafka_type"]
    if name == "error_code":
        return random.choice(list(ErrorCode))
    if name in ("timedelta_i32", "timedelta_i64"):
        return datetime.timedelta(milliseconds=random.choice([0, 1, random.randrange(1 << 31)]))
    if name == "datetime_i64":
        moment = random.randrange(YEAR_2100_MS)
        return datetime.datetime.fromtimestamp(moment // 1000, datetime.UTC) + datetime.timedelta(
            milliseconds=moment % 1000
        )
    value = scalar(random, Field(one.name, name, ALL_VERSIONS))
    return None if value == ZERO_UUID else value  # kio's spelling of the zero id
