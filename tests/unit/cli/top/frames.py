"""Frames of a small cluster, for tests."""

from __future__ import annotations

import uuid

from tidelog.cli.top.frame import BrokerSeen, Frame, GroupSeen
from tidelog.client.cluster.topology import Node, Partition, Topic
from tidelog.types import TopicPartition

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def topic(name: str, *leaders: int, replicas: tuple[int, ...] = (1, 2), lacking: int = 0) -> Topic:
    """`lacking`: partitions of which only the leader is in sync."""
    partitions = tuple(
        Partition(name, at, leader, 0, replicas, (leader,) if at < lacking else replicas)
        for at, leader in enumerate(leaders)
    )
    return Topic(name, uuid.UUID(int=1), partitions, internal=name.startswith("__"))


def group(name: str, lags: dict[TopicPartition, int] | None = None, **committed: int) -> GroupSeen:
    """`committed`: by partition of orders, as in p0=5."""
    offsets = {TopicPartition("orders", int(key[1:])): offset for key, offset in committed.items()}
    return GroupSeen(name, "share" if lags is not None else "classic", "Stable", 2, offsets, lags)


def frame(at_ms: int, brokers: dict[int, BrokerSeen], *topics: Topic, **others: object) -> Frame:
    given: dict[str, object] = {
        "cluster_id": "test",
        "controller": 1,
        "nodes": {node: Node(node, "host", 9000 + node) for node in (1, 2)},
        **others,
    }
    return Frame(at_ms=at_ms, time_ms=1_000_000 + at_ms, topics=topics, brokers=brokers, **given)  # type: ignore[arg-type]
