"""A broker whose disk fails leaves its partitions to those that have them."""

from __future__ import annotations

import asyncio
import errno
from random import Random

from tests.simulation import invariants
from tests.simulation.cluster.play import SETTINGS, TOPICS
from tests.simulation.cluster.world import Cluster, LeaderOf
from tests.simulation.producers import Producer
from tests.simulation.readers import read_all
from tidelog.testing import run
from tidelog.types import TopicPartition

NAME = TopicPartition("plain", 0)


def test_the_leader_whose_disk_fails_leaves_the_partition_to_the_others() -> None:
    run(_scenario, 1)


async def _scenario(random: Random) -> None:
    cluster = Cluster(random, 3, SETTINGS)
    await cluster.start_all()
    await cluster.create_topic("plain", 1, TOPICS["plain"])
    history = cluster.partitions[NAME]
    producer = Producer(LeaderOf(cluster, NAME), random, 0, history, idempotent=True, acks=-1)
    writing = asyncio.ensure_future(producer.run())
    await asyncio.sleep(1)
    before = cluster.stored(NAME)
    assert before is not None and before.leader is not None and len(before.in_sync) == 3
    cluster.machines[before.leader].disk.fail("write", "*.log", errno.EIO, 1)
    answers = producer.answers
    await asyncio.sleep(5)  # longer than followers may be behind
    after = cluster.stored(NAME)
    assert after is not None and after.leader not in (None, before.leader)
    assert set(after.in_sync) == set(before.in_sync) - {before.leader}
    assert producer.answers > answers
    writing.cancel()
    found = await read_all(LeaderOf(cluster, NAME), random, NAME)
    assert invariants.check(history, found) == []
