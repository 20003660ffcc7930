"""A real HAProxy with the configuration of deploy/ in front of three brokers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.conformance.process import free_port, wait_until
from tests.faults.monitored import DEPLOY
from tests.faults.test_dev import HTTP_APART, Dev
from tidelog import Admin, Consumer, NewTopic, Producer

SECONDS_MAX = 120
CONFIG = DEPLOY / "haproxy" / "haproxy.cfg"


class Balancer:
    def __init__(self, folder: Path, dev: Dev) -> None:
        self.kafka, self.http = free_port(), free_port()
        text = CONFIG.read_text().replace("bind *:9092", f"bind 127.0.0.1:{self.kafka}")
        text = text.replace("bind *:8090", f"bind 127.0.0.1:{self.http}")
        for broker in range(dev.brokers):
            kafka, http = dev.port + broker, dev.port + HTTP_APART + broker
            name = f"broker{broker + 1}"
            text = text.replace(f"{name}:9092 check port 8090", f"127.0.0.1:{kafka} check port {http}")
            text = text.replace(f"{name}:8090", f"127.0.0.1:{http}")
        self._file = folder / "haproxy.cfg"
        self._file.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "HAProxy is missing: tools/install-test-tools installs it"
        checked = subprocess.run([program, "-c", "-f", self._file], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
        self._process = subprocess.Popen([program, "-db", "-f", self._file], stderr=subprocess.DEVNULL)

    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    cluster = Dev(tmp_path / "dev", 3)
    cluster.start()
    yield cluster
    cluster.discard()


@pytest.fixture
def balancer(tmp_path: Path, dev: Dev) -> Iterator[Balancer]:
    running = Balancer(tmp_path, dev)
    running.start()
    yield running
    running.stop()


def console_answers(balancer: Balancer) -> bool:
    assert balancer.runs(), "HAProxy has ended"
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{balancer.http}/console/brokers", timeout=10
        ) as answer:
            return b"Brokers" in answer.read()
    except OSError:
        return False


def test_clients_bootstrap_through_a_load_balancer_while_a_broker_is_gone(
    dev: Dev, balancer: Balancer
) -> None:
    bootstrap = f"127.0.0.1:{balancer.kafka}"
    wait_until(lambda: console_answers(balancer), SECONDS_MAX, "the balancer finds the brokers")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("orders", partitions=3, replication_factor=3)])
        # What clients learn is not the balancer, but each broker.
        nodes = {(node.host, node.port) for node in admin.describe_cluster().nodes.values()}
        assert nodes == {("127.0.0.1", dev.port + broker) for broker in range(3)}
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(30):
            producer.send("orders", b"before", partition=number % 3).get(timeout=SECONDS_MAX)
        os.kill(next(state["pid"] for state in dev.state()["brokers"] if state["id"] == 2), signal.SIGKILL)
        # The producer that is connected goes on, and new clients get a broker that is up.
        for number in range(30):
            producer.send("orders", b"after", partition=number % 3).get(timeout=SECONDS_MAX)
    other = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        other.produce("orders", b"other", partition=number % 3)
    assert other.flush(SECONDS_MAX) == 0
    with Consumer(
        "orders", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        read = 0
        while read < 90:
            read += len(consumer.poll(timeout_ms=1_000))
    assert console_answers(balancer)


def test_the_example_outlasts_idle_connections_of_the_brokers() -> None:
    minutes = {int(match) for match in re.findall(r"timeout (?:client|server)\s+(\d+)m", CONFIG.read_text())}
    assert minutes and min(minutes) > 10  # connections.max.idle.ms
