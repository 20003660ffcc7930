"""Tidelog and Apache Kafka side by side: the same random requests, and answers that must say the same.

Each run draws a seed and prints it; `DIFFERENTIAL_SEED=n` repeats a run.  Long, so it belongs to `make deep`.
"""

from __future__ import annotations

import dataclasses
import os
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance import apache_kafka, batches
from tests.conformance.batches import Record, batch, now_ms
from tests.conformance.process import BrokerProcess
from tests.conformance.raw import Connection
from tests.conformance.tidelog_broker import TidelogBroker
from tests.conformance.topics import create_topic, fetch_fields

pytestmark = [pytest.mark.kafka, pytest.mark.deep]

STEPS = 2_000
HOUR_MS = 3_600_000
SEQUENCE_END = 2**31
PRODUCERS = (1000, 1001, 1002)
TOPICS = {
    "plain": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"},
    "recompressed": {"compression.type": "zstd"},
    "unpacked": {"compression.type": "uncompressed"},
    "young": {"message.timestamp.before.max.ms": "600000"},
}
# Words, and numbers that say nothing about what was done.  Kafka answers a repeated batch with its time even where the
# topic keeps the producer's, and tells the log start with some errors but not with others.
LEFT_OUT = {
    "error_message",
    "throttle_time",
    "last_timestamp",
    "log_append_time",
    "log_start_offset",
    "record_errors",
}


class Pair(NamedTuple):
    kafka: Connection
    tidelog: Connection

    def ask(self, api: str, version: int, **fields: Any) -> tuple[Any, Any]:
        return self.kafka.call(api, version, **fields), self.tidelog.call(api, version, **fields)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    brokers: list[BrokerProcess] = [
        apache_kafka.KafkaBroker(tmp_path / "kafka", {}),
        TidelogBroker(tmp_path / "tidelog", {}),
    ]
    try:
        for broker in brokers:
            broker.start()
            for name, config in TOPICS.items():
                create_topic(broker.bootstrap, name, 1, {"retention.ms": "-1"} | config)
        with Connection(brokers[0].bootstrap) as kafka, Connection(brokers[1].bootstrap) as tidelog:
            yield Pair(kafka, tidelog)
    finally:
        for broker in brokers:
            broker.discard()


def essence(thing: Any) -> Any:
    """An answer without what may differ."""
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
        return {name: essence(getattr(thing, name)) for name in names if name not in LEFT_OUT}
    if isinstance(thing, tuple):
        return sorted((essence(item) for item in thing), key=str)
    return "id" if isinstance(thing, uuid.UUID) else thing


def contents(answer: Any, timeless: bool) -> Any:
    """A Fetch answer with its batches opened: two encoders need not make the same bytes."""
    part = answer.responses[0].partitions[0]
    found = []
    for each in batches.read(part.records):
        assert each.crc_ok
        times = [None if timeless else each.base_timestamp + r.timestamp_delta for _, r in each.records()]
        records = [(offset, r.key, r.value, r.headers) for offset, r in each.records()]
        header = (each.base_offset, each.last_offset, each.leader_epoch, each.attributes, each.record_count)
        found.append((header, each.producer_id, each.producer_epoch, each.base_sequence, records, times))
    return (part.error_code, part.high_watermark, part.last_stable_offset), found


