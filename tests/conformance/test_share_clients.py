"""Share groups with other people's clients: confluent-kafka's ShareConsumer, and Apache Kafka's command line tools."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from tests.conformance import apache_kafka
from tests.conformance.clients import Message, confluent_produce
from tests.conformance.process import BrokerProcess
from tests.conformance.share_client import set_group
from tests.conformance.topics import create_topic

SECONDS_MAX = 180


@pytest.fixture
def bootstrap(share_broker: BrokerProcess) -> str:
    return share_broker.bootstrap


@pytest.fixture
def queue(bootstrap: str, name: Callable[[], str]) -> Iterator[tuple[str, str]]:
    """A topic with two partitions, and a group that reads it from its beginning."""
    topic, group = name(), name()
    create_topic(bootstrap, topic, 2)
    set_group(bootstrap, group, share_auto_offset_reset="earliest")
    yield topic, group


def fill(bootstrap: str, topic: str, count: int) -> set[bytes]:
    values = [b"%05d" % number for number in range(count)]
    for index in (0, 1):
        confluent_produce(bootstrap, topic, [Message(one) for one in values[index::2]], partition=index)
    return set(values)


def consume(
    bootstrap: str, group: str, topic: str, done: Callable[[], bool], took: Callable[[Any], None]
) -> None:
    consumer = confluent_kafka.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.subscribe([topic])
        while not done():
            for message in consumer.poll(0.5) or []:
                assert message.error() is None, message.error()
                took(message)
        consumer.commit_sync()  # what the last poll gave would go back otherwise
    finally:
        consumer.close()


def test_confluent_share_consumers_take_every_record_once(bootstrap: str, queue: tuple[str, str]) -> None:
    topic, group = queue
    wanted = fill(bootstrap, topic, 2_000)
    seen: Counter[bytes] = Counter()
    lock = threading.Lock()
    deadline = time.monotonic() + SECONDS_MAX

    def took(message: Any) -> None:
        with lock:
            seen[message.value()] += 1

    def done() -> bool:
        return len(seen) == len(wanted) or time.monotonic() > deadline

    threads = [threading.Thread(target=consume, args=(bootstrap, group, topic, done, took)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS_MAX)
    assert set(seen) == wanted
    assert set(seen.values()) == {1}


def test_confluent_share_consumers_release_and_reject(bootstrap: str, queue: tuple[str, str]) -> None:
    topic, group = queue
    fill(bootstrap, topic, 4)
    config = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    consumer = confluent_kafka.ShareConsumer(config)
    consumer.subscribe([topic])
    kind = confluent_kafka.AcknowledgeType
    seen: Counter[bytes] = Counter()
    deadline = time.monotonic() + SECONDS_MAX
    while seen[b"00000"] < 2 or len(seen) < 4:
        assert time.monotonic() < deadline, seen
        for message in consumer.poll(0.5) or []:
            value = message.value()
            seen[value] += 1
            first = seen[value] == 1
            consumer.acknowledge(
                message,
                kind.RELEASE
                if value == b"00000" and first
                else kind.REJECT
                if value == b"00001"
                else kind.ACCEPT,
            )
        consumer.commit_sync()
    consumer.close()
    assert seen == {b"00000": 2, b"00001": 1, b"00002": 1, b"00003": 1}


@pytest.mark.kafka
def test_kafka_console_share_consumer(kafka_tools: Any, bootstrap: str, queue: tuple[str, str]) -> None:
    topic, group = queue
    wanted = fill(bootstrap, topic, 50)
    limits = ("--max-messages", "50", "--timeout-ms", "40000")
    found = kafka_tools(
        "console-share-consumer", "--bootstrap-server", bootstrap, "--topic", topic, "--group", group, *limits
    )
    assert {line.encode() for line in found.split()} == wanted


@pytest.mark.kafka
def test_kafka_share_groups_tool(kafka_tools: Any, bootstrap: str, queue: tuple[str, str]) -> None:
    topic, group = queue
    fill(bootstrap, topic, 20)
    seen: list[Any] = []
    deadline = time.monotonic() + SECONDS_MAX
    consume(bootstrap, group, topic, lambda: len(seen) >= 20 or time.monotonic() > deadline, seen.append)
    server = ("--bootstrap-server", bootstrap)
    assert group in kafka_tools("share-groups", *server, "--list").split()
    described = kafka_tools("share-groups", *server, "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert sorted((row[1], int(row[2]), int(row[4])) for row in rows) == [(topic, 0, 0), (topic, 1, 0)]
    state = kafka_tools("share-groups", *server, "--describe", "--group", group, "--state")
    assert "Empty" in state
    about = ("--group", group, "--topic", topic)
    kafka_tools("share-groups", *server, "--reset-offsets", *about, "--to-earliest", "--execute")
    described = kafka_tools("share-groups", *server, "--describe", "--group", group)
    rows = [line.split() for line in described.splitlines() if line.startswith(group)]
    assert [int(row[3]) for row in rows] == [0, 0]
    kafka_tools("share-groups", *server, "--delete-offsets", *about)
    kafka_tools("share-groups", *server, "--delete", "--group", group)
    assert group not in kafka_tools("share-groups", *server, "--list").split()


@pytest.mark.kafka
def test_a_java_consumer_that_is_killed_leaves_its_records_to_others(
    kafka_tools: Any, bootstrap: str, queue: tuple[str, str]
) -> None:
    topic, group = queue
    # Its partition is not another's before its session has ended.
    set_group(bootstrap, group, share_session_timeout_ms="2000")
    wanted = fill(bootstrap, topic, 200)
    command = [
        "java",
        *apache_kafka.JVM,
        apache_kafka.LOGGING,
        "-Dtests.level=error",
        "-cp",
        f"{apache_kafka.jar_folder()}/*",
        apache_kafka.TOOLS["console-share-consumer"],
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--release"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline()
        killed.kill()
    seen: Counter[bytes] = Counter()
    deadline = time.monotonic() + SECONDS_MAX
    consume(
        bootstrap,
        group,
        topic,
        lambda: len(seen) == len(wanted) or time.monotonic() > deadline,
        lambda message: seen.update([message.value()]),
    )
    assert set(seen) == wanted
    assert set(seen.values()) == {1}
