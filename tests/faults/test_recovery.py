"""Brokers that are killed, restarted one by one or started twice: the cluster goes on at once, not when a lease ends."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tests.conformance.process import free_port, wait_until
from tests.conformance.raw import Connection
from tests.faults.cluster_traffic import QUIET, Writer
from tests.faults.test_cluster import PARTITIONS, SECONDS_MAX, TOPIC, Cluster
from tests.faults.test_dev import TIDELOG, Dev, alive, new_dev

__all__ = ["new_dev"]

# Far beyond every wait here: whatever needs a lease to end fails.
LONG_LEASE = {"tidelog.broker.lease.ms": "600000"}
STALLED_S_MAX = 10  # a machine under load; what waits for a lagging replica or a session takes longer


class StallWatch(threading.Thread):
    """Reads everything, and remembers the longest time in which nothing came."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.seen: list[bytes] = []
        self.stalled_s = 0.0
        self._ended = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "group.id": "watch", "auto.offset.reset": "earliest"}
        self._consumer = confluent_kafka.Consumer({**settings, **QUIET})
        self._consumer.subscribe([TOPIC])

    def run(self) -> None:
        last: float | None = None
        while not self._ended.is_set():
            for each in self._consumer.consume(500, timeout=0.05):
                message: Any = each
                if message.error() is not None:
                    continue
                now = time.monotonic()
                if last is not None:
                    self.stalled_s = max(self.stalled_s, now - last)
                last = now
                self.seen.append(message.value())
        self._consumer.close()

    def end(self) -> None:
        self._ended.set()
        self.join()


def started(dev: Dev) -> Cluster:
    assert dev.start().startswith("ready kafka="), dev.said
    cluster = Cluster(dev)
    wanted = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
    cluster.admin.create_topics([wanted])[TOPIC].result(SECONDS_MAX)
    return cluster


def test_a_killed_broker_is_replaced_and_comes_back_long_before_its_lease_ends(
    new_dev: Callable[..., Dev],
) -> None:
    dev = new_dev(3, settings=LONG_LEASE)
    cluster = started(dev)
    writer = Writer(dev.addresses, TOPIC, PARTITIONS, "w", **{"topic.metadata.refresh.interval.ms": 1_000})
    writer.start()
    for victim in (cluster.leader, cluster.controller):
        wait_until(lambda: len(writer.acknowledged) > 20, SECONDS_MAX, "some are written")
        broker = victim()
        pid = cluster.pid(broker)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: not alive(pid), 10, "the broker is gone")
        before = len(writer.acknowledged)
        wait_until(
            lambda before=before: len(writer.acknowledged) > before + 20,
            SECONDS_MAX,
            "the others go on without it",
        )
        wait_until(lambda broker=broker: cluster.leader() != broker, SECONDS_MAX, "another one leads")
        answer = dev.restart(broker)
        assert answer.returncode == 0, answer.stderr
        cluster.wait_until_in_sync()
    writer.end()
    assert not writer.failed


def test_a_broker_that_is_killed_and_started_at_once_takes_its_own_place(new_dev: Callable[..., Dev]) -> None:
    """Also when there is nobody who could notice that it was gone."""
    dev = new_dev(1, settings={**LONG_LEASE, "min.insync.replicas": "1"})
    assert dev.start().startswith("ready kafka=")
    cluster = Cluster(dev)
    cluster.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS_MAX)
    os.kill(cluster.pid(1), signal.SIGKILL)
    answer = dev.restart(1)
    assert answer.returncode == 0, answer.stderr
    writer = Writer(dev.addresses, TOPIC, 1, "w")
    writer.start()
    wait_until(lambda: len(writer.acknowledged) > 5, SECONDS_MAX, "it leads again")
    writer.end()


def test_a_second_broker_of_the_same_number_is_refused_and_changes_nothing(
    new_dev: Callable[..., Dev], tmp_path: Path
) -> None:
    dev = new_dev(3)
    cluster = started(dev)
    cluster.wait_until_in_sync()
    broker = dev.state()["brokers"][cluster.leader() - 1]
    command = [TIDELOG, *broker["command"][3:]]
    words = {
        "--data": str(tmp_path / "other"),
        "--listen": f"127.0.0.1:{free_port()}",
        "--http": "127.0.0.1:0",
    }
    for flag, value in words.items():
        command[command.index(flag) + 1] = value
    (tmp_path / "other").mkdir()
    # As if it had crashed before: that is when epochs are raised.
    (tmp_path / "other" / ".running").write_text("another boot")
    before = leadership(cluster)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 1
    assert f"Broker {broker['id']} is already registered" in done.stderr
    assert leadership(cluster) == before
    # The wait for its lease has not disturbed the first one.
    assert cluster.pid(broker["id"]) == broker["pid"] and alive(broker["pid"])


def leadership(cluster: Cluster) -> list[tuple[int, int, int]]:
    """Of each partition: its number, leader and epoch."""
    with Connection(cluster.dev.addresses.split(",")[0]) as connection:
        answer = connection.call("metadata", 12, topics=[{"name": TOPIC}])
    return [(one.partition_index, one.leader_id, one.leader_epoch) for one in answer.topics[0].partitions]


def test_brokers_restarted_one_by_one_fail_no_write_and_stall_no_reader(new_dev: Callable[..., Dev]) -> None:
    dev = new_dev(3)
    cluster = started(dev)
    cluster.wait_until_in_sync()
    # A write that is refused or times out is tried again by the client; one that is given up is a failure.
    writer = Writer(dev.addresses, TOPIC, PARTITIONS, "w")
    reader = StallWatch(dev.addresses)
    writer.start()
    reader.start()
    wait_until(lambda: len(reader.seen) > 50, SECONDS_MAX, "records flow")
    reader.stalled_s = writer.gap_s = 0.0
    for broker in (1, 2, 3):
        cluster.restart(broker)
        cluster.wait_until_in_sync()
    gap_s, stalled_s = writer.gap_s, reader.stalled_s
    writer.end()
    total = sum(map(len, writer.sent.values()))
    wait_until(lambda: len(reader.seen) >= total, SECONDS_MAX, "the reader has seen everything")
    reader.end()
    print(f"{total} records, longest wait of the producer {gap_s:.2f} s, of the reader {stalled_s:.2f} s")
    assert not writer.failed
    assert sorted(reader.seen) == sorted(value for values in writer.sent.values() for value in values)
    assert max(gap_s, stalled_s) < STALLED_S_MAX
