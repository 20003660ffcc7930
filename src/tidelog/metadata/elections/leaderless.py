"""Offline partitions, which have no leader: the brokers that each waits for, or that an operator has to decide.  Pure.

The controller's log, the metrics and the console show the same; `elections.awaited` is the rule behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from tidelog.metadata.elections.elections import awaited, choose_leader
from tidelog.metadata.image.image import Image, TopicImage
from tidelog.metadata.records import Replicas
from tidelog.types import NodeId, TopicPartition

NAMES_MAX = 5


class Leaderless(NamedTuple):
    """`awaited`: the brokers that the partition waits for; empty if an operator has to decide."""

    name: TopicPartition
    awaited: Replicas


def leaderless(topics: Iterable[TopicImage], live: Collection[NodeId]) -> Iterator[Leaderless]:
    """The partitions without a leader, except those that the controller is about to give a leader."""
    for topic in topics:
        for partition in topic.partitions:
            if partition.leader is None and choose_leader(partition, live, live) is None:
                yield Leaderless(TopicPartition(topic.name, partition.index), awaited(partition, live))


class LeaderlessNotice(NamedTuple):
    over: bool
    text: str


class LeaderlessLog:
    """Remembers which waits the controller has logged, so that it logs only changes."""

    def __init__(self) -> None:
        self._awaited: dict[TopicPartition, Replicas] = {}

    def forget(self) -> None:
        """Another broker is the controller."""
        self._awaited = {}

    def checked(
        self, image: Image, names: Collection[str] | None, elected: Collection[TopicPartition]
    ) -> list[LeaderlessNotice]:
        """The controller has checked these topics (None: all topics); the partitions in `elected` get a leader now."""
        topics = (
            image.topics.values()
            if names is None
            else [image.topics[name] for name in names if name in image.topics]
        )
        live = frozenset(broker.node_id for broker in image.live_brokers)
        before = _grouped(self._awaited)
        if names is None:
            self._awaited = {}
        elif self._awaited:
            self._awaited = {name: nodes for name, nodes in self._awaited.items() if name.topic not in names}
        self._awaited.update((name, nodes) for name, nodes in leaderless(topics, live) if name not in elected)
        after = _grouped(self._awaited)
        notices = [
            LeaderlessNotice(False, _waiting(nodes, after[nodes]))
            for nodes in sorted(after)
            if before.get(nodes) != after[nodes]
        ]
        return notices + [
            LeaderlessNotice(True, _over(nodes)) for nodes in sorted(before) if nodes not in after
        ]


def _grouped(awaited: dict[TopicPartition, Replicas]) -> dict[Replicas, frozenset[TopicPartition]]:
    groups: dict[Replicas, set[TopicPartition]] = {}
    for name, nodes in awaited.items():
        groups.setdefault(tuple(sorted(nodes)), set()).add(name)
    return {nodes: frozenset(names) for nodes, names in groups.items()}


def _waiting(nodes: Replicas, names: frozenset[TopicPartition]) -> str:
    shown = ", ".join(map(str, sorted(names)[:NAMES_MAX]))
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    have = "1 partition has" if len(names) == 1 else f"{len(names)} partitions have"
    if nodes:
        return f"{have} no leader and wait{'s' * (len(names) == 1)} for {brokers_text(nodes)}: {shown}{more}"
    return (
        f"{have} no leader, and no broker that may return has all records: {shown}{more}; "
        "see `tidelog partitions recover`"
    )


def _over(nodes: Replicas) -> str:
    if nodes:
        return f"no partition waits for {brokers_text(nodes)} any more"
    return "no partition needs `tidelog partitions recover` any more"


def brokers_text(nodes: Collection[int]) -> str:
    """`broker 3`; if any one of several brokers is enough, `broker 1 or 3`."""
    return "broker " + " or ".join(map(str, nodes))
