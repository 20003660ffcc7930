"""Transactions and readers that go on through whatever happens to a cluster, and what must be true of them afterwards."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import confluent_kafka

from tests.faults.cluster_traffic import QUIET, Writer

CALL_S = 20
ENDED_S = 90
SEEN_S = 30
UNKNOWN, COMMITTED, ABORTED = "unknown", "committed", "aborted"

Where = tuple[int, int]
Records = dict[int, list[tuple[int, bytes]]]
"""Of each partition: (offset, value), in order."""


@dataclass
class Transaction:
    outcome: str = UNKNOWN
    values: list[bytes] = field(default_factory=list)
    acknowledged: dict[Where, bytes] = field(default_factory=dict)

    def told(self, error: Any, message: Any) -> None:
        if error is None and message.offset() is not None:
            self.acknowledged[message.partition(), message.offset()] = message.value()


class TransactionalWriter(threading.Thread):
    """One transaction after the other, every third of them aborted.  A producer that is done for is followed by another
    one with the same id, as a service would be that is started again."""

    def __init__(
        self, make: Callable[[dict[str, Any]], Any], bootstrap: str, topic: str, partitions: int, name: str
    ) -> None:
        super().__init__(daemon=True)
        self.history: list[Transaction] = []
        self.broke: BaseException | None = None
        self._make = make
        self._settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 20_000,
            "socket.timeout.ms": 4_000,
            "linger.ms": 0,
            **QUIET,
        }
        self._topic = topic
        self._partitions = partitions
        self._label = name
        self._random = Random(name)
        self._ended = threading.Event()

    def run(self) -> None:
        producer = None
        try:
            while not self._ended.is_set():
                try:
                    if producer is None:
                        producer = self._make(self._settings)
                        _repeated(producer.init_transactions)
                    self._one(producer)
                except confluent_kafka.KafkaException:
                    producer = None  # what became of its transaction is not known
        except BaseException as problem:
            self.broke = problem

    def end(self) -> None:
        self._ended.set()
        self.join(ENDED_S)
        assert not self.is_alive(), f"{self._label}: its transaction did not end"

    def _one(self, producer: Any) -> None:
        transaction = Transaction()
        producer.begin_transaction()
        self.history.append(transaction)
        wanted = ABORTED if self._random.random() < 0.33 else COMMITTED
        try:
            for number in range(self._random.randint(1, 6)):
                value = f"{self._label}-{len(self.history)}.{number}".encode()
                transaction.values.append(value)
                where = self._random.randrange(self._partitions)
                producer.produce(self._topic, value, partition=where, on_delivery=transaction.told)
            if wanted == ABORTED:
                producer.flush(1)  # aborting drops what was not sent, and nothing would have to be hidden
                _repeated(producer.abort_transaction)
            else:
                _repeated(producer.commit_transaction)
            transaction.outcome = wanted
        except confluent_kafka.KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                raise
            _repeated(producer.abort_transaction)
            transaction.outcome = ABORTED


def _repeated(call: Callable[[float], None]) -> None:
    """Until it succeeds or says that it never will."""
    deadline = time.monotonic() + ENDED_S
    while True:
        try:
            return call(CALL_S)
        except confluent_kafka.KafkaException as problem:
            if not problem.args[0].retriable() or time.monotonic() > deadline:
                raise


class IsolatedReader(threading.Thread):
    """Reads on and on from the start, in one of the two isolation levels; `seen` is what it was shown, as it came."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, isolation: str) -> None:
        super().__init__(daemon=True)
        self.isolation = isolation
        self.seen: Records = defaultdict(list)
        self._ended = threading.Event()
        self._consumer = new_consumer(bootstrap, topic, partitions, isolation)

    def run(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(500, timeout=0.2):
                if message.error() is None:
                    self.seen[message.partition()].append((message.offset(), message.value()))
        self._consumer.close()

    def end_after(self, count: int) -> None:
        """So many records, if they come."""
        deadline = time.monotonic() + SEEN_S
        while sum(len(records) for records in list(self.seen.values())) < count:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self._ended.set()
        self.join()


def new_consumer(bootstrap: str, topic: str, partitions: int, isolation: str, **more: Any) -> Any:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "check.crcs": True,
        "socket.timeout.ms": 4_000,
        "topic.metadata.refresh.interval.ms": 2_000,
        **QUIET,
        **more,
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)])
    return consumer


