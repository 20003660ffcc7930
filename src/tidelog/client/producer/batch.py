"""A batch of records on its way to one partition, from its first record to the broker's answer.  Pure.

It grows while callers add records (`Growing`, native); packed into bytes when it is first sent.  A retry
sends the very same bytes, so that the broker can tell it from a new batch; `restamp` is for when the broker
is known not to have it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog import errors
from tidelog._speed.client.delivery import Growing
from tidelog._speed.log.batch import ATTRIBUTES_AT
from tidelog._speed.log.writer import replace_records
from tidelog.client.errors import DeliveryTimedOut
from tidelog.record import HEADER_SIZE, Codec, compress, read_batches
from tidelog.record.builder import TRANSACTIONAL
from tidelog.types import TopicPartition

# Without a handler of its own, unlike the rest: an error in the application's code is printed, whether it has set up
# logging or not.
log = logging.getLogger("tidelog.callbacks")

_PRODUCER_AT = 43
_PRODUCER = struct.Struct(">qhi")  # producer id, producer epoch, base sequence
_ATTRIBUTES = struct.Struct(">h")

Headers = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]


class RecordMetadata(NamedTuple):
    """The place of an acknowledged record; the offset is -1 with acks=0, where brokers do not answer."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Stamp(NamedTuple):
    producer_id: int
    epoch: int
    sequence: int


NO_STAMP = Stamp(-1, -1, -1)


class OutgoingBatch(Growing):
    __slots__ = (
        "append_time_ms",
        "attempts",
        "base_offset",
        "created_ms",
        "data",
        "in_flight",
        "last_problem",
        "maybe_written",
        "ordinal",
        "packed",
        "partition",
        "problem",
        "sent_ms",
        "stamp",
    )

    def __init__(self, partition: TopicPartition, size_max: int, now_ms: int) -> None:
        # A size of 0 asks for one record per batch, which any size takes.
        super().__init__(max(HEADER_SIZE, size_max))
        self.partition = partition
        self.created_ms = now_ms
        self.sent_ms = now_ms
        self.data: bytes | memoryview = b""
        self.packed = False
        self.stamp = NO_STAMP
        self.attempts = 0
        self.in_flight = False
        self.maybe_written = False
        self.ordinal = 0
        self.last_problem: errors.TidelogError | None = None
        self.problem: errors.TidelogError | None = None
        self.base_offset = -1
        self.append_time_ms = -1

    @property
    def wire_size(self) -> int:
        return len(self.data) if self.packed else self.size

    def pack(self, codec: Codec, stamp: Stamp, transactional: bool = False) -> None:
        self.close()
        self.stamp = stamp
        attributes = codec | (TRANSACTIONAL if transactional else 0)
        records = None if codec is Codec.NONE else compress(codec, self)
        self.data = memoryview(self.finish(attributes, *stamp, records))
        self.packed = True

    def restamp(self, stamp: Stamp) -> None:
        header = bytearray(self.data[:HEADER_SIZE])
        _PRODUCER.pack_into(header, _PRODUCER_AT, *stamp)
        (attributes,) = _ATTRIBUTES.unpack_from(header, ATTRIBUTES_AT)
        self.data = replace_records(header, memoryview(self.data)[HEADER_SIZE:], attributes)
        self.stamp = stamp

    def split(self, codec: Codec) -> tuple[OutgoingBatch, OutgoingBatch]:
        """Splits a batch that the broker finds too large into halves, which need stamps of their own."""
        assert self.packed and self.count > 1
        (batch,) = read_batches(self.data)
        records = batch.records()
        middle = self.count // 2
        halves = []
        for start, end in ((0, middle), (middle, self.count)):
            half = OutgoingBatch(self.partition, len(self.data) + self.bytes_taken, self.created_ms)
            for record in records[start:end]:
                added = half.add(record.key, record.value, record.timestamp, record.headers)
                assert added
            half.pack(codec, NO_STAMP, batch.header.transactional)
            half.loop = self.loop
            half.attempts = self.attempts
            halves.append(half)
        first, second = halves
        first.bytes_taken = self.bytes_taken // 2
        second.bytes_taken = self.bytes_taken - first.bytes_taken
        self.moved(first, second)
        self.data = b""
        return first, second

    # The end of it

    def acknowledged(self, base_offset: int, append_time_ms: int) -> None:
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self._tell()

    def failed(self, problem: errors.TidelogError) -> None:
        self.close()
        self.problem = problem
        self._tell()

    def _tell(self) -> None:
        self.data = b""
        for watcher in self.settled():
            try:
                watcher()
            except BaseException:
                # Also `sys.exit()`: it would end the thread of all clients, and skip the other watchers.
                log.exception("a callback of a record sent to %s failed", self.partition)

    # Asked by `Delivery`

    def outcome(self, index: int) -> RecordMetadata:
        problem = self.problem_of(index)
        if problem is not None:
            raise problem
        topic, partition = self.partition
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        timestamp = self.append_time_ms if self.append_time_ms >= 0 else self.timestamp_of(index)
        return RecordMetadata(topic, partition, offset, timestamp)

    def problem_of(self, index: int) -> errors.TidelogError | None:
        # Each caller gets an exception of its own: a shared one would collect all their tracebacks.
        return None if self.problem is None else type(self.problem)(str(self.problem))

    def overdue(self, timeout: float) -> DeliveryTimedOut:
        return DeliveryTimedOut(
            f"no acknowledgement from {self.partition} within {timeout} s; the record is still on its way"
        )

    def describe(self, index: int) -> str:
        if not self.done:
            return f"to {self.partition}, under way"
        return str(self.problem or self.outcome(index))
