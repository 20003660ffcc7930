"""`tidelog dev`: a cluster in one folder, its processes, and what it does when they die."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.process import free_ports, wait_until
from tests.conformance.pseudo_terminal import PseudoTerminal

TIDELOG = str(Path(sys.executable).parent / "tidelog")
SECONDS_MAX = 180
HTTP_APART = 1000


class Dev:
    """One `tidelog dev`, in a folder that outlives it."""

    def __init__(
        self, folder: Path, brokers: int, etcd: int = 0, settings: Mapping[str, str] | None = None
    ) -> None:
        self.settings = settings or {}
        self.add_scram: tuple[str, ...] = ()
        self.folder = folder
        self.port = free_ports([*range(brokers), *range(HTTP_APART, HTTP_APART + brokers)])
        self.brokers = brokers
        self.etcd = etcd
        self.process: subprocess.Popen[str] | None = None
        self.said = ""

    def start(self, **environment: str) -> str:
        """The first line that it prints; empty when it ends instead."""
        self.process = subprocess.Popen(
            [TIDELOG, "dev", *self.options()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 2 * SECONDS_MAX)[0], "it says nothing"
        line = self.process.stdout.readline().strip()
        if not line:
            _, self.said = self.process.communicate(timeout=SECONDS_MAX)
        return line

    def options(self) -> list[str]:
        options = {"brokers": self.brokers, "data": self.folder, "port": self.port, "etcd": self.etcd}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        words += [word for item in self.settings.items() for word in ("--set", "=".join(item))]
        return words + [word for entry in self.add_scram for word in ("--add-scram", entry)]

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Its exit code, and what it said on standard error."""
        assert self.process is not None
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, said

    def discard(self) -> None:
        pids = self.pids()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        for pid in pids:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)

    def state(self) -> Any:
        path = self.folder / "dev.json"
        return json.loads(path.read_text()) if path.exists() else {"brokers": [], "etcd": [], "store": []}

    def pids(self) -> list[int]:
        state = self.state()
        return [one["pid"] for one in [*state["brokers"], *state["etcd"], *state["store"]]]

    def restart(self, number: int) -> subprocess.CompletedProcess[str]:
        return run("dev", "restart", str(number), "--data", str(self.folder))

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + number}" for number in range(self.brokers))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TIDELOG, *words], capture_output=True, text=True, timeout=SECONDS_MAX)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


@pytest.fixture
def new_dev(tmp_path: Path) -> Iterator[Callable[..., Dev]]:
    made: list[Dev] = []

    def make(brokers: int, etcd: int = 0, settings: Mapping[str, str] | None = None) -> Dev:
        made.append(Dev(tmp_path / "cluster", brokers, etcd, settings))
        return made[-1]

    yield make
    for dev in made:
        dev.discard()


def send_to_all(bootstrap: str, topic: str, partitions: int, value: bytes) -> None:
    failed: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for index in range(partitions):
        producer.produce(
            topic, value, partition=index, on_delivery=lambda error, _: error and failed.append(error)
        )
    assert producer.flush(SECONDS_MAX) == 0 and not failed, failed


def ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Where each partition ends; right after a start some may have no leader yet."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    found: dict[int, int] = {}

    def ask() -> bool:
        for index in set(range(partitions)) - set(found):
            try:
                where = confluent_kafka.TopicPartition(topic, index)
                found[index] = consumer.get_watermark_offsets(where, timeout=SECONDS_MAX)[1]
            except confluent_kafka.KafkaException:
                return False
        return True

    try:
        wait_until(ask, SECONDS_MAX, "every partition has a leader")
    finally:
        consumer.close()
    return [found[index] for index in range(partitions)]


