"""Bytes rot on the disk of one broker or of two: the damaged replica leaves the in-sync set, gets the records again from
a good one, and comes back with the very same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from tests.simulation import invariants
from tests.simulation.cluster.play import SETTINGS, TOPICS
from tests.simulation.cluster.world import Cluster, LeaderOf
from tests.simulation.producers import Producer
from tests.simulation.readers import read_all
from tidelog.metadata.image import Partition as Stored
from tidelog.replication.partition import Partition
from tidelog.testing import run
from tidelog.types import TopicPartition

NAME = TopicPartition("plain", 0)
FOLDER = f"/data/{NAME}"
REPAIR_S_MAX = 60

Act = Callable[["Scene"], Awaitable[None]]


class Scene:
    """Three brokers, a partition with some records in several segments, all replicas in sync."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.cluster = Cluster(random, 3, SETTINGS)

    async def begin(self, replicas: int = 3) -> None:
        cluster = self.cluster
        await cluster.start_all()
        await cluster.create_topic("plain", 1, TOPICS["plain"])
        await self.write(5)
        await self.until(lambda: len(self.stored.in_sync) == 3, "all are in sync")

    async def write(self, seconds: float) -> None:
        history = self.cluster.partitions[NAME]
        producer = Producer(LeaderOf(self.cluster, NAME), self.random, 0, history, idempotent=True, acks=-1)
        writing = asyncio.ensure_future(producer.run())
        await asyncio.sleep(seconds)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)

    @property
    def stored(self) -> Stored:
        stored = self.cluster.stored(NAME)
        assert stored is not None
        return stored

    def follower(self, number: int = 0) -> int:
        return [node for node in self.stored.replicas if node != self.stored.leader][number]

    def held(self, node: int) -> Partition:
        return dict(self.cluster.replicas(NAME))[node]

    def rot(self, node: int, share: float = 0.4) -> str:
        """One byte, so far into the log; the file it is in."""
        disk = self.cluster.machines[node].disk
        logs = sorted(path for path in disk.files() if path.startswith(FOLDER) and path.endswith(".log"))
        assert len(logs) > 3
        path = logs[int(share * (len(logs) - 1))]
        disk.rot(path)
        return path

    async def until(self, true: Callable[[], bool], what: str) -> None:
        for _ in range(REPAIR_S_MAX * 20):
            if true():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not within {REPAIR_S_MAX} s: {what}")

    def whole(self, node: int) -> bool:
        held = dict(self.cluster.replicas(NAME)).get(node)
        return held is not None and not held.log.damaged and node in self.stored.in_sync

    async def check(self) -> None:
        """Everybody has the same bytes, and readers get all that was acknowledged."""
        history = self.cluster.partitions[NAME]
        await self.write(1)
        await self.until(lambda: len(self.stored.in_sync) == 3, "all are in sync")
        await asyncio.sleep(2)
        found = await read_all(LeaderOf(self.cluster, NAME), self.random, NAME)
        assert invariants.check(history, found) == []
        logs = [_bytes_of(self.held(node)) for node in self.stored.replicas]
        assert logs[0] == logs[1] == logs[2]


def _bytes_of(partition: Partition) -> bytes:
    return b"".join(segment.file.read(segment.size, 0) for segment in partition.log.segments)


async def _follower_is_killed(scene: Scene) -> None:
    node = scene.follower()
    scene.cluster.kill(node)
    scene.rot(node)
    await scene.cluster.restart(node)
    await scene.until(lambda: scene.whole(node), f"broker {node} is whole and in sync")


async def _leader_is_killed(scene: Scene) -> None:
    node = scene.stored.leader
    assert node is not None
    scene.cluster.kill(node)
    scene.rot(node)
    await scene.cluster.restart(node)
    await scene.until(lambda: scene.whole(node), f"broker {node} is whole and in sync")


async def _two_rot_at_different_places(scene: Scene) -> None:
    nodes = scene.stored.leader, scene.follower()
    for node, share in zip(nodes, (0.3, 0.6), strict=True):
        assert node is not None
        scene.cluster.kill(node)
        scene.rot(node, share)
    for node in nodes:
        assert node is not None
        await scene.cluster.restart(node)
    await scene.until(lambda: all(scene.whole(node) for node in scene.stored.replicas), "all are whole")


@pytest.mark.parametrize("act", [_follower_is_killed, _leader_is_killed, _two_rot_at_different_places])
@pytest.mark.parametrize("seed", range(3))
def test_damage_found_at_a_start_is_repaired_from_a_good_replica(act: Act, seed: int) -> None:
    async def scenario(random: Random) -> None:
        scene = Scene(random)
        await scene.begin()
        await act(scene)
        await scene.check()

    run(scenario, seed)
