"""Schema validation on the broker: which topics only take records whose schema id is registered.

A positive answer of the registry is cached for KNOWN_MS; a negative one is not, because the schema may be registered at
any moment.  Topics without the setting never call this module."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from tidelog.clock import Clock
from tidelog.metadata.image.changes import Update
from tidelog.metadata.image.image import Image

KEY, VALUE = "confluent.key.schema.validation", "confluent.value.schema.validation"
KNOWN_MAX = 10_000
KNOWN_MS = 300_000


class SchemaIdCheck(NamedTuple):
    """The schema id of a record's key or value.  `strategy` is the last part of the setting: TopicNameStrategy,
    RecordNameStrategy or TopicRecordNameStrategy."""

    topic: str
    is_key: bool
    strategy: str
    id: int


class SchemaValidation:
    def __init__(self, clock: Clock, ask: Callable[[SchemaIdCheck], Coroutine[Any, Any, bool]]) -> None:
        self.topics: set[str] = set()
        """The topics with schema validation."""
        self._clock = clock
        self._ask = ask
        self._known: OrderedDict[SchemaIdCheck, int] = OrderedDict()
        self._asking: dict[SchemaIdCheck, asyncio.Task[bool]] = {}

    def start(self, image: Image) -> None:
        for name in image.topic_configs:
            self._look(image, name)

    def apply(self, update: Update) -> None:
        for name in update.topic_configs:
            self._look(update.image, name)

    def _look(self, image: Image, name: str) -> None:
        own = image.topic_overrides(name)
        if "true" in (own.get(KEY), own.get(VALUE)):
            self.topics.add(name)
        else:
            self.topics.discard(name)

    def knows(self, wanted: SchemaIdCheck) -> bool:
        until = self._known.get(wanted)
        return until is not None and self._clock.monotonic_ms() < until

    async def registered(self, wanted: SchemaIdCheck) -> bool:
        """Asks the registry; concurrent callers share one request."""
        asking = self._asking.get(wanted)
        if asking is None:
            asking = self._asking[wanted] = asyncio.get_running_loop().create_task(self._ask(wanted))
            asking.add_done_callback(lambda done: self._answered(wanted, done))
        return await asyncio.shield(asking)

    def _answered(self, wanted: SchemaIdCheck, done: asyncio.Task[bool]) -> None:
        self._asking.pop(wanted, None)
        if not done.cancelled() and done.exception() is None and done.result():
            self._known[wanted] = self._clock.monotonic_ms() + KNOWN_MS
            self._known.move_to_end(wanted)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)

    async def stop(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def subject_wanted(wanted: SchemaIdCheck, type_: str, text: str) -> str | None:
    """The subject that must have the schema; None if the strategy needs a record name and the schema has none."""
    if wanted.strategy == "TopicNameStrategy":
        return f"{wanted.topic}-{'key' if wanted.is_key else 'value'}"
    name = record_name(type_, text)
    if name is None:
        return None
    return name if wanted.strategy == "RecordNameStrategy" else f"{wanted.topic}-{name}"


def record_name(type_: str, text: str) -> str | None:
    """The name of the record or message that a schema describes; does not need the schema's references."""
    if type_ == "PROTOBUF":
        from tidelog.schema.proto.parser import parse_proto

        file = parse_proto(text, "default")
        first = next(iter(file.message_type), None)
        if first is None:
            return None
        return f"{file.package}.{first.name}" if file.package else first.name
    root = json.loads(text)
    if not isinstance(root, dict):
        return None
    name = root.get("title" if type_ == "JSON" else "name")
    if not isinstance(name, str):
        return None
    space = root.get("namespace")
    return f"{space}.{name}" if type_ == "AVRO" and space and "." not in name else name
