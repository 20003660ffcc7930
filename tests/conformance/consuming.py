"""What tests of Tidelog's own consumer share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tests.conformance.clients import Message, confluent_produce
from tidelog.aio import Consumer, Record, TopicPartition

T = TypeVar("T")

SECONDS_MAX = 240


def run(work: Coroutine[Any, Any, T]) -> T:
    """Ends with a failure instead of waiting for ever, and when it leaves tasks behind."""

    async def watched() -> T:
        async with asyncio.timeout(SECONDS_MAX):
            result = await work
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, f"tasks are left: {left}"
        return result

    return asyncio.run(watched())


def member(bootstrap: str, topic: str, **options: Any) -> Consumer:
    """A member of the group of this topic that reads it from the start."""
    return Consumer(
        topic,
        **{
            "bootstrap_servers": bootstrap,
            "group_id": f"of-{topic}",
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 100,
            **options,
        },
    )


def fill(bootstrap: str, topic: str, *, partitions: int = 1, each: int = 10, start: int = 0) -> list[bytes]:
    """Numbers `start`, ... in each partition, as `partition:number`; all of them are returned."""
    sent = []
    for partition in range(partitions):
        values = [b"%d:%d" % (partition, number) for number in range(start, start + each)]
        confluent_produce(bootstrap, topic, [Message(one) for one in values], partition=partition)
        sent += values
    return sent


async def drain(consumer: Consumer, count: int) -> list[Record]:
    """Exactly so many records, each partition's in order."""
    found: list[Record] = []
    while len(found) < count:
        found += await consumer.poll(1_000)
    assert len(found) == count, f"{len(found)} records instead of {count}"
    last: dict[TopicPartition, int] = {}
    for one in found:
        where = TopicPartition(one.topic, one.partition)
        assert one.offset > last.get(where, -1)
        last[where] = one.offset
    return found


async def until(true: Callable[[], bool], *consumers: Consumer, found: list[Record] | None = None) -> None:
    """Polls all of them at the same time until it is so."""
    while not true():
        polls: list[Awaitable[list[Record]]] = [one.poll(50) for one in consumers]
        for records in await asyncio.gather(*polls):
            if found is not None:
                found += records


def indexes(consumer: Consumer) -> list[int]:
    return sorted(one.partition for one in consumer.assignment())
