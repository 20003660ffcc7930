"""More ways to lose acknowledged records, to stand still or to serve what is wrong, each as the shortest run."""

from __future__ import annotations

import asyncio
import errno
import re
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from tests.simulation.cluster.test_found import (
    LEASE_S,
    NAME,
    SEEDS,
    SETTINGS,
    all_in_sync,
    followers_of,
    led,
    produce,
    sent,
    started,
    stored,
    values,
)
from tests.simulation.cluster.world import PORT, Cluster, host
from tidelog import errors
from tidelog.app.lifecycle import Broker
from tidelog.config import BrokerConfig
from tidelog.metadata.store import MetadataStore, Put
from tidelog.testing import Machine
from tidelog.testing.metadata import Backup
from tidelog.types import NodeId
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

pytestmark = pytest.mark.simulated


async def test_a_leader_whose_disk_failed_while_the_others_were_away_does_not_lead_when_they_are_back(
    random: Random,
) -> None:
    cluster = await started(random)
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    leader = await led(cluster)
    for node in followers_of(leader):
        cluster.kill(node)
    await asyncio.sleep(LEASE_S + 1)
    cluster.machines[leader].disk.fail("write", "*.log", errno.EIO, 1)
    await produce(cluster, 5, node=leader, acks=1)
    await asyncio.sleep(2)
    assert cluster.disks_failed(leader)
    for node in followers_of(leader):
        await cluster.restart(node)
    await asyncio.sleep(10)
    assert stored(cluster).leader in followers_of(leader), stored(cluster)
    assert await values(cluster) == sent(5)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_holder_whose_directory_is_not_mounted_is_waited_for_when_the_others_lost_their_power(
    random: Random,
    seed: int,
) -> None:
    cluster = await started(random, settings={"log.dirs": "/data,/more"})
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    for node in (1, 2, 3):
        await dict(cluster.replicas(NAME))[node].log.flush()
        cluster.machines[node].disk.sync_all("/data")
    await produce(cluster, 5, 6)
    await all_in_sync(cluster)
    whole = await led(cluster)
    for node in followers_of(whole):
        cluster.kill(node, power=True)
    home = cluster.brokers[whole]._dirs.home(NAME).path
    cluster.kill(whole)
    cluster._settings = {**cluster._settings, "log.dirs": "/more" if home == "/data" else "/data"}
    await cluster.restart(whole)
    cluster._settings = {**cluster._settings, "log.dirs": "/data,/more"}
    for node in followers_of(whole):
        await cluster.restart(node)
    await asyncio.sleep(10)
    await cluster.stop(whole)
    await cluster.restart(whole)
    await asyncio.sleep(5)
    assert await values(cluster) == sent(7)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_holder_whose_disk_failed_is_waited_for_when_the_others_lost_their_power(
    random: Random, seed: int
) -> None:
    """One write failed; everything that was acknowledged is on that disk.  The next leader had no time to take its
    broker out of the in-sync set."""
    cluster = await started(random)
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    whole = await led(cluster)
    for node in followers_of(whole):
        cluster.metadata.stall_watch(host(node))
    cluster.machines[whole].disk.fail("write", "*.log", errno.EIO, 1)
    await produce(cluster, 5, node=whole, acks=1)
    while stored(cluster).leader == whole:
        await asyncio.sleep(0.01)
    for node in followers_of(whole):
        cluster.kill(node, power=True)
        cluster.metadata.resume_watch(host(node))
    for node in followers_of(whole):
        await cluster.restart(node)
    await asyncio.sleep(5)
    cluster.kill(whole)
    await cluster.restart(whole)
    assert await values(cluster) == sent(5)


