"""Three brokers and three members of etcd, each pair on a machine of its own, and the faults that befall them.

Every fault leaves the cluster to itself when it is over: what was killed is started again, and nothing else is done."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.conformance.process import wait_until
from tests.contract.etcd import Member
from tests.faults.broker import FaultyBroker
from tests.faults.namespaces import Network, broker_address, etcd_address

SIZE = 3
MACHINES = range(1, SIZE + 1)
DISK_KIB = 96 * 1024
ETCD_DISK_KIB = 512 * 1024  # it reserves 64 MB for its log, and as much again for the next one
PORT = 9092
TOPIC, PARTITIONS = "kept", 3
SECONDS_MAX = 180
CALL_S_MAX = 20.0
SETTINGS = {
    # Short, so that a follower that is cut off leaves the set while the cut lasts.
    "replica.lag.time.max.ms": "1500",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}


class NetworkedCluster:
    def __init__(self, folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.folder = folder
        self._settings = {**SETTINGS, **settings}
        self._starting = {number: threading.Lock() for number in MACHINES}
        self._of_process = {number: threading.Lock() for number in MACHINES}
        self.network = Network(SIZE)
        self.bootstrap = ",".join(f"{broker_address(number)}:{PORT}" for number in MACHINES)
        self.etcd = {number: self._member(folder, number) for number in MACHINES}
        self._peers = ",".join(f"{member.name}={member.peer}" for member in self.etcd.values())
        self.brokers = {number: self._broker(folder, number) for number in MACHINES}

    def _member(self, folder: Path, number: int) -> Member:
        machine = self.network.machines[number]
        machine.mount(folder / f"disk-{number}" / "etcd", ETCD_DISK_KIB)
        member = Member(folder / f"disk-{number}" / "etcd", f"etcd-{number}")
        member.host, member.port, member.peer_port = etcd_address(number), 2379, 2380
        member.prefix = machine.prefix
        return member

    def _broker(self, folder: Path, number: int) -> FaultyBroker:
        machine = self.network.machines[number]
        data = folder / f"disk-{number}" / "broker"
        self._mount_disk(number, data)
        metadata = ",".join(member.endpoint for member in self.etcd.values())
        settings = {**self._settings, "tidelog.metadata": f"etcd://{metadata}"}
        broker = FaultyBroker(folder / f"broker-{number}", settings, [data], machine.prefix)
        broker.host, broker.port, broker.node = broker_address(number), PORT, number
        return broker

    def _mount_disk(self, number: int, data: Path) -> None:
        """Of the broker on that machine."""
        self.network.machines[number].mount(data, DISK_KIB)

    def start(self) -> None:
        for member in self.etcd.values():
            member.spawn(self._peers)
        with self.network.hub.entered():
            for member in self.etcd.values():
                member.await_listening()
        wait_until(lambda: self._etcd_told() is not None, SECONDS_MAX, "etcd has a leader")
        with self.network.hub.entered():
            self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for broker in self.brokers.values():
            broker.start()

    def create_topic(self, partitions: int = PARTITIONS, **settings: str) -> None:
        wanted = NewTopic(TOPIC, partitions, SIZE, config={"min.insync.replicas": "2", **settings})
        wait_until(lambda: self._created(wanted), SECONDS_MAX, "the topic is made")
        self.wait_until_in_sync()

    def _created(self, wanted: Any) -> bool:
        """A machine with too much to do may lose its lease for a moment, and then there are too few brokers."""
        try:
            self.admin.create_topics([wanted])[TOPIC].result(SECONDS_MAX)
        except KafkaException as problem:
            return bool(problem.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    def end(self) -> None:
        for broker in self.brokers.values():
            broker.discard()
        for member in self.etcd.values():
            member.kill()
        self.network.end()

    # What it says of itself

    def metadata(self) -> Any:
        """librdkafka keeps to the broker it asked first, dead or not, for as long as the call may take: short calls first,
        and longer ones where the machine is busy."""
        deadline, timeout_s = time.monotonic() + SECONDS_MAX, 2.0
        while True:
            try:
                return self.admin.list_topics(timeout=timeout_s)
            except KafkaException:
                assert time.monotonic() < deadline, "no broker answers"
                timeout_s = min(2 * timeout_s, CALL_S_MAX)

    def leader(self, partition: int = 0) -> int:
        """The first machine, as long as nobody leads."""
        return max(1, int(self.metadata().topics[TOPIC].partitions[partition].leader))

    def controller(self) -> int:
        return max(1, int(self.metadata().controller_id))

    def wait_for_topics(self, *names: str) -> None:
        """A topic that is made while a broker is away has one replica fewer."""
        wait_until(lambda: set(names) <= set(self.metadata().topics), SECONDS_MAX, f"{names} are made")
        self.wait_until_in_sync()

    def wait_until_in_sync(self) -> None:
        """The topic has all machines.  One that brokers made for themselves while a broker was away has fewer."""

        def expected(name: str, partition: Any) -> set[int]:
            return set(MACHINES) if name.startswith(f"{TOPIC}-") else set(partition.replicas)

        deadline = time.monotonic() + SECONDS_MAX
        while True:
            partitions = {
                f"{topic.topic}-{index}": partition
                for topic in self.metadata().topics.values()
                for index, partition in topic.partitions.items()
            }
            behind = {
                name: f"leader {partition.leader}, in sync {partition.isrs}"
                for name, partition in partitions.items()
                if set(partition.isrs) != expected(name, partition) or partition.leader < 1
            }
            if not behind and f"{TOPIC}-0" in partitions:
                return
            assert time.monotonic() < deadline, f"not all replicas are in sync: {behind}"
            time.sleep(0.05)

    def etcd_leader(self) -> int:
        """The first machine, as long as nobody leads."""
        return self._etcd_told() or 1

    def _etcd_told(self) -> int | None:
        for number, member in self.etcd.items():
            request = urllib.request.Request(f"http://{member.endpoint}/v3/maintenance/status", b"{}")
            try:
                with self.network.hub.entered(), urllib.request.urlopen(request, timeout=2) as answer:
                    told = json.load(answer)
            except OSError:
                continue
            if told.get("leader") == told["header"]["member_id"]:
                return number
        return None

    def check_etcd(self) -> None:
        """A member that died of something else than our faults would make them weaker than they look."""
        for member in self.etcd.values():
            assert member.running and member.alive(), f"{member.name} has ended: {member.log_tail()}"

    def logs(self, partition: int) -> dict[int, bytes]:
        """Of each machine: the partition's bytes as they lie on its disk."""
        found = {}
        for number, broker in self.brokers.items():
            folder = self.network.machines[number].inside(broker.data) / f"{TOPIC}-{partition}"
            found[number] = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        return found

    def keep_logs(self) -> None:
        """The disks go with their machines: this is what can be looked at after a failure."""
        for number, broker in self.brokers.items():
            disk = self.network.machines[number].inside(broker.data)
            shutil.copytree(disk, self.folder / f"kept-{number}", dirs_exist_ok=True)

    # Faults.  Those of different machines, and of different parts of one machine, may overlap in time.

    @contextmanager
    def killed(self, machine: int) -> Iterator[None]:
        with self._of_process[machine]:
            self.brokers[machine].kill()
            yield
            self.start_broker(machine)

    @contextmanager
    def stopped(self, machine: int) -> Iterator[None]:
        """With SIGTERM, as for an upgrade."""
        with self._of_process[machine]:
            broker = self.brokers[machine]
            if broker.alive():
                broker.stop()
            yield
            self.start_broker(machine)

    @contextmanager
    def frozen(self, machine: int) -> Iterator[None]:
        with self._of_process[machine]:
            os.kill(self.brokers[machine].pid, signal.SIGSTOP)
            yield
            os.kill(self.brokers[machine].pid, signal.SIGCONT)

    @contextmanager
    def unplugged(self, machine: int) -> Iterator[None]:
        """From brokers, etcd and clients."""
        with self.network.unplugged(machine):
            yield

    @contextmanager
    def deaf(self, machine: int) -> Iterator[None]:
        """Nothing reaches it, and what it says arrives."""
        own = (broker_address(machine), etcd_address(machine))
        with self.network.losing(*((sender, own) for sender in (None, *_others(machine)))):
            yield

    @contextmanager
    def mute(self, machine: int) -> Iterator[None]:
        """It hears everything, and nothing that it says arrives."""
        with self.network.losing((machine, self._addresses(_others(machine)))):
            yield

    @contextmanager
    def apart(self, machine: int) -> Iterator[None]:
        """Two brokers do not reach each other; etcd, the third and clients reach both."""
        other = machine % SIZE + 1
        with self.network.losing((machine, [broker_address(other)]), (other, [broker_address(machine)])):
            yield

    @contextmanager
    def half_apart(self, machine: int) -> Iterator[None]:
        """One broker does not reach one other, which reaches it."""
        with self.network.losing((machine, [broker_address(machine % SIZE + 1)])):
            yield

    @contextmanager
    def without_etcd(self, machine: int) -> Iterator[None]:
        """The broker reaches no member of etcd, also not its neighbour, and everything else."""
        with self.network.losing((machine, [etcd_address(other) for other in _others(machine)])):
            self.etcd[machine].freeze()
            yield
            self.etcd[machine].thaw()

    @contextmanager
    def minority(self, machine: int) -> Iterator[None]:
        """The machine is apart from the two others; clients reach both sides."""
        others = _others(machine)
        with self.network.losing(
            (machine, self._addresses(others)), *((other, self._addresses([machine])) for other in others)
        ):
            yield

    @contextmanager
    def etcd_killed(self, machine: int) -> Iterator[None]:
        self.etcd[machine].kill()
        yield
        self.etcd[machine].spawn(self._peers)

    @contextmanager
    def disk_full(self, machine: int) -> Iterator[None]:
        ballast = self.network.machines[machine].fill(self.brokers[machine].data)
        yield
        ballast.unlink()

    def start_broker(self, machine: int) -> None:
        """Again and again until it runs, as a supervisor does: its disk may be full for now."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                with self._starting[machine]:
                    return self.brokers[machine].start()
            except AssertionError as refusal:
                assert time.monotonic() < deadline, refusal
                print(f"a start of broker {machine} was refused: {self.brokers[machine].log_tail()[-300:]}")
                time.sleep(0.5)

    @staticmethod
    def _addresses(machines: list[int]) -> list[str]:
        return [address(number) for number in machines for address in (broker_address, etcd_address)]


def _others(machine: int) -> list[int]:
    return [number for number in MACHINES if number != machine]
