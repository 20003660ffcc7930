"""Alerts and dashboards of deploy/: valid, about metrics that brokers have, and seen to fire and clear on a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.conformance.members import Member as GroupMember
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.contract.etcd import Etcd
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import BrokerFactory
from tests.faults.disks import Namespace
from tests.faults.monitored import DEPLOY, RULES, Prometheus, Series, of, program, scrape
from tidelog import Admin, Producer
from tidelog import TopicPartition as OurTopicPartition
from tidelog.errors import TidelogError

SECONDS_MAX = 180
DISK_KIB = 64 * 1024
DASHBOARD = DEPLOY / "grafana" / "tidelog.json"
ALERTS = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def run(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run([program(command[0]), *command[1:]], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid_and_fire_when_they_should() -> None:
    folder = DEPLOY / "prometheus"
    run("promtool", "check", "rules", "--lint-fatal", "tidelog.rules.yml", folder=folder)
    run("promtool", "check", "config", "prometheus.yml", folder=folder)
    run("promtool", "test", "rules", "tidelog.rules.test.yml", folder=folder)
    tested = {
        one["alertname"]
        for test in yaml.safe_load((folder / "tidelog.rules.test.yml").read_text())["tests"]
        for one in test["alert_rule_test"]
        if one["exp_alerts"]
    }
    assert tested == set(ALERTS)


@pytest.mark.parametrize(("priority", "receiver"), [("p0", "pager"), ("p1", "chat"), ("p2", "tickets")])
def test_every_priority_has_its_way(priority: str, receiver: str) -> None:
    config = str(DEPLOY / "alertmanager" / "alertmanager.yml")
    run("amtool", "check-config", config)
    told = run("amtool", "config", "routes", "test", "--config.file", config, f"priority={priority}")
    assert told.strip() == receiver


def test_the_dashboard_asks_what_prometheus_understands(tmp_path: Path) -> None:
    asked = [
        target["expr"]
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel.get("targets", ())
    ]
    assert len(asked) > 30
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(asked)
    ]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    run("promtool", "check", "rules", "rules.yml", folder=tmp_path)


class Cluster:
    """Three brokers; the data of the first are on a small disk."""

    def __init__(self, home: Path, new_broker: BrokerFactory, namespace: Namespace) -> None:
        self.etcd = Etcd(home / "etcd")
        self.etcd.start()
        self.namespace = namespace
        self.disk = home / "disk"
        namespace.mount(self.disk, DISK_KIB)
        settings = {
            "tidelog.metadata": f"etcd://{self.etcd.endpoints[0]}",
            "tidelog.broker.lease.ms": "1000",
            "offsets.topic.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            "replica.lag.time.max.ms": "2000",
            "leader.imbalance.check.interval.seconds": "1",
        }
        self.brokers: dict[int, FaultyBroker] = {}
        for node in (1, 2, 3):
            on_disk = ([self.disk / "data"], namespace.prefix) if node == 1 else ()
            self.brokers[node] = broker = new_broker(settings, *on_disk)
            broker.node = node
            broker.start()
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topic: NewTopic) -> None:
        self.admin.create_topics([topic])[topic.topic].result(SECONDS_MAX)

    def scrapes(self) -> dict[int, Series]:
        return {node: scrape(broker.http) for node, broker in self.brokers.items() if broker.alive()}

    def total(self, name: str, **labels: str) -> float:
        """Over all brokers that have it."""
        found = 0.0
        for series in self.scrapes().values():
            if any(known == name and set(labels.items()) <= set(its) for known, its in series):
                found += of(series, name, **labels)
        return found

    def fill(self, share: float) -> None:
        """Takes so much of the first broker's disk."""
        with (self.namespace.inside(self.disk) / "ballast").open("wb") as file:
            file.truncate(0)
            size = int(share * DISK_KIB * 1024) - (DISK_KIB * 1024 - self.namespace.free_bytes(self.disk))
            os.posix_fallocate(file.fileno(), 0, max(size, 1))


