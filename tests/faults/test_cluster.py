"""Three brokers and three members of etcd as real processes: killed, frozen and restarted under traffic."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.faults.cluster_traffic import Reader, Writer, anomalies, read_all
from tests.faults.test_dev import Dev, alive, new_dev

__all__ = ["new_dev"]

TOPIC, PARTITIONS = "kept", 3
SECONDS_MAX = 180


class Cluster:
    def __init__(self, dev: Dev) -> None:
        self.dev = dev
        self.admin = AdminClient({"bootstrap.servers": dev.addresses, "log_level": 0})

    def pid(self, broker: int) -> int:
        return int(self.dev.state()["brokers"][broker - 1]["pid"])

    def metadata(self) -> Any:
        """librdkafka keeps to the broker it asked first, dead or not, for as long as the call may take: short calls."""
        while True:
            try:
                return self.admin.list_topics(TOPIC, timeout=3)
            except KafkaException:
                continue

    def leader(self, partition: int = 0) -> int:
        found = -1

        def led() -> bool:
            nonlocal found
            found = self.metadata().topics[TOPIC].partitions[partition].leader
            return bool(found > 0)

        wait_until(led, SECONDS_MAX, "the partition has a leader")
        return found

    def controller(self) -> int:
        return int(self.metadata().controller_id)

    def in_sync(self) -> list[int]:
        """How many replicas of each partition are."""
        return [len(one.isrs) for one in self.metadata().topics[TOPIC].partitions.values()]

    def wait_until_in_sync(self) -> None:
        wait_until(lambda: set(self.in_sync()) == {3}, SECONDS_MAX, "all replicas are in sync")

    # Faults; each leaves the cluster as it found it, in time.

    def kill(self, broker: int, away_s: float) -> None:
        pid = self.pid(broker)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid), 10, "the broker is gone")
        time.sleep(away_s)
        answer = self.dev.restart(broker)
        assert answer.returncode == 0, answer.stderr

    def freeze(self, broker: int, frozen_s: float) -> None:
        os.kill(self.pid(broker), signal.SIGSTOP)
        time.sleep(frozen_s)
        os.kill(self.pid(broker), signal.SIGCONT)

    def restart(self, broker: int) -> None:
        answer = self.dev.restart(broker)
        assert answer.returncode == 0, answer.stderr


def struck(cluster: Cluster, random: Random, faults: int) -> None:
    """One fault after the other, now on a leader, now on the controller, now on anybody."""
    for number in range(faults):
        broker = (cluster.leader, cluster.controller, lambda: random.randint(1, 3))[number % 3]()
        kind = random.choice(("kill", "kill", "freeze", "restart"))
        if kind == "kill":
            cluster.kill(max(broker, 1), random.choice((0.0, 1.0, 3.0)))
        elif kind == "freeze":
            cluster.freeze(max(broker, 1), random.choice((0.5, 3.0, 5.0)))
        else:
            cluster.restart(max(broker, 1))
        if random.random() < 0.7:
            cluster.wait_until_in_sync()


def run_faults(dev: Dev, seed: int, faults: int) -> None:
    assert dev.start().startswith("ready kafka=")
    cluster = Cluster(dev)
    config = {"min.insync.replicas": "2"}
    cluster.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])[TOPIC].result(SECONDS_MAX)
    writers = [Writer(dev.addresses, TOPIC, PARTITIONS, f"w{number}") for number in range(2)]
    reader = Reader(dev.addresses, TOPIC, PARTITIONS)
    for thread in (*writers, reader):
        thread.start()
    struck(cluster, Random(seed), faults)
    # A member of etcd less is nobody's business.
    os.kill(dev.state()["etcd"][0]["pid"], signal.SIGKILL)
    time.sleep(1)
    for writer in writers:
        writer.end()
    cluster.wait_until_in_sync()
    found = read_all(dev.addresses, TOPIC, PARTITIONS, SECONDS_MAX)
    total = sum(map(len, found.values()))
    wait_until(lambda: len(reader.seen) >= total, SECONDS_MAX, "the reader has seen everything")
    reader.end()
    assert anomalies(writers, reader, found) == []
    assert total > 100


def test_nothing_acknowledged_is_lost_through_kills_freezes_and_restarts(new_dev: Callable[..., Dev]) -> None:
    run_faults(new_dev(3, etcd=3), seed=1, faults=6)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 12))
def test_nothing_acknowledged_is_lost_through_many_more(new_dev: Callable[..., Dev], seed: int) -> None:
    run_faults(new_dev(3, etcd=3), seed, faults=12)


def in_sync_told(connection: Connection) -> list[int]:
    """By one broker, while the others do not answer."""
    answer = connection.call("metadata", 12, topics=[{"name": TOPIC}])
    return list(answer.topics[0].partitions[0].isr_nodes)


def in_flight_waits_for_enough_replicas(cluster: Cluster, writer: Writer) -> None:
    """A record that was taken while all were in sync is not acknowledged by the leader alone when the others leave."""
    leader = cluster.leader()
    frozen = [cluster.pid(broker) for broker in (1, 2, 3) if broker != leader]
    told: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": cluster.dev.addresses, "enable.idempotence": True, "log_level": 0}
    )
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        producer.produce(TOPIC, b"in flight", partition=0, on_delivery=lambda error, _: told.append(error))
        producer.poll(0)
        with Connection(cluster.dev.addresses.split(",")[leader - 1]) as connection:
            wait_until(lambda: in_sync_told(connection) == [leader], SECONDS_MAX, "the leader is alone")
        producer.flush(1)
        assert told == []
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    producer.flush(SECONDS_MAX)
    assert told == [None]
    cluster.wait_until_in_sync()
    writer.sent[0].append(b"in flight")


def test_without_a_majority_of_replicas_writes_are_refused_and_reads_go_on(
    new_dev: Callable[..., Dev],
) -> None:
    dev = new_dev(3)
    dev.start()
    cluster = Cluster(dev)
    config = {"min.insync.replicas": "2"}
    cluster.admin.create_topics([NewTopic(TOPIC, 1, 3, config=config)])[TOPIC].result(SECONDS_MAX)
    writer = Writer(dev.addresses, TOPIC, 1, "before")
    writer.start()
    wait_until(lambda: len(writer.acknowledged) > 20, SECONDS_MAX, "some are written")
    writer.end()
    in_flight_waits_for_enough_replicas(cluster, writer)
    others: list[int] = []
    for left in (2, 1):
        leader = cluster.leader()
        others.append(next(broker for broker in (1, 2, 3) if broker not in (leader, *others)))
        os.kill(cluster.pid(others[-1]), signal.SIGKILL)
        wait_until(lambda left=left: cluster.in_sync() == [left], SECONDS_MAX, f"{left} are in sync")
    told: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": dev.addresses, "acks": "all", "delivery.timeout.ms": 3000, "log_level": 0}
    )
    producer.produce(TOPIC, b"refused", on_delivery=lambda error, _: told.append(error))
    producer.flush(SECONDS_MAX)
    assert told[0] is not None
    assert read_all(dev.addresses, TOPIC, 1, SECONDS_MAX)[0] == writer.sent[0]
    for broker in others:
        assert dev.restart(broker).returncode == 0
    cluster.wait_until_in_sync()
    after = Writer(dev.addresses, TOPIC, 1, "after")
    after.start()
    wait_until(lambda: len(after.acknowledged) > 5, SECONDS_MAX, "writes are taken again")
    after.end()
