"""The rows of a continuous query as they arrive, for a user who watches them in the shell."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCHES_AHEAD = 16
LOOK_EVERY_S = 0.2


class LiveRows:
    """Starts the query with the first row that is requested, and stops it with the last."""

    def __init__(self, df: DataFrame, mode: str, limit: int | None, until_done: bool) -> None:
        self._df, self._mode = df, mode
        self._limit = limit
        self._until_done = until_done
        self._batches: queue.Queue[list[tuple[Any, ...]]] = queue.Queue(BATCHES_AHEAD)
        self._ended = False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self._limit == 0:
            return
        writer: Any = self._df.writeStream.outputMode(self._mode).foreachBatch(self._arrived)
        if self._until_done:
            writer = writer.trigger(availableNow=True)
        running = writer.start()
        given = 0
        try:
            while not self._ended:
                active = running.isActive
                try:
                    batch = self._batches.get(timeout=LOOK_EVERY_S)
                except queue.Empty:
                    if active:
                        continue
                    problem = running.exception()
                    if problem is not None:
                        raise problem from None
                    return
                for row in batch:
                    yield row
                    given += 1
                    if given == self._limit:
                        return
        finally:
            self._ended = True
            running.stop()

    def stop(self) -> None:
        """Ends the rows; called from another thread."""
        self._ended = True

    def _arrived(self, rows: DataFrame, number: int) -> None:
        batch = [tuple(row) for row in rows.collect()]
        while not self._ended:
            try:
                self._batches.put(batch, timeout=LOOK_EVERY_S)
                return
            except queue.Full:
                continue
