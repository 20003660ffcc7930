"""The latest changes of a metadata store, kept in memory for its watches.

All watches share one list, so a slow watch costs no memory.  A watch that falls behind the start of the list gets
Compacted, and its reader continues from a snapshot."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from tidelog.metadata.store import Changes, Compacted, KeyChange


class WatchHistory:
    def __init__(self, revision: int, changes_max: int) -> None:
        self._start = revision + 1  # the first revision that is not forgotten
        self._revision = revision
        self._kept: deque[Changes] = deque()
        self._size = 0
        self._changes_max = changes_max
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False

    @property
    def revision(self) -> int:
        return self._revision

    def happened(self, changes: Changes) -> None:
        """Adds the newest revision and drops the oldest ones beyond the maximum."""
        assert changes.revision == self._revision + 1
        self._revision = changes.revision
        self._kept.append(changes)
        self._size += len(changes.changes)
        while self._size > self._changes_max:
            self._size -= len(self._kept.popleft().changes)
            self._start += 1
        self._wake()

    def close(self) -> None:
        self._closed = True
        self._wake()

    async def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[Changes, None]:
        following = from_revision
        while not self._closed:
            if following < self._start:
                raise Compacted(
                    f"The metadata store has no changes before revision {self._start}, and the watch asks for {following}."
                )
            if following > self._revision:
                grew: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(grew)
                await grew
                continue
            changes = self._kept[following - self._start]
            following += 1
            wanted = _below(prefix, changes)
            if wanted is not None:
                yield wanted

    def _wake(self) -> None:
        # No asyncio.Event: a watch that is closed would remove itself from the event's list during this loop.
        waiting, self._waiting = self._waiting, []
        for grew in waiting:
            if not grew.done():
                grew.set_result(None)


def _below(prefix: str, changes: Changes) -> Changes | None:
    if not prefix:
        return changes
    wanted: tuple[KeyChange, ...] = tuple(
        change for change in changes.changes if change.key.startswith(prefix)
    )
    return Changes(changes.revision, wanted) if wanted else None
