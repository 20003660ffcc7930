"""Registry schemas for records over HTTP: found by id, by version, as the latest of a subject, or registered on use.
Parsed schemas are cached: the schema of an id never changes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Generic, NamedTuple, TypeVar

from tidelog.gateways.console.records.registry_client import RegistryClient
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.rest.codec import ValueCodec, codec_of
from tidelog.registry.formats import Formats
from tidelog.registry.refusal import Refusal
from tidelog.registry.schema import Schema
from tidelog.registry.subjects import DEFAULT_CONTEXT, Subject
from tidelog.schema.framing import frame, unframe
from tidelog.schema.serializer import SerializationError

KEPT_MAX = 500
GIVEN_S = 1.0  # how long a registration is trusted: the schema may be deleted
LONG_BYTES = 4_096  # longer data is decoded on a thread
KEPT_TEXT_MAX = 16 << 20
REFERENCES_MAX = 50
NOT_A_SCHEMA, NOT_SERIALIZED, DOES_NOT_FIT = 42205, 42207, 42203
TYPES = {"AVRO": "AVRO", "JSONSCHEMA": "JSON", "PROTOBUF": "PROTOBUF"}
"""The registry's names of the formats."""


K = TypeVar("K")
V = TypeVar("V")


class ChosenSchema(NamedTuple):
    """The schema that a value is written with."""

    subject: str
    id: int
    version: int
    codec: ValueCodec

    def encode(self, value: Any) -> bytes:
        try:
            return frame(self.id, self.codec.encode(value))
        except Exception as problem:  # each library raises errors of its own
            message = f"the data does not fit schema {self.id} of {self.subject!r}: {problem}"
            raise Problem(422, message[:1000], DOES_NOT_FIT) from None


class RecentlyUsed(Generic[K, V]):
    """A cache of the entries used last, bounded in number and in length of text."""

    def __init__(self) -> None:
        self._all: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._length = 0

    def get(self, key: K) -> V | None:
        entry = self._all.get(key)
        if entry is None:
            return None
        self._all.move_to_end(key)
        return entry[0]

    def keep(self, key: K, value: V, length: int) -> None:
        """`length`: of the text of the schemas."""
        _, before = self._all.pop(key, (None, 0))
        self._all[key] = value, length
        self._length += length - before
        while self._all and (len(self._all) > KEPT_MAX or self._length > KEPT_TEXT_MAX):
            _, (_, gone) = self._all.popitem(last=False)
            self._length -= gone


