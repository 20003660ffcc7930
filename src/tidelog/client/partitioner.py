"""Which partition a record goes to.  Pure: the chance is passed in.

Records with a key go where Kafka's Java client would send them (murmur2 of the key), so that both can write
the same topic.  Records without one stick to a partition until about a batch of them is written there, then
move on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

# (topic, key, number of partitions) -> partition, or None for any.
Partitioner = Callable[[str, bytes | None, int], int | None]


class Chance(Protocol):
    def choice(self, of: Sequence[int], /) -> int: ...


_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """The 32-bit hash, unsigned; Java shows the same bits as a signed number."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        k = (data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24) * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if size > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def by_key(topic: str, key: bytes | None, partitions: int) -> int | None:
    """The default: the same key always goes to the same partition, as long as their number stays."""
    return None if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions


class Sticky:
    """The partition of one topic that records without a key go to now."""

    def __init__(self, stick_bytes: int, chance: Chance) -> None:
        self._stick_bytes = stick_bytes
        self._chance = chance
        self._partition = -1
        self._taken_bytes = 0

    def stay(self, took_bytes: int) -> int | None:
        """The current partition, which takes one more record of this size; None when it is time to `move`."""
        if self._partition < 0 or self._taken_bytes >= self._stick_bytes:
            return None
        self._taken_bytes += took_bytes
        return self._partition

    def move(self, partitions: Sequence[int], took_bytes: int) -> int:
        """To another one of `partitions`: those that have a leader, or all when none has."""
        others = [one for one in partitions if one != self._partition] or partitions
        self._partition = self._chance.choice(others)
        self._taken_bytes = took_bytes
        return self._partition
