"""The records that a share consumer has acquired, and its acknowledgements of them.  Pure.

A record is acquired when it is delivered, and stays so until it is acknowledged or its lock expires at the
broker.  Acknowledgements are collected per partition until a request takes them along; offsets that were
acquired and hold no record are given back as gaps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from tidelog import errors
from tidelog._speed.client.consumed import Record, delivered
from tidelog.types import TopicPartition

How = Literal["accept", "release", "reject", "renew"]

GAP = 0
TYPES: dict[str, int] = {"accept": 1, "release": 2, "reject": 3, "renew": 4}
RENEW = TYPES["renew"]
IN_TRANSACTION = {"accept": 17, "reject": 19}
"""The same as part of a transaction: Tidelog's own, Apache Kafka refuses them."""


class AcknowledgedOffsets(NamedTuple):
    """Offsets from `first` to `last`, acknowledged in the same way."""

    first: int
    last: int
    kind: int


class AcquiredOffsets(NamedTuple):
    first: int
    last: int
    delivery_count: int


class Acknowledgements:
    def __init__(self) -> None:
        self._held: dict[TopicPartition, set[int]] = {}
        self._unsent: dict[TopicPartition, dict[int, int]] = {}

    def deliver(
        self, partition: TopicPartition, records: Iterable[Record], acquired: Iterable[AcquiredOffsets]
    ) -> list[Record]:
        """The acquired ones of a fetch's records, with their delivery counts."""
        by_offset = {record.offset: record for record in records}
        held = self._held.setdefault(partition, set())
        out: list[Record] = []
        for span in acquired:
            chunk = []
            for offset in range(span.first, span.last + 1):
                record = by_offset.get(offset)
                if record is None:
                    self._unsent.setdefault(partition, {})[offset] = GAP
                else:
                    held.add(offset)
                    chunk.append(record)
            delivered(chunk, span.delivery_count)
            out += chunk
        return out

    def acknowledge(self, partition: TopicPartition, offset: int, how: str) -> None:
        if how not in TYPES:
            raise ValueError(f"a record cannot be acknowledged with {how!r}: use {', '.join(TYPES)}")
        if offset not in self._held.get(partition, ()):
            raise ValueError(
                f"{partition} at offset {offset} is not in hand: it was acknowledged before, or never delivered"
            )
        self._unsent.setdefault(partition, {})[offset] = TYPES[how]
        if TYPES[how] != RENEW:
            self._held[partition].discard(offset)

    def acknowledge_all(self, how: str, but: Collection[tuple[str, int, int]] = ()) -> None:
        """Acknowledges all records in hand that are not acknowledged yet, `but` these."""
        for partition, offsets in list(self._held.items()):
            pending = self._unsent.setdefault(partition, {})
            for offset in list(offsets):
                if offset not in pending and (*partition, offset) not in but:
                    pending[offset] = TYPES[how]
                    offsets.discard(offset)

    def holds(self, partition: TopicPartition, offset: int) -> bool:
        """The record is in hand, and not acknowledged yet."""
        return offset in self._held.get(partition, ()) and offset not in self._unsent.get(partition, ())

    def take_records(
        self, records: Iterable[Record], how: str
    ) -> dict[TopicPartition, list[AcknowledgedOffsets]]:
        """The acknowledgements of these records as part of a transaction, to be sent now.  All or none."""
        if how not in IN_TRANSACTION:
            raise ValueError(
                f"a record cannot be acknowledged with {how!r} in a transaction: use {', '.join(IN_TRANSACTION)}"
            )
        chosen: dict[TopicPartition, dict[int, int]] = {}
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            if not self.holds(partition, record.offset):
                raise errors.InvalidRecordState(
                    f"{partition} at offset {record.offset} is not in hand (any more): abort the transaction"
                )
            chosen.setdefault(partition, {})[record.offset] = IN_TRANSACTION[how]
        for partition, offsets in chosen.items():
            self._held[partition] -= offsets.keys()
        return {partition: ranges_of(offsets) for partition, offsets in chosen.items()}

    def release_later(self, acks: Mapping[TopicPartition, list[AcknowledgedOffsets]]) -> None:
        """They were not taken."""
        for partition, ranges in acks.items():
            pending = self._unsent.setdefault(partition, {})
            for span in ranges:
                pending.update(dict.fromkeys(range(span.first, span.last + 1), TYPES["release"]))

    @property
    def held(self) -> int:
        """The number of records in hand that are not acknowledged yet."""
        return sum(
            len(offsets - self._unsent.get(partition, {}).keys()) for partition, offsets in self._held.items()
        )

    def pending(self) -> set[TopicPartition]:
        return {partition for partition, pending in self._unsent.items() if pending}

    def take(
        self, partitions: Collection[TopicPartition], renewals: bool
    ) -> dict[TopicPartition, list[AcknowledgedOffsets]]:
        """The acknowledgements of these partitions, to be sent now: either renewals, which keep the record in hand,
        or all others."""
        out: dict[TopicPartition, list[AcknowledgedOffsets]] = {}
        for partition in partitions:
            pending = self._unsent.get(partition, {})
            chosen = {offset: kind for offset, kind in pending.items() if (kind == RENEW) == renewals}
            if chosen:
                out[partition] = ranges_of(chosen)
                self._unsent[partition] = {o: kind for o, kind in pending.items() if o not in chosen}
        return out

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """The broker has released the locks on these partitions."""
        for partition in partitions:
            self._held.pop(partition, None)
            self._unsent.pop(partition, None)


def ranges_of(pending: dict[int, int]) -> list[AcknowledgedOffsets]:
    out: list[AcknowledgedOffsets] = []
    for offset in sorted(pending):
        kind = pending[offset]
        if out and out[-1].last == offset - 1 and out[-1].kind == kind:
            out[-1] = AcknowledgedOffsets(out[-1].first, offset, kind)
        else:
            out.append(AcknowledgedOffsets(offset, offset, kind))
    return out
