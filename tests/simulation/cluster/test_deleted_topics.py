"""Offsets of a topic that was deleted are not those of the topic made anew under its name, whoever was away meanwhile."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.cluster.test_transactional_offsets import GROUP, TOPIC, OffsetsProducer, stable_offset
from tests.simulation.cluster.world import Cluster
from tidelog import errors
from tidelog.net.requester import Requester
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

pytestmark = pytest.mark.simulated

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.min.isr": "1"}


async def coordinator(cluster: Cluster) -> int:
    """The number of the broker that has the group's state loaded."""
    for _ in range(300):
        try:
            anyone = await cluster.connect(next(iter(cluster.brokers)), "client")
            request = FindCoordinatorRequest(coordinator_keys=[GROUP])
            found = (await anyone.ask(request, FindCoordinatorResponse, version=4)).coordinators[0]
            if found.error_code == errors.NONE:
                group = await cluster.connect(found.node_id, "client")
                everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)])
                answer = await group.ask(everything, OffsetFetchResponse, version=9)
                if answer.groups[0].error_code == errors.NONE:
                    return found.node_id
        except (OSError, errors.TidelogError):
            pass
        await asyncio.sleep(0.1)
    raise AssertionError("no broker has loaded the group")


async def commit(group: Requester, offset: int) -> None:
    part = OffsetCommitRequestPartition(0, offset)
    request = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(TOPIC, partitions=[part])])
    answer = await group.ask(request, OffsetCommitResponse, version=9)
    assert answer.topics[0].partitions[0].error_code == errors.NONE


async def listed(group: Requester) -> list[int]:
    """The offsets that are told when all of the group's are asked for."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)])
    topics = (await group.ask(request, OffsetFetchResponse, version=9)).groups[0].topics
    return [part.committed_offset for topic in topics for part in topic.partitions]


async def make_anew(cluster: Cluster, node: int) -> None:
    """By way of the broker `node`."""
    requester = await cluster.connect(node, "admin")
    request = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=3_000)
    answer = await requester.ask(request, DeleteTopicsResponse, version=5)
    assert answer.responses[0].error_code == errors.NONE
    topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=2)
    create = CreateTopicsRequest(topics=[topic], timeout_ms=3_000)
    created = await requester.ask(create, CreateTopicsResponse)
    assert created.topics[0].error_code == errors.NONE


@pytest.mark.parametrize("moves", [False, True], ids=["restart", "move"])
async def test_an_offset_that_was_pending_when_its_topic_was_deleted_is_not_committed_to_the_next_of_its_name(
    random: Random,
    moves: bool,
) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(TOPIC, 2, {})
    node = await coordinator(cluster)
    producer = OffsetsProducer(cluster, adds=True)
    await producer.start()
    while await producer.commit_offset(0, 7) != errors.NONE:
        await asyncio.sleep(0.05)
    cluster.kill(node)
    await make_anew(cluster, next(iter(cluster.brokers)))
    if not moves:
        await cluster.restart(node)
    group = await cluster.connect(await coordinator(cluster), "client")
    await producer.end(commit=True)
    await asyncio.sleep(5)
    assert await stable_offset(group, 0) == (errors.NONE, -1)
    assert await listed(group) == []


@pytest.mark.parametrize("moves", [False, True], ids=["restart", "move"])
@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
async def test_offsets_of_a_deleted_topic_are_not_given_to_the_next_of_its_name(
    random: Random, moves: bool, transactional: bool
) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(TOPIC, 2, {})
    node = await coordinator(cluster)
    if transactional:
        producer = OffsetsProducer(cluster, adds=True)
        await producer.start()
        await producer.transaction(0, 7)
    else:
        await commit(await cluster.connect(node, "client"), 7)
    assert await stable_offset(await cluster.connect(node, "client"), 0) == (errors.NONE, 7)
    cluster.kill(node)
    survivor = next(iter(cluster.brokers))
    await make_anew(cluster, survivor)
    if not moves:
        await cluster.restart(node)
    node = await coordinator(cluster)
    group = await cluster.connect(node, "client")
    assert await stable_offset(group, 0) == (errors.NONE, -1)
    assert await listed(group) == []
    await commit(group, 3)
    assert await stable_offset(group, 0) == (errors.NONE, 3)
