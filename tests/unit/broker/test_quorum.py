from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.unit.broker.admin import Admin, versions
from tidelog import errors
from tidelog.types import NodeId
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest

pytestmark = pytest.mark.simulated


def about(topic: str) -> DescribeQuorumRequest:
    parts = [DescribeQuorumRequestPartitionData(0)]
    return DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic, parts)])


async def test_the_controller_leads_the_metadata_and_the_others_watch(random: Random) -> None:
    admin = await Admin.start(random)
    await admin.node.join(2)
    answer = await admin.ask(about("__cluster_metadata"))
    (part,) = answer.topics[0].partitions
    assert (part.error_code, part.leader_id) == (0, 1)
    assert [one.replica_id for one in part.current_voters] == [1]
    assert [one.replica_id for one in part.observers] == [2]
    assert part.high_watermark == admin.node.controller.image.revision
    assert [node.node_id for node in answer.nodes] == [1, 2]


@pytest.mark.parametrize("version", versions(DescribeQuorumRequest.API_KEY))
async def test_every_version_is_answered(random: Random, version: int) -> None:
    admin = await Admin.start(random)
    answer = await admin.ask(about("__cluster_metadata"), version)
    assert answer.topics[0].partitions[0].leader_id == 1
    assert bool(answer.nodes) == (version >= 2)


async def test_other_topics_have_no_quorum(random: Random) -> None:
    admin = await Admin.start(random)
    answer = await admin.ask(about("t"))
    assert answer.topics[0].partitions[0].error_code == errors.UnknownTopicOrPartition.code


async def test_a_broker_that_runs_or_was_never_there_cannot_be_unregistered(random: Random) -> None:
    admin = await Admin.start(random)
    running = await admin.ask(UnregisterBrokerRequest(broker_id=1))
    assert running.error_code == errors.InvalidRequest.code
    unknown = await admin.ask(UnregisterBrokerRequest(broker_id=9))
    assert unknown.error_code == errors.BrokerIdNotRegistered.code


async def test_what_was_set_for_a_broker_that_is_gone_goes_with_it(random: Random) -> None:
    admin = await Admin.start(random)
    other, controller = NodeId(2), admin.node.controller
    registration = await admin.node.join(2)
    await controller.alter_broker_configs(other, lambda _: {"leader.replication.throttled.rate": "1000"})
    still = await admin.ask(UnregisterBrokerRequest(broker_id=2))
    assert still.error_code == errors.InvalidRequest.code
    await registration.end()
    while other in controller.image.brokers:
        await asyncio.sleep(0.01)
    done = await admin.ask(UnregisterBrokerRequest(broker_id=2))
    assert (done.error_code, done.error_message) == (errors.NONE, None)
    assert controller.image.broker_overrides(other) == {}
    await controller.access.report_usage(other, {"acme": 7})
    assert (await admin.ask(UnregisterBrokerRequest(broker_id=2))).error_code == errors.NONE
    assert other not in controller.image.tenant_usage, "what it told of tenants counts no more"
