"""`tidelog bench`, `topics copy` and `cluster diff` against real brokers, also Apache Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.conftest import BrokerFactory
from tests.conformance.test_cli_topics import failed, ok
from tests.unit.cli.commands import execute, invoke
from tidelog import Admin, Consumer, Producer, TopicPartition


@pytest.fixture
def on(bootstrap: str) -> tuple[str, str]:
    return ("--bootstrap", bootstrap)


def told(*words: str) -> Any:
    return json.loads(ok(*words, "--json"))


def topics_of(bootstrap: str) -> set[str]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return {topic.name for topic in admin.list_topics()}


@pytest.mark.parametrize("kind", ["produce", "latency"])
def test_records_are_written_to_the_end_and_timed(
    on: tuple[str, str], bootstrap: str, name: Callable[[], str], kind: str
) -> None:
    topic = name()
    ok("topics", "create", topic, "--partitions", "2", *on)
    rate = ("--rate", "2000")
    figures = told("bench", kind, "--topic", topic, "--records", "400", "--size", "50", *rate, *on)
    assert (figures["records"], figures["bytes"]) == (400, 20_000)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic, index) for index in range(2)])
    assert sum(ends.values()) == 400
    # The rate is kept: the last record leaves 399/2000 s after the first, or later.
    assert figures["seconds"] >= 0.19
    latency = figures["latency"]
    ordered = [latency[f"{one}_ms"] for one in ("p50", "p95", "p99", "p99.9", "max")]
    assert ordered == sorted(ordered) and ordered[0] > 0
    assert "p99.9" in ok("bench", kind, "--topic", topic, "--records", "5", *on)


def test_reading_counts_what_is_there(on: tuple[str, str], name: Callable[[], str], bootstrap: str) -> None:
    topic = name()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(50):
            producer.send(topic, b"x" * 10, key=b"k%d" % (number % 10))
        producer.flush()
    figures = told("bench", "consume", "--topic", topic, *on)
    assert (figures["records"], figures["bytes"]) == (50, 50 * 12)
    assert told("bench", "consume", "--topic", topic, "--records", "20", *on)["records"] == 20


@pytest.mark.parametrize("kind", ["produce", "consume", "latency"])
def test_the_topic_of_a_run_is_removed(on: tuple[str, str], bootstrap: str, kind: str) -> None:
    assert told("bench", kind, "--records", "30", *on)["records"] == 30
    assert not [topic for topic in topics_of(bootstrap) if topic.startswith("tidelog-bench-")]


def test_figures_of_records_that_were_refused_are_not_given(
    on: tuple[str, str], name: Callable[[], str]
) -> None:
    topic = name()
    ok("topics", "create", topic, "--config", "max.message.bytes=500", *on)
    for kind in ("produce", "latency"):
        problem = failed("bench", kind, "--topic", topic, "--records", "5", "--size", "5000", *on)
        assert "records were not written" in problem


def written(bootstrap: str, topic: str) -> list[tuple[Any, ...]]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, index) for index in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        left = sum(consumer.end_offsets(partitions).values())
        records: list[Any] = []
        while len(records) < left:
            records += consumer.poll(timeout_ms=1000)
    return sorted(
        (record.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in records
    )


def test_a_copy_has_the_same_records_and_settings(
    on: tuple[str, str], bootstrap: str, name: Callable[[], str], own_broker: BrokerFactory
) -> None:
    source, target = name(), name()
    ok("topics", "create", source, "--partitions", "3", "--config", "retention.ms=7200000", *on)
    begun_ms = int(time.time() * 1000) - 60_000  # older records would be gone by their retention
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(300):
            producer.send(
                source,
                None if number % 50 == 0 else b"v%d" % number,
                key=b"k%d" % number,
                headers=[("n", b"%d" % number)],
                timestamp=begun_ms + number,
            )
        producer.flush()
    assert told("topics", "copy", source, target, *on) == {
        **{"source": source, "target": target, "records": 300, "created": True},
    }
    assert written(bootstrap, target) == written(bootstrap, source)
    assert "already has records" in failed("topics", "copy", source, target, *on)
    assert "300 records copied" in ok("topics", "copy", source, target, "--append", *on)

    elsewhere = own_broker({}).bootstrap
    ok("topics", "copy", source, source, "--to", elsewhere, *on)
    assert written(elsewhere, source) == written(bootstrap, source)
    assert told("cluster", "diff", "--topic", source, "--to", elsewhere, *on) == {
        "topics": 1,
        "differences": [],
    }
    ok("configs", "set", "topic", source, "retention.ms=1000000", "--bootstrap", elsewhere)
    ok("topics", "alter", source, "--partitions", "4", "--bootstrap", elsewhere)
    shown = invoke("cluster", "diff", "--topic", source, "--topic", target, "--to", elsewhere, "--json", *on)
    assert shown.exit_code == 1
    assert {tuple(one.values()) for one in json.loads(shown.stdout)["differences"]} == {
        (source, "partitions", 3, 4),
        (source, "retention.ms", "7200000", "1000000"),
        (target, "topic", "exists", "missing"),
    }


def test_a_copy_that_cannot_be_is_refused(on: tuple[str, str], name: Callable[[], str]) -> None:
    source, target = name(), name()
    ok("topics", "create", source, "--partitions", "3", *on)
    ok("topics", "create", target, "--partitions", "2", *on)
    assert "has 2 partitions" in failed("topics", "copy", source, target, *on)
    assert invoke("topics", "copy", source, source, *on).exit_code == 2
    assert execute("cluster", "diff", *on).returncode == 2
    assert f"{source}-none" in failed("topics", "copy", f"{source}-none", target, *on)
