"""Transactions that one client writes and another one ends, with both transaction protocols."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.clients import confluent_consume
from tests.conformance.process import wait_until
from tidelog import Admin, Producer, errors
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


def committed(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    wanted = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    return [one.message.value for one in confluent_consume(bootstrap, topic, count, 0, **wanted)]


def test_another_client_ends_what_was_prepared_even_when_its_producer_is_gone(
    bootstrap: str, topic: Topic, id: str, protocol: str
) -> None:
    orders = topic()
    with Admin(bootstrap_servers=bootstrap) as admin:
        for number, commit in enumerate((True, False, True)):
            with Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer:
                producer.begin_transaction()
                producer.send(orders, b"%d" % number)
                prepared = producer.prepare_transaction()
            assert prepared is not None and prepared.implicit == (protocol == "implicit")
            admin.end_transaction(prepared, commit=commit)
            admin.end_transaction(prepared, commit=commit)
            with pytest.raises((errors.InvalidTxnState, errors.ProducerFenced, errors.InvalidProducerEpoch)):
                admin.end_transaction(prepared, commit=not commit)
    assert committed(bootstrap, orders, 2) == [b"0", b"2"]


def test_the_same_producer_goes_on_after_others_have_ended_its_transactions(
    bootstrap: str, topic: Topic, id: str, protocol: str
) -> None:
    orders = topic()
    with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer,
    ):
        for number in range(3):
            producer.begin_transaction()
            producer.send(orders, b"%d" % number)
            prepared = producer.prepare_transaction()
            assert prepared is not None
            admin.end_transaction(prepared, commit=True)
        with producer.transaction():
            producer.send(orders, b"3")
    assert committed(bootstrap, orders, 4) == [b"0", b"1", b"2", b"3"]


def test_what_nobody_has_ended_is_aborted_by_the_next_transaction(
    bootstrap: str, topic: Topic, id: str, protocol: str
) -> None:
    orders = topic()
    with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer,
    ):
        producer.begin_transaction()
        producer.send(orders, b"lost")
        forgotten = producer.prepare_transaction()
        with producer.transaction():
            producer.send(orders, b"kept")
        assert forgotten is not None
        with pytest.raises((errors.InvalidTxnState, errors.ProducerFenced, errors.InvalidProducerEpoch)):
            admin.end_transaction(forgotten, commit=True)
    assert committed(bootstrap, orders, 1) == [b"kept"]


def test_nothing_sent_is_nothing_to_end(bootstrap: str, id: str) -> None:
    with Producer(bootstrap_servers=bootstrap, transactional_id=id) as producer:
        producer.begin_transaction()
        assert producer.prepare_transaction() is None
        producer.begin_transaction()
        producer.abort_transaction()


def test_a_prepared_transaction_is_aborted_when_its_time_is_up(
    bootstrap: str, topic: Topic, id: str, protocol: str
) -> None:
    orders = topic()
    with Admin(bootstrap_servers=bootstrap) as admin:
        with Producer(
            bootstrap_servers=bootstrap, transactional_id=id, transaction_timeout_ms=200
        ) as producer:
            producer.begin_transaction()
            producer.send(orders, b"late")
            prepared = producer.prepare_transaction()
        assert prepared is not None
        wait_until(lambda: admin.describe_transactions([id])[id].state == "CompleteAbort", 60, "the time-out")
        with pytest.raises((errors.InvalidTxnState, errors.ProducerFenced, errors.InvalidProducerEpoch)):
            admin.end_transaction(prepared, commit=True)
