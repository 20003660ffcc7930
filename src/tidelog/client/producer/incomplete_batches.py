"""Batches that are neither acknowledged nor failed yet, and the callers that wait for them (`flush`,
`abort_transaction`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tidelog.client.producer.batch import OutgoingBatch


class IncompleteBatches:
    def __init__(self) -> None:
        self._batches: set[OutgoingBatch] = set()
        self._waits: list[tuple[set[OutgoingBatch], asyncio.Future[None]]] = []

    @property
    def awaited(self) -> bool:
        """A caller waits: no batch should linger."""
        return bool(self._waits)

    @property
    def records(self) -> int:
        return sum(batch.count for batch in list(self._batches))  # another thread may ask

    def add(self, batch: OutgoingBatch) -> None:
        self._batches.add(batch)

    def settled(self, batch: OutgoingBatch, instead: Iterable[OutgoingBatch] = ()) -> None:
        """`instead`: the batches that `batch` was split into."""
        replaced = set(instead)
        self._batches.discard(batch)
        self._batches |= replaced
        for targets, done in list(self._waits):
            if batch in targets:
                targets.discard(batch)
                targets |= replaced
                if not targets and not done.done():
                    done.set_result(None)

    async def all_settled(self) -> None:
        """Waits until all batches of this moment are settled."""
        if not self._batches:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait = (set(self._batches), done)
        self._waits.append(wait)
        try:
            await done
        finally:
            self._waits.remove(wait)
