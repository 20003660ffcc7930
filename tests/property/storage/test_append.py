"""The native append against lists and dictionaries: leaders' batches, followers' runs of batches, group commit."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.reference.append import SEQUENCE_MAX, ReferenceAppends
from tests.unit.storage.making import HandClock, append, make_volume
from tidelog import errors
from tidelog._speed.log.batch import header_at, stamp, walk
from tidelog._speed.log.records import Record
from tidelog.config import TopicConfig
from tidelog.record.builder import build_batch
from tidelog.replication.partition import Partition
from tidelog.storage.log import Log
from tidelog.storage.segments.segment import Segment
from tidelog.testing import seeds
from tidelog.types import Epoch, NodeId, TopicPartition

pytestmark = pytest.mark.simulated

STEPS = 250
NOW_MS = 1_700_000_000_000
NODE = NodeId(1)
NAME = TopicPartition("orders", 0)
VERDICTS: dict[type[Exception], str] = {
    errors.OutOfOrderSequenceNumber: "gap",
    errors.InvalidProducerEpoch: "older epoch",
    errors.UnknownProducerId: "numbers used again",
    errors.InvalidTxnState: "outside of the transaction",
}


class Twins:
    """A partition, and what should be known of it."""

    def __init__(self, random: Random, flush_messages: int) -> None:
        self.random = random
        volume = make_volume()
        assert isinstance(volume.clock, HandClock)
        self.clock = volume.clock
        config = TopicConfig(
            segment_bytes=random.choice([2_000, 20_000, 1 << 30]),
            segment_index_bytes=random.choice([60, 200, 1 << 20]),
            index_interval_bytes=random.choice([0, 200, 1_000]),
            segment_ms=random.choice([200, 1 << 40]),
            flush_messages=flush_messages,
        )
        self.log = Log.open(volume, "/data/orders-0", NAME, config)
        self.partition = Partition(NAME, bytes(16), NODE, self.log)
        self.reference = ReferenceAppends(config, self.clock.ms)
        self.epoch = 0
        self.partition.led(NODE, Epoch(0), frozenset((NODE,)), 1)
        self.reference.led(0)

    def step(self) -> None:
        what = self.random.randrange(100)
        self.reference.now_ms = self.clock.ms = self.clock.ms + self.random.choice([0, 1, 60])
        if what < 75:
            self.produce()
        elif what < 95:
            self.replicate()
        else:
            self.epoch += 1
            self.partition.led(NODE, Epoch(self.epoch), frozenset((NODE,)), 1)
            self.reference.led(self.epoch)

    def batch(self, **identity: Any) -> bytearray:
        random = self.random
        timed = random.random() < 0.9
        start = self.clock.ms + random.randrange(-20, 20)
        records = [
            Record(
                number,
                start + random.randrange(9) if timed else -1,
                None,
                bytes(random.choice([5, 90, 900])),
                (),
            )
            for number in range(random.choice([1, 1, 2, 4]))
        ]
        return bytearray(build_batch(records, **identity))

    def produce(self) -> None:
        random, reference, log = self.random, self.reference, self.log
        identity: dict[str, Any] = {}
        producer = random.choice([-1, -1, 1, 2, 3])
        if producer >= 0:
            known = reference.producers.get(producer)
            sequence = random.choice([0, SEQUENCE_MAX - 1]) if known is None else known.next_sequence
            if known is not None and known.batches and random.random() < 0.15:
                sequence = random.choice(known.batches)[0]
            identity = {
                "producer_id": producer,
                "producer_epoch": (0 if known is None else known.epoch)
                + random.choice([0] * 18 + [1, -1 if known is not None and known.epoch else 0]),
                "base_sequence": random.choice([sequence] * 12 + [0, sequence ^ 1]),
                "transactional": random.random() < 0.1
                or (known is not None and known.transaction_start >= 0),
            }
        data = self.batch(**identity)
        header = header_at(data)
        assert header is not None
        if producer >= 0:
            verdict = reference.verdict(header)
            assert self.native_verdict(header) == verdict
            if verdict != "new":
                return
        before, base = bytes(data), reference.next
        expected = bytearray(data)
        stamp(expected, 0, base, self.epoch)
        offset = base + header.last_offset_delta
        refused = reference.append(bytes(expected), header.max_timestamp, offset, self.epoch)
        try:
            if producer < 0 and random.random() < 0.3:
                self.partition.append_made(data)
            else:
                self.partition.append_led(data, header, header.last_offset_delta, self.clock.ms)
        except errors.RecordListTooLarge:
            assert refused == "too large" and data == before
            return
        assert refused is None and data == expected
        if producer >= 0:
            reference.produced(header, base)
        assert log.next == reference.next

    def native_verdict(self, header: Any) -> str | int:
        try:
            copy = self.log.producers.check(header)
        except errors.TidelogError as problem:
            return VERDICTS[type(problem)]
        return "new" if copy is None else copy.base_offset

    def replicate(self) -> None:
        """Several batches with the offsets of another leader, which may have gaps."""
        data, offset = bytearray(), self.reference.next
        for _ in range(self.random.choice([1, 2, 3, 8])):
            batch = self.batch()
            offset += self.random.choice([0, 0, 0, 5])
            stamp(batch, 0, offset, self.epoch)
            data += batch
            offset = walk(batch)[0].last_offset + 1
        newest = max(walk(data), key=lambda header: (header.max_timestamp, -header.base_offset))
        refused = self.reference.append(bytes(data), newest.max_timestamp, newest.last_offset, self.epoch)
        try:
            append(self.log, bytes(data))
        except errors.RecordListTooLarge:
            assert refused == "too large"
        else:
            assert refused is None

    def compare(self) -> None:
        log, reference = self.log, self.reference
        assert (log.next, list(log.epochs)) == (reference.next, reference.epochs)
        assert len(log.segments) == len(reference.segments)
        for segment, twin in zip(log.segments, reference.segments, strict=True):
            assert facts_of(segment) == [
                twin.base,
                max(segment.size, len(twin.data)),
                twin.first_timestamp,
                twin.max_timestamp,
                twin.max_timestamp_offset,
                twin.since_index,
                twin.index,
                twin.time_index,
            ]
        for producer_id, known in reference.producers.items():
            producer = log.producers.get(producer_id)
            assert producer is not None
            batches = [tuple(batch)[:4] for batch in producer.batches]
            assert [producer.epoch, producer.next_sequence, producer.transaction_start, batches] == [
                known.epoch,
                known.next_sequence,
                known.transaction_start,
                known.batches,
            ]

    def compare_bytes(self) -> None:
        assert self.log.end == self.log.next
        for segment, twin in zip(self.log.segments, self.reference.segments, strict=True):
            assert segment.file.read(segment.size + 1, 0) == bytes(twin.data)


def facts_of(segment: Segment) -> list[Any]:
    return [
        segment.base,
        max(segment.size, segment.reserved),
        segment.first_timestamp,
        segment.max_timestamp,
        segment.max_timestamp_offset,
        segment.interval.since,
        [(segment.base + first, second) for first, second in entries(segment.index)],
        [(first, segment.base + second) for first, second in entries(segment.time_index)],
    ]


def entries(index: Any) -> list[tuple[int, int]]:
    return [index._entry(number) for number in range(index.count)]


@pytest.mark.parametrize("seed", seeds(25))
@pytest.mark.parametrize("flush_messages", [1 << 40, 1, 7])
async def test_the_native_append_is_the_references(random: Random, seed: int, flush_messages: int) -> None:
    twins = Twins(random, flush_messages)
    for number in range(STEPS):
        twins.step()
        twins.compare()
        if random.random() < 0.1 or number == STEPS - 1:
            await twins.log.flush()
            twins.compare_bytes()
            assert twins.partition.state.committed <= twins.log.end
