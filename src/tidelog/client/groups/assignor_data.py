"""The user data that Kafka's sticky assignors send along with a subscription, byte for byte.  Pure.

sticky: [topic, [partition]], then (since Kafka 2.3) the generation; cooperative-sticky: the generation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tidelog.types import TopicPartition

NO_GENERATION = -1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def pack_sticky(owned: Iterable[TopicPartition], generation: int) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in owned:
        topics.setdefault(topic, []).append(partition)
    out = bytearray(_INT32.pack(len(topics)))
    for topic, partitions in topics.items():
        name = topic.encode()
        out += _INT16.pack(len(name)) + name
        out += struct.pack(f">{len(partitions) + 1}i", len(partitions), *partitions)
    return bytes(out + _INT32.pack(generation))


def unpack_sticky(data: bytes | None) -> tuple[list[TopicPartition], int]:
    """What the member had and since when; nothing when its data cannot be read."""
    try:
        return _unpack_sticky(data) if data else ([], NO_GENERATION)
    except (struct.error, UnicodeDecodeError, ValueError):
        return [], NO_GENERATION


def _unpack_sticky(data: bytes) -> tuple[list[TopicPartition], int]:
    owned: list[TopicPartition] = []
    (count,), at = _INT32.unpack_from(data), _INT32.size
    for _ in range(_bounded(count, len(data) - at)):
        (size,) = _INT16.unpack_from(data, at)
        at += _INT16.size
        topic = data[at : at + _bounded(size, len(data) - at)].decode()
        at += size
        (partitions,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        indexes = struct.unpack_from(f">{_bounded(partitions, (len(data) - at) // 4)}i", data, at)
        owned += [TopicPartition(topic, index) for index in indexes]
        at += _INT32.size * partitions
    generation = _INT32.unpack_from(data, at)[0] if len(data) - at >= _INT32.size else NO_GENERATION
    return owned, generation


def _bounded(count: int, most: int) -> int:
    if not 0 <= count <= most:
        raise ValueError
    return count


def pack_cooperative(generation: int) -> bytes:
    return _INT32.pack(generation)


def unpack_cooperative(data: bytes | None) -> int:
    return int(_INT32.unpack_from(data)[0]) if data and len(data) >= _INT32.size else NO_GENERATION
