"""Transactions and readers that go on through whatever happens to a cluster, and remember what they were told."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

import confluent_kafka

from tests.faults.cluster_history import ABORTED, COMMITTED, Records, Transaction
from tests.faults.cluster_traffic import QUIET

ANSWER_S = 4
CALL_S = 20
ENDED_S = 180
SEEN_S = 180


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
            "socket.timeout.ms": 1_000 * ANSWER_S,
            "linger.ms": 0,
            **QUIET,
        }
        self._topic = topic
        self._partitions = partitions
        self.label = name
        self._random = Random(name)
        self._producers = 0
        self._ended = threading.Event()

    def run(self) -> None:
        producer = None
        try:
            while not self._ended.is_set():
                try:
                    if producer is None:
                        producer = self._make(self._settings)
                        self._producers += 1
                        _repeated(producer.init_transactions)
                    if not self._one(producer):
                        producer = None
                except confluent_kafka.KafkaException:
                    producer = None  # what became of its transaction is not known
        except BaseException as problem:
            self.broke = problem

    def end(self) -> None:
        self._ended.set()
        self.join(ENDED_S)
        assert not self.is_alive(), f"{self.label}: its transaction did not end"

    def _one(self, producer: Any) -> bool:
        """False when the producer should not be used again: a request to end the transaction that got no answer in time
        may arrive later.  librdkafka's transactions all have the same epoch, so it would end the next one, on Apache
        Kafka too.  Another producer fences it."""
        transaction = Transaction(producer=self._producers, began=f"{datetime.now():%H:%M:%S.%f}")
        producer.begin_transaction()
        self.history.append(transaction)
        wanted = ABORTED if self._random.random() < 0.33 else COMMITTED

        def told(error: Any, message: Any) -> None:
            if error is None and message.offset() is not None:
                transaction.acknowledged[message.partition(), message.offset()] = message.value()

        began = time.monotonic()
        try:
            for number in range(self._random.randint(1, 6)):
                value = f"{self.label}-{len(self.history)}.{number}".encode()
                transaction.values.append(value)
                where = self._random.randrange(self._partitions)
                producer.produce(self._topic, value, partition=where, on_delivery=told)
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
        return time.monotonic() - began < ANSWER_S


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
