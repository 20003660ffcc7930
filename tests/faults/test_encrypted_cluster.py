"""Encryption at rest on three brokers: a leader that dies, partitions that move, a share group, and brokers that are killed
and start while the keys are away."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import tidelog
from tests.conformance.process import wait_until
from tests.conformance.share_client import set_group
from tests.faults.test_dev import Dev, new_dev
from tests.faults.test_encryption import MARK, files_with
from tidelog.storage.encryption.key_files import KeyFiles

__all__ = ["new_dev"]

SECONDS_MAX = 120
TOPIC, GROUP, PARTITIONS = "sealed", "sealed-workers", 2


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    KeyFiles(str(folder)).create("a")
    return folder


@pytest.fixture
def dev(new_dev: Callable[..., Dev], keys: Path) -> Dev:
    dev = new_dev(3)
    dev.settings = {
        "encryption.file.keys.dir": str(keys),
        "encryption.key": "file:a",
        "encryption.refresh.ms": "100",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "offsets.topic.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": "3",
        "share.coordinator.state.topic.min.isr": "2",
        "share.coordinator.state.topic.num.partitions": "2",
    }
    assert dev.start() == f"ready kafka={dev.addresses}", dev.said
    return dev


class Writing:
    """Writes until it is stopped, and keeps what was acknowledged."""

    def __init__(self, addresses: str) -> None:
        self.acknowledged: list[bytes] = []
        self._ended = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": addresses, "acks": "all", "enable.idempotence": True, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            self._producer.produce(
                TOPIC, MARK + b"%d" % number, partition=number % PARTITIONS, on_delivery=self._told
            )
            number += 1
            self._producer.poll(0.005)
        self._producer.flush(SECONDS_MAX)

    def _told(self, problem: object, message: confluent_kafka.Message) -> None:
        if problem is None:
            self.acknowledged.append(message.value() or b"")

    def more(self, count: int) -> None:
        until = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= until, SECONDS_MAX, f"{count} more records")

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(SECONDS_MAX)


def read(addresses: str) -> set[bytes]:
    consumer = Consumer({"bootstrap.servers": addresses, "group.id": "check", "log_level": 0})
    places = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
    consumer.assign(places)
    left = sum(consumer.get_watermark_offsets(place, timeout=SECONDS_MAX)[1] for place in places)
    values: set[bytes] = set()
    while left:
        messages = consumer.consume(min(left, 1_000), SECONDS_MAX)
        assert messages, f"{left} records could not be read"
        values.update(message.value() or b"" for message in messages)
        left -= len(messages)
    consumer.close()
    return values


def take(addresses: str, count: int) -> set[tuple[int | None, int | None]]:
    """Takes and accepts at least so many records of the share group."""
    consumer = confluent_kafka.ShareConsumer(
        {"bootstrap.servers": addresses, "group.id": GROUP, "log_level": 0}
    )
    consumer.subscribe([TOPIC])
    places: set[tuple[int | None, int | None]] = set()

    def enough() -> bool:
        given = [message for message in consumer.poll(0.5) or [] if message.error() is None]
        places.update((message.partition(), message.offset()) for message in given)
        if given:
            outcome = consumer.commit_sync(30) or {}
            assert not any(outcome.values())
        return len(places) >= count

    wait_until(enough, SECONDS_MAX, f"{count} records of the share group")
    consumer.close()
    return places


def served(addresses: str) -> bool:
    """The in-sync sets may still be those from before the brokers were killed."""
    consumer = Consumer({"bootstrap.servers": addresses, "group.id": "check", "log_level": 0})
    try:
        for number in range(PARTITIONS):
            consumer.get_watermark_offsets(TopicPartition(TOPIC, number), timeout=5)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return True


def in_sync(dev: Dev) -> bool:
    try:
        with tidelog.Admin(bootstrap_servers=dev.addresses.split(","), request_timeout_ms=5_000) as admin:
            partitions = admin.describe_topics([TOPIC])[TOPIC].partitions
            return all(len(partition.in_sync) == 3 for partition in partitions)
    except tidelog.errors.TidelogError:
        return False


def test_nothing_is_lost_or_plain_whatever_happens_to_brokers_and_keys(dev: Dev, keys: Path) -> None:
    away = keys.with_name("elsewhere")
    with tidelog.Admin(bootstrap_servers=dev.addresses.split(",")) as admin:
        admin.create_topics([tidelog.NewTopic(TOPIC, PARTITIONS, 3)])
    set_group(dev.addresses.split(",")[0], GROUP, **{"share.auto.offset.reset": "earliest"})
    writing = Writing(dev.addresses)
    try:
        writing.more(300)
        taken = take(dev.addresses, 100)

        # A leader dies, and comes back while the keys are away: the others go on with the keys that they have.
        with tidelog.Admin(bootstrap_servers=dev.addresses.split(",")) as admin:
            leader = admin.describe_topics([TOPIC])[TOPIC].partitions[0].leader
        (pid,) = [broker["pid"] for broker in dev.state()["brokers"] if broker["id"] == leader]
        os.kill(pid, signal.SIGKILL)
        writing.more(300)
        keys.rename(away)
        dev.restart(leader)
        writing.more(300)
        away.rename(keys)
        wait_until(lambda: in_sync(dev), SECONDS_MAX, "all replicas in sync again")

        # A partition moves away from a broker and back.
        with tidelog.Admin(bootstrap_servers=dev.addresses.split(",")) as admin:
            place = tidelog.TopicPartition(TOPIC, 0)
            for replicas in ([1, 2], [1, 2, 3]):
                admin.reassign_partitions({place: replicas})
                wait_until(lambda: not admin.list_reassignments(), SECONDS_MAX, "the move")
        writing.more(100)
    finally:
        writing.stop()
    again = take(dev.addresses, 100)
    assert not taken & again

    # All brokers are killed, and start while the keys are away.
    for broker in dev.state()["brokers"]:
        os.kill(broker["pid"], signal.SIGKILL)
    keys.rename(away)
    for number in (1, 2, 3):
        dev.restart(number)
    away.rename(keys)
    wait_until(lambda: in_sync(dev), SECONDS_MAX, "all replicas in sync after all were killed")
    wait_until(lambda: served(dev.addresses), SECONDS_MAX, "all partitions are served")
    assert set(writing.acknowledged) <= read(dev.addresses)
    assert not (taken | again) & take(dev.addresses, 100)
    for number in (1, 2, 3):
        data = dev.folder / f"broker-{number}"
        assert list(data.glob(f"{TOPIC}-*/*.log")), "a broker has no replica"
        assert not files_with(data, MARK)
