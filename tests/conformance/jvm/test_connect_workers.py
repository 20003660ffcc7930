"""Workers of Kafka Connect and MirrorMaker 2, from Apache Kafka's published jars, killed and started again."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.apache_kafka import JVM
from tests.conformance.conftest import ON_KAFKA, SECURED
from tests.conformance.jvm.maven import CONNECT
from tests.conformance.process import BrokerProcess, free_port, wait_until
from tests.conformance.raw import Connection
from tidelog import Admin, Consumer, NewTopic, Producer

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.deep,
    pytest.mark.skipif(SECURED, reason="the workers connect without a log-in"),
]

SECONDS_MAX = 240
SETTINGS = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"} | (
    {} if ON_KAFKA else {"transaction.state.log.replication.factor": "1"}
)
FILES = "org.apache.kafka.connect.file.FileStream"


class Worker:
    """One JVM; `start` after `kill` is the same worker again."""

    def __init__(self, home: Path, main_class: str, settings: dict[str, str]) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._log = home / "worker.log"
        self._settings = home / "worker.properties"
        self._settings.write_text("\n".join(f"{name}={value}" for name, value in settings.items()))
        self._main_class = main_class
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["java", *JVM, "-cp", f"{CONNECT.path}/*", self._main_class, str(self._settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    if reason := CONNECT.resolve():
        pytest.skip(reason)
    made: list[Worker] = []

    def make(name: str, main_class: str, settings: dict[str, str]) -> Worker:
        made.append(Worker(tmp_path / name, main_class, settings))
        made[-1].start()
        return made[-1]

    yield make
    for running in made:
        running.kill()


def committed(bootstrap: str, topic: str) -> Counter[bytes]:
    values: Counter[bytes] = Counter()
    with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while batch := consumer.poll(timeout_ms=2000):
            values.update(record.value for record in batch)
    return values


def connect_settings(bootstrap: str, port: int) -> dict[str, str]:
    converter = "org.apache.kafka.connect.storage.StringConverter"
    storages = {
        f"{name}.storage.{setting}": value
        for name in ("offset", "config", "status")
        for setting, value in (("topic", f"connect-{name}"), ("replication.factor", "1"))
    }
    return storages | {
        "bootstrap.servers": bootstrap,
        "group.id": "workers",
        "key.converter": converter,
        "value.converter": converter,
        "offset.storage.partitions": "3",
        "listeners": f"http://127.0.0.1:{port}",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "1000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
    }


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"content-type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def answers(port: int, method: str, path: str, body: Any = None) -> bool:
    """False while the workers rebalance or are not there."""
    try:
        ask(port, method, path, body)
    except OSError:
        return False
    return True


@pytest.mark.timeout(900)
def test_connect_workers_move_every_line_once(
    own_broker: Any, worker: Callable[..., Worker], tmp_path: Path
) -> None:
    broker: BrokerProcess = own_broker(SETTINGS)
    ports = [free_port(), free_port()]
    main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
    workers = {
        port: worker(f"worker-{port}", main_class, connect_settings(broker.bootstrap, port)) for port in ports
    }
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    lines: list[bytes] = []

    def append(count: int) -> None:
        more = [b"line %d" % number for number in range(len(lines), len(lines) + count)]
        with source.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in more))
        lines.extend(more)

    append(100)
    reading = {
        "connector.class": f"{FILES}SourceConnector",
        "file": str(source),
        "topic": "lines",
        "exactly.once.support": "required",
    }
    writing = {
        "connector.class": f"{FILES}SinkConnector",
        "file": str(sink),
        "topics": "lines",
        "consumer.override.isolation.level": "read_committed",
    }
    for port in ports:
        wait_until(lambda port=port: answers(port, "GET", "/connectors"), SECONDS_MAX, "the worker answers")
    for name, config in (("reading", reading), ("writing", writing)):
        path = f"/connectors/{name}/config"
        wait_until(
            lambda path=path, config=config: answers(ports[0], "PUT", path, config), 120, f"{name} is there"
        )
    wait_until(
        lambda: committed(broker.bootstrap, "lines").total() > 0, SECONDS_MAX, "the first lines are read"
    )
    (task,) = ask(ports[0], "GET", "/connectors/reading/status")["tasks"]
    reader = workers[int(task["worker_id"].rpartition(":")[2])]
    reader.kill()
    append(100)
    wait_until(
        lambda: committed(broker.bootstrap, "lines").total() >= 200, SECONDS_MAX, "the other worker took over"
    )
    reader.start()
    append(100)

    def is_written() -> bool:
        return sink.exists() and set(sink.read_bytes().split(b"\n")) >= set(lines)

    wait_until(is_written, SECONDS_MAX, "every line is in the sink")
    assert committed(broker.bootstrap, "lines") == Counter(lines)


@pytest.mark.timeout(900)
def test_mirror_maker_copies_records_and_offsets(own_broker: Any, worker: Callable[..., Worker]) -> None:
    here: BrokerProcess = own_broker(SETTINGS)
    there: BrokerProcess = own_broker(SETTINGS)
    with Admin(bootstrap_servers=here.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", partitions=3)])
    values: list[bytes] = []

    def send(count: int) -> None:
        with Producer(bootstrap_servers=here.bootstrap) as producer:
            more = [b"%d" % number for number in range(len(values), len(values) + count)]
            for value in more:
                producer.send("orders", value, key=value)
            values.extend(more)

    send(100)
    replication = ("", "offset.storage.", "config.storage.", "status.storage.")
    topics = ("checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic.")
    settings = {f"{name}replication.factor": "1" for name in (*replication, *topics)} | {
        "clusters": "here, there",
        "here.bootstrap.servers": here.bootstrap,
        "there.bootstrap.servers": there.bootstrap,
        "here->there.enabled": "true",
        "here->there.topics": "orders",
        "there.exactly.once.source.support": "enabled",
        "refresh.topics.interval.seconds": "2",
        "refresh.groups.interval.seconds": "2",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "offset.lag.max": "0",
        "offset.flush.interval.ms": "500",
    }
    mirror = worker("mirror", "org.apache.kafka.connect.mirror.MirrorMaker", settings)

    def copied() -> int:
        try:
            return committed(there.bootstrap, "here.orders").total()
        except Exception:  # the topic is not there yet
            return 0

    wait_until(lambda: copied() >= 100, SECONDS_MAX, f"the first records are copied {mirror.log_tail()}")
    mirror.kill()
    send(100)
    mirror.start()
    wait_until(lambda: copied() >= 200, SECONDS_MAX, "the records of the pause are copied")
    send(100)
    wait_until(lambda: copied() >= 300, SECONDS_MAX, "the last records are copied")
    assert committed(there.bootstrap, "here.orders") == Counter(values)

    with Consumer(
        "orders", bootstrap_servers=here.bootstrap, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        received = 0
        while received < len(values):
            received += len(consumer.poll(timeout_ms=2000))
        consumer.commit()

    def offsets(bootstrap: str, topic: str) -> list[int]:
        wanted = {"group_id": "billing", "topics": [{"name": topic, "partition_indexes": [0, 1, 2]}]}
        with Connection(bootstrap) as connection:
            answer = connection.call(
                "offset_fetch",
                8,
                groups=[{**wanted, "member_id": None, "member_epoch": -1}],
                require_stable=False,
            )
            return [row.committed_offset for topic in answer.groups[0].topics for row in topic.partitions]

    expected = offsets(here.bootstrap, "orders")
    assert sum(expected) == len(values)
    wait_until(
        lambda: sum(offsets(there.bootstrap, "here.orders")) >= len(values),
        SECONDS_MAX,
        "the offsets of the group are translated",
    )
