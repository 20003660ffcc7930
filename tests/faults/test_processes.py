"""`tidelog serve --processes N`: brokers of one machine as one unit, through the death of any part of it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.process import free_ports, wait_until
from tests.faults.history import Writer, check

TIDELOG = str(Path(sys.executable).parent / "tidelog")
SECONDS_MAX = 120
HTTP = 500
PARTITIONS = 6


class Unit:
    """One `tidelog serve --processes`, with a folder and ports that outlive it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports([*range(5), *range(HTTP, HTTP + 5)])
        self.process: subprocess.Popen[str] | None = None
        self.log = folder.parent / "unit.log"

    def start(self, processes: int, *words: str) -> str:
        """The line that says `ready`; empty when it ends instead."""
        command = [TIDELOG, "serve", "--data", str(self.folder), "--listen", f"127.0.0.1:{self.port}"]
        command += ["--http", f"127.0.0.1:{self.port + HTTP}", *words]
        if processes > 1:
            command += ["--processes", str(processes)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], SECONDS_MAX)[0], "it says nothing"
        return self.process.stdout.readline().strip()

    def pids(self) -> dict[str, int]:
        """Name -> number of each process of the unit."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return {Path(f"/proc/{pid}/comm").read_text().strip(): int(pid) for pid in children}

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode

    def discard(self) -> None:
        if self.process is not None and self.process.poll() is None:
            pids = self.pids()
            self.process.kill()
            self.process.communicate()
            for pid in pids.values():
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)

    def addresses(self, processes: int) -> str:
        return ",".join(f"127.0.0.1:{self.port + number}" for number in range(processes))

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port + HTTP}/metrics", timeout=30) as answer:
            return str(answer.read().decode())


def leaders(bootstrap: str, topic: str) -> dict[int, str]:
    """The address of the leader of each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def led() -> bool:
        partitions = admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
        return all(partition.leader >= 0 for partition in partitions.values())

    wait_until(led, SECONDS_MAX, "every partition has a leader")
    cluster = admin.list_topics(topic, timeout=SECONDS_MAX)
    brokers = {node: f"{broker.host}:{broker.port}" for node, broker in cluster.brokers.items()}
    return {index: brokers[partition.leader] for index, partition in cluster.topics[topic].partitions.items()}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[Unit]:
    made = Unit(tmp_path / "data")
    yield made
    made.discard()


