"""A batch of records on its way to one partition, from its first record to the broker's answer.  Pure.

Open while its builder takes records; sealed into bytes when it is first sent.  A retry sends the very same
bytes, so that the broker can tell it from a new batch; `restamp` is for when the broker is known not to have
it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tidelog import errors
from tidelog._speed.batch import ATTRIBUTES_AT
from tidelog._speed.writer import replace_records
from tidelog.record import HEADER_SIZE, BatchBuilder, Codec, read_batches
from tidelog.types import TopicPartition

_PRODUCER_AT = 43
_PRODUCER = struct.Struct(">qhi")  # producer id, producer epoch, base sequence
_ATTRIBUTES = struct.Struct(">h")

Headers = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is; offset -1 when the broker was asked not to say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Outcome(Protocol):
    """What a sent record's future offers to whoever completes it."""

    def done(self) -> bool: ...
    def set_result(self, result: RecordMetadata, /) -> None: ...
    def set_exception(self, problem: BaseException, /) -> None: ...


class Stamp(NamedTuple):
    producer_id: int
    epoch: int
    sequence: int


NO_STAMP = Stamp(-1, -1, -1)


class OutgoingBatch:
    __slots__ = (
        "attempts",
        "builder",
        "bytes_taken",
        "count",
        "created_ms",
        "data",
        "done",
        "in_flight",
        "last_problem",
        "maybe_written",
        "ordinal",
        "outcomes",
        "partition",
        "stamp",
        "timestamps",
    )

    def __init__(self, partition: TopicPartition, size_max: int, now_ms: int) -> None:
        self.partition = partition
        # A size of 0 asks for one record per batch, which any size takes.
        self.builder: BatchBuilder | None = BatchBuilder(max(HEADER_SIZE, size_max))
        self.created_ms = now_ms
        self.outcomes: list[Outcome] = []
        self.timestamps: list[int] = []
        self.count = 0
        self.bytes_taken = 0
        self.data = b""
        self.stamp = NO_STAMP
        self.attempts = 0
        self.in_flight = False
        self.done = False
        self.maybe_written = False
        self.ordinal = 0
        self.last_problem: errors.TidelogError | None = None

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        outcome: Outcome,
        bytes_taken: int,
    ) -> bool:
        """False when the batch is full without it."""
        if self.builder is None or not self.builder.add(key, value, timestamp, headers):
            return False
        self.outcomes.append(outcome)
        self.timestamps.append(timestamp)
        self.count += 1
        self.bytes_taken += bytes_taken
        return True

    @property
    def size(self) -> int:
        return self.builder.size if self.builder is not None else len(self.data)

    @property
    def sealed(self) -> bool:
        return self.builder is None

    def seal(self, codec: Codec, stamp: Stamp) -> None:
        assert self.builder is not None
        self.stamp = stamp
        self.data = self.builder.build(
            codec=codec,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            base_sequence=stamp.sequence,
        )
        self.builder = None

    def restamp(self, stamp: Stamp) -> None:
        header = bytearray(self.data[:HEADER_SIZE])
        _PRODUCER.pack_into(header, _PRODUCER_AT, *stamp)
        (attributes,) = _ATTRIBUTES.unpack_from(header, ATTRIBUTES_AT)
        self.data = replace_records(header, memoryview(self.data)[HEADER_SIZE:], attributes)
        self.stamp = stamp

    def split(self, codec: Codec) -> tuple[OutgoingBatch, OutgoingBatch]:
        """Two halves, for a broker that finds the whole too large; they need stamps of their own."""
        assert self.sealed and self.count > 1
        (batch,) = read_batches(self.data)
        records = batch.records()
        middle = self.count // 2
        halves = []
        for start, end in ((0, middle), (middle, self.count)):
            half = OutgoingBatch(self.partition, len(self.data) + self.bytes_taken, self.created_ms)
            for at in range(start, end):
                one = records[at]
                added = half.add(one.key, one.value, one.timestamp, one.headers, self.outcomes[at], 0)
                assert added
            half.seal(codec, NO_STAMP)
            half.attempts = self.attempts
            halves.append(half)
        halves[0].bytes_taken = self.bytes_taken // 2
        halves[1].bytes_taken = self.bytes_taken - self.bytes_taken // 2
        self.done = True
        return halves[0], halves[1]

    def acknowledged(self, base_offset: int, append_time_ms: int) -> None:
        self.done = True
        topic, partition = self.partition
        for at, outcome in enumerate(self.outcomes):
            if not outcome.done():
                offset = base_offset + at if base_offset >= 0 else -1
                timestamp = append_time_ms if append_time_ms >= 0 else self.timestamps[at]
                outcome.set_result(RecordMetadata(topic, partition, offset, timestamp))

    def failed(self, problem: errors.TidelogError) -> None:
        self.done = True
        for outcome in self.outcomes:
            if not outcome.done():
                outcome.set_exception(type(problem)(str(problem)))
