"""Schemas of the registry for records that come and go over HTTP: found by id, by version, as the newest of a subject, or
registered as they came.  What was understood is kept: an id never changes its meaning."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Generic, NamedTuple, TypeVar

from tidelog.gateways.console.records.registry_client import RegistryClient
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.surroundings import Surroundings
from tidelog.gateways.rest.codec import Codec, codec_of
from tidelog.registry.formats import Formats
from tidelog.registry.refusal import Refusal
from tidelog.registry.schema import Schema
from tidelog.registry.subjects import DEFAULT_CONTEXT, Subject
from tidelog.schema.framing import frame, unframe
from tidelog.schema.serializer import SerializationError

KEPT_MAX = 500
GIVEN_S = 1.0  # as long is not asked again: the schema may have been deleted
LONG_BYTES = 4_096  # longer ones are decoded in a thread
KEPT_TEXT_MAX = 16 << 20
REFERENCES_MAX = 50
NOT_A_SCHEMA, NOT_SERIALIZED, DOES_NOT_FIT = 42205, 42207, 42203
TYPES = {"AVRO": "AVRO", "JSONSCHEMA": "JSON", "PROTOBUF": "PROTOBUF"}
"""What the registry calls them."""


K = TypeVar("K")
V = TypeVar("V")


class Chosen(NamedTuple):
    """What a value is written with."""

    subject: str
    id: int
    version: int
    codec: Codec

    def encode(self, value: Any) -> bytes:
        try:
            return frame(self.id, self.codec.encode(value))
        except Exception as problem:  # as many kinds as there are libraries
            said = f"this does not fit schema {self.id} of {self.subject!r}: {problem}"
            raise Problem(422, said[:1000], DOES_NOT_FIT) from None


class Kept(Generic[K, V]):
    """The last used, as many and as long as there may be."""

    def __init__(self) -> None:
        self._all: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._length = 0

    def get(self, key: K) -> V | None:
        found = self._all.get(key)
        if found is None:
            return None
        self._all.move_to_end(key)
        return found[0]

    def keep(self, key: K, value: V, length: int) -> None:
        """`length`: of the text of its schemas."""
        _, before = self._all.pop(key, (None, 0))
        self._all[key] = value, length
        self._length += length - before
        while self._all and (len(self._all) > KEPT_MAX or self._length > KEPT_TEXT_MAX):
            _, (_, gone) = self._all.popitem(last=False)
            self._length -= gone


class Schemas:
    def __init__(self, around: Surroundings) -> None:
        self._registry = RegistryClient(around)
        self._codecs: Kept[tuple[str, int], Codec] = Kept()
        self._given: Kept[tuple[str, str, str], tuple[Chosen, float]] = Kept()
        self._formats = Formats()
        self._parsing = asyncio.Lock()

    async def newest(self, subject: str) -> Chosen:
        return await self._version(subject, "latest")

    async def of_version(self, subject: str, version: int) -> Chosen:
        return await self._version(subject, version)

    async def of_id(self, subject: str | None, number: int, topic: str, strategy: Strategy) -> Chosen:
        """`subject`: None to find it by `strategy`."""
        context = DEFAULT_CONTEXT if subject is None else Subject.of(subject).context
        codec = await self._codec(context, number)
        named = strategy(topic, codec.name) if subject is None else subject
        users = await self._ask("schemas", "ids", number, "versions", subject=_within(context))
        for one in users:
            if one["subject"] == named:
                return Chosen(named, number, int(one["version"]), codec)
        raise Problem(422, f"schema {number} is not registered under {named!r}", NOT_SERIALIZED)

    async def given(
        self, subject: str | None, kind: str, text: str, topic: str, strategy: Strategy
    ) -> Chosen:
        """Registered, unless the subject has it already."""
        named = strategy(topic, await self._name(kind, text)) if subject is None else subject
        key = named, kind, text
        now = asyncio.get_running_loop().time()
        known = self._given.get(key)
        if known is not None and now - known[1] < GIVEN_S:
            return known[0]
        body = {"schema": text, "schemaType": TYPES[kind]}
        try:
            made = await self._registry.ask("POST", "subjects", named, "versions", body=body)
        except Problem as problem:
            raise _refused(problem) from None
        number = int(made["id"])
        codec = await self._codec(Subject.of(named).context, number)
        chosen = Chosen(named, number, int(made["version"]), codec)
        self._given.keep(key, (chosen, now), len(text))
        return chosen

    async def decode(self, kind: str, data: bytes) -> Any:
        """What the bytes say in the schema that their id names.  ValueError: they do not."""
        try:
            number, payload = unframe("", data)
        except SerializationError:
            raise ValueError("it has no schema id in front") from None
        codec = await self._codec(DEFAULT_CONTEXT, number)
        if codec.kind != kind:
            raise ValueError(f"its schema {number} is {codec.kind}, not {kind}")
        try:
            if codec.slow or len(payload) > LONG_BYTES:
                return await asyncio.to_thread(codec.decode, bytes(payload))
            return codec.decode(bytes(payload))
        except Exception as problem:  # whatever strange bytes make a library stumble over
            raise ValueError(f"it does not fit its schema {number}: {problem}") from None

    async def _version(self, subject: str, version: int | str) -> Chosen:
        found = await self._ask("subjects", subject, "versions", version, format="serialized")
        number = int(found["id"])
        codec = await self._codec(Subject.of(subject).context, number, found)
        return Chosen(str(found["subject"]), number, int(found["version"]), codec)

    async def _codec(self, context: str, number: int, found: dict[str, Any] | None = None) -> Codec:
        codec = self._codecs.get((context, number))
        if codec is None:
            if found is None:
                within = _within(context)
                found = await self._ask("schemas", "ids", number, format="serialized", subject=within)
            needed: dict[str, dict[str, Any]] = {}
            await self._references(found, needed)
            try:
                codec = await asyncio.to_thread(codec_of, found, needed)
            except Exception as problem:  # a schema that the registry takes and a library does not
                raise Problem(
                    422, f"schema {number} cannot be written with: {problem}"[:1000], NOT_A_SCHEMA
                ) from None
            told = [found, *needed.values()]
            self._codecs.keep((context, number), codec, sum(len(one["schema"]) for one in told))
        return codec

    async def _references(self, found: dict[str, Any], needed: dict[str, dict[str, Any]]) -> None:
        for one in found.get("references") or ():
            if one["name"] in needed or len(needed) >= REFERENCES_MAX:
                continue
            other = await self._ask(
                "subjects", one["subject"], "versions", one["version"], format="serialized", deleted="true"
            )
            await self._references(other, needed)
            needed[one["name"]] = other

    async def _name(self, kind: str, text: str) -> str | None:
        async with self._parsing:
            try:
                parsed = await asyncio.to_thread(self._formats.parse, Schema(text, TYPES[kind]), {})
            except Refusal as problem:
                raise Problem(422, str(problem), NOT_A_SCHEMA) from None
        return parsed.name

    async def _ask(self, *parts: str | int, **query: str) -> Any:
        try:
            return await self._registry.ask("GET", *parts, **query)
        except Problem as problem:
            raise _refused(problem) from None


def _within(context: str) -> str:
    """As the parameter `subject`: ids of this context."""
    return "" if context == DEFAULT_CONTEXT else Subject(context, "").qualified


def _refused(problem: Problem) -> Problem:
    """What the registry said, in the numbers of the REST proxy."""
    if problem.status >= 500:
        return problem
    invalid = problem.status == 422 and problem.code == 42201
    return Problem(422, problem.message, NOT_A_SCHEMA if invalid else NOT_SERIALIZED)


# How the subject of a key or value is called when the request does not name it.


class Strategy:
    """`name`: the one in requests; `side`: key or value."""

    NAMES = ("TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME")

    def __init__(self, name: str, side: str) -> None:
        self.name = name
        self.by_topic = name == "TOPIC_NAME"
        self._side = side

    def __call__(self, topic: str, record: str | None) -> str:
        if self.by_topic:
            return f"{topic}-{self._side}"
        if not record:
            raise Problem(400, f"the schema has no name, which subject_name_strategy {self.name} needs")
        return record if self.name == "RECORD_NAME" else f"{topic}-{record}"
