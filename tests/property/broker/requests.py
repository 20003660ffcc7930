"""Requests of every served API and version, likely enough to reach deep into the handlers; and the same, mutilated."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

from tests.property.wire import examples
from tidelog.broker.routes import ROUTES
from tidelog.record.builder import BatchBuilder
from tidelog.record.codecs import Codec
from tidelog.wire.frame import RequestHeader, encode_request
from tools.wire.schema import Field, Message

SERVED = [
    (route.api_key, version)
    for route in ROUTES.values()
    for version in range(route.min_version, route.max_version + 1)
]
_MESSAGES = {message.name: message for message in examples.MESSAGES}

_NUMBERS = (0, 0, 0, 0, 1, 1, 2, -1, -1, -2, -3, -4, -5, 3, 5, 7, 16, 100, 1000, 60_000)
# What makes sense in a field, so that a request gets further than its first check.
_USUAL = {
    "Acks": (-1, -1, 1, 0),
    "CurrentLeaderEpoch": (-1, -1, -1, 0, 1),
    "FetchOffset": (0, 0, 1, 2),
    "IsolationLevel": (0, 1),
    "KeyType": (0, 1, 2),
    "LastFetchedEpoch": (-1, -1, 0, 1),
    "MaxBytes": (1 << 20, 1, 0),
    "MaxWaitMs": (0, 1, 500),
    "MinBytes": (0, 1, 1 << 20),
    "Partition": (0, 0, 1),
    "PartitionIndex": (0, 0, 1),
    "PartitionIndexes": (0, 0, 1),
    "PartitionMaxBytes": (1 << 20, 1, 0),
    "Partitions": (0, 0, 1),
    "Index": (0, 0, 1),
    "ReplicaId": (-1,),
    "ReplicationFactor": (1, -1),
    "ResourceType": (2, 2, 4, 8, 16),
    "ConfigOperation": (0, 1, 2, 3),
    "SessionEpoch": (-1, 0, 0, 1, 2),
    "SessionId": (0, 0, 0, 1),
    "TimeoutMs": (0, 1, 1000),
    "Timestamp": (-1, -2, -3, -4, 0, 1_700_000_000_000),
    "timeoutMs": (0, 1, 1000),
}
_TEXTS = (
    "",
    "PLAINTEXT",
    "1",
    "2",
    "nobody",
    "with space",
    "a/b",
    "..",
    "\0",
    "漢字",
    "a" * 249,
    "a" * 250,
    "é" * 200,
)
_SETTINGS = {
    "retention.ms": "1000",
    "segment.bytes": "1048576",
    "cleanup.policy": "compact",
    "min.insync.replicas": "2",
    "flush.messages": "1",
    "compression.type": "gzip",
    "max.message.bytes": "-1",
    "no.such.setting": "x",
    "message.timestamp.type": "LogAppendTime",
    "log.retention.ms": "none",
    "metadata.version": "30",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What exists on the broker that is asked."""

    topics: Sequence[str] = ()
    ids: Sequence[UUID] = ()
    paths: Sequence[str] = ()
    sessions: Sequence[int] = ()
    partitions_max: int = 64
    """Numbers above are not asked for where a request could create that many."""


def message_of(api_key: int) -> Message:
    return _MESSAGES[f"{ROUTES[api_key].name}Request"]


def body(random: Random, api_key: int, version: int, known: Known) -> bytes:
    """A request that decodes; whether it makes sense is another matter."""

    def scalar(random: Random, one: Field) -> Any:
        return _likely(random, one, known)

    return examples.make(random, message_of(api_key), version, scalar).encode(version)


def frame(random: Random, api_key: int, version: int, known: Known) -> bytes:
    """Without its length."""
    client_id = random.choice(["fuzz", "fuzz", None, "", "é" * 50])
    header = RequestHeader(api_key, version, random.randrange(1 << 31), client_id)
    return encode_request(header, body(random, api_key, version, known))[4:]


def _likely(random: Random, one: Field, known: Known) -> Any:
    kind, name = one.element, one.name
    if name in ("NumPartitions", "Count"):
        return random.choice([-1, 0, 1, 2, 3, known.partitions_max, -(1 << 31)])
    if random.random() < 0.05:
        return examples.scalar(random, one)
    if kind in examples.BITS:
        low = -(1 << examples.BITS[kind] - 1)
        if name == "SessionId" and known.sessions and random.random() < 0.5:
            return random.choice(known.sessions)
        if name in _USUAL and random.random() < 0.9:
            return random.choice(_USUAL[name])
        return max(low, min(-low - 1, random.choice([*_NUMBERS, low, -low - 1])))
    if kind == "uuid":
        return random.choice([UUID(int=0), *known.ids, *known.ids])
    if kind == "string":
        return _text(random, one, known)
    if kind in ("records", "bytes"):
        good = batch(random)
        return random.choice([good, good, good, bent(random, good), b""])
    return examples.scalar(random, one)


def _text(random: Random, one: Field, known: Known) -> str:
    if one.name == "Path":
        return random.choice([*known.paths, "/nowhere"])
    if one.name in ("ConfigurationKeys", "Name", "Value") and random.random() < 0.5:
        return random.choice([text for pair in _SETTINGS.items() for text in pair])
    if random.random() < 0.2:
        return random.choice([*_TEXTS, *known.paths])
    return random.choice(known.topics)


def batch(random: Random) -> bytes:
    """One that a producer could send."""
    builder = BatchBuilder()
    for _ in range(random.choice([1, 1, 2, 9])):
        key = random.choice([None, b"k1", b"k2", b""])
        builder.add(key, random.choice([None, b"", b"value" * 9]), random.choice([-1, 0, 1_700_000_000_000]))
    codec = Codec(random.choice([0, 0, 1, 2, 3, 4]))
    if random.random() < 0.7:
        return builder.build(codec=codec)
    sequence = random.choice([0, 0, 1, (1 << 31) - 1])
    return builder.build(
        codec=codec, producer_id=random.randrange(5), producer_epoch=0, base_sequence=sequence
    )


def bent(random: Random, data: bytes) -> bytes:
    """The same bytes with a few of them changed, cut, doubled or blown up."""
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        at = random.randrange(len(data) + 1)
        end = min(len(data), at + random.choice([1, 2, 4, 8, 30]))
        hostile = random.choice(
            [
                b"",
                random.randbytes(end - at),
                b"\0" * (end - at),
                b"\xff" * (end - at),
                struct.pack(">i", random.choice([0x7FFFFFFF, -1, -2, 0x00FFFFFF, 1 << 16])),
                struct.pack(">h", random.choice([0x7FFF, -1, -2, 255])),
                b"\xff\xff\xff\xff\x0f",
                b"\xff\xff\xff\xff\x07",
                b"\x80" * 9,
                data[at:end] * 2,
                bytes([random.randrange(256)]),
            ]
        )
        data = data[:at] + hostile + data[end:]
    return data


def bent_frame(random: Random, data: bytes) -> bytes:
    """A request mutilated anywhere behind its API key and version, or, seldom, in these too."""
    keep = 0 if random.random() < 0.05 else 8
    data = data[:keep] + bent(random, data[keep:])
    return data if len(data) >= 8 else data.ljust(8, b"\0")
