"""Three machines with nothing but Tidelog (`--metadata embedded://`): each is killed in turn, one loses its disk.

A machine is an address of the loopback network, with a broker and the member of etcd that the broker runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.process import free_port, wait_until
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Admin, Consumer, NewTopic, Producer, TidelogError

MACHINES = (1, 2, 3)
TOPIC = "orders"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "tidelog.broker.lease.ms": "2000",
    "default.replication.factor": "3",
}


class Machine(TidelogBroker):
    def __init__(self, home: Path, number: int, port: int, metadata: str) -> None:
        super().__init__(home, SETTINGS | {"node.id": str(number), "tidelog.metadata": metadata})
        self.host = f"127.0.0.{number}"
        self.http = f"{self.host}:0"
        self.port = port

    @property
    def etcd(self) -> Path:
        return self.data / "metadata-etcd"

    def members(self) -> list[int]:
        """Process ids of the member of etcd."""
        found = subprocess.run(
            ["pgrep", "-f", f"data-dir={self.etcd.resolve()}"], capture_output=True, text=True
        )
        return [int(word) for word in found.stdout.split()]

    def lose_power(self) -> None:
        """Broker and member end at the same moment, without a last word."""
        pids = self.members()
        self.kill()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Machines:
    def __init__(self, home: Path) -> None:
        client, kafka = free_port(), free_port()
        metadata = "embedded://" + ",".join(f"127.0.0.{number}:{client}" for number in MACHINES)
        self.all = [Machine(home / f"machine-{number}", number, kafka, metadata) for number in MACHINES]
        self.sent: list[bytes] = []

    def start(self) -> None:
        """All together: none is ready before a majority runs."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(self.all)) as threads:
            for started in [threads.submit(machine.start) for machine in self.all]:
                started.result()

    @property
    def bootstrap(self) -> str:
        return ",".join(machine.bootstrap for machine in self.all)

    def create(self, topic: str) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            deadline = time.monotonic() + 60
            while True:
                try:
                    admin.create_topics(
                        [
                            NewTopic(
                                topic,
                                partitions=2,
                                replication_factor=2,
                                configs={"min.insync.replicas": "1"},
                            )
                        ]
                    )
                    return
                except TidelogError:
                    # A broker that is gone is known to be gone only when its lease ends.
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.5)

    def send(self, count: int) -> None:
        with Producer(bootstrap_servers=self.bootstrap, acks="all", delivery_timeout_ms=90_000) as producer:
            values = [b"%d" % number for number in range(len(self.sent), len(self.sent) + count)]
            for delivery in [producer.send(TOPIC, value) for value in values]:
                delivery.get(timeout=100)
            self.sent += values

    def received(self) -> list[bytes]:
        values: list[bytes] = []
        with Consumer(TOPIC, bootstrap_servers=self.bootstrap, auto_offset_reset="earliest") as consumer:
            deadline = time.monotonic() + 60
            while len(values) < len(self.sent) and time.monotonic() < deadline:
                values += [record.value for record in consumer.poll(timeout_ms=1000)]
        return sorted(values)

    def await_in_sync(self) -> None:
        def are_all_in_sync() -> bool:
            with Admin(bootstrap_servers=self.bootstrap) as admin:
                (described,) = admin.describe_topics([TOPIC]).values()
                return all(len(partition.in_sync) == 3 for partition in described.partitions)

        wait_until(are_all_in_sync, 120, "all replicas are in sync", every=0.5)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    made.start()
    with Admin(bootstrap_servers=made.bootstrap) as admin:
        admin.create_topics(
            [NewTopic(TOPIC, partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})]
        )
    yield made
    for machine in made.all:
        machine.lose_power() if machine.alive() else None


@pytest.mark.timeout(600)
def test_each_of_three_machines_may_be_lost(machines: Machines) -> None:
    machines.send(50)
    for machine in machines.all:
        machine.lose_power()
        machines.send(50)
        machines.create(f"made-without-{machine.host}")
        machine.start()
        machines.await_in_sync()
    machines.send(50)
    assert machines.received() == sorted(machines.sent)


@pytest.mark.timeout(600)
def test_a_machine_whose_disk_is_new_is_taken_back(machines: Machines) -> None:
    machines.send(50)
    lost = machines.all[1]
    lost.lose_power()
    shutil.rmtree(lost.data)
    machines.send(50)
    lost.start()
    machines.await_in_sync()
    # The new member counts: without another machine it is half of the majority.
    machines.all[0].lose_power()
    machines.create("made-with-the-new-member")
    machines.send(50)
    assert machines.received() == sorted(machines.sent)


@pytest.mark.timeout(600)
def test_a_member_that_dies_is_started_again_and_ends_with_its_broker(machines: Machines) -> None:
    machine = machines.all[2]
    (first,) = machine.members()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: bool(set(machine.members()) - {first}), 60, "the member runs again")
    machines.send(50)
    machine.kill()
    wait_until(lambda: not machine.members(), 60, "the member has ended with its broker")
    machine.start()
    machine.stop()
    assert not machine.members()
