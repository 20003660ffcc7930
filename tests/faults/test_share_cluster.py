"""A share group on three brokers: states, members and records are led by different ones, and one of them is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.process import wait_until
from tests.conformance.share_client import Asking, set_group
from tests.faults.monitored import scrape
from tests.faults.test_dev import Dev, new_dev
from tidelog.wire.messages import describe_share_group_offsets as offsets
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest

__all__ = ["new_dev"]

TOPIC, GROUP, PARTITIONS, RECORDS = "jobs", "workers", 6, 6_000
SECONDS_MAX = 180
Place = tuple[int, int]  # partition, offset


class Workers:
    """Share consumers that commit what they took, slowly enough to be caught at it."""

    def __init__(self, addresses: str, count: int) -> None:
        self.seen: Counter[Place] = Counter()
        self.accepted: set[Place] = set()
        self.again: list[Place] = []  # given after an acceptance that was answered
        self._addresses = addresses
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(SECONDS_MAX)

    def _run(self) -> None:
        config = {"bootstrap.servers": self._addresses, "group.id": GROUP, "log_level": 0}
        consumer = confluent_kafka.ShareConsumer(config)
        consumer.subscribe([TOPIC])
        while not self._ended.is_set():
            given = [one for one in consumer.poll(0.5) or [] if one.error() is None]
            with self._lock:
                places = [(one.partition(), one.offset()) for one in given]
                self.seen.update(places)
                self.again += [place for place in places if place in self.accepted]
            if given:
                self._commit(consumer, places)
        consumer.close()

    def _commit(self, consumer: Any, places: list[Place]) -> None:
        time.sleep(0.1)
        try:
            outcome = consumer.commit_sync(30) or {}
        except confluent_kafka.KafkaException:
            return
        failed = {partition.partition for partition, problem in outcome.items() if problem}
        with self._lock:
            self.accepted.update(place for place in places if place[0] not in failed)


def lag(dev: Dev) -> int:
    """Of the whole group, or -1 while nobody can say."""
    asked = offsets.DescribeShareGroupOffsetsRequestGroup(GROUP, None)
    for number in range(dev.brokers):
        try:
            with Asking(f"127.0.0.1:{dev.port + number}") as asking:
                (found,) = asking.ask(FindCoordinatorRequest(coordinator_keys=[GROUP])).coordinators
            with Asking(f"127.0.0.1:{found.port}") as asking:
                (group,) = asking.ask(offsets.DescribeShareGroupOffsetsRequest([asked])).groups
        except (OSError, AssertionError):
            continue
        told = [one for topic in group.topics for one in topic.partitions]
        if len(told) == PARTITIONS and not any(one.error_code or one.lag < 0 for one in told):
            return sum(one.lag for one in told)
    return -1


def behind(dev: Dev, *brokers: int) -> list[str]:
    """The partitions that brokers say are one record behind, each as often as it is told."""
    pages = [scrape(dev.state()["brokers"][number - 1]["http"]) for number in brokers]
    return sorted(
        dict(labels)["partition"]
        for page in pages
        for (name, labels), value in page.items()
        if name == "mq_share_group_lag_messages" and value == 1
    )


def test_a_share_group_goes_on_when_a_broker_is_killed(new_dev: Callable[..., Dev]) -> None:
    dev = new_dev(3)
    assert dev.start().startswith("ready")
    admin = AdminClient({"bootstrap.servers": dev.addresses, "log_level": 0})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]).values():
        made.result(SECONDS_MAX)
    set_group(
        f"127.0.0.1:{dev.port}",
        GROUP,
        share_auto_offset_reset="earliest",
        share_record_lock_duration_ms="15000",
        share_partition_max_record_locks="100",
    )
    producer = confluent_kafka.Producer({"bootstrap.servers": dev.addresses, "batch.num.messages": 50})
    for number in range(RECORDS):
        producer.produce(TOPIC, value=b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(SECONDS_MAX) == 0
    workers = Workers(dev.addresses, 3)
    try:
        wait_until(lambda: len(workers.accepted) > RECORDS // 4, SECONDS_MAX, "a quarter is accepted")
        os.kill(dev.state()["brokers"][1]["pid"], signal.SIGKILL)
        wait_until(lambda: lag(dev) == 0, SECONDS_MAX, "every record is finished", every=0.5)
    finally:
        workers.stop()
    assert workers.again == []
    assert len(workers.seen) == RECORDS
    for index in range(PARTITIONS):
        producer.produce(TOPIC, value=b"late", partition=index)
    assert producer.flush(SECONDS_MAX) == 0
    everyone = [str(index) for index in range(PARTITIONS)]
    wait_until(lambda: behind(dev, 1, 3) == everyone, SECONDS_MAX, "one broker tells of each lag", every=0.5)
    dev.end()
