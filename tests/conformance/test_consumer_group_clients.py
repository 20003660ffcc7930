"""Consumers of other people's libraries in consumer groups (group.protocol=consumer): members join, leave, die, pause
and come back, the broker dies, and groups move from the classic protocol to the new one and back."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance import apache_kafka
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.consumer_members import GROUP_ID_NOT_FOUND, ConsumerMember
from tests.conformance.members import await_coordinator, committed
from tests.conformance.raw import Connection
from tests.conformance.test_group_clients import (
    PARTITIONS,
    Worker,
    await_all_read,
    await_committed,
    check_history,
    outlive,
    parse_console,
    parse_json,
    produce,
    settle,
)
from tests.conformance.topics import create_topic

SETTLE_SECONDS_MAX = 180
# A member that died is noticed soon.
SOON = {
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}

Start = Callable[..., Worker]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Worker] = []

    def start(bootstrap: str, strategy: str = "consumer", *more: str, client: str = "confluent") -> Worker:
        command = [sys.executable, "-m", "tests.conformance.group_worker", client, bootstrap]
        started.append(Worker([*command, "group", "orders", strategy, *more], parse_json))
        return started[-1]

    yield start
    for worker in started:
        worker.discard()


@pytest.fixture
def broker(own_broker: Any) -> Any:
    running = own_broker(SOON)
    create_topic(running.bootstrap, "orders", PARTITIONS)
    with Connection(running.bootstrap) as connection:
        await_coordinator(connection, "group")
    return running


def described(bootstrap: str) -> tuple[str, int]:
    """(state, members) of the consumer group; ("", 0) when it is none."""
    with Connection(bootstrap) as connection:
        (told,) = connection.call(
            "consumer_group_describe", 1, group_ids=["group"], include_authorized_operations=False
        ).groups
    return (told.group_state, len(told.members)) if told.error_code == 0 else ("", 0)


def kind(bootstrap: str) -> str:
    with Connection(bootstrap) as connection:
        found = connection.call("list_groups", 5, states_filter=[], types_filter=[]).groups
    return next((str(one.group_type).lower() for one in found if one.group_id == "group"), "")


def await_described(bootstrap: str, members: int) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while described(bootstrap) != ("Stable", members):
        assert time.monotonic() < deadline, described(bootstrap)
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("client", "strategy"),
    [("confluent", "consumer"), ("confluent", "consumer-range"), ("tidelog", "consumer")],
)
def test_members_come_and_go(client: str, strategy: str, broker: Any, start: Start) -> None:
    produce(broker.bootstrap, "orders", 5)
    one = start(broker.bootstrap, strategy, client=client)
    two = start(broker.bootstrap, strategy, client=client)
    settle([one, two])
    three = start(broker.bootstrap, strategy, client=client)
    settle([one, two, three])  # joined
    two.end(signal.SIGTERM)
    settle([one, three])  # left
    three.end(signal.SIGKILL)
    settle([one])  # died
    four = start(broker.bootstrap, strategy, client=client)
    settle([one, four])
    one.send(signal.SIGSTOP)
    settle([four])
    one.send(signal.SIGCONT)
    settle([one, four])  # came back
    produce(broker.bootstrap, "orders", 5)
    await_all_read([one, two, three, four], 10)
    with Connection(broker.bootstrap) as connection:
        await_committed(connection, "group", "orders", 10)
    check_history([one, two, three, four])


def test_a_static_member_gets_back_what_it_had(broker: Any, start: Start) -> None:
    one = start(broker.bootstrap, "consumer", "a")
    two = start(broker.bootstrap, "consumer", "b")
    settle([one, two])
    had, changes = list(two.has), len(one.lines)
    two.end(signal.SIGTERM)  # a static member goes away for a while
    again = start(broker.bootstrap, "consumer", "b")
    settle([one, again])
    assert again.has == had
    assert [line for line in one.lines[changes:] if "has" in line] == []


@pytest.mark.parametrize("client", ["confluent", "tidelog"])
def test_members_outlive_the_broker(client: str, broker: Any, start: Start) -> None:
    group = [start(broker.bootstrap, client=client) for _ in range(2)]
    outlive(broker, group)


# From one protocol to the other


@pytest.mark.parametrize("classic", ["cooperative-sticky", "range"])
def test_a_group_moves_to_the_new_protocol_and_back_while_it_is_read(
    classic: str, broker: Any, start: Start
) -> None:
    if ON_KAFKA and classic == "cooperative-sticky":
        pytest.skip(
            "Apache Kafka does not upgrade groups whose assignor keeps data, as librdkafka's sticky one does"
        )
    produce(broker.bootstrap, "orders", 5)
    old = [start(broker.bootstrap, classic) for _ in range(2)]
    settle(old)
    assert kind(broker.bootstrap) == "classic"
    first = start(broker.bootstrap)
    settle([*old, first])  # both kinds of members in one group
    assert kind(broker.bootstrap) == "consumer"
    old[0].end(signal.SIGTERM)
    second = start(broker.bootstrap)
    settle([old[1], first, second])
    old[1].end(signal.SIGTERM)
    settle([first, second])  # upgraded
    produce(broker.bootstrap, "orders", 5)
    back = start(broker.bootstrap, classic)
    settle([first, second, back])
    first.end(signal.SIGTERM)
    second.end(signal.SIGTERM)
    settle([back])  # downgraded
    assert kind(broker.bootstrap) == "classic"
    another = start(broker.bootstrap, classic)
    settle([back, another])
    produce(broker.bootstrap, "orders", 5)
    await_all_read([*old, first, second, back, another], 15)


def test_a_group_without_members_changes_its_protocol_with_the_next_one(broker: Any, start: Start) -> None:
    produce(broker.bootstrap, "orders", 3)
    seen = []
    for strategy, expected in (("range", "classic"), ("consumer", "consumer"), ("range", "classic")):
        worker = start(broker.bootstrap, strategy)
        settle([worker])
        assert kind(broker.bootstrap) == expected
        produce(broker.bootstrap, "orders", 1)
        seen.append(worker)
        await_all_read(seen, 3 + len(seen))
        worker.end(signal.SIGTERM)


def test_a_group_stays_what_it_is_where_migration_is_disabled(own_broker: Any, start: Start) -> None:
    running = own_broker({**SOON, "group.consumer.migration.policy": "disabled"})
    create_topic(running.bootstrap, "orders", PARTITIONS)
    with Connection(running.bootstrap) as connection:
        await_coordinator(connection, "group")
    old = start(running.bootstrap, "range")
    settle([old])
    new = ConsumerMember(running.bootstrap, "group")
    assert new.join("orders") == GROUP_ID_NOT_FOUND
    new.close()
    assert kind(running.bootstrap) == "classic"
    settle([old])


# Java


@pytest.mark.kafka
def test_the_java_console_consumer_balances(broker: Any) -> None:
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    produce(broker.bootstrap, "orders", 3)
    command = [*apache_kafka.command("console-consumer"), "--bootstrap-server", broker.bootstrap]
    command += ["--topic", "orders", "--group", "group", "--from-beginning"]
    command += ["--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true"]
    command += ["--command-property", "group.protocol=consumer"]
    command += ["--command-property", "auto.commit.interval.ms=100"]
    started = [Worker(command, parse_console) for _ in range(2)]
    try:
        await_described(broker.bootstrap, 2)
        await_all_read(started, 3)
        started[0].send(signal.SIGSTOP)
        await_described(broker.bootstrap, 1)  # paused
        started[0].send(signal.SIGCONT)
        await_described(broker.bootstrap, 2)  # came back
        started[0].end(signal.SIGKILL)
        await_described(broker.bootstrap, 1)  # died
        produce(broker.bootstrap, "orders", 3)
        await_all_read(started, 6)
        started[1].end(signal.SIGTERM)
        with Connection(broker.bootstrap) as connection:
            read = [committed(connection, "group", "orders", partition) for partition in range(PARTITIONS)]
        assert read == [6] * PARTITIONS
    finally:
        for worker in started:
            worker.discard()


@pytest.mark.kafka
def test_kafkas_tool_describes_a_consumer_group(broker: Any, start: Start, kafka_tools: Any) -> None:
    one, two = start(broker.bootstrap), start(broker.bootstrap)
    settle([one, two])

    def told(*more: str) -> list[list[str]]:
        where = ("--bootstrap-server", broker.bootstrap, "--describe", "--group", "group")
        found = kafka_tools("consumer-groups", *where, *more)
        return [line.split() for line in found.splitlines() if line.startswith("group ")]

    members = told("--members", "--verbose")
    assert sorted(row[-1] for row in members) == sorted(
        "orders:" + ",".join(map(str, worker.has)) for worker in (one, two)
    )
    ((_, *state),) = told("--state")
    assert "uniform" in state and "Stable" in state and state[-1] == "2"
    assert sorted(int(row[2]) for row in told("--offsets")) == list(range(PARTITIONS))
