"""The purgatory of fetches: those that wait for `fetch.min.bytes`.  Producers wait in `_speed/log/commit_waits.pyx`.

Waits are plain futures, settled by the partition; a wait that ends another way (time-out, closed connection) takes
itself out, so nothing is kept for a caller that has gone."""

from __future__ import annotations

import asyncio


class FetchWait:
    """One fetch that found too little, on all of its partitions."""

    __slots__ = ("_missing_bytes", "future", "read_committed")

    def __init__(self, missing_bytes: int, read_committed: bool = False) -> None:
        self._missing_bytes = missing_bytes
        self.read_committed = read_committed
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def grew(self, count: int) -> None:
        """One of the partitions has `count` more bytes to give."""
        self._missing_bytes -= count
        if self._missing_bytes <= 0:
            self.changed()

    def changed(self) -> None:
        """Something other than size: the partition moved away, shrank or was deleted."""
        if not self.future.done():
            self.future.set_result(None)
