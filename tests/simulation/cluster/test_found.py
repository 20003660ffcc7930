"""Ways to lose acknowledged records when two faults meet, each as the shortest run that shows it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.cluster.concurrent.operators import PREFERRED, elect
from tests.simulation.cluster.world import Cluster, LeaderOf, host
from tests.simulation.readers import read_all
from tests.simulation.test_found import batch, code_of
from tidelog import errors
from tidelog.metadata.image.image import PartitionImage
from tidelog.metadata.store import Put
from tidelog.testing.metadata import Backup
from tidelog.types import TopicPartition
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

pytestmark = pytest.mark.simulated

NAME = TopicPartition("topic", 0)
SETTINGS = {"replica.lag.time.max.ms": "3000", "auto.leader.rebalance.enable": "false"}
LEASE_S = 2.0
SLOW_SYNC_S = 16.0
SEEDS = range(9)


async def started(
    random: Random, topic: dict[str, str] | None = None, settings: dict[str, str] | None = None
) -> Cluster:
    cluster = Cluster(random, 3, {**SETTINGS, **(settings or {})})
    await cluster.start_all()
    await cluster.create_topic(NAME.topic, 1, topic or {"min.insync.replicas": "2"})
    return cluster


def stored(cluster: Cluster) -> PartitionImage:
    state = cluster.stored(NAME)
    assert state is not None
    return state


async def led(cluster: Cluster) -> int:
    """Waits for a leader that runs, and knows that it leads."""
    for _ in range(600):
        leader = stored(cluster).leader
        replica = dict(cluster.replicas(NAME)).get(leader or 0)
        if leader is not None and replica is not None and replica.state.epoch == stored(cluster).leader_epoch:
            return leader
        await asyncio.sleep(0.1)
    raise AssertionError(f"nobody leads: {stored(cluster)}")


async def produce(cluster: Cluster, *sequences: int, node: int | None = None, acks: int = -1) -> int:
    """The error code of the last one."""
    code = -1
    for sequence in sequences:
        requester = await cluster.connect(node if node is not None else await led(cluster), "producer")
        part = PartitionProduceData(index=0, records=batch(sequence, producer_id=-1))
        topic = TopicProduceData(name=NAME.topic, partition_data=[part])
        request = ProduceRequest(acks=acks, timeout_ms=1_500, topic_data=[topic])
        code = code_of(await requester.ask(request, ProduceResponse, version=9))
        requester.close()
    return code


async def all_in_sync(cluster: Cluster) -> None:
    for _ in range(600):
        replicas = dict(cluster.replicas(NAME))
        ends = {replica.state.committed for replica in replicas.values()}
        if len(stored(cluster).in_sync) == 3 and len(replicas) == 3 and len(ends) == 1:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not all in sync: {stored(cluster)}")


async def values(cluster: Cluster) -> list[bytes]:
    """What the leader has, of which any broker that is up has to know: nothing is tried twice here."""
    while True:
        leader = await led(cluster)
        if dict(cluster.replicas(NAME))[leader].state.knows_committed:
            break
        await asyncio.sleep(0.1)
    found = await read_all(LeaderOf(cluster, NAME, only_up=True), cluster.random, NAME)
    return [value for _, value in found.records]


async def led_apart_from_the_controller(cluster: Cluster) -> tuple[int, int]:
    """The leader, which is moved where it has to be, and the controller."""
    controller = cluster.survivors.image.controller
    assert controller is not None
    if await led(cluster) == controller:
        leader, *others = followers_of(controller)
        part = ReassignablePartition(NAME.partition, [leader, *others, controller])
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(NAME.topic, [part])])
        await cluster.ask(request, AlterPartitionReassignmentsResponse)
        while await led(cluster) != leader:
            await elect(cluster, NAME, PREFERRED)
        await all_in_sync(cluster)
    assert cluster.survivors.image.controller == controller
    return await led(cluster), controller


def sent(count: int) -> list[bytes]:
    return [b"value-%d" % number for number in range(count)]


def followers_of(leader: int) -> list[int]:
    return [node for node in (1, 2, 3) if node != leader]


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_leader_after_a_power_cut_does_not_lead_while_the_controller_stands_still(
    random: Random, seed: int
) -> None:
    cluster = await started(random)
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    leader, controller = await led_apart_from_the_controller(cluster)
    cluster.kill(leader, power=True)
    back = asyncio.ensure_future(cluster.restart(leader))
    await asyncio.sleep(1.5)
    cluster.machines[controller].pause()
    await asyncio.sleep(2.5)
    cluster.machines[controller].go_on()
    await back
    assert await values(cluster) == sent(5)


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_a_power_cut_of_all_machines_the_best_log_leads_whoever_is_back_last(
    random: Random, seed: int
) -> None:
    cluster = await started(random)
    await produce(cluster, *range(3))
    await all_in_sync(cluster)
    synced = await led(cluster)
    await produce(cluster, 3, 4)
    await all_in_sync(cluster)
    # What one of them has is on its disk; the others' pages were not written yet.
    best = random.choice([synced, *followers_of(synced)])
    await dict(cluster.replicas(NAME))[best].log.flush()
    cluster.machines[best].disk.sync_all("/data")
    for node in (1, 2, 3):
        cluster.kill(node, power=True)
    last = random.choice([node for node in (1, 2, 3) if node != best])
    for node in random.sample([node for node in (1, 2, 3) if node != last], 2):
        await cluster.restart(node)
        await asyncio.sleep(random.choice((0.1, 3)))
    await cluster.restart(last)
    assert await values(cluster) == sent(5)


async def test_a_last_member_with_a_new_disk_is_not_followed_to_nothing(random: Random) -> None:
    cluster = await started(random, {"min.insync.replicas": "1"})
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    leader = await led(cluster)
    for node in followers_of(leader):
        await cluster.stop(node)
    await asyncio.sleep(1)
    assert set(stored(cluster).in_sync) == {leader}
    await cluster.stop(leader)
    cluster.machines[leader].replace_disk()
    await cluster.restart(leader)
    for node in followers_of(leader):
        await cluster.restart(node)
    await asyncio.sleep(10)
    assert stored(cluster).leader is None, "an operator has to decide"
    assert {replica.log.end for node, replica in cluster.replicas(NAME) if node != leader} <= {5}


async def test_an_eligible_replica_leads_when_the_last_member_is_lost(random: Random) -> None:
    cluster = await started(random)
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    leader = await led(cluster)
    for node in followers_of(leader):
        cluster.kill(node)
    await asyncio.sleep(LEASE_S + 1)
    assert set(stored(cluster).in_sync) == {leader}
    assert await produce(cluster, 5, node=leader) == errors.NotEnoughReplicas.code
    cluster.kill(leader, power=True)
    cluster.machines[leader].replace_disk()
    for node in followers_of(leader):
        await cluster.restart(node)
    assert await values(cluster) == sent(5)


async def test_a_leader_that_cannot_reach_the_store_acknowledges_only_what_the_others_have(
    random: Random,
) -> None:
    cluster = await started(random)
    await produce(cluster, *range(2))
    await all_in_sync(cluster)
    leader = await led(cluster)
    for node in followers_of(leader):
        cluster.network.cut(f"broker-{leader}", f"broker-{node}")
    cluster.metadata.cut_off(f"broker-{leader}")
    await asyncio.sleep(LEASE_S + 1)
    assert await produce(cluster, 2, node=leader, acks=1) != errors.NONE
    cluster.network.heal()
    cluster.metadata.reconnect(f"broker-{leader}")
    await all_in_sync(cluster)
    assert await values(cluster) == sent(2)
    assert await produce(cluster, 2, acks=1) == errors.NONE


@pytest.mark.parametrize("is_native", [True, False])
async def test_a_leader_that_is_replaced_while_its_disk_syncs_does_not_acknowledge_what_the_others_lack(
    random: Random,
    is_native: bool,
) -> None:
    """The lease is proven when the records are appended, and over when they are on disk."""
    one_member = {"min.insync.replicas": "1"}
    cluster = await started(random, {**one_member, "flush.messages": "1"})
    await cluster.create_topic("plain", 3, one_member)  # one partition led by each broker
    await produce(cluster, 0)
    await all_in_sync(cluster)
    leader = await led(cluster)
    for node in followers_of(leader):
        cluster.network.cut(host(leader), host(node))
    cluster.metadata.cut_off(host(leader))
    cluster.machines[leader].disk.run_delay_s_max = SLOW_SYNC_S
    requester = await cluster.connect(leader, "producer", request_timeout_ms=300_000)
    plain = [TopicPartition("plain", index) for index in range(3)]
    beside = [name for name in plain if cluster.brokers[leader]._partitions.held[name].leader == leader]
    records = batch(1, producer_id=-1)
    data = [
        TopicProduceData(name=name.topic, partition_data=[PartitionProduceData(name.partition, records)])
        for name in [NAME, *([] if is_native else beside)]
    ]
    request = ProduceRequest(acks=1, timeout_ms=200_000, topic_data=data)
    answer = requester.submit(request, ProduceResponse, version=9)
    while stored(cluster).leader == leader:
        await asyncio.sleep(0.1)
    assert not answer.done(), "the run needs a sync that takes longer than the lease"
    cluster.machines[leader].disk.run_delay_s_max = 0.001
    await asyncio.sleep(2 * SLOW_SYNC_S)
    cluster.network.heal()
    cluster.metadata.reconnect(host(leader))
    await all_in_sync(cluster)
    codes = [topic.partition_responses[0].error_code for topic in (await answer).responses]
    assert codes == [errors.NotLeaderOrFollower.code] * (1 if is_native else 2)
    assert await values(cluster) == sent(1)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_store_restored_from_a_backup_does_not_bring_back_an_old_leader(
    random: Random, seed: int
) -> None:
    """The backup has a member in sync that has missed a lot since.  Brokers notice by the revision, which is far behind
    what they know; or by the epochs of their logs."""
    cluster = await started(random, {"min.insync.replicas": "1"})
    await produce(cluster, 0)
    await all_in_sync(cluster)
    backup = Backup(cluster.metadata)
    stale = await led(cluster)
    cluster.kill(stale)
    await asyncio.sleep(LEASE_S + 1)
    await produce(cluster, 1, 2)
    for _ in range(50):  # much more has happened
        await cluster.metadata.connect("admin").txn((), [Put("else", b"")])
    await asyncio.sleep(1)
    for node in followers_of(stale):
        await cluster.stop(node)
    backup.restore()
    for node in random.sample((1, 2, 3), 3):
        await cluster.restart(node)
        await asyncio.sleep(random.choice((0.1, 3)))
    assert await values(cluster) == sent(3)
    await all_in_sync(cluster)


async def test_a_broker_ends_when_its_store_is_restored_from_a_backup(random: Random) -> None:
    cluster = await started(random)
    backup = Backup(cluster.metadata)
    await produce(cluster, 0)
    backup.restore()
    await asyncio.sleep(5)
    for broker in cluster.brokers.values():
        assert "was at" in str(broker.ended.exception())


async def test_a_holder_whose_log_lost_its_topic_id_with_the_power_keeps_its_records(random: Random) -> None:
    cluster = await started(random)
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    for node in (1, 2, 3):
        await dict(cluster.replicas(NAME))[node].log.flush()
        cluster.machines[node].disk.sync_all("/data")
        cluster.kill(node, power=True)
    for node in (1, 2, 3):
        cluster.machines[node].restart()
        cluster.machines[node].disk.remove(f"/data/{NAME}/partition.metadata")
        await cluster.start(node)
    assert await values(cluster) == sent(5)


async def test_a_broker_stops_cleanly_while_the_store_is_away(random: Random) -> None:
    cluster = await started(random)
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    leader = await led(cluster)
    cluster.metadata.go_away()
    await cluster.stop(leader)
    assert "/data/.clean-shutdown" in cluster.machines[leader].disk.files()
    cluster.metadata.come_back()
    await cluster.restart(leader)
    assert await values(cluster) == sent(5)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_follower_that_stops_does_not_fetch_what_its_disk_is_yet_to_take(
    random: Random, seed: int
) -> None:
    """While it stops it hears that its leader is another one, or that it is out of the in-sync set itself."""
    cluster = await started(random, {"min.insync.replicas": "2", "flush.messages": "1"})
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    leader = await led(cluster)
    stopping, _ = followers_of(leader)
    cluster.machines[stopping].disk.run_delay_s_max = 1.0
    stop = asyncio.create_task(cluster.stop(stopping))
    sequence = 5
    while not stop.done():
        await produce(cluster, sequence, node=leader, acks=1)
        sequence += 1
        await asyncio.sleep(0.005)
    await stop
    assert "/data/.clean-shutdown" in cluster.machines[stopping].disk.files()
    cluster.machines[stopping].disk.run_delay_s_max = 0.001
    await cluster.restart(stopping)
    await all_in_sync(cluster)
    assert await values(cluster) == sent(sequence)
