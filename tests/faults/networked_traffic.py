"""Clients of every kind that go on through whatever happens to a networked cluster, and the history of what they were told.

The clients are in the hub's network, which faults do not cut off from all machines."""

from __future__ import annotations

import threading
import time
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, Producer

from tests.conformance.process import wait_until
from tests.conformance.share_client import set_group
from tests.faults.cluster_history import (
    COMMITTED,
    COMMITTED_ONLY,
    UNCOMMITTED_TOO,
    History,
    LateRead,
    OffsetCommit,
    OffsetRead,
    Place,
    ShareDeliveries,
    Shown,
    Written,
    values,
)
from tests.faults.cluster_traffic import QUIET, Writer
from tests.faults.cluster_transactions import (
    ANSWER_S,
    IsolatedReader,
    TransactionalWriter,
    new_consumer,
    read_to_end,
)
from tests.faults.networked_cluster import PARTITIONS, SECONDS_MAX, TOPIC, NetworkedCluster

HURRIED: dict[str, Any] = {"socket.timeout.ms": 1_000 * ANSWER_S, "topic.metadata.refresh.interval.ms": 2_000}
CALL_S = 5
LATE_RECORDS = 20
SHARE_GROUP = "workers"
SHARE_SETTINGS = {
    "share_auto_offset_reset": "earliest",
    "share_delivery_count_limit": "10",
    "share_record_lock_duration_ms": "15000",
}


class Traffic:
    """Two idempotent and two transactional producers, and a reader of each isolation level; with `groups` also a group's
    offsets and a share group."""

    def __init__(self, cluster: NetworkedCluster, groups: bool = False) -> None:
        where = (cluster.bootstrap, TOPIC, PARTITIONS)
        hub = cluster.network.hub

        def make(settings: dict[str, Any]) -> Producer:
            with hub.entered():
                return Producer({**settings, "topic.metadata.refresh.interval.ms": 2_000})

        self._cluster = cluster
        self._late_reads: list[LateRead] = []
        self.offsets: GroupOffsets | None = None
        self.share: ShareWorker | None = None
        with hub.entered():
            self.writers = [Writer(*where, f"w{number}", **HURRIED) for number in range(2)]
            levels = (COMMITTED_ONLY, UNCOMMITTED_TOO)
            self.readers = [IsolatedReader(*where, isolation) for isolation in levels]
            if groups:
                self.offsets = GroupOffsets(cluster)
                set_group(cluster.bootstrap.split(",")[0], SHARE_GROUP, **SHARE_SETTINGS)
                self.share = ShareWorker(cluster.bootstrap)
        self.transactional = [TransactionalWriter(make, *where, f"t{number}") for number in range(2)]
        started = (*self.readers, *self.writers, *self.transactional, self.offsets, self.share)
        for thread in started:
            if thread is not None:
                thread.start()

    def read_late(self) -> None:
        """While the cluster is whole: new readers come upon what was acknowledged before they began."""
        for isolation in (UNCOMMITTED_TOO, COMMITTED_ONLY):
            acknowledged = self._acknowledged()
            with self._cluster.network.hub.entered():
                seen = _read_late(self._cluster.bootstrap, isolation, acknowledged)
            self._late_reads.append(LateRead(isolation, acknowledged, seen))

    def end(self) -> History:
        """Once the writers have been told what became of everything, and the readers have seen it."""
        for writer in (*self.writers, *self.transactional):
            writer.end()
        if self.offsets is not None:
            self.offsets.end()
        self._cluster.wait_until_in_sync()
        with self._cluster.network.hub.entered():
            found = {
                reader.isolation: read_to_end(
                    self._cluster.bootstrap, TOPIC, PARTITIONS, reader.isolation, SECONDS_MAX
                )
                for reader in self.readers
            }
        for reader in self.readers:
            reader.end_after(len(list(values(found[reader.isolation]))))
        if self.share is not None:
            self.share.end_after({place for writer in self.writers for place in list(writer.acknowledged)})
        return History(
            [Written(w.label, w.sent, w.acknowledged, w.somewhere, w.failed) for w in self.writers],
            [transaction for writer in self.transactional for transaction in writer.history],
            [Shown(reader.isolation, reader.seen) for reader in self.readers],
            found,
            self._late_reads,
            self.offsets.commits if self.offsets is not None else (),
            self.offsets.reads if self.offsets is not None else (),
            self.share.deliveries if self.share is not None else None,
            broken=[
                f"{writer.label} broke: {writer.broke!r}" for writer in self.transactional if writer.broke
            ],
        )

    def _acknowledged(self) -> dict[Place, bytes]:
        """The last ones of each partition."""
        latest: dict[Place, bytes] = {}
        for writer in self.writers:
            latest.update(dict(writer.acknowledged))
        for writer in self.transactional:
            for transaction in list(writer.history):
                if transaction.outcome == COMMITTED:
                    latest.update(transaction.acknowledged)
        wanted: dict[Place, bytes] = {}
        for partition in range(PARTITIONS):
            places = sorted(place for place in latest if place[0] == partition)
            wanted.update({place: latest[place] for place in places[-LATE_RECORDS:]})
        return wanted