def read_to_end(bootstrap: str, topic: str, partitions: int, isolation: str, seconds: float) -> Records:
    """Every record of every partition, once the cluster is at rest and no transaction is open."""
    consumer = new_consumer(bootstrap, topic, partitions, isolation, **{"enable.partition.eof": True})
    found: Records = {index: [] for index in range(partitions)}
    left = set(found)
    deadline = time.monotonic() + seconds
    while left:
        assert time.monotonic() < deadline, f"partitions {left} did not end for a reader ({isolation})"
        message: Any = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append((message.offset(), message.value()))
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            left.discard(message.partition())
    consumer.close()
    return found


@dataclass(frozen=True)
class History:
    """What everybody was told while it went on, and what is there now."""

    writers: list[Writer]
    transactional: list[TransactionalWriter]
    readers: list[IsolatedReader]
    found: Mapping[str, Records]
    """By isolation level."""

    def anomalies(self) -> list[str]:
        return [
            *self._lost(),
            *self._out_of_order(),
            *self._duplicated(),
            *self._wrong_transactions(),
            *self._wrong_polls(),
        ]

    def _lost(self) -> Iterator[str]:
        """Acknowledged and not there, or something else at its offset."""
        there = {(part, at): value for part, records in self._all.items() for at, value in records}
        visible = set(values(self._visible))
        for writer in self.writers:
            yield from (f"a record was given up: {error}" for error in writer.failed)
            yield from _differing(writer.acknowledged, there)
            for value in (*writer.acknowledged.values(), *(value for _, value in writer.somewhere)):
                if value not in visible:
                    yield f"{value!r} was acknowledged and cannot be read"
        for transaction in self._transactions():
            yield from _differing(transaction.acknowledged, there)

    def _out_of_order(self) -> Iterator[str]:
        for writer in self.writers:
            for partition, sent in writer.sent.items():
                own = set(sent)
                if [value for _, value in self._all[partition] if value in own] != sent:
                    yield f"partition {partition}: records of {writer._label} are missing or out of order"

    def _duplicated(self) -> Iterator[str]:
        places: dict[bytes, list[Where]] = defaultdict(list)
        for partition, records in self._all.items():
            for offset, value in records:
                places[value].append((partition, offset))
        yield from (f"{value!r} is at {found}" for value, found in places.items() if len(found) > 1)

    def _wrong_transactions(self) -> Iterator[str]:
        visible = set(values(self._visible))
        shown = {
            value for one in self.readers if one.isolation == COMMITTED_ONLY for value in values(one.seen)
        }
        for transaction in self._transactions():
            count = len(visible.intersection(transaction.values))
            if transaction.outcome == COMMITTED and count < len(transaction.values):
                yield f"{transaction} was committed and {count} of its records can be read"
            elif transaction.outcome == ABORTED and (count or shown.intersection(transaction.values)):
                yield f"{transaction} was aborted and has been read"
            elif 0 < count < len(transaction.values):
                yield f"{transaction} is half there"
        yield from (f"{one._label} broke: {one.broke!r}" for one in self.transactional if one.broke)

    def _wrong_polls(self) -> Iterator[str]:
        """A reader that was never led back nor over anything has seen just what is there, in order."""
        for reader in self.readers:
            for partition, records in self.found[reader.isolation].items():
                seen = reader.seen[partition]
                if seen != records:
                    pairs = zip(seen, records, strict=False)
                    at = next((at for at, (one, other) in enumerate(pairs) if one != other), -1)
                    yield (
                        f"partition {partition}, {reader.isolation}: shown {len(seen)} records, {len(records)} are "
                        f"there; first difference: {seen[at : at + 2]} for {records[at : at + 2]}"
                    )

    @property
    def _all(self) -> Records:
        return self.found[UNCOMMITTED_TOO]

    @property
    def _visible(self) -> Records:
        return self.found[COMMITTED_ONLY]

    def _transactions(self) -> Iterator[Transaction]:
        for writer in self.transactional:
            yield from writer.history


COMMITTED_ONLY, UNCOMMITTED_TOO = "read_committed", "read_uncommitted"


def values(records: Records) -> Iterator[bytes]:
    for each in records.values():
        yield from (value for _, value in each)


def _differing(acknowledged: Mapping[Where, bytes], there: Mapping[Where, bytes]) -> Iterator[str]:
    for where, value in acknowledged.items():
        if there.get(where) != value:
            yield f"{where} was acknowledged as {value!r} and is {there.get(where)!r}"
