"""Transactions of an outside coordinator (KIP-939): with `transaction.two.phase.commit.enable`, and never without."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import API_KEYS, Connection
from tests.conformance.topics import create_topic
from tests.conformance.transactions import RETRIED, RawProducer

NEVER_MS = (1 << 31) - 1
# Apache Kafka 4.3 serves version 6 of InitProducerId only with its unstable versions.
ENABLED = {"transaction.two.phase.commit.enable": "true"} | (
    {"unstable.api.versions.enable": "true"} if ON_KAFKA else {}
)
OFTEN = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


@pytest.fixture
def broker(own_broker: Any) -> BrokerProcess:
    started: BrokerProcess = own_broker(ENABLED | OFTEN)
    return started


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[Connection]:
    with Connection(broker.bootstrap) as connected:
        yield connected


@pytest.fixture
def id(connection: Connection) -> str:
    """A transactional id whose coordinator is ready."""
    id = f"two-{uuid.uuid4().hex[:12]}"
    producer = RawProducer(connection, id)

    def is_ready() -> bool:
        connection.call("find_coordinator", 4, key_type=1, coordinator_keys=[id])
        return str(producer.initialize_once().error_code.name) not in RETRIED

    wait_until(is_ready, 60, "the coordinator is ready")
    return id


def initialize(connection: Connection, id: str | None, **fields: Any) -> Any:
    wanted = {"transactional_id": id, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    return connection.call("init_producer_id", 6, **{**wanted, **fields})


def refusal(connection: Connection, id: str | None, **fields: Any) -> str:
    return str(initialize(connection, id, **fields).error_code.name)


def newest_version(connection: Connection) -> int:
    answer = connection.call("api_versions", 3, client_software_name="test", client_software_version="1")
    return max(row.max_version for row in answer.api_keys if row.api_key == API_KEYS["init_producer_id"])


def test_the_timeout_of_such_a_transaction_does_not_count(connection: Connection, id: str) -> None:
    assert newest_version(connection) == 6
    for timeout in (0, 1000, 10**9):
        assert refusal(connection, id, enable2_pc=True, transaction_timeout=timeout) == "none"
    assert refusal(connection, id, transaction_timeout=0) == "invalid_transaction_timeout"


def test_such_a_transaction_stays_open_until_it_is_ended(
    connection: Connection, broker: BrokerProcess, id: str
) -> None:
    create_topic(broker.bootstrap, "orders", 1)
    short, other = RawProducer(connection, f"{id}-short"), RawProducer(connection, id)
    first = initialize(connection, id, enable2_pc=True, transaction_timeout=1)
    other.id, other.epoch = first.producer_id, first.producer_epoch
    other.send("orders", b"kept")

    def begin_short() -> bool:
        answer = short.initialize_once(timeout_ms=1)
        short.id, short.epoch = answer.producer_id, answer.producer_epoch
        return str(answer.error_code.name) == "none"

    wait_until(begin_short, 60, "the other producer has an id")
    short.send("orders", b"lost")

    def described(of: str) -> Any:
        return connection.call("describe_transactions", 0, transactional_ids=[of]).transaction_states[0]

    def state(of: str) -> str:
        return str(described(of).transaction_state)

    # The transaction with a timeout began later and is aborted.
    wait_until(lambda: state(f"{id}-short") == "CompleteAbort", 60, "the broker aborts what timed out")
    assert state(id) == "Ongoing"
    assert described(id).transaction_timeout == timedelta(milliseconds=NEVER_MS)
    other.end(True)
    wait_until(lambda: state(id) == "CompleteCommit", 60, "the transaction is committed")


def test_a_prepared_transaction_cannot_be_kept(connection: Connection, id: str) -> None:
    assert refusal(connection, id, keep_prepared_txn=True) == "unsupported_version"
    assert refusal(connection, id, enable2_pc=True, keep_prepared_txn=True) == "unsupported_version"
    assert refusal(connection, "", enable2_pc=True) == "invalid_request"
    assert refusal(connection, None, enable2_pc=True) == "none"


@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka advertises version 6 by another setting")
def test_without_the_setting_the_version_is_not_served(own_broker: Any) -> None:
    with Connection(own_broker().bootstrap) as connection:
        assert newest_version(connection) == 5
