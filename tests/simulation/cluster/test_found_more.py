"""More ways to lose acknowledged records, to stand still or to serve what is wrong, each as the shortest run."""

from __future__ import annotations

import asyncio
import errno
from random import Random

import pytest

from tests.simulation.cluster.test_found import (
    LEASE_S,
    NAME,
    SEEDS,
    all_in_sync,
    followers_of,
    led,
    produce,
    sent,
    started,
    stored,
    values,
)
from tidelog import errors
from tidelog.metadata.store import Put
from tidelog.testing import run
from tidelog.testing.metadata import Backup
from tidelog.types import NodeId


def test_a_leader_whose_disk_failed_while_the_others_were_away_does_not_lead_when_they_are_back() -> None:
    async def scenario(random: Random) -> None:
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

    run(scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_holder_whose_directory_is_not_mounted_is_waited_for_when_the_others_lost_their_power(
    seed: int,
) -> None:
    async def scenario(random: Random) -> None:
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

    run(scenario, seed)


def test_what_was_acknowledged_after_an_operator_decided_stays_when_the_one_given_up_returns() -> None:
    """The store was restored from a backup, one broker did not come back, and an operator chose a leader without it."""

    async def scenario(random: Random) -> None:
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

    run(scenario)
