"""Changes that came while others were applied, taken together.

A broker that comes back changes thousands of partitions, each in a revision of its own.  Applying one costs about as much
as applying all, so whoever falls behind catches up in one step.  Only changes of partitions' states are put together: a
broker that went and came again must be seen to have gone."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

from tidelog.metadata import records
from tidelog.metadata.store import Changes

AHEAD_MAX = 1_000  # revisions that are read before those before them are applied


async def batched_changes(watch: AsyncIterator[Changes]) -> AsyncGenerator[list[Changes], None]:
    """All that `watch` tells, in order; ends as it does."""
    came: deque[Changes] = deque()
    news, room = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        async for changes in watch:
            came.append(changes)
            news.set()
            while len(came) >= AHEAD_MAX:
                room.clear()
                await room.wait()

    reading = asyncio.get_running_loop().create_task(read())
    reading.add_done_callback(lambda _: news.set())
    try:
        while came or not reading.done():
            if not came:
                news.clear()
                await news.wait()
                continue
            some = [came.popleft()]
            while came and _of_partitions(some[-1]) and _of_partitions(came[0]):
                some.append(came.popleft())
            room.set()
            yield some
        reading.result()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _of_partitions(changes: Changes) -> bool:
    return all(change.key.startswith(records.PARTITIONS) for change in changes.changes)
