"""A leader that others have replaced, that does not know it, and that clients still reach."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.cluster.test_deleted_topics import commit, coordinator, listed
from tests.simulation.cluster.test_transactional_offsets import GROUP, TOPIC, stable_offset
from tests.simulation.cluster.world import Cluster, host
from tests.simulation.test_found import NAME, batch, produce
from tidelog import errors
from tidelog.groups.share.group_state import ShareKey, StateWrite
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

pytestmark = pytest.mark.simulated

SETTINGS = {
    "offsets.commit.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "3000",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.write.timeout.ms": "1000",
    "transaction.state.log.num.partitions": "1",
}


def alone(cluster: Cluster, node: int) -> None:
    """Clients reach it; other brokers and the store do not."""
    for other in cluster.machines:
        if other != node:
            cluster.network.cut(host(node), host(other))
    cluster.metadata.cut_off(host(node))
    cluster.brokers[node]._partitions.lease_proven = lambda: False


async def next_leader(cluster: Cluster, name: TopicPartition, deposed: int) -> Requester:
    while True:
        await asyncio.sleep(0.1)
        stored = cluster.stored(name)
        if stored is not None and stored.leader not in (None, deposed):
            assert stored.leader is not None
            return await cluster.connect(stored.leader, "producer")


async def test_a_producer_is_not_told_of_a_gap_by_a_broker_that_may_have_been_replaced(
    random: Random,
) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(NAME.topic, 1, {})
    stored = cluster.stored(NAME)
    assert stored is not None and stored.leader is not None
    deposed = stored.leader
    old = await cluster.connect(deposed, "producer")
    assert (await produce(old, batch(0))).error_code == errors.NONE
    alone(cluster, deposed)
    new = await next_leader(cluster, NAME, deposed)
    while (await produce(new, batch(1))).error_code != errors.NONE:
        await asyncio.sleep(0.1)
    # The producer was sent back: a broker with old metadata told it who leads.
    assert (await produce(old, batch(2))).error_code == errors.NotLeaderOrFollower.code
    assert (await produce(new, batch(3))).error_code == errors.OutOfOrderSequenceNumber.code
    assert (await produce(new, batch(2))).error_code == errors.NONE


async def test_a_coordinator_that_was_replaced_does_not_tell_offsets_that_are_not_the_latest(
    random: Random,
) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(TOPIC, 2, {})
    deposed = await coordinator(cluster)
    old = await cluster.connect(deposed, "client")
    await commit(old, 7)
    alone(cluster, deposed)
    new = await next_leader(cluster, TopicPartition("__consumer_offsets", 0), deposed)
    await asyncio.sleep(1)
    await commit(new, 8)
    asked = OffsetFetchRequestGroup(GROUP, topics=None)
    answer = await old.ask(OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, version=9)
    assert answer.groups[0].error_code == errors.CoordinatorNotAvailable.code
    assert await listed(new) == [8]


async def test_a_coordinator_that_cannot_prove_its_lease_and_still_leads_tells_offsets(
    random: Random,
) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(TOPIC, 2, {})
    group = await cluster.connect(await coordinator(cluster), "client")
    await commit(group, 7)
    cluster.metadata.go_away()
    for broker in cluster.brokers.values():
        broker._partitions.lease_proven = lambda: False
    assert await stable_offset(group, 0) == (errors.NONE, 7)
    assert await listed(group) == [7]


async def test_a_share_coordinator_that_was_replaced_does_not_tell_a_state_that_is_not_the_latest(
    random: Random,
) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(TOPIC, 1, {})
    key = ShareKey(GROUP, cluster.brokers[1]._controller.image.topics[TOPIC].id, 0)
    state = TopicPartition("__share_group_state", 0)
    await cluster.brokers[1]._share_shards.topic.ensure()
    await asyncio.sleep(1)
    stored = cluster.stored(state)
    assert stored is not None and stored.leader is not None
    old, deposed = cluster.brokers[stored.leader]._share_shards, stored.leader
    run_there = cluster.machines[deposed].process.run
    await run_there(old.initialize(key, 0, 0))
    await run_there(old.write(key, StateWrite(0, 1, 5, 0, ())))
    alone(cluster, deposed)
    (await next_leader(cluster, state, deposed)).close()
    await asyncio.sleep(1)
    now = cluster.stored(state)
    assert now is not None and now.leader is not None
    new = cluster.brokers[now.leader]._share_shards
    await cluster.machines[now.leader].process.run(new.write(key, StateWrite(0, 1, 9, 0, ())))
    with pytest.raises(errors.CoordinatorNotAvailable):
        await run_there(old.read(key, 1))
    assert (await cluster.machines[now.leader].process.run(new.read(key, 1))).start == 9


async def test_a_coordinator_that_was_replaced_does_not_vouch_for_a_transaction_that_was_aborted(
    random: Random,
) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic(NAME.topic, 1, {})
    state = TopicPartition("__transaction_state", 0)
    await cluster.brokers[1]._transactions.topic.ensure()
    await asyncio.sleep(1)
    stored = cluster.stored(state)
    assert stored is not None and stored.leader is not None
    old, deposed = cluster.brokers[stored.leader]._transactions, stored.leader
    run_there = cluster.machines[deposed].process.run
    instance = await run_there(old.initialize("t", 60_000, None))
    await run_there(old.add_partitions("t", instance, frozenset((NAME,)), 0))
    await run_there(old.verify("t", instance, NAME))
    alone(cluster, deposed)
    (await next_leader(cluster, state, deposed)).close()
    await asyncio.sleep(1)
    now = cluster.stored(state)
    assert now is not None and now.leader is not None
    new = cluster.brokers[now.leader]._transactions
    await cluster.machines[now.leader].process.run(new.end("t", instance, False, 0))
    with pytest.raises(errors.CoordinatorNotAvailable):
        await run_there(old.verify("t", instance, NAME))
