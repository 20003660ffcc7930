"""Wrong requests of transactions, in both protocols: each gets its error and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.batches import batch
from tests.conformance.raw import Connection
from tests.conformance.topics import list_offset, produce
from tests.conformance.transactions import (
    RawProducer,
    committed_values,
    find_coordinator,
)

Topic = Callable[..., str]
Name = Callable[[], str]


def test_foreign_and_unknown_producers_are_refused(
    connection: Connection, topic: Topic, producer: RawProducer, name: Name
) -> None:
    orders = topic()
    producer.send(orders, b"1")
    for wrong in ({"producer_id": producer.id + 1_000_000}, {"transactional_id": name()}):
        assert producer.add_once(orders, 0, **wrong) == ["invalid_producer_id_mapping"]
        assert producer.end_once(True, **wrong).error_code.name == "invalid_producer_id_mapping"
    assert producer.add_once(orders, 0, producer_epoch=producer.epoch + 5) == ["producer_fenced"]
    assert producer.end_once(True, producer_epoch=producer.epoch + 5).error_code.name == "producer_fenced"
    assert producer.state() == "Ongoing"
    producer.end(commit=True)
    producer.settle()
    assert committed_values(connection, orders) == [b"1"]


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_an_impossible_timeout_is_refused(producer: RawProducer, timeout_ms: int) -> None:
    answer = producer.initialize_once(timeout_ms)
    assert answer.error_code.name == "invalid_transaction_timeout"
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_half_an_instance_and_an_empty_id_are_no_requests(producer: RawProducer) -> None:
    assert producer.initialize_once(expected=(producer.id, -1)).error_code.name == "invalid_request"
    nameless = RawProducer(producer.connection, "")
    assert nameless.initialize_once().error_code.name == "invalid_request"
    assert nameless.end_once(True).error_code.name == "invalid_request"


def test_one_partition_that_cannot_be_added_keeps_all_out(
    connection: Connection, topic: Topic, producer: RawProducer
) -> None:
    orders = topic()
    answer = producer.connection.call(
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            {"name": orders, "partitions": [0, 7]},
            {"name": "__consumer_offsets", "partitions": [0]},
        ],
    )
    codes = {
        (row.name, part.partition_index): part.partition_error_code.name
        for row in answer.results_by_topic_v3_and_below
        for part in row.results_by_partition
    }
    assert codes == {
        (orders, 0): "operation_not_attempted",
        (orders, 7): "unknown_topic_or_partition",
        ("__consumer_offsets", 0): "topic_authorization_failed",
    }
    assert producer.state() == "Empty"


def test_brokers_may_ask_for_several_transactions_at_once(
    connection: Connection, topic: Topic, producer: RawProducer, other: RawProducer
) -> None:
    orders = topic()

    def one(who: RawProducer, verify_only: bool) -> dict[str, Any]:
        return {
            "transactional_id": who.transactional_id,
            "producer_id": who.id,
            "producer_epoch": who.epoch,
            "verify_only": verify_only,
            "topics": [{"name": orders, "partitions": [0]}],
        }

    answer = connection.call(
        "add_partitions_to_txn", 5, transactions=[one(producer, False), one(other, True)]
    )
    codes = {
        row.transactional_id: row.topic_results[0].results_by_partition[0].partition_error_code.name
        for row in answer.results_by_transaction
    }
    assert codes == {producer.transactional_id: "none", other.transactional_id: "transaction_abortable"}
    assert (producer.state(), other.state()) == ("Ongoing", "Empty")


def test_transactional_batches_without_a_transaction_are_refused(
    connection: Connection, topic: Topic, other: RawProducer
) -> None:
    orders = topic()
    data, refused = other.batch(orders, b"x"), "transactional_id_authorization_failed"
    assert produce(connection, orders, data).error_code.name == refused
    assert other.send_once(orders, data, transactional_id=None).error_code.name == refused
    assert list_offset(connection, orders, -1).offset == 0


def test_a_batch_outside_of_the_open_transaction_of_its_producer_is_refused(
    topic: Topic, other: RawProducer
) -> None:
    orders = topic()
    other.send(orders, b"1")
    plain = other.batch(orders, b"2", attributes=0)
    assert other.send_once(orders, plain).error_code.name == "invalid_txn_state"
    other.end(commit=True)


def test_internal_topics_are_not_for_clients(connection: Connection, producer: RawProducer) -> None:
    for internal in ("__transaction_state", "__consumer_offsets"):
        find_coordinator(connection, "x")
        answer = produce(connection, internal, batch([b"x"]))
        assert answer.error_code.name in {"invalid_topic_exception", "unknown_topic_or_partition"}
    assert (
        produce(connection, "__transaction_state", batch([b"x"])).error_code.name == "invalid_topic_exception"
    )
