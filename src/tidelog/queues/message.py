"""What goes into a queue, and what comes out of it.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog._speed.log.records import Record
from tidelog.groups.share.partition import AcknowledgedRange, AcknowledgeType, AcquiredRange
from tidelog.record.reader import read_batches

NOW = -1

Headers = Sequence[tuple[str, bytes | None]]
Position = tuple[int, int]
"""Partition and offset: what names a delivery when it is settled."""


class QueueMessage(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = NOW


class Published(NamedTuple):
    partition: int
    offset: int


class Delivery(NamedTuple):
    """A record that a session has acquired.  `deliveries` is 1 the first time."""

    partition: int
    offset: int
    deliveries: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def position(self) -> Position:
        return self.partition, self.offset

    @property
    def redelivered(self) -> bool:
        return self.deliveries > 1


class BrowsedRecord(NamedTuple):
    """A record that nobody acquired by looking at it."""

    offset: int
    deliveries: int
    acquired: bool
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class QueueDepth(NamedTuple):
    """`ready` records can be acquired; `acquired` ones wait for their acknowledgement."""

    ready: int
    acquired: int


class Settlement(IntEnum):
    """What becomes of an acquired record."""

    ACCEPT = AcknowledgeType.ACCEPT
    RELEASE = AcknowledgeType.RELEASE
    REJECT = AcknowledgeType.REJECT
    RENEW = AcknowledgeType.RENEW


def deliveries(
    partition: int, data: bytes, acquired: Sequence[AcquiredRange], *, check_crc: bool
) -> list[Delivery]:
    """The acquired records among `data`, which has whole batches; raises CorruptMessage if one fails its checksum."""
    taken: list[Delivery] = []
    batches = read_batches(data, check_crc=check_crc)
    batch = next(batches, None)
    for first, last, count in acquired:
        while batch is not None:
            for record in batch.records(first, last):
                taken.append(_delivery(partition, count, record))
            if batch.header.last_offset > last:
                break
            batch = next(batches, None)
    return taken


def _delivery(partition: int, count: int, record: Record) -> Delivery:
    return Delivery(
        partition, record.offset, count, record.timestamp, record.key, record.value, record.headers
    )


def gaps(acquired: Iterable[AcquiredRange], taken: Iterable[Delivery]) -> list[AcknowledgedRange]:
    """The acquired offsets that no record has any more: compaction took them."""
    there = {delivery.offset for delivery in taken}
    missing = [
        offset for first, last, _ in acquired for offset in range(first, last + 1) if offset not in there
    ]
    return ranges(missing, AcknowledgeType.GAP)


def ranges(offsets: Iterable[int], kind: int) -> list[AcknowledgedRange]:
    """Neighbouring offsets make one range."""
    merged: list[AcknowledgedRange] = []
    for offset in sorted(offsets):
        if merged and merged[-1].last + 1 == offset:
            merged[-1] = merged[-1]._replace(last=offset)
        else:
            merged.append(AcknowledgedRange(offset, offset, [kind]))
    return merged


def by_partition(positions: Iterable[Position]) -> dict[int, list[int]]:
    offsets: dict[int, list[int]] = {}
    for partition, offset in positions:
        offsets.setdefault(partition, []).append(offset)
    return offsets