async def test_what_was_acknowledged_after_an_operator_decided_stays_when_the_one_given_up_returns(
    random: Random,
) -> None:
    """The store was restored from a backup, one broker did not come back, and an operator chose a leader without it."""
    cluster = await started(random, topic={"min.insync.replicas": "1"})
    await produce(cluster, 0)
    await all_in_sync(cluster)
    backup = Backup(cluster.metadata)
    gone = await led(cluster)
    # Leadership goes to and fro, and ends where it began.
    for node in followers_of(gone):
        await cluster.stop(node)
    await asyncio.sleep(1)
    for _ in range(3):
        cluster.kill(gone)
        await cluster.restart(gone)
    await produce(cluster, 1, node=gone)
    for _ in range(50):
        await cluster.metadata.connect("admin").txn((), [Put("else", b"")])
    await asyncio.sleep(12)
    await cluster.stop(gone)
    backup.restore()
    cluster._settings = {**cluster._settings, "tidelog.metadata.restored": "true"}
    for node in followers_of(gone):
        await cluster.restart(node)
    await asyncio.sleep(5)
    cluster._settings = {**cluster._settings, "tidelog.metadata.restored": "false"}
    assert stored(cluster).leader is None
    chosen = followers_of(gone)[0]
    controller = cluster.brokers[chosen]._controller
    outcome = await cluster.machines[chosen].process.run(
        controller.elect_leaders([NAME], unclean=True, chosen={NAME: NodeId(chosen)})
    )
    assert outcome == {NAME: None}
    await led(cluster)
    assert await produce(cluster, 2, 3) == errors.NONE
    before = await values(cluster)
    await cluster.restart(gone)
    await asyncio.sleep(10)
    assert await values(cluster) == before


async def test_the_fetches_of_a_process_that_was_replaced_do_not_count_for_the_new_one(
    random: Random,
) -> None:
    """A broker is cut off from the store, but not from its leader; another process takes its id, with a disk of its own."""
    cluster = await started(random)
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    leader = await led(cluster)
    replaced = followers_of(leader)[0]
    cluster.metadata.cut_off(host(replaced))
    await asyncio.sleep(LEASE_S + 1)
    machine = Machine(cluster.network, "replacement", random)
    around = replace(
        cluster._surroundings(replaced),
        clock=machine.clock,
        network=machine.host,
        disk=lambda path: machine.disk,
        store=partial(_connect, cluster, "replacement"),
    )
    given = {
        "listeners": f"PLAINTEXT://replacement:{PORT}",
        "log.dirs": "/data",
        "node.id": str(replaced),
    }
    broker = Broker(BrokerConfig.of({**given, **SETTINGS}), around)
    await machine.process.run(broker.start())
    await all_in_sync(cluster)
    cluster.network.cut("replacement", host(leader))
    assert await produce(cluster, 5, node=leader) != errors.NONE
    assert broker._partitions.held[NAME].log.end == 5


async def _connect(cluster: Cluster, name: str, folder: str) -> MetadataStore:
    return cluster.metadata.connect(name)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_move_to_machines_that_lost_their_power_does_not_end(random: Random, seed: int) -> None:
    """The controller learns late that the new replicas are in sync; then all machines go dark.  One of the old replicas
    has everything on its disk."""
    cluster = Cluster(random, 4, SETTINGS)
    await cluster.start_all()
    controller = cluster.brokers[1]._controller.image.controller
    assert controller is not None
    old, *new = [node for node in cluster.machines if node != controller]
    replicas = CreatableReplicaAssignment(partition_index=0, broker_ids=[old, controller])
    topic = CreatableTopic(name=NAME.topic, num_partitions=-1, replication_factor=-1, assignments=[replicas])
    await cluster.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), CreateTopicsResponse)
    await produce(cluster, *range(5))
    cluster.metadata.stall_watch(host(controller))
    moving = cluster.brokers[old]._controller.move_partitions({NAME: new}, same_number=True)
    await cluster.machines[old].process.run(moving)
    while len(stored(cluster).in_sync) < 4:
        await asyncio.sleep(0.05)
    assert await produce(cluster, 5, 6, node=old) == errors.NONE
    await dict(cluster.replicas(NAME))[old].log.flush()
    cluster.machines[old].disk.sync_all("/data")
    for node in cluster.machines:
        cluster.kill(node, power=True)
    cluster.metadata.resume_watch(host(controller))
    for node in (old, controller, *new):
        await cluster.restart(node)
        await asyncio.sleep(3)
    assert await values(cluster) == sent(7)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_replica_that_reported_and_then_lost_its_power_is_not_taken_for_the_best(
    random: Random, seed: int
) -> None:
    """All replicas report, because one broker was told that the metadata are restored.  What one of them had reported goes
    with its power; another one has it."""
    cluster = await started(random)
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    told = await led(cluster)
    dark, killed = followers_of(told)
    await cluster.stop(told)
    await asyncio.sleep(1)
    for node in (dark, killed):
        await dict(cluster.replicas(NAME))[node].log.flush()
        cluster.machines[node].disk.sync_all("/data")
    assert await produce(cluster, 5, 6) == errors.NONE
    cluster._settings = {**SETTINGS, "tidelog.metadata.restored": "true"}
    starting = asyncio.ensure_future(cluster.restart(told))
    while not stored(cluster).rolled_back:
        await asyncio.sleep(0.01)
    cluster.kill(killed)
    await starting
    cluster._settings = SETTINGS
    await asyncio.sleep(2)
    cluster.kill(dark, power=True)
    await cluster.restart(killed)
    await asyncio.sleep(2)
    await cluster.restart(dark)
    assert await values(cluster) == sent(7)


