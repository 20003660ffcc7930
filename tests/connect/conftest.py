"""A broker for all tests here, and workers for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.connect.postgres_server import PostgresServer
from tests.connect.workers import BROKER, Worker
from tidelog.testing import ChildBroker, child_broker

_numbers = count()


@pytest.fixture(scope="session")
def broker() -> Iterator[ChildBroker]:
    with child_broker(BROKER) as running:
        yield running


@pytest.fixture
def own_broker() -> Iterator[ChildBroker]:
    """For this test only: it may be killed."""
    with child_broker(BROKER) as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"c{next(_numbers)}"


NewWorker = Callable[..., Worker]


@pytest.fixture
def worker_of(tmp_path: Path) -> Iterator[NewWorker]:
    """Starts workers; they end with the test."""
    started: list[Worker] = []

    def start(bootstrap: str, group: str, *more: str, **options: dict[str, str]) -> Worker:
        made = Worker(bootstrap, group, tmp_path, *more, **options)
        started.append(made)
        return made.start()

    yield start
    for worker in started:
        if worker.alive():
            worker.kill()


@pytest.fixture
def worker(broker: ChildBroker, worker_of: NewWorker, name: str) -> Worker:
    return worker_of(broker.bootstrap_servers, name)


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.discard()