def create(bootstrap: str, topic: str, replicas: int = 1) -> list[int]:
    """The leaders of its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, replicas)])[topic].result(SECONDS_MAX)
    partitions = admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
    return sorted(partition.leader for partition in partitions.values())


def test_any_process_may_die_and_nothing_acknowledged_is_lost(unit: Unit) -> None:
    addresses = unit.addresses(3)
    assert unit.start(3) == f"ready kafka={addresses} http=127.0.0.1:{unit.port + HTTP} id=1,2,3"
    assert create(addresses, "spread") == [1, 1, 2, 2, 3, 3]
    with pytest.raises(confluent_kafka.KafkaException, match="3 registered brokers run on 1 machine"):
        create(addresses, "twice", 2)
    first = unit.pids()
    assert sorted(first) == ["tidelog-1", "tidelog-2", "tidelog-3", "tidelog-store"]
    with Writer(addresses, "spread", PARTITIONS) as writer:
        for name in ("tidelog-2", "tidelog-store", "tidelog-1"):
            goal = writer.acknowledged + 200
            wait_until(lambda goal=goal: writer.acknowledged >= goal, SECONDS_MAX, "records are taken")
            os.kill(first[name], signal.SIGKILL)
            wait_until(
                lambda name=name: unit.pids().get(name, first[name]) != first[name], SECONDS_MAX, "its return"
            )
        again = unit.pids()
        os.kill(again["tidelog-3"], signal.SIGKILL)
        os.kill(again["tidelog-store"], signal.SIGKILL)
        goal = writer.acknowledged + 2000
        wait_until(lambda: writer.acknowledged >= goal, SECONDS_MAX, "records are taken")
    check(writer, leaders(addresses, writer.topic))
    assert unit.pids().keys() == first.keys()
    last = unit.pids()
    assert unit.end() == 0
    assert not any(map(alive, last.values()))
    assert unit.start(3).startswith(f"ready kafka={addresses} ")
    check(writer, leaders(addresses, writer.topic))
    assert unit.end(signal.SIGINT) == 0


def test_without_its_supervisor_the_unit_ends_and_starts_again(unit: Unit) -> None:
    unit.start(2)
    addresses = unit.addresses(2)
    create(addresses, "kept")
    with Writer(addresses, "kept", PARTITIONS) as writer:
        wait_until(lambda: writer.acknowledged >= 300, SECONDS_MAX, "records are taken")
        pids = unit.pids()
        assert unit.process is not None
        unit.process.kill()
        unit.process.communicate()
        # At once: the new one waits for what is left of the old.
        assert unit.start(2).startswith("ready ")
        assert not any(map(alive, pids.values()))
        goal = writer.acknowledged + 300
        wait_until(lambda: writer.acknowledged >= goal, SECONDS_MAX, "records are taken again")
    check(writer, leaders(addresses, writer.topic))
    assert unit.end() == 0


def test_one_broker_becomes_three_and_one_of_them_is_taken_away(unit: Unit) -> None:
    assert unit.start(1).endswith(" id=1")
    create(unit.addresses(1), "old")
    with Writer(unit.addresses(1), "old", PARTITIONS) as writer:
        wait_until(lambda: writer.acknowledged >= 300, SECONDS_MAX, "records are taken")
    assert unit.end() == 0

    assert unit.start(3).endswith(" id=1,2,3")
    addresses = unit.addresses(3)
    check(writer, leaders(addresses, writer.topic))
    assert create(addresses, "new") == [1, 1, 2, 2, 3, 3]
    assert unit.end() == 0

    assert unit.start(1) == "", "the parts of three are not for one"
    assert "has the data of 3 processes: start it with --processes 3" in unit.log.read_text()
    assert unit.start(2) == ""
    assert re.search(r"broker 3 still has \d+ replica.*tidelog brokers drain 3", unit.log.read_text())

    assert unit.start(3).endswith(" id=1,2,3")
    command = [TIDELOG, "brokers", "drain", "3", "--execute", "--wait", "--bootstrap", addresses]
    drained = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert drained.returncode == 0, drained.stderr
    gone = unit.folder / "broker-3"
    wait_until(
        lambda: not [path for path in gone.iterdir() if path.is_dir()], SECONDS_MAX, "it holds nothing"
    )
    assert unit.end() == 0
    assert unit.start(2).endswith(" id=1,2")
    check(writer, leaders(unit.addresses(2), writer.topic))
    assert unit.end() == 0


def test_one_page_has_the_metrics_of_all_and_tells_of_one_that_does_not_answer(unit: Unit) -> None:
    unit.start(3)
    addresses = unit.addresses(3)
    create(addresses, "measured")
    with Writer(addresses, "measured", PARTITIONS) as writer:
        wait_until(lambda: writer.acknowledged >= 100, SECONDS_MAX, "records are taken")
    page = unit.metrics()
    taken = re.findall(r'^mq_messages_in_total\{process="(\d)"\} (\d+)$', page, re.MULTILINE)
    assert [process for process, _ in taken] == ["1", "2", "3"]
    assert sum(int(count) for _, count in taken) == writer.acknowledged
    assert len(re.findall(r"^# TYPE ", page, re.MULTILINE)) == len(
        set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))
    )
    assert 'mq_topic_messages_in_total{process="2",topic="measured"}' in page
    assert re.search(r'^mq_produce_latency_ms_bucket\{process="3",le="\+Inf"\} \d', page, re.MULTILINE)
    frozen = unit.pids()["tidelog-2"]
    os.kill(frozen, signal.SIGSTOP)
    try:
        page = unit.metrics()
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert [
        f'mq_process_up{{process="{number}"}} {up}' in page for number, up in ((1, 1), (2, 0), (3, 1))
    ] == [True] * 3
    assert unit.end() == 0


def test_one_that_cannot_start_ends_the_unit_with_its_reason(
    unit: Unit, new_port: Callable[[int], socket.socket]
) -> None:
    taken = new_port(unit.port + 1)
    assert unit.start(2) == ""
    assert unit.process is not None and unit.process.wait(SECONDS_MAX) == 1
    assert str(unit.port + 1) in unit.log.read_text()
    taken.close()
    assert unit.start(2).endswith(" id=1,2")
    assert json.loads((unit.folder / "processes.json").read_text()) == {"brokers": [1, 2]}
    assert unit.end() == 0


@pytest.fixture
def new_port() -> Iterator[Callable[[int], socket.socket]]:
    made: list[socket.socket] = []

    def listen(port: int) -> socket.socket:
        made.append(socket.create_server(("127.0.0.1", port)))
        return made[-1]

    yield listen
    for server in made:
        server.close()
