"""Apache Kafka's own tool for streams groups: list, describe, reset and delete."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.members import await_coordinator
from tests.conformance.raw import Connection
from tests.conformance.streams_members import NONE, StreamsMember, changelog, settle, subtopology, topology
from tests.conformance.topics import describe

pytestmark = pytest.mark.kafka


def committed(connection: Connection, group: str, topic: str, partition: int) -> int:
    wanted = {"topics": [{"name": topic, "partition_indexes": [partition]}], "group_id": group}
    answer = connection.call(
        "offset_fetch", 8, groups=[{**wanted, "member_id": None, "member_epoch": -1}], require_stable=False
    )
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def commit(member: StreamsMember, topic: str, partition: int, offset: int) -> int:
    row = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    answer = member.connection.call(
        "offset_commit",
        9,
        group_id=member.group,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.id,
        group_instance_id=None,
        topics=[{"name": topic, "partitions": [row]}],
    )
    return int(answer.topics[0].partitions[0].error_code)


def rows(text: str, word: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if word in line.split()]


def test_kafka_streams_groups(
    kafka_tools: Any, bootstrap: str, connection: Connection, topic: Any, group: str
) -> None:
    source = topic(partitions=2)
    server = ("--bootstrap-server", bootstrap)
    await_coordinator(connection, group)
    confluent_produce(bootstrap, source, [Message(b"%d" % number) for number in range(10)])
    member = StreamsMember(bootstrap, group)
    store = f"{group}-store-changelog"
    wanted = topology(subtopology("0", source, state_changelog_topics=[changelog(store)]))
    assert member.join(wanted) == NONE
    settle(member)
    assert member.active == {"0": [0, 1]}
    assert commit(member, source, 0, 4) == NONE

    assert group in kafka_tools("streams-groups", *server, "--list").split()
    states = kafka_tools("streams-groups", *server, "--list", "--state")
    assert rows(states, group)[0][1:] == ["Stable"]
    offsets = kafka_tools("streams-groups", *server, "--describe", "--group", group, "--verbose")
    (first,) = [row for row in rows(offsets, source) if row[2] == "0"]
    # group, topic, partition, committed offset, leader epoch, end, lag
    assert first[:4] == [group, source, "0", "4"] and first[-2:] == ["10", "6"]
    members = kafka_tools("streams-groups", *server, "--describe", "--group", group, "--members", "--verbose")
    (row,) = rows(members, member.id)
    assert group in row and "0:[0,1];" in "".join(row)
    state = kafka_tools("streams-groups", *server, "--describe", "--group", group, "--state")
    assert "Stable" in rows(state, group)[0]

    assert member.leave() == NONE
    member.close()
    reset = ("--reset-offsets", "--group", group, "--all-input-topics")
    planned = kafka_tools("streams-groups", *server, *reset, "--to-earliest", "--dry-run")
    assert [row[:3] for row in rows(planned, source)] and committed(connection, group, source, 0) == 4
    kafka_tools("streams-groups", *server, *reset, "--to-earliest", "--execute")
    assert committed(connection, group, source, 0) == 0
    kafka_tools("streams-groups", *server, "--delete-offsets", "--group", group, "--input-topic", source)
    assert committed(connection, group, source, 0) == -1
    kafka_tools("streams-groups", *server, "--delete", "--group", group)
    assert group not in kafka_tools("streams-groups", *server, "--list").split()
    assert describe(connection, source).error_code == 0
