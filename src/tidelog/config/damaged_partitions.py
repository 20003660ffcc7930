"""The damaged partitions of a broker: DescribeConfigs returns them as a read-only setting to callers who name it.

Any Kafka client can ask; other brokers and `tidelog cluster status` do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from tidelog.types import TopicPartition

DAMAGED = "tidelog.damaged.partitions"


class Stretch(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def show_damaged(damaged: Mapping[TopicPartition, Iterable[Stretch]]) -> str:
    """`orders-0:100-200,300-310 payments-3:0-5`: the ranges of damaged offsets, ends exclusive."""
    return " ".join(
        f"{name}:" + ",".join(f"{stretch.start}-{stretch.end}" for stretch in ranges)
        for name, ranges in sorted(damaged.items())
    )


def parse_damaged(text: str) -> dict[TopicPartition, list[tuple[int, int]]]:
    damaged = {}
    for word in text.split():
        name, _, ranges = word.rpartition(":")
        topic, _, index = name.rpartition("-")
        pairs = [pair.partition("-") for pair in ranges.split(",")]
        damaged[TopicPartition(topic, int(index))] = [(int(start), int(end)) for start, _, end in pairs]
    return damaged
