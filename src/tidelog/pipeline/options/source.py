"""The options of `format("tidelog")` as a source.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.pipeline.options import connection
from tidelog.pipeline.options.connection import ConnectionSettings, connection_of
from tidelog.pipeline.options.text import OptionText, PipelineError, time_ms
from tidelog.types import TopicPartition

EARLIEST, LATEST = "earliest", "latest"
NAMED_NUMBERS = {-2: EARLIEST, -1: LATEST}
TIME_MS_MAX = 2**63 - 1
FETCH_BYTES = 4 * 1024 * 1024
KNOWN = (
    *connection.KNOWN,
    "topics",
    "pattern",
    "assign",
    "starting",
    "ending",
    "maxRecordsPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "isolation",
    "failOnDataLoss",
    "groupId",
    "fetchBytes",
    "format",
    "schema",
    "message",
    "registry",
    "subject",
    "mode",
)
ALIASES = {
    **connection.ALIASES,
    "subscribe": "topics",
    "subscribePattern": "pattern",
    "startingOffsets": "starting",
    "endingOffsets": "ending",
    "maxOffsetsPerTrigger": "maxRecordsPerTrigger",
    "kafka.group.id": "groupId",
    "kafka.isolation.level": "isolation",
    "valueSchema": "schema",
}
FORMATS = ("bytes", "json", "avro", "protobuf")
MODES = ("failfast", "permissive", "dropmalformed")


@dataclass(frozen=True, slots=True)
class Bound:
    """Where to begin or end: a name or a time for all partitions, and exceptions for single topics and partitions.

    Values are offsets (numbers), "earliest" or "latest", or times in milliseconds as a `Time`."""

    everywhere: str | Time
    topics: Mapping[str, str | Time] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, str | Time | int] = field(default_factory=dict)

    def at(self, partition: TopicPartition) -> str | Time | int:
        if partition in self.partitions:
            return self.partitions[partition]
        return self.topics.get(partition.topic, self.everywhere)


@dataclass(frozen=True, slots=True)
class Time:
    ms: int


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values are decoded or encoded.  `format` bytes: Kafka's columns, neither decoded nor encoded."""

    format: str
    schema: str | None
    message: str | None
    registry: str | None
    subject: str | None
    mode: str


