"""Looks at a cluster through the Kafka protocol alone.

Every broker is asked by itself, at the same time as the others, for what it leads, holds and coordinates.  One that does
not answer within a look's patience stays as it was and is named; its answer counts when it comes.  Requests are few and
large: their number grows with the brokers, and only slowly with topics and groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Generic, TypeVar

from tidelog.cli.top.frame import CLUSTER, BrokerSeen, Frame, GroupSeen
from tidelog.client.admin.admin import Admin
from tidelog.client.cluster.topology import Node, Topic
from tidelog.clock import Clock
from tidelog.errors import TidelogError, UnknownTopicOrPartition
from tidelog.types import TopicPartition

T = TypeVar("T")

PARTITIONS_AT_ONCE = 200  # a broker serves nobody else while it looks these up
STARTS_EVERY = 5  # looks: the beginning of a log moves seldom


@dataclass(frozen=True)
class WatchSelection:
    """Patterns like those of files; none for all."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def topic(self, name: str) -> bool:
        return not self.topics or any(fnmatchcase(name, pattern) for pattern in self.topics)

    def group(self, name: str) -> bool:
        return not self.groups or any(fnmatchcase(name, pattern) for pattern in self.groups)


@dataclass
class _Inquiry(Generic[T]):
    """A question that may take longer than a look, what was answered last, and what is wrong with it."""

    task: asyncio.Task[tuple[T, str | None]] | None = None
    since_ms: int = 0
    seen: T | None = None
    problem: str | None = None
    looks: int = 0


@dataclass
class _ClusterMetadata:
    """The cluster's metadata, as `top` last fetched them."""

    cluster_id: str | None = None
    controller: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: tuple[Topic, ...] = ()
    adding: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)