def test_a_cluster_starts_outlives_a_broker_and_stops_with_everything(new_dev: Callable[..., Dev]) -> None:
    dev = new_dev(3)
    assert dev.start() == f"ready kafka={dev.addresses}"
    state = dev.state()
    assert [(one["id"], one["kafka"], one["http"]) for one in state["brokers"]] == [
        (number, f"127.0.0.1:{dev.port + number - 1}", f"127.0.0.1:{dev.port + number + 999}")
        for number in (1, 2, 3)
    ]
    assert len(state["store"]) == 1 and not state["etcd"] and all(map(alive, dev.pids()))
    for broker in state["brokers"]:
        with urllib.request.urlopen(f"http://{broker['http']}/health/ready", timeout=10) as answer:
            assert answer.status == 200

    admin = AdminClient({"bootstrap.servers": dev.addresses})
    admin.create_topics([NewTopic("spread", 6, 1)])["spread"].result(SECONDS_MAX)
    partitions = admin.list_topics("spread", timeout=SECONDS_MAX).topics["spread"].partitions
    assert sorted(one.leader for one in partitions.values()) == [1, 1, 2, 2, 3, 3]
    send_to_all(dev.addresses, "spread", 6, b"first")

    killed = state["brokers"][1]["pid"]
    command = [TIDELOG, "top", "--view", "brokers", "--interval", "0.5", "--bootstrap", dev.addresses]
    with PseudoTerminal(command, columns=160) as top:
        top.until(lambda text: "all replicas are in sync" in text, "somebody looks")
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not alive(killed), 10, "the broker is gone")
        text = top.until(lambda text: "2 partitions without a leader" in text, "the loss is seen")
        assert "broker 2 is not running" in text and f"127.0.0.1:{dev.port}" in text, "the others are shown"
        answer = dev.restart(2)
        assert answer.returncode == 0, answer.stderr
        top.until(lambda text: "all replicas are in sync" in text, "its return is seen")
    assert answer.stdout.startswith(f"ready kafka=127.0.0.1:{dev.port + 1} ") and "id=2" in answer.stdout
    again = dev.state()["brokers"][1]
    assert again["pid"] != killed and alive(again["pid"])
    assert again["command"] == state["brokers"][1]["command"]
    send_to_all(dev.addresses, "spread", 6, b"second")
    assert ends(dev.addresses, "spread", 6) == [2] * 6

    pids = dev.pids()
    code, said = dev.end()
    assert code == 0
    assert f"broker 2 (process {killed}) has ended" in said
    assert not any(map(alive, pids))
    assert not (dev.folder / "dev.json").exists()

    assert dev.start() == f"ready kafka={dev.addresses}"
    assert ends(dev.addresses, "spread", 6) == [2] * 6
    assert dev.end(signal.SIGTERM)[0] == 0


def test_three_members_of_etcd_and_one_broker_that_is_restarted_while_it_runs(
    new_dev: Callable[..., Dev],
) -> None:
    dev = new_dev(1, etcd=3)
    assert dev.start() == f"ready kafka={dev.addresses}"
    assert len(dev.state()["etcd"]) == 3
    before = dev.state()["brokers"][0]["pid"]
    assert dev.restart(1).returncode == 0
    assert not alive(before)
    # A member less is no reason to stop; neither is a broker that is frozen when it is told to.
    os.kill(dev.state()["etcd"][0]["pid"], signal.SIGKILL)
    os.kill(dev.state()["brokers"][0]["pid"], signal.SIGSTOP)
    pids = dev.pids()
    assert dev.end()[0] == 0
    assert not any(map(alive, pids))
    assert (dev.folder / "broker-1" / ".clean-shutdown").exists(), "it was killed, and not asked"


