"""`tidelog transactions` against a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.conformance.raw import Connection
from tests.conformance.test_cli_topics import failed, ok
from tests.conformance.transactions import RawProducer, committed_values, last_stable, until_settled
from tests.unit.cli.commands import invoke

Topic = Callable[..., str]


@pytest.fixture
def on(bootstrap: str) -> tuple[str, str]:
    return ("--bootstrap", bootstrap)


@pytest.fixture
def producer(connection: Connection, name: Callable[[], str]) -> RawProducer:
    return RawProducer(connection, name()).initialize()


def test_transactions_are_listed_and_described(
    on: tuple[str, str], topic: Topic, producer: RawProducer
) -> None:
    orders, id = topic(partitions=2), producer.transactional_id
    producer.send(orders, b"1", partition=1)
    listed = json.loads(ok("transactions", "list", "--state", "Ongoing", "--json", *on))
    assert {"id": id, "producer_id": producer.id, "state": "Ongoing"} in listed
    assert id in ok("transactions", "list", "--pattern", f"{id[:-1]}.", *on)
    assert id not in ok("transactions", "list", "--longer-than", "3600", *on)
    (one,) = json.loads(ok("transactions", "describe", id, "--json", *on))
    assert one["started"].endswith("Z") and one["timeout_ms"] == 60_000
    assert one["partitions"] == [{"topic": orders, "partition": 1}]
    shown = ok("transactions", "describe", id, *on)
    assert (
        shown.startswith(f"{id}: Ongoing, producer {producer.id} epoch {producer.epoch}") and orders in shown
    )
    assert "no-such-id" in failed("transactions", "describe", "no-such-id", *on)
    producer.end(commit=True)


def test_aborting_an_id_takes_back_what_it_has_open_and_fences_its_producer(
    on: tuple[str, str], connection: Connection, topic: Topic, producer: RawProducer
) -> None:
    orders, id = topic(), producer.transactional_id
    producer.send(orders, b"stuck")
    assert json.loads(ok("transactions", "abort", id, "--json", *on)) == {"aborted": id}
    assert committed_values(connection, orders) == [] and last_stable(connection, orders) == 2
    assert until_settled(lambda: producer.end_once(True)).error_code.name == "producer_fenced"
    assert "no-such-id" in failed("transactions", "abort", "no-such-id", *on)


def test_a_hanging_transaction_is_aborted_where_it_hangs(
    on: tuple[str, str], connection: Connection, topic: Topic, producer: RawProducer
) -> None:
    orders = topic()
    start = producer.send(orders, b"hangs")
    where = ("--topic", orders, "--partition", "0", "--start-offset")
    assert "offset 7" in failed("transactions", "abort", *where, "7", *on)
    assert orders in ok("transactions", "abort", *where, str(start), *on)
    assert committed_values(connection, orders) == [] and last_stable(connection, orders) == 2
    for wrong in (("x", "--topic", "t"), ("--topic", "t"), ()):
        assert invoke("transactions", "abort", *wrong, *on).exit_code == 2
