"""Bytes that rot in the logs of real brokers: found after a kill and by the scrubber of a running broker, repaired from
other replicas, and given up by `tidelog log repair` where there are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaConsumer  # type: ignore[import-untyped]
from kafka import TopicPartition as KafkaPythonPartition

from tests.conformance import apache_kafka, batches
from tests.conformance.process import wait_until
from tests.contract.etcd import Etcd
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import BrokerFactory
from tests.faults.monitored import of, scrape
from tests.unit.cli.commands import execute
from tidelog import Consumer as OurConsumer
from tidelog import TopicPartition as OurPartition

TOPIC = "t"
FOLDER = f"{TOPIC}-0"
RECORDS = 400
SECONDS_MAX = 180
SETTINGS = {
    "tidelog.broker.lease.ms": "1000",
    "replica.lag.time.max.ms": "3000",
    "log.index.size.max.bytes": "96",
    "log.index.interval.bytes": "512",
}


def value_of(number: int) -> bytes:
    return b"%d " % number + b"v" * 200


def write(bootstrap: str, count: int = RECORDS) -> None:
    """Five records a batch."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50})
    for number in range(count):
        producer.produce(TOPIC, value_of(number), partition=0)
        if number % 5 == 4:
            assert producer.flush(SECONDS_MAX) == 0


