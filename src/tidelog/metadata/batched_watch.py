"""A watch in batches: changes that arrive while earlier changes are applied become one batch.

A broker that returns changes thousands of partitions, each in a revision of its own.  Applying one revision costs about
as much as applying all of them, so a broker that falls behind catches up in one step.  Only changes of partition states
share a batch: an image in which a restarted broker is absent must not be skipped."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

from tidelog.metadata import records
from tidelog.metadata.store import Changes

AHEAD_MAX = 1_000  # revisions read and not yet yielded


async def batched_changes(watch: AsyncIterator[Changes]) -> AsyncGenerator[list[Changes], None]:
    """Yields everything that `watch` yields, in order, and ends or fails as `watch` does."""
    pending: deque[Changes] = deque()
    news, has_space = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        async for changes in watch:
            pending.append(changes)
            news.set()
            while len(pending) >= AHEAD_MAX:
                has_space.clear()
                await has_space.wait()

    reading = asyncio.get_running_loop().create_task(read())
    reading.add_done_callback(lambda _: news.set())
    try:
        while pending or not reading.done():
            if not pending:
                news.clear()
                await news.wait()
                continue
            batch = [pending.popleft()]
            while pending and _of_partitions(batch[-1]) and _of_partitions(pending[0]):
                batch.append(pending.popleft())
            has_space.set()
            yield batch
        reading.result()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _of_partitions(changes: Changes) -> bool:
    return all(change.key.startswith(records.PARTITIONS) for change in changes.changes)
