"""Machines that are killed, frozen, cut off, half cut off, out of disk, and etcd's too, under traffic of every kind: nothing
acknowledged is lost, and the cluster heals by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import KafkaError, Producer

from tests.conformance.process import wait_until
from tests.faults.cluster_history import COMMITTED, COMMITTED_ONLY, UNCOMMITTED_TOO, values
from tests.faults.cluster_traffic import Writer
from tests.faults.cluster_transactions import read_to_end
from tests.faults.networked_cluster import MACHINES, PARTITIONS, SECONDS_MAX, TOPIC, NetworkedCluster
from tests.faults.networked_traffic import HURRIED, Traffic

SEED, SEEDS = 1, range(2, 9)
FAULTS, FAULTS_MANY = 10, 20

KINDS: dict[str, Callable[[NetworkedCluster, int], AbstractContextManager[None]]] = {
    "killed": NetworkedCluster.killed,
    "frozen": NetworkedCluster.frozen,
    "unplugged": NetworkedCluster.unplugged,
    "deaf": NetworkedCluster.deaf,
    "mute": NetworkedCluster.mute,
    "apart from one": NetworkedCluster.apart,
    "half apart from one": NetworkedCluster.half_apart,
    "without etcd": NetworkedCluster.without_etcd,
    "etcd killed": NetworkedCluster.etcd_killed,
    "disk full": NetworkedCluster.disk_full,
}
LEADER, CONTROLLER, ETCD_LEADER = "the leader", "the controller", "the leader of etcd"


@dataclass(frozen=True)
class Fault:
    kind: str
    target: str
    seconds: float
    heals: bool
    """Whether the next one waits until all replicas are in sync."""

    def __str__(self) -> str:
        return f"{self.target} {self.kind} for {self.seconds} s{', healed' if self.heals else ''}"


def plan(seed: int, count: int) -> list[Fault]:
    """Every kind as often as any other, in an order, on targets and for times that the seed decides."""
    random = Random(seed)
    faults: list[Fault] = []
    while len(faults) < count:
        for kind in random.sample(list(KINDS), len(KINDS)):
            target = random.choice((LEADER, CONTROLLER, *map(str, MACHINES)))
            if kind == "etcd killed":
                target = ETCD_LEADER
            faults.append(Fault(kind, target, random.choice((0.3, 2.0, 3.5)), random.random() < 0.5))
    return faults[:count]


def struck(cluster: NetworkedCluster, target: str) -> int:
    """The machine that it is now."""
    roles = {
        LEADER: cluster.leader,
        CONTROLLER: cluster.controller,
        ETCD_LEADER: cluster.etcd_leader,
    }
    return roles[target]() if target in roles else int(target)


def strike(cluster: NetworkedCluster, faults: list[Fault]) -> None:
    for number, fault in enumerate(faults, 1):
        machine = struck(cluster, fault.target)
        began = time.monotonic()
        with KINDS[fault.kind](cluster, machine):
            time.sleep(fault.seconds)
        if fault.heals:
            cluster.wait_until_in_sync()
        cluster.check_etcd()
        print(f"{number}: {fault} (machine {machine}; {time.monotonic() - began:.1f} s)")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NetworkedCluster]:
    made = NetworkedCluster(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.end()
    for broker in made.brokers.values():
        assert not broker.unexpected(), broker.unexpected()[0]


def run_faults(cluster: NetworkedCluster, seed: int, count: int) -> None:
    faults = plan(seed, count)
    print(f"seed {seed}:", *faults, sep="\n  ")  # pytest shows it when the test fails
    cluster.create_topic()
    traffic = Traffic(cluster)
    strike(cluster, faults)
    history = traffic.end()
    anomalies = history.anomalies()
    if anomalies:
        cluster.keep_logs()
        pytest.fail("\n".join(anomalies))
    for partition in range(PARTITIONS):
        wait_until(
            lambda partition=partition: len(set(cluster.logs(partition).values())) == 1,
            SECONDS_MAX,
            f"the replicas of partition {partition} are the same, byte for byte",
        )
    committed = [one for one in history.transactions if one.outcome == COMMITTED]
    total = len(list(values(history.found[UNCOMMITTED_TOO])))
    print(f"{count} faults, {total} records, {len(committed)} transactions committed, no anomaly")
    assert total > 100 and len(committed) > 5


def test_nothing_acknowledged_is_lost_when_links_brokers_disks_and_etcd_fail(
    cluster: NetworkedCluster,
) -> None:
    run_faults(cluster, SEED, FAULTS)


@pytest.mark.deep
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_through_many_more(cluster: NetworkedCluster, seed: int) -> None:
    run_faults(cluster, seed, FAULTS_MANY)


def test_a_minority_refuses_writes_serves_reads_and_heals_by_itself(cluster: NetworkedCluster) -> None:
    cluster.create_topic(partitions=1)
    with cluster.network.hub.entered():
        before = Writer(cluster.bootstrap, TOPIC, 1, "before", **HURRIED)
    before.start()
    wait_until(lambda: len(before.acknowledged) > 20, SECONDS_MAX, "some are written")
    before.end()
    cut_off = cluster.leader()
    address = cluster.brokers[cut_off].bootstrap
    told: list[KafkaError | None] = []
    with cluster.minority(cut_off):
        with cluster.network.machines[cut_off].entered():
            settings = {
                "bootstrap.servers": address,
                "acks": "all",
                "delivery.timeout.ms": 5_000,
                "log_level": 0,
            }
            refused = Producer(settings)
            refused.produce(TOPIC, b"refused", on_delivery=lambda error, _: told.append(error))
            refused.flush(SECONDS_MAX)
            assert told and told[0] is not None, "the minority took a write"
            # What was acknowledged before can be read on both sides.
            found = read_to_end(address, TOPIC, 1, COMMITTED_ONLY, SECONDS_MAX)
        assert list(values(found)) == before.sent[0]
        # The others go on without it.
        with cluster.network.hub.entered():
            others = ",".join(cluster.brokers[number].bootstrap for number in MACHINES if number != cut_off)
            during = Writer(others, TOPIC, 1, "during", **HURRIED)
        during.start()
        wait_until(lambda: len(during.acknowledged) > 20, SECONDS_MAX, "the majority takes writes")
    during.end()
    cluster.wait_until_in_sync()
    with cluster.network.hub.entered():
        for number in MACHINES:
            address, wanted = cluster.brokers[number].bootstrap, [*before.sent[0], *during.sent[0]]
            # The one that was cut off may take a moment to hear of what has happened.
            wait_until(
                lambda: list(values(read_to_end(address, TOPIC, 1, COMMITTED_ONLY, SECONDS_MAX))) == wanted,  # noqa: B023
                SECONDS_MAX,
                f"broker {number} leads to all that was written",
            )
