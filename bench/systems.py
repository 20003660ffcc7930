"""The systems under measurement: how each is started, and what both are given alike.

A scenario gets a broker of its own, in a folder of its own, which are gone when it ends.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.admin import Admin
from tests.conformance import apache_kafka
from tests.conformance.process import BrokerProcess
from tests.conformance.tidelog_broker import TidelogBroker

START_SECONDS_MAX = 120

# Given to both.  Deleted topics leave the disk soon, so that its use stays bounded during a run.
SETTINGS = {"log.segment.delete.delay.ms": "1000", "auto.create.topics.enable": "false"}

# Kafka's own default where the conformance suite, which starts it for tests, asks for something else.
KAFKA_SETTINGS = {"log.initial.task.delay.ms": "30000", "log.cleaner.dedupe.buffer.size": "134217728"}


class MeasuredKafka(apache_kafka.KafkaBroker):
    """With the heap and the JVM options of Kafka's own start script."""

    jvm = (
        "-Xmx1G",
        "-Xms1G",
        "-server",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true",
    )


@dataclass(frozen=True)
class System:
    name: str
    folder: Path
    make: Callable[[Path, dict[str, str]], BrokerProcess]
    settings: Mapping[str, str]

    @contextmanager
    def broker(self, settings: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
        """Not started yet; whatever still runs at the end is killed, and its data removed."""
        home = Path(tempfile.mkdtemp(prefix=self.name + "-", dir=self.folder))
        made = self.make(home, {**SETTINGS, **self.settings, **(settings or {})})
        try:
            yield made
        finally:
            made.discard()
            shutil.rmtree(home, ignore_errors=True)

    @contextmanager
    def running(self, settings: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
        with self.broker(settings) as broker:
            broker.start()
            yield broker
            broker.stop()


def tidelog(folder: Path) -> System:
    return System("tidelog", folder, TidelogBroker, {})


def kafka(folder: Path) -> System:
    return System("kafka", folder, MeasuredKafka, KAFKA_SETTINGS)


def timed_start(broker: BrokerProcess) -> float:
    """Seconds from the start of the process to its first answer that names a broker to talk to.

    For a broker that has run before: its port is known, so that both systems are asked in the same way."""
    assert broker.port, "start the broker once before timing it"
    with ThreadPoolExecutor(1) as starter:
        begin = time.perf_counter()
        started = starter.submit(broker.start)
        while not _answers(broker.port):
            if started.done():
                started.result()  # raises what went wrong
            if time.perf_counter() - begin > START_SECONDS_MAX:
                raise TimeoutError(f"{broker.name} gave no answer in {START_SECONDS_MAX} s")
            time.sleep(0.002)
        seconds = time.perf_counter() - begin
        started.result()
    return seconds


def _answers(port: int) -> bool:
    try:
        with Admin(port) as admin:
            return admin.brokers() > 0
    except OSError:
        return False
