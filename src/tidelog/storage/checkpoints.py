"""Small text files that are replaced as a whole: offsets per partition, leader epochs, a partition's topic
id.

The format is Kafka's: a version, the number of entries, one entry per line.  Text in, text out: whoever owns
the file reads and replaces it through the disk.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from uuid import UUID

from tidelog.types import TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
COMMITTED = "replication-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

_VERSION = 0


class CorruptCheckpoint(Exception):
    """The file is not one of ours: what it held has to be found out another way."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _encode(f"{name.topic} {name.partition} {offset}" for name, offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    offsets = {}
    for words in _decode(data, 3):
        offsets[TopicPartition(words[0], _number(words[1]))] = _number(words[2])
    return offsets


def encode_epochs(starts: Iterable[tuple[int, int]]) -> bytes:
    return _encode(f"{epoch} {start}" for epoch, start in starts)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    return [(_number(epoch), _number(start)) for epoch, start in _decode(data, 2)]


def encode_topic_id(topic_id: UUID) -> bytes:
    """Kafka writes ids as URL-safe base64 without padding."""
    return f"version: 0\ntopic_id: {id_text(topic_id)}\n".encode()


def decode_topic_id(data: bytes) -> UUID:
    for line in data.decode(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key == "topic_id":
            return id_of(value.strip())
    raise CorruptCheckpoint("no line 'topic_id: ...' in partition metadata")


def id_text(identity: UUID) -> str:
    return base64.urlsafe_b64encode(identity.bytes).decode().rstrip("=")


def id_of(text: str) -> UUID:
    try:
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except ValueError:
        raise CorruptCheckpoint(f"{text!r} is not an id: 22 characters of URL-safe base64 are") from None


def _encode(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return "\n".join([str(_VERSION), str(len(body)), *body, ""]).encode()


def _decode(data: bytes, width: int) -> list[list[str]]:
    lines = data.decode(errors="replace").splitlines()
    if len(lines) < 2 or lines[0] != str(_VERSION):
        raise CorruptCheckpoint(f"expected version {_VERSION} and a count in the first two lines")
    entries = [line.split(" ") for line in lines[2:]]
    if len(entries) != _number(lines[1]) or any(len(words) != width for words in entries):
        raise CorruptCheckpoint(f"expected {lines[1]} entries of {width} words, found {len(entries)} lines")
    return entries


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptCheckpoint(f"{text!r} is not a number") from None
