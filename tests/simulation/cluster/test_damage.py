"""Bytes rot on the disk of one broker or of two: the damaged replica leaves the in-sync set, gets the records again from
a good one, and comes back with the very same bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from tests.simulation import invariants
from tests.simulation.cluster import trouble
from tests.simulation.cluster.play import SETTINGS, TOPICS, Profile, play
from tests.simulation.cluster.world import Cluster, LeaderOf
from tests.simulation.producers import Producer
from tests.simulation.readers import read_all
from tidelog.metadata.image import PartitionImage
from tidelog.replication.partition import Partition
from tidelog.types import TopicPartition

pytestmark = pytest.mark.simulated

NAME = TopicPartition("plain", 0)
FOLDER = f"/data/{NAME}"
REPAIR_S_MAX = 60

Act = Callable[["Scene"], Awaitable[None]]


class Scene:
    """Brokers that all have a replica of one partition with some records in several segments, all in sync."""

    def __init__(self, random: Random, settings: dict[str, str] | None = None, size: int = 3) -> None:
        self.random = random
        self.size = size
        self.producers = 0
        self.cluster = Cluster(random, size, {**SETTINGS, **(settings or {})})

    async def begin(self, in_sync_min: str = "2") -> None:
        cluster = self.cluster
        await cluster.start_all()
        await cluster.create_topic("plain", 1, {**TOPICS["plain"], "min.insync.replicas": in_sync_min})
        await self.write(5)
        await self.until(lambda: len(self.stored.in_sync) == self.size, "all are in sync")

    async def write(self, seconds: float) -> None:
        """By a producer of its own."""
        meeting, history = LeaderOf(self.cluster, NAME), self.cluster.partitions[NAME]
        self.producers += 1
        producer = Producer(meeting, self.random, self.producers, history, idempotent=True, acks=-1)
        writing = asyncio.ensure_future(producer.run())
        await asyncio.sleep(seconds)
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing

    @property
    def stored(self) -> PartitionImage:
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
        await self.until(lambda: len(self.stored.in_sync) == self.size, "all are in sync")
        await asyncio.sleep(2)
        found = await read_all(LeaderOf(self.cluster, NAME), self.random, NAME)
        assert invariants.check(history, found) == []
        logs = [_bytes_of(self.held(node)) for node in self.stored.replicas]
        assert all(each == logs[0] for each in logs)


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


async def _follower_lacks_bytes(scene: Scene) -> None:
    """What others have does not fit into the same place: the log is cut before it."""
    node = scene.follower()
    scene.cluster.kill(node)
    path = scene.rot(node)
    scene.cluster.machines[node].restart()
    disk = scene.cluster.machines[node].disk
    disk.open(path).truncate(disk.size(path) - 10)
    await scene.cluster.start(node)
    epoch = scene.stored.leader_epoch
    await scene.until(lambda: scene.whole(node), f"broker {node} is whole and in sync")
    assert scene.cluster.brokers[node]._repair.cut == 1 and scene.stored.leader_epoch > epoch


async def _leader_rots_at_its_very_end(scene: Scene) -> None:
    """It looks like a write that was torn, but the machine stayed up: what is cut may have been acknowledged."""
    node = scene.stored.leader
    assert node is not None
    scene.cluster.kill(node)
    files = scene.cluster.machines[node].disk.files()
    path = max(
        path for path, data in files.items() if path.startswith(FOLDER) and path.endswith(".log") and data
    )
    scene.cluster.machines[node].disk.rot(path, len(files[path]) - 1)
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


@pytest.mark.parametrize(
    "act",
    [
        _follower_is_killed,
        _follower_lacks_bytes,
        _leader_is_killed,
        _leader_rots_at_its_very_end,
        _two_rot_at_different_places,
    ],
)
@pytest.mark.parametrize("seed", range(3))
async def test_damage_found_at_a_start_is_repaired_from_a_good_replica(
    random: Random, act: Act, seed: int
) -> None:
    scene = Scene(random)
    await scene.begin()
    await act(scene)
    await scene.check()


async def _scrubbed_follower(scene: Scene) -> None:
    """Nobody reads the bytes of a follower: only the scrubber can find them."""
    node = scene.follower()
    scene.rot(node)
    await scene.until(lambda: node not in scene.stored.in_sync, f"broker {node} has left the in-sync set")
    await scene.until(lambda: scene.whole(node), f"broker {node} is whole and in sync")


async def _scrubbed_leader(scene: Scene) -> None:
    node = scene.stored.leader
    assert node is not None
    scene.rot(node)
    await scene.until(lambda: scene.stored.leader != node, f"broker {node} does not lead any more")
    await scene.until(lambda: scene.whole(node), f"broker {node} is whole and in sync")


async def _scrubbed_pair(scene: Scene) -> None:
    """At different places: each can give the other what it lacks."""
    nodes = scene.stored.leader, scene.follower()
    for node, share in zip(nodes, (0.3, 0.6), strict=True):
        assert node is not None
        scene.rot(node, share)
    found = [scene.cluster.brokers[node]._scrubbers[0].counters for node in nodes if node is not None]
    await scene.until(lambda: all(one.ranges_found for one in found), "the scrubbers have found it")
    await scene.until(lambda: all(scene.whole(node) for node in scene.stored.replicas), "all are whole")


@pytest.mark.parametrize("act", [_scrubbed_follower, _scrubbed_leader, _scrubbed_pair])
@pytest.mark.parametrize("seed", range(3))
async def test_damage_that_a_scrubber_finds_is_repaired_from_a_good_replica(
    random: Random, act: Act, seed: int
) -> None:
    scene = Scene(random, {"tidelog.scrub.period.ms": "1000"})
    await scene.begin()
    await act(scene)
    await scene.check()


@pytest.mark.simulated(seed=1)
async def test_a_leader_checks_its_bytes_when_a_follower_cannot_read_them(random: Random) -> None:
    scene = Scene(random, {"tidelog.scrub.bytes.per.second": "0"})
    await scene.begin()
    leader, follower = scene.stored.leader, scene.follower()
    assert leader is not None
    await scene.cluster.stop(follower)
    await scene.until(lambda: follower not in scene.stored.in_sync, "the follower is out")
    end = scene.held(leader).log.end
    await scene.write(5)
    segment = next(each for each in scene.held(leader).log.segments if each.base >= end and each.size)
    # In the body of a batch: headers stay readable, so the leader sends it as it is.
    scene.cluster.machines[leader].disk.rot(segment.path, segment.header(0).size - 1)
    await scene.cluster.restart(follower)
    await scene.until(lambda: scene.whole(follower), "the follower has caught up, from another leader")
    assert scene.stored.leader != leader
    await scene.until(lambda: scene.whole(leader), "the old leader is whole again")
    await scene.check()


@pytest.mark.parametrize("in_sync_min", ["1", "2"])
@pytest.mark.simulated(seed=1)
async def test_with_two_replicas_each_repairs_the_other(random: Random, in_sync_min: str) -> None:
    scene = Scene(random, {"tidelog.scrub.period.ms": "1000"}, size=2)
    await scene.begin(in_sync_min)
    await _scrubbed_pair(scene)
    await scene.check()


TROUBLES = (
    trouble.bytes_rot,
    trouble.bytes_rot,
    trouble.broker_is_killed,
    trouble.machine_loses_power,
    trouble.broker_stops_in_order,
    trouble.broker_stands_still,
    trouble.brokers_are_cut_apart,
    trouble.broker_is_cut_off,
    trouble.store_is_cut_off,
    trouble.disk_is_slow,
)
SCRUBBED = (("tidelog.scrub.period.ms", "1000"),)


@pytest.mark.parametrize("seed", range(10))
def test_bytes_rot_beside_other_trouble(seed: int) -> None:
    play(seed, Profile(troubles=TROUBLES, settings=SCRUBBED))
