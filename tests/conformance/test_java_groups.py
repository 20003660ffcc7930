"""Apache Kafka's own tool for groups, and its reader of the offsets topic."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.members import Member, await_coordinator, committed, subscription
from tests.conformance.raw import Connection

pytestmark = pytest.mark.kafka


def test_kafka_consumer_groups(
    kafka_tools: Any, bootstrap: str, connection: Connection, topic: Any, name: Any
) -> None:
    known, group = topic(partitions=2), name()
    server = ("--bootstrap-server", bootstrap)
    await_coordinator(connection, group)
    confluent_produce(bootstrap, known, [Message(b"%d" % number) for number in range(10)])
    member = Member(
        bootstrap,
        group,
        protocols=(("range", subscription(known)),),
        session_ms=300_000,
        rebalance_ms=300_000,
    )
    assert member.join().error_code == 0
    assignment = b"\x00\x00\x00\x00\x00\x01" + len(known).to_bytes(2, "big") + known.encode()
    assignment += b"\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff"
    assert member.sync({member.id: assignment}).error_code == 0
    assert member.commit(known, 4) == 0
    assert group in kafka_tools("consumer-groups", *server, "--list").split()
    described = kafka_tools("consumer-groups", *server, "--describe", "--group", group)
    row = next(line.split() for line in described.splitlines() if known in line and " 4 " in line)
    assert row[2:6] == ["0", "4", "10", "6"]  # partition, committed, end, lag
    states = kafka_tools("consumer-groups", *server, "--describe", "--group", group, "--state")
    assert "Stable" in states
    members = kafka_tools(
        "consumer-groups", *server, "--describe", "--group", group, "--members", "--verbose"
    )
    assert member.id in members and f"{known}:0,1" in members
    assert member.leave() == 0
    member.close()
    reset = ("--reset-offsets", "--group", group, "--topic", known, "--to-offset", "7", "--execute")
    kafka_tools("consumer-groups", *server, *reset)
    assert committed(connection, group, known) == 7
    kafka_tools("consumer-groups", *server, "--delete-offsets", "--group", group, "--topic", known)
    assert committed(connection, group, known) == -1
    kafka_tools("consumer-groups", *server, "--delete", "--group", group)
    assert group not in kafka_tools("consumer-groups", *server, "--list").split()


def test_kafka_reads_the_offsets_topic(kafka_tools: Any, own_broker: Any) -> None:
    broker = own_broker({"offsets.topic.num.partitions": "1"})
    with Connection(broker.bootstrap) as connection:
        await_coordinator(connection, "readers")
        connection.call(
            "create_topics",
            5,
            topics=[{"name": "orders", "num_partitions": 1, "replication_factor": 1}],
            timeout=10_000,
        )
        member = Member(broker.bootstrap, "readers").form()
        while (code := member.commit("orders", 4)) == 3:
            pass
        assert code == 0
        member.close()
    broker.stop()
    log = broker.data / "__consumer_offsets-0" / "00000000000000000000.log"
    dumped = kafka_tools("dump-log", "--files", str(log), "--offsets-decoder", "--print-data-log")
    assert '"group":"readers"' in dumped and '"generation":1' in dumped
    assert '"topic":"orders"' in dumped and '"offset":4' in dumped
