"""A classic group that counts by its committed offsets, through whatever happens to its coordinator."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.cluster.survivors import Problems
from tests.simulation.cluster.test_groups import Coordinator
from tests.simulation.cluster.world import Cluster
from tests.simulation.grouped import PARTITIONS, TOPIC, GroupMember, Promises
from tests.simulation.invariants import Violated
from tests.simulation.test_groups import check
from tidelog.types import TopicPartition

OFFSETS = "__consumer_offsets"


class Group:
    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._coordinator = Coordinator(cluster)
        self.promises = Promises()
        self.members = [
            GroupMember(self._coordinator, Random(random.getrandbits(64)), f"member-{number}", self.promises)
            for number in range(random.choice((1, 2)))
        ]
        cluster.survivors.on_loss.append(self._lost)

    def _lost(self, name: TopicPartition) -> None:
        if name.topic == OFFSETS:
            self.promises.lost()

    async def hire(self) -> None:
        await self._cluster.create_topic(TOPIC, PARTITIONS, {"min.insync.replicas": "2"}, watched=False)

    def start(self) -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(member.run()) for member in self.members]

    def progress(self) -> dict[str, int]:
        return {"commits": self.promises.commits}

    async def check(self) -> Problems:
        try:
            await check(self._coordinator, self.promises)
        except Violated as problem:
            return [(name, str(problem)) for name in problem.names]
        return []
