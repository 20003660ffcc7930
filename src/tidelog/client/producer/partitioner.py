"""Partitioners: which partition a record goes to.  Pure: random choices are passed in.

Records with a key go where Kafka's Java client would send them (murmur2 of the key), so that both can write
the same topic.  Records without one stick to a partition until about a batch of them is written there, then
move on.  The choice for each record is made natively, in `_speed.intake`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tidelog._speed.client.intake import BY_CALL, BY_KEY, ROUND_ROBIN, STICKY, murmur2

# (topic, key, number of partitions) -> partition, or None for any.
Partitioner = Callable[[str, bytes | None, int], int | None]

NAMED = {"murmur2": BY_KEY, "sticky": STICKY, "round_robin": ROUND_ROBIN}


class RandomChoice(Protocol):
    def choice(self, of: Sequence[int], /) -> int: ...


def by_key(topic: str, key: bytes | None, partitions: int) -> int | None:
    """The partition that "murmur2" chooses, for partitioners that want it for some records."""
    return None if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions


def kind_of(partitioner: str | Partitioner) -> tuple[int, Partitioner | None]:
    if callable(partitioner):
        return BY_CALL, partitioner
    if partitioner not in NAMED:
        names = ", ".join(map(repr, NAMED))
        raise ValueError(
            f"partitioner cannot be {partitioner!r}: use {names} or a function of topic, key and count"
        )
    return NAMED[partitioner], None


def another(partitions: Sequence[int], current: int, chance: RandomChoice) -> int:
    """Any of `partitions`, but not the current one if there is another."""
    return chance.choice([partition for partition in partitions if partition != current] or list(partitions))