async def test_a_replica_that_does_not_lead_does_not_tell_consumers_that_their_offset_is_out_of_range(
    random: Random,
) -> None:
    cluster = await started(random)
    await produce(cluster, 0)
    await all_in_sync(cluster)
    follower = followers_of(await led(cluster))[0]
    part = FetchPartition(partition=0, fetch_offset=21, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=NAME.topic, partitions=[part])
    requester = await cluster.connect(follower, "consumer")
    answer = await requester.ask(
        FetchRequest(replica_id=-1, max_wait_ms=100, min_bytes=1, topics=[topic]),
        FetchResponse,
        version=11,
    )
    requester.close()
    assert answer.responses[0].partitions[0].error_code == errors.NotLeaderOrFollower.code


async def test_a_log_of_a_deleted_topic_that_lost_its_id_is_not_taken_for_the_topic_made_anew(
    random: Random,
) -> None:
    """The broker stood still while its topic was deleted and created again, and lost its power."""
    cluster = await started(random, {"min.insync.replicas": "1"})
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    leader = await led(cluster)
    frozen = followers_of(leader)[0]
    cluster.machines[frozen].pause()
    requester = await cluster.connect(leader, "admin")
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name=NAME.topic)], timeout_ms=1_000)
    await requester.ask(deleted, DeleteTopicsResponse)
    topic = CreatableTopic(name=NAME.topic, num_partitions=1, replication_factor=3)
    await requester.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), CreateTopicsResponse)
    requester.close()
    await produce(cluster, *range(10, 17), acks=1)
    cluster.machines[frozen].disk.sync_all("/data")
    cluster.kill(frozen, power=True)
    cluster.machines[frozen].restart()
    cluster.machines[frozen].disk.remove(f"/data/{NAME}/partition.metadata")
    await cluster.start(frozen)
    await all_in_sync(cluster)
    files = cluster.machines[frozen].disk.files(f"/data/{NAME}")
    log = b"".join(content for path, content in files.items() if path.endswith(".log"))
    assert re.findall(rb"value-\d+", log) == [b"value-%d" % number for number in range(10, 17)]


async def test_a_disk_that_was_replaced_is_filled_again_when_its_operator_says_that_the_old_one_is_gone(
    random: Random,
) -> None:
    cluster = Cluster(random, 3, {**SETTINGS, "log.dirs": "/data,/more"})
    await cluster.start_all()
    await cluster.create_topic(NAME.topic, 1, {"min.insync.replicas": "2"})
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    node = followers_of(await led(cluster))[0]
    home = cluster.brokers[node]._dirs.home(NAME).path
    cluster.kill(node)
    cluster.machines[node].restart()
    disk = cluster.machines[node].disk
    for path in list(disk.files(home)):
        disk.remove(path)
    for name in disk.list(home):
        disk.remove_folder(f"{home}/{name}")
    await cluster.start(node)
    await asyncio.sleep(20)
    assert node not in stored(cluster).in_sync, "the old disk may come back"
    await cluster.stop(node)
    cluster._settings = {**cluster._settings, "tidelog.log.dirs.forget.missing": "true"}
    await cluster.restart(node)
    await all_in_sync(cluster)
    assert await values(cluster) == sent(5)


