"""Three brokers that replicate, of either system, and what is asked of them: who leads, moves of partitions."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench import usage
from bench.admin import LATEST, RETRIES_MAX, Admin, Topic, _check
from bench.systems import KAFKA_SETTINGS, SETTINGS, MeasuredKafka, System
from tests.conformance.process import BrokerProcess, free_port
from tests.contract.etcd import Etcd
from tests.faults.broker import FaultyBroker
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)

SIZE = 3
NODES = range(1, SIZE + 1)
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
}
# Kafka's own defaults again, where the conformance suite has quicker ones.
KAFKA_DEFAULTS = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}


class KafkaNode(MeasuredKafka):
    """One of several: it is ready only when a majority of them has begun."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        super().__init__(home, settings)
        self.port, self._controller_port = free_port(), free_port()

    def begin(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self._write_properties()
        self._format()
        self._launch()

    def start(self) -> None:
        self.begin()
        assert self._await_ready(), f"Apache Kafka did not start: {self.log_tail()}"

    @property
    def voter(self) -> str:
        return f"{self.settings['node.id']}@127.0.0.1:{self._controller_port}"


class Cluster:
    def __init__(self, brokers: Mapping[int, BrokerProcess]) -> None:
        self.brokers = brokers

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def pids(self) -> list[int]:
        return [broker.pid for broker in self.brokers.values()]

    def start(self) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as starters:
            list(starters.map(lambda broker: broker.start(), self.brokers.values()))

    def cpu_seconds(self) -> float:
        return sum(map(usage.cpu_seconds, self.pids))

    def admin(self) -> ClusterAdmin:
        """At the first broker that runs."""
        return ClusterAdmin(next(one.port for one in self.brokers.values() if one.alive()))

    def ports(self, topic: Topic) -> list[int]:
        """Of each partition's leader, once it knows that it leads."""
        with self.admin() as admin:
            admin.await_led(topic.name, topic.partitions)
            leaders = admin.leaders(topic)
        for node in set(leaders):
            with ClusterAdmin(self.brokers[node].port) as admin:
                admin.await_leading(topic, [at for at, leader in enumerate(leaders) if leader == node])
        return [self.brokers[node].port for node in leaders]


class ClusterAdmin(Admin):
    replication_factor = SIZE

    def create_on(self, name: str, assignment: Sequence[Sequence[int]]) -> Topic:
        """With replicas that are given."""
        chosen = [CreatableReplicaAssignment(at, list(nodes)) for at, nodes in enumerate(assignment)]
        wanted = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=chosen)
        (made,) = self._ask(
            CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), CreateTopicsResponse
        ).topics
        _check(made.error_code, f"create {name}: {made.error_message}")
        self.await_led(name, len(assignment))
        return Topic(name, made.topic_id, len(assignment))

    def leaders(self, topic: Topic) -> list[int]:
        return [part.leader_id for part in self._partitions(topic.name)]

    def in_sync(self, topic: Topic) -> bool:
        return self._led(topic.name, topic.partitions)

    def controller(self) -> int:
        asked = DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])
        answer = self._ask(DescribeQuorumRequest(topics=[asked]), DescribeQuorumResponse)
        return int(answer.topics[0].partitions[0].leader_id)

    def move(self, topic: Topic, replicas: Sequence[int]) -> None:
        rows = [ReassignablePartition(index, list(replicas)) for index in range(topic.partitions)]
        asked = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(topic.name, rows)])
        answer = self._ask(asked, AlterPartitionReassignmentsResponse)
        _check(answer.error_code, f"move {topic.name}")

    def elect(self, topic: Topic) -> None:
        """The first replica of each partition leads."""
        rows = [TopicPartitions(topic.name, list(range(topic.partitions)))]
        self._ask(ElectLeadersRequest(election_type=0, topic_partitions=rows), ElectLeadersResponse)

    def moving(self) -> bool:
        answer = self._ask(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
        _check(answer.error_code, "list moves")
        return bool(answer.topics)

    def await_leading(self, topic: Topic, indexes: Sequence[int]) -> None:
        """This broker answers for these partitions."""
        asked = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic.name, partitions=asked)])
        for _ in range(RETRIES_MAX):
            answered = self._ask(request, ListOffsetsResponse).topics[0].partitions
            if all(one.error_code == 0 for one in answered):
                return
            time.sleep(0.01)
        raise TimeoutError(f"{topic.name} is not led here")

    def await_led(self, name: str, partitions: int) -> None:
        for _ in range(RETRIES_MAX):
            if self._led(name, partitions):
                return
            time.sleep(0.01)
        raise TimeoutError(f"{name} has no leaders")

    def _led(self, name: str, partitions: int) -> bool:
        """Every partition has a leader, and all of its replicas are in sync."""
        parts = self._partitions(name)
        return len(parts) == partitions and all(
            one.error_code == 0 and one.leader_id > 0 and len(one.isr_nodes) == len(one.replica_nodes)
            for one in parts
        )

    def _partitions(self, name: str) -> list[MetadataResponsePartition]:
        answer = self._ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), MetadataResponse)
        return sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)


@contextmanager
def cluster(system: System, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Three brokers that run; killed at the end, and their data removed."""
    home = Path(tempfile.mkdtemp(prefix=f"{system.name}-cluster-", dir=system.folder))
    given = {**SETTINGS, **REPLICATED, **(settings or {})}
    etcd: Etcd | None = None
    made: dict[int, BrokerProcess] = {}
    try:
        if system.name == "kafka":
            made.update(_kafka(home, given))
        else:
            etcd = Etcd(home / "etcd")
            etcd.start()
            made.update(_tidelog(home, given, etcd))
        running = Cluster(made)
        running.start()
        yield running
    finally:
        for broker in made.values():
            broker.discard()
        if etcd is not None:
            etcd.stop()
        shutil.rmtree(home, ignore_errors=True)


def _tidelog(home: Path, settings: Mapping[str, str], etcd: Etcd) -> dict[int, FaultyBroker]:
    given = {**settings, "tidelog.metadata": f"etcd://{','.join(etcd.endpoints)}"}
    brokers = {node: FaultyBroker(home / f"broker-{node}", given) for node in NODES}
    for node, broker in brokers.items():
        broker.node = node
    return brokers


def _kafka(home: Path, settings: Mapping[str, str]) -> dict[int, KafkaNode]:
    given = {**KAFKA_SETTINGS, **KAFKA_DEFAULTS, **settings}
    nodes = {node: KafkaNode(home / f"broker-{node}", {**given, "node.id": str(node)}) for node in NODES}
    voters = ",".join(node.voter for node in nodes.values())
    for node in nodes.values():
        node.settings["controller.quorum.voters"] = voters
    return nodes