@pytest.fixture
def cluster(tmp_path: Path, new_broker: BrokerFactory, namespace: Namespace) -> Iterator[Cluster]:
    made = Cluster(tmp_path, new_broker, namespace)
    yield made
    for broker in made.brokers.values():
        broker.discard()
    made.etcd.stop()


@pytest.fixture
def prometheus(tmp_path: Path, cluster: Cluster) -> Iterator[Prometheus]:
    made = Prometheus(tmp_path / "prometheus", [broker.http for broker in cluster.brokers.values()])
    made.start()
    yield made
    made.stop()


class Watch:
    """What fired and cleared so far."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self.seen: set[str] = set()

    def fires(self, *names: str) -> None:
        wanted = set(names)
        wait_until(lambda: wanted <= self._prometheus.firing(), SECONDS_MAX, f"{names} fire", every=0.3)
        self.seen |= wanted

    def clears(self, *names: str) -> None:
        wait_until(
            lambda: not set(names) & self._prometheus.firing(), SECONDS_MAX, f"{names} clear", every=0.3
        )


def test_every_alert_fires_and_clears(cluster: Cluster, prometheus: Prometheus) -> None:
    for topic in (
        NewTopic("safe", 3, 3, config={"min.insync.replicas": "3"}),
        NewTopic("single", 1, replica_assignment=[[3]]),
        NewTopic("many", 1, 3),
    ):
        cluster.create(topic)
    watch = Watch(prometheus)
    wait_until(lambda: set(prometheus.rules().values()) == {"ok"}, SECONDS_MAX, "all rules are evaluated")
    assert set(prometheus.rules()) == set(ALERTS)
    watch.clears(*ALERTS)
    lag(cluster, watch)
    rebalance(cluster, watch)
    full_disk(cluster, watch)
    lost_metadata(cluster, watch)
    lost_broker(cluster, watch)
    damaged_log(cluster, watch)
    lost_folder(cluster, watch)
    new_disk(cluster, watch)
    # How long a record waits for a lost follower is not for a test to say: promtool's test has that alert.
    assert watch.seen == set(ALERTS) - {"ProduceLatencyHigh"}


def lag(cluster: Cluster, watch: Watch) -> None:
    """A group that commits and stops reading."""
    with Producer(bootstrap_servers=cluster.bootstrap, batch_size=500_000, linger_ms=20) as producer:
        for _ in range(20_000):
            producer.send("many", b"x")
        producer.flush()
        commit(cluster, "billing", 0)
        watch.fires("ConsumerLag")
        for _ in range(1_000_000):
            producer.send("many", b"x")
        producer.flush()
    watch.fires("ConsumerLagGrowing")
    watch.fires("ConsumerLagHuge")
    # One broker tells, however many have the partition or know the group.
    tellers = [
        node
        for node, series in cluster.scrapes().items()
        if any(name == "mq_consumer_lag_messages" for name, _ in series)
    ]
    assert len(tellers) == 1
    assert cluster.total("mq_consumer_lag_messages", group="billing") == 1_020_000
    commit(cluster, "billing", 1_020_000)
    watch.clears("ConsumerLag", "ConsumerLagHuge", "ConsumerLagGrowing")


def commit(cluster: Cluster, group: str, offset: int) -> None:
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition("many", 0, offset)])
    cluster.admin.alter_consumer_group_offsets([wanted])[group].result(SECONDS_MAX)


def rebalance(cluster: Cluster, watch: Watch) -> None:
    """A member that joins, and keeps the others waiting for their partitions."""
    with Connection(cluster.brokers[1].bootstrap) as asking:
        found = asking.call("find_coordinator", 4, key_type=0, coordinator_keys=["kitchen"]).coordinators[0]
    member = GroupMember(f"{found.host}:{found.port}", "kitchen", session_ms=30_000, rebalance_ms=60_000)
    member.join()
    watch.fires("RebalanceInProgress")
    member.leave()
    member.close()
    watch.clears("RebalanceInProgress")


def full_disk(cluster: Cluster, watch: Watch) -> None:
    cluster.fill(0.85)
    watch.fires("DiskUsageHigh")
    cluster.fill(0.97)
    watch.fires("DiskFull")
    cluster.fill(0)
    watch.clears("DiskUsageHigh", "DiskFull")


def lost_metadata(cluster: Cluster, watch: Watch) -> None:
    """etcd is away: no broker can prove that it still has its place."""
    cluster.etcd.stop()
    watch.fires("BrokerLeaseNotProven")
    cluster.etcd.start()
    watch.clears(*ALERTS)


def new_disk(cluster: Cluster, watch: Watch) -> None:
    """The only replica of a partition comes back empty: nobody but an operator can say that it may lead."""
    broker = cluster.brokers[3]
    broker.kill()
    shutil.rmtree(broker.data)
    broker.start()
    watch.fires("PartitionsNeedRecovery")
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        topics = [topic.name for topic in admin.list_topics(internal=True)]
        states = admin.describe_partitions(topics)
        lost = [name for name, state in states.items() if state.leader < 0]
        assert OurTopicPartition("single", 0) in lost
        admin.elect_leaders(lost, unclean=True)
    watch.clears(*ALERTS)


def lost_broker(cluster: Cluster, watch: Watch) -> None:
    cluster.brokers[3].kill()
    watch.fires(
        "BrokerDown",
        "UnderReplicatedPartitions",
        "PartitionsBelowMinInSync",
        "OfflinePartitions",
        "PartitionsAwaitReplicas",
        "InSyncReplicasShrinking",
    )
    cluster.brokers[3].start()
    watch.clears(*ALERTS)


def damaged_log(cluster: Cluster, watch: Watch) -> None:
    """A byte changes, and there is no other replica."""
    cluster.create(NewTopic("rotten", 1, replica_assignment=[[2]]))
    broker = cluster.brokers[2]
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for _ in range(3):
            producer.send("rotten", b"x" * 100).get(timeout=SECONDS_MAX)
    broker.kill()
    (log,) = (broker.data / "rotten-0").glob("*.log")
    with log.open("r+b") as file:
        file.seek(100)
        file.write(b"y")
    broker.start()
    watch.fires("DamagedPartitions")
    cluster.admin.delete_topics(["rotten"])["rotten"].result(SECONDS_MAX)
    watch.clears(*ALERTS)


def lost_folder(cluster: Cluster, watch: Watch) -> None:
    """What a broker wants to write to is gone: it gives the directory up."""
    cluster.create(NewTopic("doomed", 1, replica_assignment=[[2]], config={"segment.bytes": str(1 << 20)}))
    broker = cluster.brokers[2]
    with Producer(bootstrap_servers=cluster.bootstrap, delivery_timeout_ms=5_000) as producer:
        producer.send("doomed", b"x" * 900_000).get(timeout=SECONDS_MAX)
        shutil.rmtree(broker.data / "doomed-0")
        with contextlib.suppress(TidelogError):
            producer.send("doomed", b"x" * 900_000).get(timeout=SECONDS_MAX)
    watch.fires("DataDirectoryOffline")
    broker.kill()
    broker.start()
    watch.clears(*ALERTS)


def test_all_that_rules_and_dashboard_name_is_exported(cluster: Cluster) -> None:
    """With its labels, by brokers that have just started and done a little of everything."""
    named = re.compile(r"\b((?:mq|process)_[a-z_]+)\b")
    texts = RULES.read_text() + DASHBOARD.read_text()
    cluster.create(NewTopic("orders", 2, 3, config={"flush.messages": "1"}))
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send("orders", b"x").get(timeout=SECONDS_MAX)
        producer.flush()
    commit_orders = ConsumerGroupTopicPartitions("g", [TopicPartition("orders", 0, 0)])
    cluster.admin.alter_consumer_group_offsets([commit_orders])["g"].result(SECONDS_MAX)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.alter_share_group_offsets("workers", {OurTopicPartition("orders", 0): 0})
    exported = {name for series in cluster.scrapes().values() for name, _ in series}
    # Nobody has made a mistake yet, and no partition waits.
    exported |= {name.removesuffix("_bucket") for name in exported}  # texts name whole histograms
    exported |= {"mq_request_errors_total", "mq_partitions_awaiting_replicas"}
    assert set(named.findall(texts)) - exported == set()
