"""All clients of a run: producers and readers of data partitions, and what `kinds` asks for beside them."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Protocol

from tests.simulation import invariants
from tests.simulation.cluster.survivors import Problems
from tests.simulation.cluster.world import Cluster, LeaderOf
from tests.simulation.history import Found
from tests.simulation.producers import Producer
from tests.simulation.readers import Unreadable, follow, read_all
from tidelog import errors
from tidelog.types import TopicPartition

DATA = {
    "min.insync.replicas": "2",
    "segment.index.bytes": "120",
    "index.interval.bytes": "300",
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": str(1 << 62),
}


class Kind(Protocol):
    """Clients of one kind."""

    async def hire(self) -> None:
        """Before the first work."""

    def start(self) -> list[asyncio.Task[None]]: ...

    def progress(self) -> dict[str, int]:
        """How far each client has come, by its name."""

    async def check(self) -> Problems: ...


class Plain:
    """Producers that want all replicas or only the leader, and readers."""

    def __init__(self, cluster: Cluster, random: Random, synced: bool) -> None:
        self._cluster = cluster
        self._random = random
        self._synced = synced
        self.producers: list[Producer] = []

    async def hire(self) -> None:
        cluster, random = self._cluster, self._random
        synced = {"flush.messages": "1"} if self._synced else {}
        await cluster.create_topic("plain", random.choice((1, 2)), {**DATA, **synced})
        for name, history in cluster.partitions.items():
            for acks in (-1, random.choice((-1, 1))):
                place = LeaderOf(cluster, name)
                producer = Producer(
                    place,
                    Random(random.getrandbits(64)),
                    len(self.producers),
                    history,
                    idempotent=acks == -1 and random.random() < 0.7,
                    acks=acks,
                )
                if acks == 1:
                    producer.binding = place.lease_is_over
                self.producers.append(producer)

    def start(self) -> list[asyncio.Task[None]]:
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        for name, history in self._cluster.partitions.items():
            reader = follow(LeaderOf(self._cluster, name), Random(self._random.getrandbits(64)), history)
            tasks.append(asyncio.ensure_future(reader))
        return tasks

    def progress(self) -> dict[str, int]:
        return {str(producer.number): producer.answers for producer in self.producers}

    async def check(self) -> Problems:
        problems: Problems = []
        for name, history in self._cluster.partitions.items():
            found = await self._read(name)
            problems += invariants.check(history, found)
            for offset, value in found.records:
                history.was_shown(offset, value, history.power_losses)
            history.end_was_told(found.end, history.power_losses)
        return problems

    async def _read(self, name: TopicPartition) -> Found:
        try:
            return await read_all(LeaderOf(self._cluster, name), self._random, name)
        except errors.TidelogError as problem:
            raise Unreadable(f"{name}: {problem}") from problem


class Clients:
    def __init__(self, cluster: Cluster, random: Random, kinds: tuple[str, ...], synced: bool) -> None:
        self.kinds: list[Kind] = [Plain(cluster, random, synced)]
        self._before: dict[str, int] = {}

    async def hire(self) -> None:
        for kind in self.kinds:
            await kind.hire()

    def start(self) -> list[asyncio.Task[None]]:
        return [task for kind in self.kinds for task in kind.start()]

    def note_progress(self) -> None:
        self._before = self._progress()

    def stuck(self) -> list[str]:
        """Those that are where they were when `note_progress` was called."""
        return [client for client, now in self._progress().items() if now <= self._before[client]]

    def _progress(self) -> dict[str, int]:
        return {
            f"{type(kind).__name__} {name}": count
            for kind in self.kinds
            for name, count in kind.progress().items()
        }

    async def check(self) -> Problems:
        return [problem for kind in self.kinds for problem in await kind.check()]
