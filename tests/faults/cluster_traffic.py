"""Producers and readers that go on through whatever happens to a cluster, and remember what they were told."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

import confluent_kafka

QUIET = {"log_level": 0}
FLUSH_S = 180


class Writer(threading.Thread):
    """An idempotent producer with acks=all; `acknowledged` is what it was promised: (partition, offset) -> value."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, name: str, **settings: Any) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.somewhere: list[tuple[int, bytes]] = []
        self.sent: dict[int, list[bytes]] = defaultdict(list)
        self.failed: list[str] = []
        self.gap_s = 0.0
        self._last = time.monotonic()
        self._topic = topic
        self._partitions = partitions
        self.label = name
        self._ended = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 120_000,
                **QUIET,
                **settings,
            }
        )

    def run(self) -> None:
        number = 0
        while not self._ended.is_set():
            partition, value = number % self._partitions, f"{self.label}-{number}".encode()
            self.sent[partition].append(value)
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._told)
            self._producer.poll(0)
            number += 1
            time.sleep(0.005)
        assert self._producer.flush(FLUSH_S) == 0, "some records were never answered"

    def end(self) -> None:
        self._ended.set()
        self.join()

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        now = time.monotonic()
        self.gap_s = max(self.gap_s, now - self._last)
        self._last = now
        offset = message.offset()
        if offset is None:
            # librdkafka found out that an earlier attempt had been written, and was not told where.
            self.somewhere.append((message.partition(), message.value()))
        else:
            self.acknowledged[message.partition(), offset] = message.value()


class Reader(threading.Thread):
    """Reads on and on; `seen` is what it was shown.  A step back or over something that is there is an anomaly."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.seen: dict[tuple[int, int], bytes] = {}
        self.anomalies: list[str] = []
        self._next: dict[int, int] = {}
        self._ended = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, **QUIET}
        )
        first = [confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)]
        self._consumer.assign(first)

    def run(self) -> None:
        while not self._ended.is_set():
            for each in self._consumer.consume(500, timeout=0.2):
                message: Any = each
                if message.error() is None:
                    self._shown(message.partition(), message.offset(), message.value())
        self._consumer.close()

    def end(self) -> None:
        self._ended.set()
        self.join()

    def _shown(self, partition: int, offset: int, value: bytes) -> None:
        expected = self._next.get(partition, 0)
        if offset != expected:
            self.anomalies.append(f"partition {partition}: {offset} came where {expected} was next")
        self._next[partition] = offset + 1
        self.seen[partition, offset] = value


def read_all(bootstrap: str, topic: str, partitions: int, timeout_s: float) -> dict[int, list[bytes]]:
    """Every record of every partition, once the cluster is at rest."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.partition.eof": True, **QUIET}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)])
    found: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
    left = set(range(partitions))
    deadline = time.monotonic() + timeout_s
    while left:
        assert time.monotonic() < deadline, f"partitions {left} did not end"
        message: Any = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            assert message.offset() == len(found[message.partition()]), "offsets have no holes here"
            found[message.partition()].append(message.value())
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            left.discard(message.partition())
    consumer.close()
    return found


def anomalies(writers: list[Writer], reader: Reader, found: dict[int, list[bytes]]) -> list[str]:
    """What was promised or shown and is not so."""
    problems = list(reader.anomalies)
    for writer in writers:
        for (partition, offset), value in writer.acknowledged.items():
            there = found[partition][offset] if offset < len(found[partition]) else None
            if there != value:
                problems.append(f"{partition}/{offset} was acknowledged as {value!r} and is {there!r}")
        for partition, value in writer.somewhere:
            if value not in found[partition]:
                problems.append(f"{value!r} was acknowledged and is not in partition {partition}")
        problems += [f"a record was given up: {error}" for error in writer.failed]
    for (partition, offset), value in reader.seen.items():
        if found[partition][offset] != value:
            problems.append(f"{partition}/{offset} was read as {value!r} and is {found[partition][offset]!r}")
    for partition, values in found.items():
        if len(values) != len(set(values)):
            problems.append(f"partition {partition} has records twice")
        for writer in writers:
            own = set(writer.sent[partition])
            if [value for value in values if value in own] != writer.sent[partition]:
                problems.append(
                    f"partition {partition}: records of {writer.label} are missing or out of order"
                )
    return problems