def _read_late(bootstrap: str, isolation: str, acknowledged: dict[Place, bytes]) -> dict[Place, bytes]:
    """Without committed-only isolation the end of a partition ends it, since nothing open is in the way."""
    consumer = new_consumer(bootstrap, TOPIC, PARTITIONS, isolation, **{"enable.partition.eof": True})
    first = dict(sorted(acknowledged, reverse=True))
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, *place) for place in first.items()])
    seen: dict[Place, bytes] = {}
    ends = isolation == UNCOMMITTED_TOO
    left, deadline = set(first), time.monotonic() + SECONDS_MAX
    while left and time.monotonic() < deadline and not seen.keys() >= acknowledged.keys():
        message: Any = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            seen[message.partition(), message.offset()] = message.value()
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF and ends:
            left.discard(message.partition())
    consumer.close()
    return seen


class GroupOffsets(threading.Thread):
    """Commits growing offsets of a group without members, and has another client read them back now and then."""

    def __init__(self, cluster: NetworkedCluster) -> None:
        super().__init__(daemon=True)
        self.commits: list[OffsetCommit] = []
        self.reads: list[OffsetRead] = []
        self._cluster = cluster
        self._ended = threading.Event()
        self._settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "offsets",
            "enable.auto.commit": False,
            **HURRIED,
            **QUIET,
        }
        self._consumer = confluent_kafka.Consumer(self._settings)

    def run(self) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            partition, began, ended = number % PARTITIONS, time.monotonic(), None
            try:
                self._consumer.commit(
                    offsets=[confluent_kafka.TopicPartition(TOPIC, partition, number)], asynchronous=False
                )
                ended = time.monotonic()
            except KafkaException:
                pass  # it may have been stored
            repeated = ended is None or ended - began >= ANSWER_S
            self.commits.append(OffsetCommit(partition, number, began, ended, repeated))
            if number % 10 == 0:
                self.read_back()
            self._ended.wait(0.05)
        self._consumer.close()

    def read_back(self) -> None:
        with self._cluster.network.hub.entered():
            consumer = confluent_kafka.Consumer(self._settings)
        asked = [confluent_kafka.TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        began = time.monotonic()
        try:
            for each in consumer.committed(asked, timeout=CALL_S):
                if each.error is None:
                    offset = max(each.offset, -1)
                    self.reads.append(OffsetRead(each.partition, offset, began, time.monotonic()))
        except KafkaException:
            pass  # no coordinator can be asked now
        finally:
            consumer.close()

    def end(self) -> None:
        self._ended.set()
        self.join()
        deadline, before = time.monotonic() + SECONDS_MAX, len(self.reads)
        while len(self.reads) == before:
            assert time.monotonic() < deadline, "the group's offsets cannot be read"
            self.read_back()


class ShareWorker(threading.Thread):
    """Takes records and acknowledges them; one thread, so that it knows in which order both happened."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.deliveries = ShareDeliveries()
        self._accepted: set[Place] = set()
        self._ended = threading.Event()
        config = {"bootstrap.servers": bootstrap, "group.id": SHARE_GROUP, **HURRIED, **QUIET}
        self._consumer = confluent_kafka.ShareConsumer(config)  # type: ignore[attr-defined]

    def run(self) -> None:
        self._consumer.subscribe([TOPIC])
        while not self._ended.is_set():
            try:
                messages = self._consumer.poll(0.5) or []
            except KafkaException:
                continue  # what it told of may be given again
            places = [(each.partition(), each.offset()) for each in messages if each.error() is None]
            self.deliveries.again += [place for place in places if place in self._accepted]
            self.deliveries.seen.update(places)
            if places:
                self._acknowledge(places)
        self._consumer.close()

    def _acknowledge(self, places: list[Place]) -> None:
        try:
            outcome = self._consumer.commit_sync(CALL_S) or {}
        except KafkaException:
            return
        failed = {partition.partition for partition, problem in outcome.items() if problem}
        self._accepted.update(place for place in places if place[0] not in failed)

    def end_after(self, places: set[Place]) -> None:
        """They were delivered, if they are."""
        try:
            wait_until(lambda: self.deliveries.seen >= places, SECONDS_MAX, "all are delivered")
        except AssertionError:
            pass  # the history tells which ones are missing
        self._ended.set()
        self.join()
