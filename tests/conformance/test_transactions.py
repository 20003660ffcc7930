"""Transactions, request by request, in both protocols: what is seen when, and what a wrong request gets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.batches import CONTROL, batch, read
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, create_topic, fetch, list_offset, values
from tests.conformance.transactions import (
    READ_COMMITTED,
    RawProducer,
    committed_values,
    fetch_committed,
    last_stable,
    marker,
    until_settled,
)

Topic = Callable[..., str]
Name = Callable[[], str]


def test_records_are_seen_as_committed_when_their_transaction_is(
    connection: Connection, topic: Topic, producer: RawProducer
) -> None:
    orders = topic()
    append(connection, orders, batch([b"before"]))
    producer.send(orders, b"1", b"2")
    append(connection, orders, batch([b"between"]))
    assert committed_values(connection, orders) == [b"before"]
    assert values(connection, orders)[1:3] == [b"1", b"2"]
    assert last_stable(connection, orders) == 1
    assert fetch(connection, orders, 0).high_watermark == 4
    producer.end(commit=True)
    producer.settle()
    assert committed_values(connection, orders) == [b"before", b"1", b"2", b"between"]
    assert last_stable(connection, orders) == fetch(connection, orders, 0).high_watermark == 5


def test_aborted_records_are_told_to_readers_of_committed_ones(
    connection: Connection, topic: Topic, producer: RawProducer
) -> None:
    orders = topic()
    first = (producer.id, producer.send(orders, b"no"))
    producer.end(commit=False)
    producer.settle()
    producer.send(orders, b"yes")
    producer.end(commit=True)
    producer.settle()
    second = (producer.id, producer.send(orders, b"never"))
    producer.end(commit=False)
    producer.settle()
    answer = fetch_committed(connection, orders)
    told = [(one.producer_id, one.first_offset) for one in answer.aborted_transactions]
    assert sorted(told) == sorted([first, second])
    assert committed_values(connection, orders) == [b"yes"]
    assert [marker(one) for one in read(answer.records) if one.attributes & CONTROL] == [0, 1, 0]
    assert not fetch(connection, orders, 0).aborted_transactions
    later = fetch_committed(connection, orders, offset=2)
    assert [(one.producer_id, one.first_offset) for one in later.aborted_transactions] == [second]


@pytest.mark.parametrize("version", [4, 11, 12])
def test_every_version_of_fetch_tells_aborted_transactions(
    connection: Connection, topic: Topic, other: RawProducer, version: int
) -> None:
    orders = topic()
    other.send(orders, b"no")
    other.end(commit=False)
    other.settle()
    answer = fetch_committed(connection, orders, version=version)
    assert [one.first_offset for one in answer.aborted_transactions] == [0]


def test_interleaved_transactions_hold_each_other_up(
    connection: Connection, topic: Topic, producer: RawProducer, other: RawProducer
) -> None:
    orders = topic()
    producer.send(orders, b"a")
    other.send(orders, b"b")
    other.end(commit=True)
    other.settle()
    assert committed_values(connection, orders) == [] and last_stable(connection, orders) == 0
    other.send(orders, b"c")
    producer.end(commit=False)
    producer.settle()
    assert committed_values(connection, orders) == [b"b"] and last_stable(connection, orders) == 3
    other.end(commit=True)
    other.settle()
    assert committed_values(connection, orders) == [b"b", b"c"]


def test_list_offsets_knows_where_committed_data_end(
    connection: Connection, topic: Topic, producer: RawProducer
) -> None:
    orders = topic()
    append(connection, orders, batch([b"x"]))
    producer.send(orders, b"1")

    def latest(isolation: int) -> int:
        part = {"partition_index": 0, "timestamp": -1}
        answer = connection.call(
            "list_offsets",
            9,
            replica_id=-1,
            isolation_level=isolation,
            topics=[{"name": orders, "partitions": [part]}],
        )
        return int(answer.topics[0].partitions[0].offset)

    assert (latest(0), latest(READ_COMMITTED)) == (2, 1)
    producer.end(commit=True)
    producer.settle()
    assert latest(0) == latest(READ_COMMITTED) == 3


def test_the_end_of_a_transaction_wakes_a_fetch_that_waits(
    bootstrap: str, connection: Connection, topic: Topic, producer: RawProducer
) -> None:
    orders = topic()
    producer.send(orders, b"x" * 2_000)
    with Connection(bootstrap) as reader:
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "log_start_offset": -1}
        reader.send(
            "fetch",
            12,
            max_wait=20_000,
            min_bytes=1_000,
            max_bytes=1 << 20,
            isolation_level=READ_COMMITTED,
            session_epoch=-1,
            topics=[{"topic": orders, "partitions": [part]}],
        )
        list_offset(connection, orders, -1)
        began = time.monotonic()
        producer.end(commit=True)
        _, answer = reader.receive("fetch", 12)
        assert time.monotonic() - began < 10
        assert len(answer.responses[0].partitions[0].records) > 2_000


def test_a_transaction_spans_partitions(connection: Connection, topic: Topic, producer: RawProducer) -> None:
    orders, payments = topic(partitions=2), topic()
    producer.send(orders, b"a", partition=0)
    producer.send(orders, b"b", partition=1)
    producer.send(payments, b"c")
    found = producer.describe()
    assert {(row.topic, tuple(sorted(row.partitions))) for row in found.topics} == {
        (orders, (0, 1)),
        (payments, (0,)),
    }
    assert (found.transaction_state, found.producer_id, found.producer_epoch) == (
        "Ongoing",
        producer.id,
        producer.epoch,
    )
    producer.end(commit=True)
    producer.settle()
    assert producer.state() == "CompleteCommit" and not producer.describe().topics
    assert committed_values(connection, orders) == [b"a"] and committed_values(connection, payments) == [b"c"]


# The new protocol


def test_every_end_gives_a_new_epoch_and_the_same_end_again_tells_the_same(
    connection: Connection, topic: Topic, other: RawProducer
) -> None:
    orders, before = topic(), (other.id, other.epoch)
    other.send(orders, b"1")
    first = until_settled(lambda: other.end_once(True))
    assert (first.producer_id, first.producer_epoch) == (before[0], before[1] + 1)
    again = until_settled(lambda: other.end_once(True))
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, *(before[0], before[1] + 1))
    assert until_settled(lambda: other.end_once(False)).error_code.name == "invalid_txn_state"
    other.settle()
    assert committed_values(connection, orders) == [b"1"]


def test_a_transaction_without_records_can_be_aborted_and_not_committed(other: RawProducer) -> None:
    assert other.end_once(True).error_code.name == "invalid_txn_state"
    epoch = other.epoch
    other.end(commit=False)
    assert other.epoch == epoch + 1


def test_the_first_batch_of_a_transaction_has_sequence_0(topic: Topic, other: RawProducer) -> None:
    orders = topic()
    gap = other.send_once(orders, other.batch(orders, b"x", base_sequence=3))
    assert gap.error_code.name == "out_of_order_sequence_number"
    other.send(orders, b"x")
    other.end(commit=True)


def test_a_late_batch_of_the_last_transaction_does_not_land_in_the_next(
    connection: Connection, topic: Topic, other: RawProducer
) -> None:
    orders = topic()
    late = other.batch(orders, b"late", base_sequence=1)
    other.send(orders, b"1")
    other.end(commit=True)
    other.settle()
    assert other.send_once(orders, late).error_code.name == "invalid_producer_epoch"
    other.send(orders, b"2")
    other.end(commit=True)
    other.settle()
    assert committed_values(connection, orders) == [b"1", b"2"]


# The old one


def test_a_batch_for_a_partition_that_was_not_added_is_refused(
    connection: Connection, topic: Topic, name: Name
) -> None:
    producer, orders = RawProducer(connection, name(), new=False).initialize(), topic(partitions=2)
    assert producer.add_once(orders, 0) == ["none"]
    data = producer.batch(orders, b"x", partition=1)
    assert producer.send_once(orders, data, 1, version=10).error_code.name == "invalid_txn_state"
    assert producer.send_once(orders, data, 1, version=11).error_code.name == "transaction_abortable"
    assert list_offset(connection, orders, -1, 1).offset == 0
    producer.end(commit=False)


def test_an_old_end_keeps_the_epoch_and_may_come_again(
    connection: Connection, topic: Topic, name: Name
) -> None:
    producer, orders = RawProducer(connection, name(), new=False).initialize(), topic()
    assert producer.end_once(True).error_code.name == "invalid_txn_state"
    producer.send(orders, b"1")
    producer.end(commit=True)
    assert until_settled(lambda: producer.end_once(True)).error_code == 0
    assert until_settled(lambda: producer.end_once(False)).error_code.name == "invalid_txn_state"
    producer.send(orders, b"2")
    producer.end(commit=True)
    producer.settle()
    assert committed_values(connection, orders) == [b"1", b"2"]
    assert producer.describe().producer_epoch == producer.epoch


# Fencing


def test_a_second_instance_fences_the_first_and_aborts_what_it_left_open(
    connection: Connection, topic: Topic, producer: RawProducer
) -> None:
    orders = topic()
    producer.send(orders, b"zombie")
    second = RawProducer(connection, producer.transactional_id, producer.new).initialize()
    assert second.id == producer.id and second.epoch > producer.epoch
    stale = producer.send_once(orders, producer.batch(orders, b"more"))
    assert stale.error_code.name == "invalid_producer_epoch"
    assert until_settled(lambda: producer.end_once(True)).error_code.name == "producer_fenced"
    assert until_settled(lambda: producer.add_once(orders, 0)) == ["producer_fenced"]
    fenced = until_settled(lambda: producer.initialize_once(expected=(producer.id, producer.epoch)))
    assert fenced.error_code.name == "producer_fenced"
    second.send(orders, b"mine")
    second.end(commit=True)
    second.settle()
    assert committed_values(connection, orders) == [b"mine"]


def test_old_clients_are_fenced_with_the_error_they_know(producer: RawProducer, topic: Topic) -> None:
    orders = topic()
    RawProducer(producer.connection, producer.transactional_id).initialize()
    assert producer.add_once(orders, 0, version=1) == ["invalid_producer_epoch"]
    assert producer.end_once(True, version=1).error_code.name == "invalid_producer_epoch"
    answer = producer.initialize_once(expected=(producer.id, 30_000), version=3)
    assert answer.error_code.name == "invalid_producer_epoch"


def test_a_producer_may_go_on_with_a_new_epoch_after_an_error(
    connection: Connection, topic: Topic, producer: RawProducer
) -> None:
    orders = topic()
    producer.send(orders, b"failed")
    epoch = producer.epoch
    producer.initialize(expected=(producer.id, producer.epoch))
    assert producer.epoch > epoch
    producer.send(orders, b"again")
    producer.end(commit=True)
    producer.settle()
    assert committed_values(connection, orders) == [b"again"]


# Time


def test_a_transaction_that_takes_too_long_is_aborted(connection: Connection, own_broker: Any) -> None:
    broker = own_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    with Connection(broker.bootstrap) as own:
        create_topic(broker.bootstrap, "orders")
        producer = RawProducer(own, "slow").initialize(timeout_ms=500)
        producer.send("orders", b"1")
        wait_until(lambda: producer.state() == "CompleteAbort", 20, "the abort")
        assert committed_values(own, "orders") == []
        more = producer.batch("orders", b"2")
        assert producer.send_once("orders", more).error_code.name == "invalid_producer_epoch"


# Tools


def test_transactions_are_listed_by_state_producer_duration_and_name(
    connection: Connection, topic: Topic, producer: RawProducer, other: RawProducer
) -> None:
    producer.send(topic(), b"1")

    def listed(version: int = 2, **filters: Any) -> set[str]:
        wanted = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, **filters}
        answer = connection.call("list_transactions", version, **wanted)
        assert answer.error_code == 0
        mine = {producer.transactional_id, other.transactional_id}
        return {row.transactional_id for row in answer.transaction_states} & mine

    both = {producer.transactional_id, other.transactional_id}
    assert listed() == listed(version=0) == both
    assert listed(state_filters=["Ongoing"]) == {producer.transactional_id}
    assert listed(producer_id_filters=[other.id]) == {other.transactional_id}
    assert listed(duration_filter=3_600_000, state_filters=["Ongoing"]) == set()
    assert listed(transactional_id_pattern=producer.transactional_id[:-1] + ".*") == both
    assert listed(transactional_id_pattern=producer.transactional_id) == {producer.transactional_id}
    broken = {
        "state_filters": [],
        "producer_id_filters": [],
        "duration_filter": -1,
        "transactional_id_pattern": "(",
    }
    assert connection.call("list_transactions", 2, **broken).error_code.name == "invalid_regular_expression"
    answer = connection.call(
        "list_transactions", 1, state_filters=["Sleeping"], producer_id_filters=[], duration_filter=-1
    )
    assert (list(answer.unknown_state_filters), list(answer.transaction_states)) == (["Sleeping"], [])
    producer.end(commit=False)


def test_an_unknown_id_is_not_described(connection: Connection, name: Name, producer: RawProducer) -> None:
    answer = connection.call("describe_transactions", 0, transactional_ids=[name(), ""])
    assert [row.error_code.name for row in answer.transaction_states] == [
        "transactional_id_not_found",
        "invalid_request",
    ]


def test_a_marker_ends_a_hanging_transaction(
    connection: Connection, topic: Topic, other: RawProducer
) -> None:
    orders = topic()
    other.initialize()
    other.send(orders, b"hangs")

    def write(version: int, **changes: Any) -> str:
        fields = {
            "producer_id": other.id,
            "producer_epoch": other.epoch,
            "transaction_result": False,
            "coordinator_epoch": 0,
            "transaction_version": 0,
        }
        row = fields | changes | {"topics": [{"name": orders, "partition_indexes": [0]}]}
        answer = connection.call("write_txn_markers", version, markers=[row])
        return str(answer.markers[0].topics[0].partitions[0].error_code.name)

    part = connection.call("describe_producers", 0, topics=[{"name": orders, "partition_indexes": [0]}])
    (active,) = part.topics[0].partitions[0].active_producers
    assert (active.producer_id, active.producer_epoch, active.current_txn_start_offset) == (
        other.id,
        other.epoch,
        0,
    )
    assert write(1, producer_epoch=other.epoch - 1) == "invalid_producer_epoch"
    assert write(2, transaction_version=2) == "invalid_producer_epoch"
    assert last_stable(connection, orders) == 0
    assert write(1) == "none"
    assert last_stable(connection, orders) == 2
    assert committed_values(connection, orders) == []
    assert write(1, coordinator_epoch=-1) == "transaction_coordinator_fenced"
    answer = connection.call(
        "write_txn_markers",
        1,
        markers=[
            {
                "producer_id": other.id,
                "producer_epoch": other.epoch,
                "topics": [{"name": orders, "partition_indexes": [9]}],
            }
        ],
    )
    assert answer.markers[0].topics[0].partitions[0].error_code.name == "unknown_topic_or_partition"


# Offsets of groups


@pytest.mark.parametrize("version", [3, 4, 5])
def test_offsets_count_when_their_transaction_is_committed(
    connection: Connection, topic: Topic, name: Name, version: int
) -> None:
    producer, orders, group = RawProducer(connection, name(), new=version == 5).initialize(), topic(), name()

    def found() -> bool:
        answer = connection.call("find_coordinator", 4, key_type=0, coordinator_keys=[group])
        return bool(answer.coordinators[0].error_code == 0)

    wait_until(found, 30, "the group's coordinator")

    def committed() -> int:
        ask = {"group_id": group, "topics": [{"name": orders, "partition_indexes": [0]}]}
        answer = connection.call("offset_fetch", 8, groups=[ask], require_stable=True)
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)

    def commit(offset: int) -> Any:
        rows = [{"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}]
        answer = connection.call(
            "txn_offset_commit",
            version,
            transactional_id=producer.transactional_id,
            group_id=group,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            generation_id=-1,
            member_id="",
            topics=[{"name": orders, "partitions": rows}],
        )
        return answer.topics[0].partitions[0]

    def add() -> Any:
        return connection.call(
            "add_offsets_to_txn",
            3,
            transactional_id=producer.transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group,
        )

    if version < 5:
        early = until_settled(lambda: commit(1)).error_code.name
        assert early == ("invalid_txn_state" if version < 4 else "transaction_abortable")
    for offset, outcome, expected in ((5, True, 5), (9, False, 5), (12, True, 12)):
        if version < 5:
            assert until_settled(add).error_code == 0
        assert until_settled(lambda offset=offset: commit(offset)).error_code == 0
        ask = {"group_id": group, "topics": [{"name": orders, "partition_indexes": [0]}]}
        pending = connection.call("offset_fetch", 8, groups=[ask], require_stable=True)
        assert pending.groups[0].topics[0].partitions[0].error_code.name == "unstable_offset_commit"
        producer.end(commit=outcome)
        producer.settle()
        wait_until(lambda expected=expected: committed() == expected, 10, "the offset")
