"""The broker under test and the names of topics on it.

`CONFORMANCE=kafka` runs the suite on Apache Kafka instead of Tidelog, `CONFORMANCE=secured` on a broker with TLS, log-ins
and an authorizer (`secured_suite.py`).  Each pytest worker starts one broker for all its tests; a test that stops, kills or
configures its broker takes one of its own from `own_broker`.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.conformance import apache_kafka
from tests.conformance.consuming import run
from tests.conformance.kdc import Kdc
from tests.conformance.members import await_coordinator
from tests.conformance.process import BrokerProcess, free_port
from tests.conformance.raw import Connection
from tests.conformance.registry import Http
from tests.conformance.secured_suite import SecuredSuiteBroker
from tests.conformance.share_client import SHARE_SETTINGS
from tests.conformance.tidelog_broker import TidelogBroker
from tests.conformance.topics import create_topic
from tests.conformance.transactions import RawProducer
from tests.conftest import RunAsync

ON_KAFKA = os.environ.get("CONFORMANCE") == "kafka"
SECURED = os.environ.get("CONFORMANCE") == "secured"

# Background work looks often, so that its effects can be waited for.
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
    # A new group does not wait for more members, and a member that died is noticed soon.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
}


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python reads its message definitions through a deprecated function.
    for module in ("kafka", "importlib"):
        config.addinivalue_line("filterwarnings", f"ignore::DeprecationWarning:{module}.*")


BrokerFactory = Callable[..., BrokerProcess]


def new_broker(home: Any, settings: dict[str, str]) -> BrokerProcess:
    kind = apache_kafka.KafkaBroker if ON_KAFKA else SecuredSuiteBroker if SECURED else TidelogBroker
    return kind(home, {**SETTINGS, **settings})


@pytest.fixture(scope="session")
def can_run() -> None:
    if ON_KAFKA and (reason := apache_kafka.resolve_jars()):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def broker(can_run: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker that most tests of this worker share; it must end cleanly after all of them."""
    running = new_broker(tmp_path_factory.mktemp("broker"), {})
    running.start()
    yield running
    assert running.alive(), f"the broker died during the tests: {running.log_tail()}"
    running.stop()


@pytest.fixture
def own_broker(can_run: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerFactory]:
    """Starts brokers for this test only: `own_broker({"setting": "value"}, folders=2)`, to be stopped and killed."""
    started: list[BrokerProcess] = []

    def start(settings: dict[str, str] | None = None, folders: int = 1) -> BrokerProcess:
        running = new_broker(tmp_path_factory.mktemp("own"), settings or {})
        running.folders += [running.home / f"data-{number}" for number in range(1, folders)]
        running.port = free_port()
        started.append(running)
        running.start()
        return running

    yield start
    for running in started:
        running.discard()


@pytest.fixture(scope="module")
def share_broker(can_run: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One whose share groups have short locks and sessions."""
    running = new_broker(tmp_path_factory.mktemp("shares"), SHARE_SETTINGS)
    running.start()
    yield running
    assert running.alive(), f"the broker died during the tests: {running.log_tail()}"
    running.stop()


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """Its configuration is this process's, too."""
    kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    kdc.start()
    before = dict(os.environ)
    os.environ.update(kdc.environment)
    try:
        yield kdc
    finally:
        os.environ.clear()
        os.environ.update(before)
        kdc.stop()


@pytest.fixture(scope="session")
def bootstrap(broker: BrokerProcess) -> str:
    return broker.bootstrap


@pytest.fixture
def connection(bootstrap: str) -> Iterator[Connection]:
    with Connection(bootstrap) as connected:
        yield connected


@pytest.fixture
def name() -> Callable[[], str]:
    """Fresh names, for topics that the test creates itself or that must not exist."""
    prefix, numbers = f"t-{uuid.uuid4().hex[:12]}", itertools.count()
    return lambda: f"{prefix}-{next(numbers)}"


@pytest.fixture
def topic(bootstrap: str, name: Callable[[], str]) -> Callable[..., str]:
    """Creates topics: `topic()`, `topic(partitions=3, config={"cleanup.policy": "compact"})`."""

    def create(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        fresh = name()
        create_topic(bootstrap, fresh, partitions, config)
        return fresh

    return create


@pytest.fixture
def kafka_tools() -> Callable[..., str]:
    """Apache Kafka's command line tools: `kafka_tools("topics", "--list", ...)`."""
    if reason := apache_kafka.missing():
        pytest.skip(reason)
    return apache_kafka.tool


@pytest.fixture
def group(connection: Connection, name: Any) -> str:
    """The name of a new group whose coordinator is there."""
    fresh = str(name())
    await_coordinator(connection, fresh)
    return fresh


@pytest.fixture(params=[True, False], ids=["new", "old"])
def producer(request: pytest.FixtureRequest, connection: Connection, name: Any) -> RawProducer:
    """A transactional producer that speaks the new protocol of transactions, then the old one."""
    return RawProducer(connection, name(), request.param).initialize()


@pytest.fixture
def other(connection: Connection, name: Any) -> RawProducer:
    """A transactional producer besides `producer`."""
    return RawProducer(connection, name()).initialize()


@pytest.fixture
def run_async() -> RunAsync:
    """An `async def` test ends in time, and leaves no tasks behind."""
    return lambda test: run(test(Random(0)))


@pytest.fixture
def http_(broker: TidelogBroker) -> Http:
    return Http(broker.http)


@pytest.fixture
def root(http_: Http) -> str:
    return f"/v3/clusters/{http_.get('/v3/clusters').body['data'][0]['cluster_id']}"
