"""Internal topics that were created when one broker ran survive that broker, once the others have joined."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.cluster.test_deleted_topics import SETTINGS, commit, coordinator
from tests.simulation.cluster.test_transactional_offsets import TOPIC, stable_offset
from tests.simulation.cluster.world import Cluster
from tidelog import errors
from tidelog.metadata.image.image import PartitionImage
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

OFFSETS = TopicPartition("__consumer_offsets", 0)
JOIN_S_MAX = 60


def offsets_partition(cluster: Cluster) -> PartitionImage:
    stored = cluster.stored(OFFSETS)
    assert stored is not None
    return stored


async def until_in_sync(cluster: Cluster, count: int) -> None:
    async with asyncio.timeout(JOIN_S_MAX):
        while len(offsets_partition(cluster).in_sync) < count or offsets_partition(cluster).adding:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("seed", range(4))
async def test_offsets_that_one_broker_took_survive_its_machine_once_others_have_joined(
    random: Random, seed: int
) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start(1)
    node = await coordinator(cluster)
    assert (node, offsets_partition(cluster).replicas) == (1, (1,))
    await cluster.start(2)
    await until_in_sync(cluster, 2)
    await cluster.start(3)
    await until_in_sync(cluster, 3)
    await cluster.create_topic(TOPIC, 1, {})
    await commit(await cluster.connect(await coordinator(cluster), "client"), 7)
    cluster.kill(await coordinator(cluster), power=True)
    group = await cluster.connect(await coordinator(cluster), "client")
    assert await stable_offset(group, 0) == (errors.NONE, 7)
