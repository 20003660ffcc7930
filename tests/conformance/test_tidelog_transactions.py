"""Tidelog's own transactional producer, with both transaction protocols, on the broker under test."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import confluent_kafka
import confluent_kafka.admin
import pytest

import tidelog
from tests.conformance.clients import confluent_consume
from tidelog import GroupMetadata, OffsetAndMetadata, Producer, TopicPartition, aio, errors
from tidelog.client.transactions import transactions

Topic = Callable[..., str]


@pytest.fixture(params=["implicit", "explicit"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Brokers serve the older protocol too: a client that does not know the feature uses it."""
    if request.param == "explicit":
        monkeypatch.setattr(transactions, "FEATURE", "a.feature.nobody.has")
    yield request.param


@pytest.fixture
def id() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


def committed(bootstrap: str, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
    read = confluent_consume(
        bootstrap,
        topic,
        count,
        partition,
        **{"isolation.level": "read_committed", "auto.offset.reset": "earliest"},
    )
    return [one.message.value for one in read]


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    bootstrap: str, topic: Topic, id: str, protocol: str
) -> None:
    orders, payments = topic(partitions=2), topic()
    with Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer:
        for number in range(3):
            with producer.transaction():
                producer.send(orders, b"order %d" % number, partition=0)
                producer.send(orders, b"other %d" % number, partition=1)
                producer.send(payments, b"payment %d" % number)
            with pytest.raises(ZeroDivisionError), producer.transaction():
                taken_back = producer.send(orders, b"never %d" % number, partition=0)
                producer.flush(30)
                raise ZeroDivisionError
            assert taken_back.get().offset > 0, "it was written, and taken back"
        with producer.transaction():
            producer.send(orders, b"end", partition=0)
    assert committed(bootstrap, orders, 4) == [b"order 0", b"order 1", b"order 2", b"end"]
    assert committed(bootstrap, orders, 3, 1) == [b"other 0", b"other 1", b"other 2"]
    assert committed(bootstrap, payments, 3) == [b"payment 0", b"payment 1", b"payment 2"]


def test_an_empty_transaction_ends_without_ado(bootstrap: str, topic: Topic, id: str, protocol: str) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer:
        with producer.transaction():
            pass
        producer.begin_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets_to_transaction({}, f"group-{id}")  # nothing was there to read
        with producer.transaction():
            producer.send(orders, b"x")
    assert committed(bootstrap, orders, 1) == [b"x"]


def test_what_did_not_leave_before_the_abort_never_does(
    bootstrap: str, topic: Topic, id: str, protocol: str
) -> None:
    orders = topic()
    with Producer(bootstrap_servers=bootstrap, transactional_id=id, linger_ms=60_000) as producer:
        producer.begin_transaction()
        sent = producer.send(orders, b"x")
        producer.abort_transaction()
        with pytest.raises(tidelog.TransactionAborted):
            sent.get(0)
        with producer.transaction():
            producer.send(orders, b"y")
    assert committed(bootstrap, orders, 1) == [b"y"]


def test_offsets_are_committed_with_the_transaction(
    bootstrap: str, topic: Topic, id: str, protocol: str
) -> None:
    source, group = topic(partitions=2), f"group-{id}"
    wanted = [confluent_kafka.TopicPartition(source, at) for at in range(2)]

    def stored() -> list[int]:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
        asked = confluent_kafka.ConsumerGroupTopicPartitions(group, wanted)
        while True:
            answer = admin.list_consumer_group_offsets([asked], require_stable=True)[group].result(30)
            # Kafka answers the commit before the group has heard of it: until then the offset is unstable.
            if not any(one.error for one in answer.topic_partitions):
                return [one.offset for one in answer.topic_partitions]
            time.sleep(0.05)

    with Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer:
        with producer.transaction():
            producer.send_offsets_to_transaction({TopicPartition(source, 0): 5}, group)
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send_offsets_to_transaction({TopicPartition(source, 0): 9}, group)
            raise ZeroDivisionError
        with producer.transaction():
            offsets = {TopicPartition(source, 1): OffsetAndMetadata(7, "mine")}
            producer.send_offsets_to_transaction(offsets, GroupMetadata(group))
        assert stored() == [5, 7]
        with pytest.raises(errors.TidelogError), producer.transaction():
            nobody = GroupMetadata(group, generation_id=3, member_id="nobody")
            producer.send_offsets_to_transaction({TopicPartition(source, 0): 11}, nobody)
        assert stored() == [5, 7]


def test_the_second_of_a_name_fences_the_first(bootstrap: str, topic: Topic, id: str, protocol: str) -> None:
    orders = topic()
    first = Producer(bootstrap_servers=bootstrap, transactional_id=id)
    first.begin_transaction()
    first.send(orders, b"left open").get(30)
    with Producer(bootstrap_servers=bootstrap, transactional_id=id) as second:
        with pytest.raises(errors.TidelogError) as caught:
            first.send(orders, b"too late")
            first.commit_transaction()
        if isinstance(caught.value, errors.TransactionAbortable):
            with pytest.raises((errors.ProducerFenced, errors.InvalidProducerEpoch)):
                first.abort_transaction()
        with pytest.raises((errors.ProducerFenced, errors.InvalidProducerEpoch), match="make a new one"):
            first.begin_transaction()
        with second.transaction():
            second.send(orders, b"mine")
    first.close()
    assert committed(bootstrap, orders, 1) == [b"mine"]


def test_a_record_that_fails_breaks_its_transaction_and_no_other(
    bootstrap: str, topic: Topic, id: str, protocol: str
) -> None:
    small = topic(config={"max.message.bytes": "2000"})
    with Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer:
        producer.begin_transaction()
        producer.send(small, b"fits").get(30)
        with pytest.raises(errors.MessageTooLarge):
            producer.send(small, b"x" * 5_000).get(30)
        with pytest.raises(errors.TransactionAbortable, match="must be aborted"):
            producer.send(small, b"y").get(30)
        with pytest.raises(errors.TransactionAbortable, match="must be aborted"):
            producer.commit_transaction()
        producer.abort_transaction()
        for number in range(3):
            with producer.transaction():
                producer.send(small, b"%d" % number)
    assert committed(bootstrap, small, 3) == [b"0", b"1", b"2"]


async def test_transactions_of_asyncio(bootstrap: str, topic: Topic, id: str, protocol: str) -> None:
    orders = topic()
    async with aio.Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer:
        async with producer.transaction():
            for at in range(500):
                await producer.send(orders, b"%d" % at)
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send(orders, b"x")
                raise ZeroDivisionError
    assert committed(bootstrap, orders, 500) == [b"%d" % at for at in range(500)]


def test_what_is_out_of_turn_is_refused(bootstrap: str, topic: Topic, id: str) -> None:
    orders = topic()
    with (
        Producer(bootstrap_servers=bootstrap) as plain,
        pytest.raises(errors.InvalidTxnState, match="transactional_id"),
    ):
        plain.begin_transaction()
    with Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer:
        for call in (
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send(orders, b"x"),
        ):
            with pytest.raises(errors.InvalidTxnState, match="no transaction is open"):
                call()
        producer.begin_transaction()
        with pytest.raises(errors.InvalidTxnState, match="open already"):
            producer.begin_transaction()
        producer.abort_transaction()
