"""What operators do meanwhile: partitions are moved, leaders elected, settings changed."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.cluster.survivors import DIRECTORIES
from tests.simulation.cluster.world import REQUEST_TIMEOUT_MS, Cluster
from tidelog import errors
from tidelog.types import TopicPartition
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

PREFERRED, UNCLEAN = 0, 1
TOPIC, SET = 2, 0


def _some_partition(cluster: Cluster, random: Random) -> TopicPartition:
    """Also of the topics that brokers keep for themselves."""
    return random.choice([name for name, _ in cluster.survivors.partitions()])


async def partition_is_moved(cluster: Cluster, random: Random) -> None:
    name = _some_partition(cluster, random)
    stored = cluster.stored(name)
    assert stored is not None
    nodes = random.sample(list(cluster.machines), len(stored.replicas) - len(stored.adding))
    part = ReassignablePartition(name.partition, nodes if random.random() < 0.9 else None)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=REQUEST_TIMEOUT_MS, topics=[ReassignableTopic(name.topic, [part])]
    )
    try:
        await cluster.ask(request, AlterPartitionReassignmentsResponse)
    except (OSError, errors.TidelogError):
        await asyncio.sleep(0.2)


async def log_is_moved(cluster: Cluster, random: Random) -> None:
    """Between the two directories of a broker, which may lead the partition or follow."""
    name = _some_partition(cluster, random)
    nodes = [node for node, _ in cluster.replicas(name)]
    if not nodes:
        return
    topic = AlterReplicaLogDirTopic(name.topic, [name.partition])
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(random.choice(DIRECTORIES), [topic])])
    try:
        requester = await cluster.connect(random.choice(nodes), "admin")
        try:
            await requester.ask(request, AlterReplicaLogDirsResponse)
        finally:
            requester.close()
    except (OSError, errors.TidelogError):
        await asyncio.sleep(0.2)


async def preferred_leader_is_elected(cluster: Cluster, random: Random) -> None:
    await elect(cluster, _some_partition(cluster, random), PREFERRED)


async def unclean_leader_is_elected(cluster: Cluster, random: Random) -> None:
    """The operator does not wait for holders that are down, whatever that costs."""
    await asyncio.sleep(random.random())
    waiting = [name for name, stored in cluster.survivors.partitions() if stored.leader is None]
    if waiting:
        name = random.choice(waiting)
        cluster.survivors.operators_choice.add(name)
        await elect(cluster, name, UNCLEAN)


async def elect(cluster: Cluster, name: TopicPartition, kind: int) -> None:
    request = ElectLeadersRequest(kind, [TopicPartitions(name.topic, [name.partition])], REQUEST_TIMEOUT_MS)
    try:
        await cluster.ask(request, ElectLeadersResponse)
    except (OSError, errors.TidelogError):
        await asyncio.sleep(0.2)


async def in_sync_minimum_is_changed(cluster: Cluster, random: Random) -> None:
    topic = random.choice([name.topic for name in cluster.partitions])
    await set_in_sync_minimum(cluster, topic, random.choice((1, 2)))


async def set_in_sync_minimum(cluster: Cluster, topic: str, minimum: int) -> None:
    change = AlterableConfig("min.insync.replicas", SET, str(minimum))
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, topic, [change])])
    try:
        await cluster.ask(request, IncrementalAlterConfigsResponse)
    except (OSError, errors.TidelogError):
        await asyncio.sleep(0.2)