def read(bootstrap: str, count: int) -> list[bytes]:
    """With librdkafka, which checks CRCs here."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "check.crcs": True, "log_level": 0}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []
    while len(values) < count and (message := consumer.poll(10)) is not None:
        if message.error() is None:
            values.append(message.value() or b"")
    consumer.close()
    return values


def rot(broker: FaultyBroker, share: float) -> int:
    """One byte in the body of a batch; the base offset of that batch."""
    logs = sorted((broker.data / FOLDER).glob("*.log"))
    assert len(logs) > 4
    log = logs[int(share * (len(logs) - 1))]
    data = log.read_bytes()
    first = batches.read(data)[0]
    with log.open("r+b") as file:
        at = batches.HEADER_BYTES + len(first.body) - 20
        file.seek(at)
        file.write(bytes([data[at] ^ 0x55]))
    return first.base_offset


class Cluster:
    def __init__(self, home: Path, new_broker: BrokerFactory, settings: dict[str, str]) -> None:
        self.etcd = Etcd(home / "etcd")
        self.etcd.start()
        self.brokers: dict[int, FaultyBroker] = {}
        for node in (1, 2, 3):
            own = {**SETTINGS, "tidelog.metadata": f"etcd://{self.etcd.endpoints[0]}", **settings}
            self.brokers[node] = broker = new_broker(own)
            broker.node = node
            broker.start()
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        config = {"min.insync.replicas": "2", "retention.ms": "-1"}
        self.admin.create_topics([NewTopic(TOPIC, 1, 3, config=config)])[TOPIC].result(SECONDS_MAX)
        write(self.bootstrap)
        self.wait_until_in_sync()

    @property
    def partition(self) -> Any:
        return self.admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0]

    def followers(self) -> list[int]:
        return [node for node in self.partition.replicas if node != self.partition.leader]

    def wait_until_in_sync(self) -> None:
        wait_until(lambda: len(self.partition.isrs) == 3, SECONDS_MAX, "all replicas are in sync")

    def log_bytes(self, node: int) -> bytes:
        return b"".join(
            path.read_bytes() for path in sorted((self.brokers[node].data / FOLDER).glob("*.log"))
        )

    def wait_until_repaired(self, *nodes: int) -> None:
        for node in nodes:
            wait_until(lambda node=node: self._repaired(node), SECONDS_MAX, f"broker {node} is repaired")
        self.wait_until_in_sync()
        logs = [self.log_bytes(node) for node in self.brokers]
        assert logs[0] == logs[1] == logs[2]
        assert read(self.bootstrap, RECORDS) == [value_of(number) for number in range(RECORDS)]
        status = execute("cluster", "status", "--bootstrap", self.bootstrap)
        assert status.returncode == 0 and b"damaged" not in status.stdout, status.stdout

    def _repaired(self, node: int) -> bool:
        text = self.brokers[node].log_text()
        return "are whole again" in text or "before its damage" in text

    def kill_and_rot(self, node: int, share: float) -> None:
        self.brokers[node].kill()
        rot(self.brokers[node], share)


@pytest.fixture
def cluster(tmp_path: Path, new_broker: BrokerFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = Cluster(tmp_path, new_broker, getattr(request, "param", {}))
    yield made
    for broker in made.brokers.values():
        broker.discard()
    made.etcd.stop()


def test_a_follower_and_a_leader_that_rotted_while_they_were_down_are_repaired(cluster: Cluster) -> None:
    for node in (cluster.followers()[0], cluster.partition.leader):
        cluster.kill_and_rot(node, 0.5)
        cluster.brokers[node].start()
        cluster.wait_until_repaired(node)


def test_two_replicas_that_rotted_at_different_places_are_repaired(cluster: Cluster) -> None:
    nodes = cluster.partition.leader, cluster.followers()[0]
    for node, share in zip(nodes, (0.3, 0.7), strict=True):
        cluster.kill_and_rot(node, share)
    for node in nodes:
        cluster.brokers[node].start()
    cluster.wait_until_repaired(*nodes)


@pytest.mark.parametrize("cluster", [{"tidelog.scrub.period.ms": "1000"}], indirect=True)
def test_a_scrubber_finds_what_rots_under_a_running_broker(cluster: Cluster) -> None:
    nodes = cluster.partition.leader, cluster.followers()[0]
    for node, share in zip(nodes, (0.2, 0.6), strict=True):
        rot(cluster.brokers[node], share)
    cluster.wait_until_repaired(*nodes)
    assert of(scrape(cluster.brokers[nodes[0]].http), "mq_scrubbed_bytes_total") > 0
    assert of(scrape(cluster.brokers[nodes[0]].http), "mq_repaired_ranges_total") > 0


def test_with_one_replica_the_damaged_records_are_given_up_by_hand(new_broker: BrokerFactory) -> None:
    broker = new_broker(SETTINGS)
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config={"retention.ms": "-1"})])[TOPIC].result(SECONDS_MAX)
    write(broker.bootstrap)
    broker.kill()
    lost = rot(broker, 0.5)
    kept = [value_of(number) for number in range(RECORDS) if not lost <= number < lost + 5]
    broker.start()
    damaged = [f"{FOLDER} is damaged on broker {broker.node or 1}: offsets {lost}..{lost + 4}"]
    wait_until(lambda: status(broker) == damaged, SECONDS_MAX, "cluster status tells")
    assert of(scrape(broker.http), "mq_damaged_partitions") == 1
    folder = str(broker.data / FOLDER)
    in_use = execute("log", "repair", folder, "--execute")
    assert in_use.returncode == 1 and b"stop it first" in in_use.stderr
    broker.stop()
    shown = execute("log", "repair", folder, "--json")
    (item,) = json.loads(shown.stdout)["ranges"]
    assert shown.returncode == 1 and (item["start_offset"], item["end_offset"]) == (lost, lost + 5)
    done = execute("log", "repair", folder, "--execute")
    assert done.returncode == 0, done.stderr
    assert execute("log", "repair", folder).stdout.decode().splitlines() == [
        f"t-0: offsets {lost}..{lost + 4} were given up earlier",
        "t-0: nothing is damaged",
    ]
    assert len(list(Path(folder).glob("*.rotten"))) == 1
    (segment,) = Path(folder).glob(f"{item['segment']:020d}.log")
    assert b"LOST" in execute("log", "dump", str(segment)).stdout
    broker.start()
    assert read(broker.bootstrap, len(kept)) == kept
    assert read_with_ours(broker.bootstrap, len(kept)) == kept
    assert read_with_kafka_python(broker.bootstrap, len(kept)) == kept
    if apache_kafka.missing() is None:
        arguments = "--topic", TOPIC, "--from-beginning", "--max-messages", str(len(kept))
        shown = apache_kafka.tool("console-consumer", "--bootstrap-server", broker.bootstrap, *arguments)
        assert shown.encode().splitlines() == kept
    assert status(broker) == []
    assert of(scrape(broker.http), "mq_damaged_partitions") == 0


def status(broker: FaultyBroker) -> list[str]:
    shown = execute("cluster", "status", "--bootstrap", broker.bootstrap)
    return [line for line in shown.stdout.decode().splitlines() if "damaged" in line]


def read_with_ours(bootstrap: str, count: int) -> list[bytes]:
    values: list[bytes] = []
    with OurConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([OurPartition(TOPIC, 0)])
        while len(values) < count and (records := consumer.poll(10_000)):
            values += [record.value or b"" for record in records]
    return values


def read_with_kafka_python(bootstrap: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=10_000)
    partition = KafkaPythonPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    values = [message.value for message, _ in zip(consumer, range(count), strict=False)]
    consumer.close()
    return values
