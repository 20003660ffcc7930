"""A metadata store that was restored from a backup: what happened since the backup does not happen a second time."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.cluster.test_found import all_in_sync, followers_of, led, produce, started, stored
from tidelog.app.replicating import HAND_OVER_S_MAX
from tidelog.testing import run
from tidelog.testing.metadata import Backup


def test_producer_ids_that_were_given_since_the_backup_are_not_given_again() -> None:
    async def scenario(random: Random) -> None:
        cluster = await started(random)
        backup = Backup(cluster.metadata)
        given = [await broker._producer_ids.next() for broker in cluster.brokers.values()]
        for node in (1, 2, 3):
            await cluster.stop(node)
        backup.restore()
        for node in (1, 2, 3):
            await cluster.restart(node)
        again = [await broker._producer_ids.next() for broker in cluster.brokers.values()]
        assert len({*given, *again}) == 6

    run(scenario)


def test_a_broker_whose_metadata_were_restored_ends_at_once_and_changes_nothing() -> None:
    async def scenario(random: Random) -> None:
        cluster = await started(random)
        await all_in_sync(cluster)
        backup = Backup(cluster.metadata)
        await produce(cluster, 0)
        leader = await led(cluster)
        backup.restore()
        before = stored(cluster)
        for node in followers_of(leader):
            cluster.kill(node)
        await asyncio.wait([cluster.brokers[leader].ended])
        loop = asyncio.get_running_loop()
        began = loop.time()
        await cluster.stop(leader)
        assert loop.time() - began < HAND_OVER_S_MAX / 2
        assert stored(cluster) == before

    run(scenario)
