"""A metadata store that was restored from a backup: what happened since the backup does not happen a second time."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.cluster.test_found import (
    LEASE_S,
    all_in_sync,
    followers_of,
    led,
    produce,
    sent,
    started,
    stored,
    values,
)
from tidelog.app.replicating import HAND_OVER_S_MAX
from tidelog.metadata.store import Put
from tidelog.testing.metadata import Backup

pytestmark = pytest.mark.simulated


async def test_producer_ids_that_were_given_since_the_backup_are_not_given_again(random: Random) -> None:
    cluster = await started(random)
    backup = Backup(cluster.metadata)
    given = [await broker._producer_ids.next() for broker in cluster.brokers.values()]
    for _ in range(2):  # the same backup once more
        for node in (1, 2, 3):
            await cluster.stop(node)
        cluster.restore(backup)
        for node in (1, 2, 3):
            await cluster.restart(node)
        given += [await broker._producer_ids.next() for broker in cluster.brokers.values()]
    assert len(set(given)) == 9


async def test_a_broker_whose_metadata_were_restored_ends_at_once_and_changes_nothing(random: Random) -> None:
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


async def test_a_replica_that_led_since_the_restoration_without_a_record_is_not_the_best(
    random: Random,
) -> None:
    """It missed what was acknowledged after the backup, and its start noticed nothing: its epoch is new, its log is not."""
    cluster = await started(random)
    await produce(cluster, 0)
    await all_in_sync(cluster)
    stale = followers_of(await led(cluster))[0]
    backup = Backup(cluster.metadata)
    cluster.kill(stale)
    await asyncio.sleep(LEASE_S + 1)
    await produce(cluster, 1, 2)
    for _ in range(50):  # much more has happened, so that the others notice by the revision
        await cluster.metadata.connect("admin").txn((), [Put("else", b"")])
    await asyncio.sleep(1)
    for node in followers_of(stale):
        await cluster.stop(node)
    backup.restore()
    await cluster.restart(stale)
    await asyncio.sleep(3 * LEASE_S)
    for node in followers_of(stale):
        await cluster.restart(node)
    await all_in_sync(cluster)
    assert await values(cluster) == sent(3)
