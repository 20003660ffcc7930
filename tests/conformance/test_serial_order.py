"""Requests of one connection run one after the other: none is begun before everything ahead of it is answered.

A raw client sends requests together.  The first of them waits; another connection changes what the later ones are about,
or looks whether they have done anything yet.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.batches import batch
from tests.conformance.members import ILLEGAL_GENERATION, NONE, Member, committed
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, fetch_fields, values
from tests.conformance.transactions import RawProducer, committed_values

LONG_MS = 20_000
SHORT_MS = 1_000


def produce_fields(topic: str, records: bytes, acks: int = -1, **fields: Any) -> dict[str, Any]:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    return {"acks": acks, "timeout": 10_000, "topic_data": data, **fields}


def latest_fields(topic: str) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "timestamp": -1}]
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}]}


def offset_commit_fields(group: str, topic: str) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": topic, "partitions": partitions}],
    }


def test_list_offsets_behind_a_fetch_that_waits_knows_what_the_fetch_tells(
    connection: Connection, bootstrap: str, topic: Any
) -> None:
    known = topic()
    connection.send("fetch", 12, **fetch_fields(known, 0, max_wait=LONG_MS, min_bytes=1))
    connection.send("list_offsets", 7, **latest_fields(known))
    with Connection(bootstrap) as other:
        append(other, known, batch([b"x"]))
    fetched = connection.receive("fetch", 12)[1].responses[0].partitions[0]
    listed = connection.receive("list_offsets", 7)[1].topics[0].partitions[0]
    assert (fetched.high_watermark, listed.offset) == (1, 1)


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_a_produce_behind_a_fetch_that_waits_is_not_what_the_fetch_waits_for(
    connection: Connection, bootstrap: str, topic: Any, acks: int
) -> None:
    known = topic()
    connection.send("fetch", 12, **fetch_fields(known, 0, max_wait=SHORT_MS, min_bytes=1))
    connection.send("produce", 11, **produce_fields(known, batch([b"x"]), acks))
    fetched = connection.receive("fetch", 12)[1].responses[0].partitions[0]
    assert (fetched.high_watermark, fetched.records or b"") == (0, b"")
    if acks:
        assert connection.receive("produce", 11)[1].responses[0].partition_responses[0].base_offset == 0
    with Connection(bootstrap) as other:
        wait_until(lambda: values(other, known) == [b"x"], 20, "the record")


def test_two_fetches_that_wait_are_answered_one_after_the_other(
    connection: Connection, bootstrap: str, topic: Any
) -> None:
    first, second = topic(), topic()
    connection.send("fetch", 12, **fetch_fields(first, 0, max_wait=LONG_MS, min_bytes=1))
    connection.send("fetch", 12, **fetch_fields(second, 0, max_wait=LONG_MS, min_bytes=1))
    with Connection(bootstrap) as other:
        append(other, second, batch([b"second"]))
        assert not select.select([connection.socket], [], [], 0.3)[0]
        append(other, first, batch([b"first"]))
    for number in (1, 2):
        correlation_id, answer = connection.receive("fetch", 12)
        assert (correlation_id, answer.responses[0].partitions[0].high_watermark) == (number, 1)


CHANGES: dict[str, tuple[int, Callable[[str, str], dict[str, Any]]]] = {
    "create_topics": (
        7,
        lambda known, fresh: {"topics": [{"name": fresh, "num_partitions": 1, "replication_factor": 1}]},
    ),
    "metadata": (
        12,
        lambda known, fresh: {"topics": [{"name": fresh}], "allow_auto_topic_creation": True},
    ),
}


@pytest.mark.parametrize("api", CHANGES)
def test_a_topic_is_not_created_before_the_fetch_ahead_is_answered(
    connection: Connection, bootstrap: str, topic: Any, name: Any, api: str
) -> None:
    known, fresh = topic(), name()
    version, fields = CHANGES[api]
    connection.send("fetch", 12, **fetch_fields(known, 0, max_wait=LONG_MS, min_bytes=1))
    connection.send(api, version, **fields(known, fresh))

    def is_there() -> bool:
        return fresh in [row.name for row in other.call("metadata", 12, topics=None).topics]

    with Connection(bootstrap) as other:
        assert not select.select([connection.socket], [], [], 0.5)[0]
        assert not is_there()
        append(other, known, batch([b"x"]))
        connection.receive("fetch", 12)
        connection.receive(api, version)
        wait_until(is_there, 20, "the topic")


def test_offsets_are_not_committed_before_the_fetch_ahead_is_answered(
    connection: Connection, bootstrap: str, topic: Any, group: str
) -> None:
    known = topic()
    connection.send("fetch", 12, **fetch_fields(known, 0, max_wait=LONG_MS, min_bytes=1))
    connection.send("offset_commit", 8, **offset_commit_fields(group, known))
    with Connection(bootstrap) as other:
        assert not select.select([connection.socket], [], [], 0.5)[0]
        assert committed(other, group, known) == -1
        append(other, known, batch([b"x"]))
        connection.receive("fetch", 12)
        connection.receive("offset_commit", 8)
        assert committed(other, group, known) == 7


def test_a_fetch_and_list_offsets_behind_a_produce_know_its_records(
    connection: Connection, topic: Any
) -> None:
    """With a topic whose records are synced before they count."""
    known = topic(config={"flush.messages": "1"})
    rounds = 20
    for _ in range(rounds):
        connection.send("produce", 11, **produce_fields(known, batch([b"x"])))
        connection.send("produce", 11, **produce_fields(known, batch([b"y"])))
        connection.send("list_offsets", 7, **latest_fields(known))
        connection.send("fetch", 12, **fetch_fields(known, 0))
    for number in range(1, rounds + 1):
        for _ in range(2):
            connection.receive("produce", 11)
        assert (
            connection.receive("list_offsets", 7)[1].topics[0].partitions[0].offset,
            connection.receive("fetch", 12)[1].responses[0].partitions[0].high_watermark,
        ) == (2 * number, 2 * number)


def test_a_heartbeat_behind_a_join_is_judged_after_the_rebalance(
    connection: Connection, bootstrap: str, group: str
) -> None:
    first = Member(bootstrap, group).form()
    second = Member(bootstrap, group)
    before = first.generation
    try:
        second.announce()
        wait_until(lambda: first.heartbeat() != NONE, 20, "the rebalance")
        # The other member has not joined anew, so this one's join waits.
        second.send_heartbeat(before, second.id)
        first.send_join()
        first.send_heartbeat(before)
        assert first.receive_join().generation_id == before + 1
        assert first.receive_heartbeat() == ILLEGAL_GENERATION
    finally:
        first.close()
        second.close()


def test_a_commit_behind_a_sync_that_waits_for_the_leader_is_taken(
    bootstrap: str, topic: Any, group: str
) -> None:
    known = topic()
    members = [Member(bootstrap, group, rebalance_ms=30_000) for _ in range(2)]
    try:
        first, second = members
        first.form()
        second.announce()
        wait_until(lambda: first.heartbeat() != NONE, 20, "the rebalance")
        first.join()
        assert second.receive_join().error_code == NONE
        leader, follower = sorted(members, key=lambda member: not member.leads)
        follower.send_sync()
        fields = offset_commit_fields(group, known)
        fields |= {"generation_id_or_member_epoch": follower.generation, "member_id": follower.id}
        follower.connection.send("offset_commit", 8, **fields)
        assert not select.select([follower.connection.socket], [], [], 0.3)[0]
        leader.sync({member.id: b"part" for member in members})
        assert follower.receive_sync().error_code == NONE
        answer = follower.connection.receive("offset_commit", 8)[1]
        assert answer.topics[0].partitions[0].error_code == NONE
    finally:
        for member in members:
            member.close()


def test_a_transaction_whose_requests_are_sent_together(
    connection: Connection, topic: Any, name: Any
) -> None:
    known = topic()
    producer = RawProducer(connection, name(), new=False).initialize()
    ids = {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
    }
    added = {f"v3_and_below_{key}": value for key, value in ids.items()}
    topics = [{"name": known, "partitions": [0]}]
    connection.send("add_partitions_to_txn", 3, **added, v3_and_below_topics=topics)
    records = producer.batch(known, b"x")
    connection.send(
        "produce",
        11,
        **produce_fields(known, records, transactional_id=producer.transactional_id),
    )
    connection.send("end_txn", 3, committed=True, **ids)
    connection.receive("add_partitions_to_txn", 3)
    assert connection.receive("produce", 11)[1].responses[0].partition_responses[0].error_code == NONE
    assert connection.receive("end_txn", 3)[1].error_code == NONE
    wait_until(lambda: committed_values(connection, known) == [b"x"], 20, "the commit")