class ClusterWatch:
    def __init__(self, admin: Admin, clock: Clock, chosen: WatchSelection, patience_s: float) -> None:
        self._admin = admin
        self._clock = clock
        self._chosen = chosen
        self._patience_s = patience_s
        self._cluster: _Inquiry[_ClusterMetadata] = _Inquiry()
        self._brokers: dict[int, _Inquiry[BrokerSeen]] = {}

    async def take(self) -> Frame:
        await self._ask_cluster()
        await self._ask_brokers()
        problems: dict[int, str] = {}
        for node, inquiry in self._asked().items():
            if inquiry.task is not None:
                waited = (self._clock.monotonic_ms() - inquiry.since_ms) / 1000
                who = "no broker " if node == CLUSTER else ""
                problems[node] = f"{who}has not answered for {waited:.0f} s"
            elif inquiry.problem is not None:
                problems[node] = inquiry.problem
        metadata = self._known
        return Frame(
            at_ms=self._clock.monotonic_ms(),
            time_ms=self._clock.now_ms(),
            cluster_id=metadata.cluster_id,
            controller=metadata.controller,
            nodes=metadata.nodes,
            topics=tuple(topic for topic in metadata.topics if self._chosen.topic(topic.name)),
            brokers={
                node: inquiry.seen for node, inquiry in self._brokers.items() if inquiry.seen is not None
            },
            problems=problems,
            adding=metadata.adding,
        )

    async def close(self) -> None:
        tasks = [inquiry.task for inquiry in self._asked().values() if inquiry.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _asked(self) -> dict[int, _Inquiry[Any]]:
        return {CLUSTER: self._cluster, **self._brokers}

    async def _ask_cluster(self) -> None:
        async def ask() -> tuple[_ClusterMetadata, None]:
            cluster = await self._admin.describe_cluster()
            topics = await self._admin.list_topics(internal=True)
            adding = await self._adding()
            return _ClusterMetadata(
                cluster.id, cluster.controller, cluster.nodes, tuple(topics), adding
            ), None

        self._begin(self._cluster, ask)
        await self._wait([self._cluster])
        for node in self._brokers.keys() - self._known.nodes.keys():
            task = self._brokers.pop(node).task
            if task is not None:
                task.cancel()

    async def _adding(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Not everybody may see moves, and not every broker knows of them."""
        try:
            return {
                reassignment.partition: reassignment.adding
                for reassignment in await self._admin.list_reassignments()
            }
        except TidelogError as problem:
            if _may_pass(problem):
                raise
            return {}

    async def _ask_brokers(self) -> None:
        for node in self._known.nodes:
            inquiry = self._brokers.setdefault(node, _Inquiry())
            self._begin(inquiry, partial(self._broker, node, inquiry))
        await self._wait(list(self._brokers.values()))

    @property
    def _known(self) -> _ClusterMetadata:
        return self._cluster.seen or _ClusterMetadata()

    def _begin(
        self, inquiry: _Inquiry[T], ask: Callable[[], Coroutine[Any, Any, tuple[T, str | None]]]
    ) -> None:
        """Asks, unless an answer is still to come."""
        self._harvest(inquiry)
        if inquiry.task is None:
            inquiry.since_ms = self._clock.monotonic_ms()
            inquiry.task = asyncio.get_running_loop().create_task(ask(), name="top")

    async def _wait(self, inquiries: Sequence[_Inquiry[Any]]) -> None:
        tasks = [inquiry.task for inquiry in inquiries if inquiry.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self._patience_s)
        for inquiry in inquiries:
            self._harvest(inquiry)

    def _harvest(self, inquiry: _Inquiry[T]) -> None:
        """Takes an answer that has come."""
        if inquiry.task is None or not inquiry.task.done():
            return
        task, inquiry.task = inquiry.task, None
        try:
            inquiry.seen, inquiry.problem = task.result()
            inquiry.looks += 1
        except UnknownTopicOrPartition:
            pass  # A topic was deleted while it was asked about: the next look does without it.
        except (TidelogError, ExceptionGroup) as problem:
            inquiry.problem = _words(problem)

    async def _broker(self, node: int, inquiry: _Inquiry[BrokerSeen]) -> tuple[BrokerSeen, str | None]:
        before, refused = inquiry.seen or BrokerSeen(0), []

        async def part(work: Coroutine[Any, Any, T], otherwise: T) -> T:
            """What a broker refuses for good, for want of rights or because it is too old, does not hide the rest."""
            try:
                return await work
            except (TidelogError, ExceptionGroup) as problem:
                if _may_pass(problem):
                    raise
                refused.append(_words(problem))
                return otherwise

        led = [
            TopicPartition(topic.name, partition.index)
            for topic in self._known.topics
            if self._chosen.topic(topic.name)
            for partition in topic.partitions
            if partition.leader == node
        ]
        ends = await part(self._offsets(led, "latest"), before.ends)
        at_ms = self._clock.monotonic_ms()
        starts = before.starts
        if inquiry.looks % STARTS_EVERY == 0 or starts.keys() != ends.keys():
            starts = await part(self._offsets(led, "earliest"), starts)
        seen = BrokerSeen(at_ms, ends, starts)
        seen = await part(self._disks(node, seen), replace(seen, sizes=before.sizes))
        groups = await part(self._groups(node), before.groups)
        return replace(seen, groups=groups), refused[0] if refused else None

    async def _offsets(self, partitions: list[TopicPartition], where: str) -> Mapping[TopicPartition, int]:
        offsets: dict[TopicPartition, int] = {}
        for at in range(0, len(partitions), PARTITIONS_AT_ONCE):
            some = dict.fromkeys(partitions[at : at + PARTITIONS_AT_ONCE], where)
            offsets |= {
                partition: place.offset for partition, place in (await self._admin.list_offsets(some)).items()
            }
        return offsets

    async def _disks(self, node: int, seen: BrokerSeen) -> BrokerSeen:
        names = None
        if self._chosen.topics:
            names = [topic.name for topic in self._known.topics if self._chosen.topic(topic.name)]
        folders = (await self._admin.describe_log_dirs([node], names))[node]
        working = [folder for folder in folders if folder.problem is None]
        sizes_known = bool(working) and all(folder.total_bytes >= 0 for folder in working)
        return replace(
            seen,
            sizes={partition: size for folder in working for partition, size in folder.partitions.items()},
            disk_bytes=sum(folder.total_bytes for folder in working) if sizes_known else None,
            disk_free_bytes=sum(folder.usable_bytes for folder in working) if sizes_known else None,
        )

    async def _groups(self, node: int) -> tuple[GroupSeen, ...]:
        listed = [
            group
            for group in await self._admin.list_groups(brokers=[node])
            if self._chosen.group(group.group_id)
        ]
        names = [group.group_id for group in listed]
        described = await self._admin.describe_groups(names, missing_ok=True)
        offsets = await self._admin.list_groups_offsets(
            group.group_id for group in listed if group.type != "share"
        )
        shared = await self._admin.list_share_groups_offsets(
            group.group_id for group in listed if group.type == "share"
        )
        groups_seen = []
        for group in listed:
            about = described.get(group.group_id)
            committed = {place: got.offset for place, got in offsets.get(group.group_id, {}).items()}
            committed |= {place: got.offset for place, got in shared.get(group.group_id, {}).items()}
            counted = {place: got.lag for place, got in shared.get(group.group_id, {}).items()}
            lags = {
                place: lag
                for place, lag in counted.items()
                if lag is not None and self._chosen.topic(place.topic)
            }
            groups_seen.append(
                GroupSeen(
                    name=group.group_id,
                    type=group.type or "classic",
                    state=group.state if about is None else about.state,
                    members=None if about is None else len(about.members),
                    committed={
                        place: offset
                        for place, offset in committed.items()
                        if self._chosen.topic(place.topic)
                    },
                    # An old broker does not count: the distance of the offsets stands in for it.
                    lags=lags if counted and None not in counted.values() else None,
                )
            )
        return tuple(groups_seen)


def _may_pass(problem: Exception) -> bool:
    if isinstance(problem, ExceptionGroup):
        return any(_may_pass(cause) for cause in problem.exceptions)
    return isinstance(problem, TidelogError) and problem.retriable


def _words(problem: Exception) -> str:
    if isinstance(problem, ExceptionGroup):
        return _words(problem.exceptions[0])
    return str(problem)
