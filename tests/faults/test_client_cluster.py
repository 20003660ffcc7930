"""Tidelog's own clients on three brokers that are killed, frozen and restarted: nothing acknowledged is lost, nothing
comes twice or out of order, and nobody who uses them has to know."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.process import wait_until
from tests.faults.test_dev import Dev
from tidelog import Admin, Consumer, NewTopic, Producer, TidelogError, TopicPartition

TOPIC, PARTITIONS = "followed", 3
SECONDS_MAX = 180


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    cluster = Dev(tmp_path / "cluster", brokers=3)
    assert cluster.start().startswith("ready"), cluster.said
    yield cluster
    cluster.discard()


class Writer(threading.Thread):
    """Numbers, to all partitions in turn, until it is told to stop; knows where each was acknowledged."""

    def __init__(self, addresses: str) -> None:
        super().__init__()
        self.sent = 0
        self.where: dict[int, tuple[int, int]] = {}
        self.problems: list[BaseException] = []
        self._addresses = addresses
        self._stop_asked = threading.Event()

    def run(self) -> None:
        try:
            with Producer(bootstrap_servers=self._addresses, request_timeout_ms=3_000) as producer:
                while not self._stop_asked.wait(0.002):
                    number = self.sent
                    sent = producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
                    sent.add_callback(
                        lambda got, n=number: self.where.update({n: (got.partition, got.offset)})
                    )
                    sent.add_errback(self.problems.append)
                    self.sent += 1
                producer.flush(SECONDS_MAX)
        except BaseException as problem:
            self.problems.append(problem)

    def finish(self) -> None:
        self._stop_asked.set()
        self.join(2 * SECONDS_MAX)
        assert not self.is_alive() and not self.problems, self.problems


class Reader(threading.Thread):
    """A member of a group; what it was handed, in order.  Failures that may pass are polled away."""

    def __init__(self, addresses: str, protocol: str) -> None:
        super().__init__()
        self.numbers: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.problems: list[BaseException] = []
        self._addresses, self._protocol = addresses, protocol
        self._stop_asked = threading.Event()

    def run(self) -> None:
        try:
            with Consumer(
                TOPIC,
                bootstrap_servers=self._addresses,
                group_id=f"readers-{self._protocol}",
                group_protocol=self._protocol,
                auto_offset_reset="earliest",
                request_timeout_ms=3_000,
                auto_commit_interval_ms=100,
            ) as consumer:
                while not self._stop_asked.is_set():
                    try:
                        for record in consumer.poll(200):
                            self.numbers[record.partition].append(int(record.value))
                    except TidelogError as problem:
                        if not problem.retriable:
                            raise
        except BaseException as problem:
            self.problems.append(problem)

    @property
    def seen(self) -> int:
        return sum(map(len, self.numbers))

    def finish(self) -> None:
        self._stop_asked.set()
        self.join(SECONDS_MAX)
        assert not self.is_alive() and not self.problems, self.problems


def leader(admin: Admin, partition: int) -> int:
    """Who leads it now: asked again while an election is under way or the broker asked is gone."""
    found: list[int] = []

    def ask() -> bool:
        try:
            found[:] = [admin.describe_topics([TOPIC])[TOPIC].partitions[partition].leader]
        except TidelogError:
            return False
        return found[0] >= 0

    wait_until(ask, SECONDS_MAX, f"partition {partition} has a leader")
    return found[0]


def test_clients_follow_the_leaders_through_kills_freezes_and_restarts(dev: Dev) -> None:
    with Admin(bootstrap_servers=dev.addresses, request_timeout_ms=3_000) as admin:
        settings = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic(TOPIC, partitions=PARTITIONS, replication_factor=3, configs=settings)])
        writer = Writer(dev.addresses)
        readers = [Reader(dev.addresses, protocol) for protocol in ("classic", "consumer")]
        for one in (writer, *readers):
            one.start()
        try:
            for disturb in (kill, freeze, restart):
                goes_on(writer, readers)
                number = leader(admin, 0)
                disturb(dev, number, lambda: leader(admin, 0))
            goes_on(writer, readers)
            writer.finish()
            wait_until(
                lambda: all(one.seen >= writer.sent or one.problems for one in readers),
                SECONDS_MAX,
                "the readers have everything",
            )
        finally:
            for one in (writer, *readers):
                one.finish()
        expected = [list(range(first, writer.sent, PARTITIONS)) for first in range(PARTITIONS)]
        assert len(writer.where) == writer.sent
        for one in readers:
            assert [in_order(numbers) for numbers in one.numbers] == expected
        # What the log holds is what was acknowledged, where it was acknowledged, and nothing else.
        stored = read_all(dev.addresses, admin)
        assert stored == {place: number for number, place in writer.where.items()}


def kill(dev: Dev, number: int, leader_now: Callable[[], int]) -> None:
    os.kill(dev.state()["brokers"][number - 1]["pid"], signal.SIGKILL)
    wait_until(lambda: leader_now() != number, SECONDS_MAX, "somebody else leads")
    answer = dev.restart(number)
    assert answer.returncode == 0, answer.stderr


def freeze(dev: Dev, number: int, leader_now: Callable[[], int]) -> None:
    pid = dev.state()["brokers"][number - 1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: leader_now() != number, SECONDS_MAX, "somebody else leads")
    finally:
        os.kill(pid, signal.SIGCONT)


def restart(dev: Dev, number: int, leader_now: Callable[[], int]) -> None:
    answer = dev.restart(number)
    assert answer.returncode == 0, answer.stderr


def goes_on(writer: Writer, readers: list[Reader]) -> None:
    """Another hundred records are acknowledged in every partition, and read by everybody."""
    acknowledged, seen = len(writer.where), [one.seen for one in readers]

    def moved() -> bool:
        assert not writer.problems and not any(one.problems for one in readers)
        return len(writer.where) >= acknowledged + 300 and all(
            one.seen >= before + 300 for one, before in zip(readers, seen, strict=True)
        )

    wait_until(moved, SECONDS_MAX, "records are written and read again")


def in_order(numbers: list[int]) -> list[int]:
    """What was handed out, without repetitions after a rebalance: a reader may go back, and never skips."""
    found: list[int] = []
    for number in numbers:
        if not found or number > found[-1]:
            assert not found or number == found[-1] + PARTITIONS, f"{number} came after {found[-1]}"
            found.append(number)
    return found


def read_all(addresses: str, admin: Admin) -> dict[tuple[int, int], int]:
    partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    ends = admin.list_offsets(dict.fromkeys(partitions, "latest"))
    found: dict[tuple[int, int], int] = {}
    deadline = time.monotonic() + SECONDS_MAX
    with Consumer(bootstrap_servers=addresses, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        while any(consumer.position(one) < ends[one].offset for one in partitions):
            assert time.monotonic() < deadline, f"{len(found)} records read"
            found |= {(one.partition, one.offset): int(one.value) for one in consumer.poll(500)}
    return found
