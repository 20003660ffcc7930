"""All clients of a run: producers and readers of data partitions, and what `kinds` asks for beside them."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Protocol

from tests.simulation import invariants
from tests.simulation.cluster.concurrent.fleeting_clients import Fleeting
from tests.simulation.cluster.concurrent.group_clients import Group
from tests.simulation.cluster.concurrent.offset_clients import TransactionalOffsets
from tests.simulation.cluster.concurrent.share_clients import Share
from tests.simulation.cluster.concurrent.transaction_clients import Transactions
from tests.simulation.cluster.survivors import Problems
from tests.simulation.cluster.world import Cluster, LeaderOf
from tests.simulation.history import Found, PartitionHistory
from tests.simulation.producers import Producer
from tests.simulation.readers import LATEST, Unreadable, follow, list_offset, read_all
from tidelog import errors
from tidelog.types import TopicPartition

PLAIN = "plain"
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
        await cluster.create_topic(PLAIN, random.choice((1, 2)), {**DATA, **synced})
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
                    producer.without_lease = place.lease_is_over
                    producer.answered_without_lease = place.lease_was_over
                self.producers.append(producer)

    def start(self) -> list[asyncio.Task[None]]:
        tasks = [asyncio.ensure_future(producer.run()) for producer in self.producers]
        for name, history in self._cluster.partitions.items():
            reader = follow(LeaderOf(self._cluster, name), Random(self._random.getrandbits(64)), history)
            tasks.append(asyncio.ensure_future(reader))
            asking = ask_for_ends(self._cluster, Random(self._random.getrandbits(64)), history)
            tasks.append(asyncio.ensure_future(asking))
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


class NoStaleEnd:
    """A leader that is asked after an acknowledgement where its log ends tells of what was acknowledged."""

    @classmethod
    def check(cls, name: TopicPartition, acknowledged: int, end: int) -> None:
        if end < acknowledged:
            text = f"{name}: {acknowledged} were acknowledged, and the leader says that it ends at {end}"
            raise invariants.Violated([(cls.__name__, text)])


async def ask_for_ends(cluster: Cluster, random: Random, history: PartitionHistory) -> None:
    """Until cancelled.  Only the word of a broker counts that leads when it is asked and still does when it has answered."""
    while True:
        await asyncio.sleep(random.random())
        before, losses = cluster.stored(history.name), history.power_losses
        if before is None or before.leader is None or cluster.survivors.is_restored(history.name):
            continue
        acknowledged = max(history.promised, default=-1) + 1
        try:
            requester = await cluster.connect(before.leader, "ends")
            try:
                end = await list_offset(requester, history.name, LATEST)
            finally:
                requester.close()
        except (OSError, errors.TidelogError, Unreadable):
            continue
        after = cluster.stored(history.name)
        if cluster.survivors.is_restored(history.name):
            continue
        if after is not None and after[2:4] == before[2:4] and losses == history.power_losses:
            NoStaleEnd.check(history.name, acknowledged, end)


class Clients:
    def __init__(self, cluster: Cluster, random: Random, kinds: tuple[str, ...], synced: bool) -> None:
        self.kinds: list[Kind] = [Plain(cluster, random, synced)]
        if "group" in kinds:
            self.kinds.append(Group(cluster, random))
        if "transactions" in kinds:
            self.kinds.append(Transactions(cluster, random))
        if "offsets" in kinds:
            self.kinds.append(TransactionalOffsets(cluster, random))
        if "fleeting" in kinds:
            self.kinds.append(Fleeting(cluster, random))
        if "share" in kinds:
            self.kinds.append(Share(cluster, random, PLAIN))
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
        return [client for client, now in self._progress().items() if now <= self._before.get(client, 0)]

    def _progress(self) -> dict[str, int]:
        return {
            f"{type(kind).__name__} {name}": count
            for kind in self.kinds
            for name, count in kind.progress().items()
        }

    async def check(self) -> Problems:
        return [problem for kind in self.kinds for problem in await kind.check()]