@dataclass(frozen=True, slots=True)
class SourceOptions:
    connection: ConnectionSettings
    topics: tuple[str, ...]
    pattern: str | None
    assign: tuple[TopicPartition, ...]
    starting: Bound
    ending: Bound
    max_records_per_trigger: int | None
    min_partitions: int | None
    max_records_per_partition: int | None
    include_headers: bool
    read_committed: bool
    fail_on_data_loss: bool
    group_id: str | None
    fetch_bytes: int
    decoding: ValueOptions

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The topics that the options name; none with a pattern."""
        return self.topics or tuple(dict.fromkeys(partition.topic for partition in self.assign))

    def what(self) -> str:
        """The topics, in words for messages."""
        if self.pattern is not None:
            return f"topics like {self.pattern!r}"
        names = self.topic_names
        return ("topic " if len(names) == 1 else "topics ") + ", ".join(map(repr, names))

    def reads(self, topic: str) -> bool:
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topic_names

    def wants(self, partition: TopicPartition) -> bool:
        return partition in self.assign if self.assign else self.reads(partition.topic)


def source_options(given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """Parses and checks the options.  `streaming` None: not known yet, so what depends on it is not checked."""
    options = OptionText(given, KNOWN, ALIASES, "source")
    topics, pattern, assign = _which(options)
    if streaming and "ending" in options:
        raise PipelineError(
            "option 'ending' is for batch reads: a stream has no end (see trigger(availableNow=True))"
        )
    if streaming is False:
        for name in ("maxRecordsPerTrigger", "groupId"):
            if name in options:
                raise PipelineError(f"option {name!r} is for streams: spark.readStream")
    parsed = SourceOptions(
        connection=connection_of(options),
        topics=topics,
        pattern=pattern,
        assign=assign,
        starting=_bound(options, "starting", LATEST if streaming else EARLIEST),
        ending=_bound(options, "ending", LATEST),
        max_records_per_trigger=options.number("maxRecordsPerTrigger"),
        min_partitions=options.number("minPartitions"),
        max_records_per_partition=options.number("maxRecordsPerPartition"),
        include_headers=options.flag("includeHeaders", False),
        read_committed=options.choice("isolation", ("read_committed", "read_uncommitted"), "read_committed")
        == "read_committed",
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        group_id=options.text("groupId"),
        fetch_bytes=options.count("fetchBytes", FETCH_BYTES),
        decoding=decoding_of(options),
    )
    for name, bound in (("starting", parsed.starting), ("ending", parsed.ending)):
        for topic in (*bound.topics, *(partition.topic for partition in bound.partitions)):
            if not parsed.reads(topic):
                raise PipelineError(f"option {name!r} names topic {topic!r}, and {parsed.what()} is read")
    return parsed


def decoding_of(options: OptionText) -> ValueOptions:
    decoding = ValueOptions(
        format=options.choice("format", FORMATS, "bytes"),
        schema=options.text("schema"),
        message=options.text("message"),
        registry=options.text("registry"),
        subject=options.text("subject"),
        mode=options.choice("mode", MODES, "failfast"),
    )
    if decoding.format == "bytes":
        for name in ("schema", "message", "registry", "subject", "mode"):
            if name in options:
                raise PipelineError(f"option {name!r} needs option 'format': json, avro or protobuf")
    return decoding


def _which(options: OptionText) -> tuple[tuple[str, ...], str | None, tuple[TopicPartition, ...]]:
    chosen = [name for name in ("topics", "pattern", "assign") if name in options]
    if len(chosen) != 1:
        text = f"not {' and '.join(map(repr, chosen))}" if chosen else "none is given"
        raise PipelineError(f"exactly one of the options 'topics', 'pattern' and 'assign' is needed: {text}")
    if chosen == ["topics"]:
        names = [name.strip() for name in options.needed("topics", "orders,payments").split(",")]
        if not all(names):
            raise PipelineError("option 'topics' has an empty name in it: write orders,payments")
        return tuple(dict.fromkeys(names)), None, ()
    if chosen == ["pattern"]:
        pattern = options.needed("pattern", "orders-.*")
        try:
            re.compile(pattern)
        except re.error as problem:
            raise PipelineError(f"option 'pattern' is not a regular expression: {problem}") from None
        return (), pattern, ()
    example = '{"orders": [0, 1]}'
    partitions = []
    for topic, indexes in options.json("assign", example).items():
        if not isinstance(indexes, list) or not all(
            isinstance(index, int) and index >= 0 for index in indexes
        ):
            raise PipelineError(f"option 'assign' names no partitions for {topic!r}: write {example}")
        partitions += [TopicPartition(topic, index) for index in indexes]
    if not partitions:
        raise PipelineError(f"option 'assign' is empty: write {example}")
    return (), None, tuple(dict.fromkeys(partitions))


BOUND_EXAMPLE = '{"orders": {"0": 42, "1": "earliest"}}'


def _bound(options: OptionText, name: str, default: str) -> Bound:
    text = options.text(name)
    if text is None:
        text = default
    if not text.startswith("{"):
        return Bound(_moment(name, text))
    topics: dict[str, str | Time] = {}
    partitions: dict[TopicPartition, str | Time | int] = {}
    for topic, bound in options.json(name, BOUND_EXAMPLE).items():
        if isinstance(bound, str):
            topics[topic] = _moment(name, bound)
            continue
        if not isinstance(bound, dict):
            raise PipelineError(f"option {name!r} says {bound!r} of {topic!r}: write {BOUND_EXAMPLE}")
        for index, value in bound.items():
            if not index.isdigit():
                raise PipelineError(f"option {name!r} names partition {index!r} of {topic!r}: it is a number")
            partitions[TopicPartition(topic, int(index))] = _value(name, value)
    return Bound(EARLIEST if name == "starting" else LATEST, topics, partitions)


def _value(name: str, value: Any) -> str | Time | int:
    if isinstance(value, str):
        return _moment(name, value)
    if isinstance(value, int) and not isinstance(value, bool):
        if value >= 0:
            return value
        if value in NAMED_NUMBERS:
            return NAMED_NUMBERS[value]
    raise PipelineError(f"option {name!r} has {value!r} for a partition: write {BOUND_EXAMPLE}")


def _moment(name: str, text: str) -> str | Time:
    if text.lower() in (EARLIEST, LATEST):
        return text.lower()
    moment = time_ms(text)
    if moment is None or moment > TIME_MS_MAX:
        raise PipelineError(
            f"option {name!r} cannot be {text!r}: use earliest, latest, a time like 2026-01-31T12:00:00Z, or "
            f"offsets like {BOUND_EXAMPLE}"
        )
    return Time(max(0, moment))  # Brokers take numbers below zero for names of offsets.