def test_what_cannot_be_done_is_refused_with_the_reason(new_dev: Callable[..., Dev], tmp_path: Path) -> None:
    dev = new_dev(1, etcd=1)
    nobody = dev.restart(1)
    assert nobody.returncode == 1 and "no `tidelog dev` runs" in nobody.stderr

    for place in ("/proc/nowhere", "/dev/null"):
        nowhere = run("dev", "--data", place)
        assert nowhere.returncode == 1 and nowhere.stderr.startswith(
            f"Error: the folder {place} cannot be created"
        )
        assert len(nowhere.stderr.splitlines()) == 1

    assert dev.start(PATH=str(tmp_path)) == ""
    assert "leave --etcd out" in dev.said and "apt-get install etcd-server" in dev.said

    with socket.create_server(("127.0.0.1", dev.port)):
        assert dev.start() == ""
        assert "broker 1 did not start" in dev.said and "in use" in dev.said
        assert dev.pids() == []

    assert dev.start() == f"ready kafka={dev.addresses}"
    second = run("dev", *dev.options())
    assert second.returncode == 1 and "another `tidelog dev` runs" in second.stderr
    unknown = dev.restart(7)
    assert unknown.returncode == 1 and "broker 7 does not exist" in unknown.stderr
    assert dev.end()[0] == 0
    for members in ("0", "3"):
        more = run("dev", *dev.options()[:-1], members)
        assert more.returncode == 1 and "start it with --etcd 1" in more.stderr


def test_a_cluster_needs_no_etcd_and_keeps_its_own_metadata_store(
    new_dev: Callable[..., Dev], tmp_path: Path
) -> None:
    dev = new_dev(3)
    assert dev.start(PATH=str(tmp_path)) == f"ready kafka={dev.addresses}", dev.said
    admin = AdminClient({"bootstrap.servers": dev.addresses})
    topic = NewTopic("kept", 3, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["kept"].result(SECONDS_MAX)
    send_to_all(dev.addresses, "kept", 3, b"first")

    (store,) = dev.state()["store"]
    os.kill(store["pid"], signal.SIGKILL)
    wait_until(lambda: dev.state()["store"][0]["pid"] != store["pid"], SECONDS_MAX, "it is started again")

    def created() -> bool:
        answer = admin.create_topics([NewTopic("later", 3, 3)], request_timeout=SECONDS_MAX)["later"]
        try:
            answer.result(SECONDS_MAX)
        except confluent_kafka.KafkaException as problem:
            if problem.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                return True
            assert problem.args[0].retriable() or "replication factor" in str(problem).lower(), problem
            return False
        return True

    wait_until(created, SECONDS_MAX, "the brokers are registered again")
    send_to_all(dev.addresses, "kept", 3, b"second")
    assert ends(dev.addresses, "kept", 3) == [2] * 3
    pids = dev.pids()
    code, said = dev.end()
    assert code == 0 and not any(map(alive, pids))
    assert f"metadata store (process {store['pid']}) has ended: it is started again" in said
    assert "Running 3 brokers and a metadata store in" in said

    other = run("dev", *dev.options()[:-1], "1")
    assert other.returncode == 1 and "start it without --etcd" in other.stderr
    assert dev.start() == f"ready kafka={dev.addresses}", dev.said
    assert ends(dev.addresses, "kept", 3) == [2] * 3
    assert dev.end()[0] == 0


def test_what_a_killed_command_left_behind_is_ended_by_the_next_one(new_dev: Callable[..., Dev]) -> None:
    dev = new_dev(1)
    dev.start()
    left = dev.pids()
    assert dev.process is not None
    dev.process.kill()
    dev.process.communicate()
    assert all(map(alive, left))
    assert dev.start() == f"ready kafka={dev.addresses}", dev.said
    assert not any(map(alive, left))
    assert dev.end()[0] == 0


def test_it_can_be_stopped_while_it_starts(new_dev: Callable[..., Dev]) -> None:
    dev = new_dev(1)
    dev.process = subprocess.Popen(
        [TIDELOG, "dev", *dev.options()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: dev.state()["store"], SECONDS_MAX, "the store is started", every=0.005)
    pids = dev.pids()
    code, _ = dev.end(signal.SIGTERM)
    assert code == 0
    deadline = time.monotonic() + 10
    while any(map(alive, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert dev.pids() == []