class Load:
    """Random requests that know enough of what was done to be interesting."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = now_ms()
        self.end = dict.fromkeys(TOPICS, 0)
        # (topic, producer) -> epoch, next sequence, the batches sent last
        self.producers: dict[tuple[str, int], tuple[int, int, list[bytes]]] = {}

    def records(self, topic: str) -> list[Record]:
        draw, keyed = self.random, 0.98 if topic == "compacted" else 0.7
        return [
            Record(
                draw.choice([b"v" * draw.randrange(60), b"", None]),
                draw.choice([b"k1", b"k2", b"k3"]) if draw.random() < keyed else None,
                (("h", b"x"),) * draw.randrange(2),
                draw.randrange(100),
            )
            for _ in range(draw.choice([1, 1, 2, 3, 7]))
        ]

    def data(self, topic: str, **header: Any) -> bytes:
        codec = self.random.choice(["none", "none", *batches.CODECS])
        age = self.random.choice([0, 0, 0, HOUR_MS, -2 * HOUR_MS if self.random.random() < 0.1 else 0])
        return batch(self.records(topic), codec, base_timestamp=self.now - age, **header)

    def plain(self, topic: str) -> bytes:
        wrong = self.random.choice(
            [{}] * 12 + [{"crc": 5}, {"count": 9}, {"last_offset_delta": 9}, {"magic": 3}]
        )
        return self.data(topic, **wrong)

    def idempotent(self, topic: str, producer: int) -> bytes:
        epoch, sequence, sent = self.producers.get((topic, producer), (0, 0, []))
        chance = self.random.random()
        if chance < 0.12 and sent:
            return self.random.choice(sent)
        if chance < 0.18:
            sequence = max(sequence + self.random.choice([1, 2, -1, -2, 5]), 0)
        elif chance < 0.22:
            epoch, sequence = epoch + 1, self.random.choice([0, 0, 0, 1])
        elif chance < 0.25:
            epoch = max(epoch - 1, 0)
        elif chance < 0.27:
            sequence = SEQUENCE_END - 2
        return self.data(topic, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)

    def appended(self, topic: str, sent: bytes, base_offset: int) -> None:
        (header,) = batches.read(sent)
        if base_offset < self.end[topic]:
            return  # a repeated batch
        self.end[topic] = base_offset + header.record_count
        if header.producer_id >= 0:
            _, _, before = self.producers.get((topic, header.producer_id), (0, 0, []))
            following = (header.base_sequence + header.record_count) % SEQUENCE_END
            kept = [*before, sent][-7:]
            self.producers[topic, header.producer_id] = (header.producer_epoch, following, kept)


def produce(pair: Pair, load: Load, topic: str) -> None:
    producer = load.random.choice(PRODUCERS)
    sent = load.plain(topic) if load.random.random() < 0.3 else load.idempotent(topic, producer)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": sent}]}]
    version, acks = load.random.choice([7, 8, 9, 11, 12]), load.random.choice([1, -1])
    kafka, tidelog = pair.ask("produce", version, acks=acks, timeout=5000, topic_data=data)
    assert essence(tidelog) == essence(kafka)
    part = kafka.responses[0].partition_responses[0]
    if part.error_code == 0:
        load.appended(topic, sent, part.base_offset)


def fetch(pair: Pair, load: Load, topic: str) -> None:
    end = load.end[topic]
    offset = load.random.choice([0, end - 1, end, end + 1, load.random.randrange(end + 1)])
    fields = fetch_fields(topic, offset, partition_max_bytes=load.random.choice([1, 10_000]))
    kafka, tidelog = pair.ask("fetch", load.random.choice([4, 7, 11, 12]), **fields)
    (kafka_facts, kafka_batches), (facts, found) = (contents(a, topic == "stamped") for a in (kafka, tidelog))
    assert facts == kafka_facts
    shared = min(len(found), len(kafka_batches))  # other encoders, other sizes
    assert found[:shared] == kafka_batches[:shared]
    assert bool(found) == bool(kafka_batches)


def list_offsets(pair: Pair, load: Load, topic: str) -> None:
    times = [-1, -2, -3, load.now + load.random.randrange(100), load.now - HOUR_MS, load.now + HOUR_MS]
    wanted = load.random.choice(times[:2] if topic == "stamped" else times)
    part = {"partition_index": 0, "timestamp": wanted}
    fields = {"replica_id": -1, "timeout": 1000, "topics": [{"name": topic, "partitions": [part]}]}
    kafka, tidelog = pair.ask("list_offsets", load.random.choice([7, 9, 11]), **fields)
    assert essence(tidelog) == essence(kafka)


def delete_records(pair: Pair, load: Load, topic: str) -> None:
    offset = load.random.choice([load.random.randrange(load.end[topic] // 2 + 1), load.end[topic] + 1])
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    kafka, tidelog = pair.ask("delete_records", 2, topics=topics, timeout=5000)
    assert essence(tidelog) == essence(kafka)


def describe_producers(pair: Pair, load: Load, topic: str) -> None:
    kafka, tidelog = pair.ask("describe_producers", 0, topics=[{"name": topic, "partition_indexes": [0]}])
    assert essence(tidelog) == essence(kafka)


REQUESTS = (
    [produce] * 60 + [fetch] * 20 + [list_offsets] * 12 + [delete_records] * 2 + [describe_producers] * 6
)


def test_both_answer_random_requests_alike(pair: Pair) -> None:
    seed = int(os.environ.get("DIFFERENTIAL_SEED") or random.SystemRandom().randrange(10**6))
    load = Load(seed)
    for step in range(STEPS):
        request, topic = load.random.choice(REQUESTS), load.random.choice(list(TOPICS))
        try:
            request(pair, load, topic)
        except AssertionError as difference:
            difference.add_note(f"step {step}, {request.__name__} on {topic!r}: DIFFERENTIAL_SEED={seed}")
            raise