class Schemas:
    def __init__(self, around: GatewayServices) -> None:
        self._registry = RegistryClient(around)
        self._codecs: RecentlyUsed[tuple[str, int], ValueCodec] = RecentlyUsed()
        self._given: RecentlyUsed[tuple[str, str, str], tuple[ChosenSchema, float]] = RecentlyUsed()
        self._formats = Formats()
        self._parsing = asyncio.Lock()

    async def newest(self, subject: str) -> ChosenSchema:
        return await self._version(subject, "latest")

    async def of_version(self, subject: str, version: int) -> ChosenSchema:
        return await self._version(subject, version)

    async def of_id(self, subject: str | None, number: int, topic: str, strategy: Strategy) -> ChosenSchema:
        """`subject`: None to derive it with `strategy`."""
        context = DEFAULT_CONTEXT if subject is None else Subject.of(subject).context
        codec = await self._codec(context, number)
        named = strategy(topic, codec.name) if subject is None else subject
        users = await self._ask("schemas", "ids", number, "versions", subject=_within(context))
        for user in users:
            if user["subject"] == named:
                return ChosenSchema(named, number, int(user["version"]), codec)
        raise Problem(422, f"schema {number} is not registered under {named!r}", NOT_SERIALIZED)

    async def given(
        self, subject: str | None, kind: str, text: str, topic: str, strategy: Strategy
    ) -> ChosenSchema:
        """Registers the schema unless the subject already has it."""
        named = strategy(topic, await self._name(kind, text)) if subject is None else subject
        key = named, kind, text
        now = asyncio.get_running_loop().time()
        recent = self._given.get(key)
        if recent is not None and now - recent[1] < GIVEN_S:
            return recent[0]
        body = {"schema": text, "schemaType": TYPES[kind]}
        try:
            made = await self._registry.ask("POST", "subjects", named, "versions", body=body)
        except Problem as problem:
            raise _refused(problem) from None
        number = int(made["id"])
        codec = await self._codec(Subject.of(named).context, number)
        chosen = ChosenSchema(named, number, int(made["version"]), codec)
        self._given.keep(key, (chosen, now), len(text))
        return chosen

    async def decode(self, kind: str, data: bytes) -> Any:
        """Decodes bytes with the schema that their id names; raises ValueError when they do not fit it."""
        try:
            number, payload = unframe("", data)
        except SerializationError:
            raise ValueError("it does not begin with a schema id") from None
        codec = await self._codec(DEFAULT_CONTEXT, number)
        if codec.kind != kind:
            raise ValueError(f"its schema {number} is {codec.kind}, not {kind}")
        try:
            if codec.slow or len(payload) > LONG_BYTES:
                return await asyncio.to_thread(codec.decode, bytes(payload))
            return codec.decode(bytes(payload))
        except Exception as problem:  # libraries raise all kinds of errors for malformed bytes
            raise ValueError(f"it does not fit its schema {number}: {problem}") from None

    async def _version(self, subject: str, version: int | str) -> ChosenSchema:
        registered = await self._ask("subjects", subject, "versions", version, format="serialized")
        number = int(registered["id"])
        codec = await self._codec(Subject.of(subject).context, number, registered)
        return ChosenSchema(str(registered["subject"]), number, int(registered["version"]), codec)

    async def _codec(self, context: str, number: int, registered: dict[str, Any] | None = None) -> ValueCodec:
        codec = self._codecs.get((context, number))
        if codec is None:
            if registered is None:
                within = _within(context)
                registered = await self._ask("schemas", "ids", number, format="serialized", subject=within)
            needed: dict[str, dict[str, Any]] = {}
            await self._references(registered, needed)
            try:
                codec = await asyncio.to_thread(codec_of, registered, needed)
            except Exception as problem:  # a schema that the registry accepts and the library rejects
                raise Problem(
                    422, f"schema {number} cannot be used: {problem}"[:1000], NOT_A_SCHEMA
                ) from None
            schemas = [registered, *needed.values()]
            self._codecs.keep((context, number), codec, sum(len(schema["schema"]) for schema in schemas))
        return codec

    async def _references(self, registered: dict[str, Any], needed: dict[str, dict[str, Any]]) -> None:
        for reference in registered.get("references") or ():
            if reference["name"] in needed or len(needed) >= REFERENCES_MAX:
                continue
            other = await self._ask(
                "subjects",
                reference["subject"],
                "versions",
                reference["version"],
                format="serialized",
                deleted="true",
            )
            await self._references(other, needed)
            needed[reference["name"]] = other

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
    """The value of the parameter `subject` that selects the ids of this context."""
    return "" if context == DEFAULT_CONTEXT else Subject(context, "").qualified


def _refused(problem: Problem) -> Problem:
    """An error of the registry, with the code of the REST proxy."""
    if problem.status >= 500:
        return problem
    invalid = problem.status == 422 and problem.code == 42201
    return Problem(422, problem.message, NOT_A_SCHEMA if invalid else NOT_SERIALIZED)


# The subject of a key or value that the request does not name.


class Strategy:
    """`name`: as in requests; `side`: key or value."""

    NAMES = ("TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME")

    def __init__(self, name: str, side: str) -> None:
        self.name = name
        self.by_topic = name == "TOPIC_NAME"
        self._side = side

    def __call__(self, topic: str, record: str | None) -> str:
        if self.by_topic:
            return f"{topic}-{self._side}"
        if not record:
            raise Problem(400, f"subject_name_strategy {self.name} needs a schema with a name")
        return record if self.name == "RECORD_NAME" else f"{topic}-{record}"