async def test_a_replica_that_a_full_disk_did_not_take_follows_once_there_is_space(random: Random) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    cluster.machines[3].disk.limit_free(0)
    await cluster.create_topic(NAME.topic, 3, {"min.insync.replicas": "2"})
    await asyncio.sleep(2)
    states = [(name, cluster.stored(name)) for name in cluster.partitions]
    names = [name for name, state in states if state is not None and state.leader != 3]
    assert names and all(3 not in dict(cluster.replicas(name)) for name in names)
    cluster.machines[3].disk.limit_free(None)
    for _ in range(100):
        if all(3 in dict(cluster.replicas(name)) for name in names):
            return
        await asyncio.sleep(0.1)
    raise AssertionError([cluster.stored(name) for name in names])


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_replica_in_doubt_that_has_caught_up_with_a_leader_leads_when_that_leader_lost_its_power(
    random: Random, seed: int
) -> None:
    """The leader could not store that the replica is whole again: it was cut off from the store."""
    cluster = await started(random)
    await produce(cluster, *range(5))
    await all_in_sync(cluster)
    leader = await led(cluster)
    whole, short = followers_of(leader)
    for node in (whole, short):
        cluster.kill(node, power=True)
        cluster.machines[node].replace_disk()
    starting = asyncio.ensure_future(cluster.restart(whole))  # when the lease of its earlier process is over
    await asyncio.sleep(LEASE_S * 0.8)
    cluster.metadata.cut_off(host(leader))
    await starting
    async with asyncio.timeout(LEASE_S):
        while whole not in dict(cluster.replicas(NAME)) or dict(cluster.replicas(NAME))[whole].log.end < 5:
            await asyncio.sleep(0.01)
    cluster.kill(leader, power=True)
    cluster.machines[leader].replace_disk()
    cluster.metadata.reconnect(host(leader))
    await asyncio.sleep(LEASE_S + 1)
    await asyncio.gather(cluster.restart(leader), cluster.restart(short))
    await asyncio.sleep(10)
    assert await values(cluster) == sent(5)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_replica_in_doubt_that_has_caught_up_is_waited_for_when_all_lost_their_power(
    random: Random, seed: int
) -> None:
    """Its report is from before it caught up; the last leader and the other replica are back first."""
    cluster = await started(random)
    await produce(cluster, *range(3))
    await all_in_sync(cluster)
    for node in (1, 2, 3):
        await dict(cluster.replicas(NAME))[node].log.flush()
        cluster.machines[node].disk.sync_all("/data")
    await produce(cluster, 3, 4)
    await all_in_sync(cluster)
    leader = await led(cluster)
    whole, short = followers_of(leader)
    for node in (whole, short):
        cluster.kill(node, power=True)
    starting = asyncio.ensure_future(cluster.restart(whole))
    await asyncio.sleep(LEASE_S * 0.8)
    cluster.metadata.cut_off(host(leader))
    await starting
    async with asyncio.timeout(LEASE_S):
        while dict(cluster.replicas(NAME))[whole].log.end < 5:
            await asyncio.sleep(0.01)
    await dict(cluster.replicas(NAME))[whole].log.flush()
    cluster.machines[whole].disk.sync_all("/data")
    for node in (whole, leader):
        cluster.kill(node, power=True)
    cluster.metadata.reconnect(host(leader))
    await asyncio.sleep(LEASE_S + 1)
    await asyncio.gather(cluster.restart(leader), cluster.restart(short))
    await asyncio.sleep(10)
    assert stored(cluster).leader is None
    await cluster.restart(whole)
    assert await values(cluster) == sent(5)
