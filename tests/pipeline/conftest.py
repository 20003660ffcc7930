"""One Spark session and one broker for all tests here, whatever the number of pytest workers: `--dist loadgroup` sends
the whole group to one of them (see `tests/conftest.py`), so only one JVM is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.conftest import BrokerFactory, bootstrap, name, topic
from tests.conformance.process import BrokerProcess, free_port
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog.pipeline import clients
from tidelog.pipeline.sink import decision_log, producers

__all__ = ["bootstrap", "name", "topic"]

SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # begins at once, and leaves the cores to others


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Tasks that fail are tried again, as on a cluster."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from tidelog.pipeline.streams.session import ON_THIS_MACHINE
    from tidelog.pipeline.streams.session import SETTINGS as SETTINGS_OF_SPARK

    folder = tmp_path_factory.mktemp("spark")
    builder: Any = SparkSession.builder.master("local[2,3]").appName("tests")
    for key, value in {**SETTINGS_OF_SPARK, **ON_THIS_MACHINE}.items():
        builder = builder.config(key, value)
    session = (
        builder.config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.stopTimeout", "60000")
        # Spark's checksums are files of their own, for every log and every state of every micro-batch.
        .config("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder} {JAVA}")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    """Closes the clients that a driver keeps from trigger to trigger; the next test in this process opens its own."""
    yield
    decision_log.close_all()
    producers.close_all()
    clients.close_all()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = TidelogBroker(tmp_path_factory.mktemp("broker"), SETTINGS)
    running.start()
    yield running
    assert running.alive(), f"the broker died during the tests: {running.log_tail()}"
    running.stop()


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerFactory]:
    """Starts brokers for this test only, to be stopped and killed."""
    started: list[BrokerProcess] = []

    def start(settings: dict[str, str] | None = None) -> BrokerProcess:
        running = TidelogBroker(tmp_path_factory.mktemp("own"), {**SETTINGS, **(settings or {})})
        running.port = free_port()
        started.append(running)
        running.start()
        return running

    yield start
    for running in started:
        running.discard()
