"""Balanced consumers of other people's libraries: members join, leave, die, pause and come back, and the broker dies."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.conformance import apache_kafka
from tests.conformance.clients import Message, confluent_produce
from tests.conformance.members import await_coordinator, committed
from tests.conformance.raw import Connection
from tests.conformance.topics import create_topic

PARTITIONS = 6
SETTLE_SECONDS_MAX = 180
EACH = [
    ("confluent", "range"),
    ("confluent", "roundrobin"),
    ("confluent", "cooperative-sticky"),
    ("kafka-python", "range"),
    ("kafka-python", "roundrobin"),
    ("kafka-python", "sticky"),
    ("kafka-python", "cooperative-sticky"),
    ("aiokafka", "range"),
    ("aiokafka", "roundrobin"),
    ("aiokafka", "sticky"),
    ("tidelog", "range"),
    ("tidelog", "cooperative-sticky"),
]
WITH_STATIC_MEMBERS = [("confluent", "range"), ("kafka-python", "range"), ("aiokafka", "range")]


class Worker:
    def __init__(self, command: Sequence[str], parse: Callable[[str], dict[str, Any] | None]) -> None:
        self.has: list[int] = []
        self.claims: list[tuple[int, list[int]]] = []
        self.read: list[tuple[int, int]] = []
        self.done: list[tuple[int, int]] = []
        self.lines: list[str] = []
        self._parse = parse
        self._process = subprocess.Popen(
            list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line)
            fact = self._parse(line) or {}
            if "has" in fact:
                self.has = fact["has"]
                self.claims.append((fact.get("generation", -1), self.has))
            if "read" in fact:
                self.read.append(tuple(fact["read"]))
            if "done" in fact:
                self.done.append(tuple(fact["done"]))

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self, number: int) -> None:
        self.send(number)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        self._reader.join(10)

    def discard(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


Start = Callable[..., Worker]


def parse_json(line: str) -> dict[str, Any] | None:
    return json.loads(line) if line.startswith("{") else None


@pytest.fixture
def workers() -> Iterator[Start]:
    started: list[Worker] = []

    def start(client: str, bootstrap: str, group: str, topic: str, *more: str) -> Worker:
        command = [sys.executable, "-m", "tests.conformance.group_worker", client, bootstrap, group, topic]
        started.append(Worker([*command, *more], parse_json))
        return started[-1]

    yield start
    for worker in started:
        worker.discard()


def settle(workers: Sequence[Worker], seconds: float = SETTLE_SECONDS_MAX) -> None:
    """Waits until every partition has one consumer, and every consumer its share, for a while."""
    deadline = time.monotonic() + seconds
    since: float | None = None
    while since is None or time.monotonic() - since < 0.5:
        held = [partition for worker in workers for partition in worker.has]
        shares = {len(worker.has) for worker in workers}
        whole = sorted(held) == list(range(PARTITIONS)) and max(shares) - min(shares) <= 1
        since = (since or time.monotonic()) if whole else None
        if time.monotonic() > deadline:
            told = "\n".join("".join(worker.lines[-10:]) for worker in workers)
            raise AssertionError(f"not settled: {[worker.has for worker in workers]}\n{told}")
        time.sleep(0.02)


def outlive(broker: Any, group: list[Worker]) -> None:
    """The broker is killed and started while members of "group" read "orders": they go on, and commits stay."""
    settle(group)
    produce(broker.bootstrap, "orders", 20)
    while sum(len(worker.done) for worker in group) < 20:
        time.sleep(0.01)
    broker.kill()
    done = {one for worker in group for one in worker.done}
    broker.start()
    with Connection(broker.bootstrap) as connection:
        await_coordinator(connection, "group")
        for partition, offset in done:
            assert committed(connection, "group", "orders", partition) > offset
        await_all_read(group, 20)
        await_committed(connection, "group", "orders", 20)
    settle(group)
    check_history(group)


def check_history(workers: Sequence[Worker]) -> None:
    """Nobody had a partition that another had in the same generation, and nothing that was committed was done again."""
    owner: dict[tuple[int, int], int] = {}
    for number, worker in enumerate(workers):
        for generation, partitions in worker.claims:
            assert generation >= 0 or not partitions, worker.claims
            for partition in partitions:
                assert owner.setdefault((generation, partition), number) == number, (
                    f"partition {partition} had two owners in generation {generation}: "
                    f"{[one.claims for one in workers]}"
                )
    done = [one for worker in workers for one in worker.done]
    again = {one for one in done if done.count(one) > 1}
    assert not again, f"committed, and then read again: {sorted(again)}"


def produce(bootstrap: str, topic: str, count: int) -> None:
    for partition in range(PARTITIONS):
        confluent_produce(bootstrap, topic, [Message(b"%d" % i) for i in range(count)], partition=partition)


def await_all_read(workers: Sequence[Worker], count: int) -> None:
    wanted = {(partition, offset) for partition in range(PARTITIONS) for offset in range(count)}
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while not wanted <= {one for worker in workers for one in worker.read}:
        assert time.monotonic() < deadline, [worker.lines[-5:] for worker in workers]
        time.sleep(0.05)


def await_committed(connection: Connection, group: str, topic: str, count: int) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while any(committed(connection, group, topic, one) != count for one in range(PARTITIONS)):
        assert time.monotonic() < deadline, [
            committed(connection, group, topic, p) for p in range(PARTITIONS)
        ]
        time.sleep(0.05)


@pytest.mark.parametrize(("client", "strategy"), EACH)
def test_members_come_and_go(
    client: str, strategy: str, workers: Start, bootstrap: str, topic: Any, name: Any, connection: Connection
) -> None:
    known, group = topic(partitions=PARTITIONS), name()
    await_coordinator(connection, group)
    produce(bootstrap, known, 5)

    def start() -> Worker:
        return workers(client, bootstrap, group, known, strategy)

    one, two = start(), start()
    settle([one, two])
    three = start()
    settle([one, two, three])  # joined
    two.end(signal.SIGTERM)
    settle([one, three])  # left
    three.end(signal.SIGKILL)
    settle([one])  # died
    four = start()
    settle([one, four])
    one.send(signal.SIGSTOP)
    settle([four])  # paused
    one.send(signal.SIGCONT)
    settle([one, four])  # came back
    produce(bootstrap, known, 5)
    await_all_read([one, two, three, four], 10)
    await_committed(connection, group, known, 10)
    check_history([one, two, three, four])


@pytest.mark.parametrize(("client", "strategy"), WITH_STATIC_MEMBERS)
def test_a_static_member_gets_back_what_it_had(
    client: str, strategy: str, workers: Start, bootstrap: str, topic: Any, name: Any, connection: Connection
) -> None:
    known, group = topic(partitions=PARTITIONS), name()
    await_coordinator(connection, group)
    one = workers(client, bootstrap, group, known, strategy, "a")
    two = workers(client, bootstrap, group, known, strategy, "b")
    settle([one, two])
    had, changes = list(two.has), len(one.lines)
    two.end(signal.SIGKILL)
    again = workers(client, bootstrap, group, known, strategy, "b")
    settle([one, again])
    assert again.has == had
    assert [line for line in one.lines[changes:] if "has" in line] == []


@pytest.mark.parametrize(
    ("client", "strategy"),
    [
        ("confluent", "cooperative-sticky"),
        ("kafka-python", "range"),
        ("aiokafka", "roundrobin"),
        ("tidelog", "cooperative-sticky"),
    ],
)
def test_members_outlive_the_broker(client: str, strategy: str, workers: Start, own_broker: Any) -> None:
    """The broker is killed: members go on in their generation, and what was committed stays committed."""
    broker = own_broker()
    create_topic(broker.bootstrap, "orders", PARTITIONS)
    with Connection(broker.bootstrap) as connection:
        await_coordinator(connection, "group")
    group = [workers(client, broker.bootstrap, "group", "orders", strategy) for _ in range(2)]
    outlive(broker, group)


def test_kcat_balances(workers: Start, bootstrap: str, topic: Any, name: Any, connection: Connection) -> None:
    known, group = topic(partitions=PARTITIONS), name()
    await_coordinator(connection, group)
    produce(bootstrap, known, 3)
    command = [
        "kcat",
        "-b",
        bootstrap,
        "-u",
        "-X",
        "auto.offset.reset=earliest",
        "-X",
        "session.timeout.ms=3000",
    ]
    command += ["-X", "heartbeat.interval.ms=300", "-f", "read %p %o\\n", "-G", group, known]
    started = [Worker(command, parse_kcat) for _ in range(2)]
    try:
        settle(started)
        started[0].end(signal.SIGTERM)
        settle(started[1:])
        produce(bootstrap, known, 3)
        await_all_read(started, 6)
    finally:
        for worker in started:
            worker.discard()


def parse_kcat(line: str) -> dict[str, Any] | None:
    if line.startswith("read "):
        _, partition, offset = line.split()
        return {"read": [int(partition), int(offset)]}
    if "rebalanced" in line:
        assigned = "assigned:" in line
        return {"has": sorted(int(found) for found in re.findall(r"\[(\d+)\]", line)) if assigned else []}
    return None


@pytest.mark.kafka
@pytest.mark.parametrize(
    "strategy", ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"]
)
def test_the_java_console_consumer_balances(
    strategy: str, bootstrap: str, topic: Any, name: Any, connection: Connection
) -> None:
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    known, group = topic(partitions=PARTITIONS), name()
    await_coordinator(connection, group)
    produce(bootstrap, known, 3)
    command = [*apache_kafka.command("console-consumer"), "--bootstrap-server", bootstrap]
    command += [
        "--topic",
        known,
        "--group",
        group,
        "--from-beginning",
        "--formatter-property",
        "print.partition=true",
    ]
    command += ["--formatter-property", "print.offset=true"]
    for setting in (
        f"partition.assignment.strategy=org.apache.kafka.clients.consumer.{strategy}",
        "session.timeout.ms=3000",
        "heartbeat.interval.ms=300",
        "auto.commit.interval.ms=100",
    ):
        command += ["--command-property", setting]
    started = [Worker(command, parse_console) for _ in range(2)]
    try:
        await_shared(connection, group, 2)
        await_all_read(started, 3)
        started[0].send(signal.SIGSTOP)
        await_shared(connection, group, 1)  # paused
        started[0].send(signal.SIGCONT)
        await_shared(connection, group, 2)  # came back
        started[0].end(signal.SIGKILL)
        await_shared(connection, group, 1)  # died
        produce(bootstrap, known, 3)
        await_all_read(started, 6)
        started[1].end(signal.SIGTERM)
        await_committed(connection, group, known, 6)
    finally:
        for worker in started:
            worker.discard()


def parse_console(line: str) -> dict[str, Any] | None:
    found = re.match(r"Partition:(\d+)\tOffset:(\d+)", line)
    return {"read": [int(found[1]), int(found[2])]} if found else None


def await_shared(connection: Connection, group: str, members: int) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        (told,) = connection.call("describe_groups", 5, groups=[group]).groups
        if told.group_state == "Stable" and len(told.members) == members:
            return
        assert time.monotonic() < deadline, told
        time.sleep(0.1)
