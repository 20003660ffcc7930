"""Follows a compacted topic: every committed record from the first one on is given to a state, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tidelog.aio import Consumer, Record
from tidelog.types import TopicPartition

POLL_MS = 200


async def read_to_end(
    options: dict[str, Any], partitions: list[TopicPartition], apply: Callable[[Record], None]
) -> None:
    """Reads the committed records of these partitions up to their present end.  Waits for transactions that are open
    there: what they hold is known only when they have ended."""
    async with Consumer(**options) as loose:
        ends = await loose.end_offsets(partitions)
    async with Consumer(
        **options, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        while True:
            for record in await consumer.poll(POLL_MS, max_records=10_000):
                apply(record)
            behind = [
                partition for partition in partitions if await consumer.position(partition) < ends[partition]
            ]
            if not behind:
                return


class TopicView:
    """`changed` is set after records have come."""

    def __init__(
        self, options: dict[str, Any], topic: str, partitions: int, apply: Callable[[Record], None]
    ) -> None:
        self._options = options
        self._partitions = [TopicPartition(topic, index) for index in range(partitions)]
        self._apply = apply
        self._consumer: Consumer | None = None
        self._following: asyncio.Task[None] | None = None
        self._moved = asyncio.Condition()
        self.listeners: list[asyncio.Event] = []

    async def start(self) -> None:
        """Returns when everything that was in the topic is in the state."""
        consumer = Consumer(
            **self._options,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=POLL_MS,
        )
        await consumer.start()
        self._consumer = consumer
        consumer.assign(self._partitions)
        consumer.seek_to_beginning(*self._partitions)
        self._following = asyncio.create_task(self._follow(consumer))
        await self.caught_up()

    async def _follow(self, consumer: Consumer) -> None:
        while True:
            records = await consumer.poll(POLL_MS, max_records=10_000)
            for record in records:
                self._apply(record)
            if records:
                for listener in self.listeners:
                    listener.set()
            async with self._moved:
                self._moved.notify_all()

    async def caught_up(self) -> None:
        """Waits until everything that is in the topic now is in the state."""
        consumer, following = self._consumer, self._following
        assert consumer is not None and following is not None
        async with Consumer(**self._options) as loose:
            ends = await loose.end_offsets(self._partitions)
        for partition in self._partitions:
            while await consumer.position(partition) < ends[partition]:
                if following.done():
                    following.result()
                async with self._moved:
                    await self._moved.wait()
        async with self._moved:  # what was handed out is applied before the next turn
            await self._moved.wait()

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._consumer is not None:
            await self._consumer.close()
