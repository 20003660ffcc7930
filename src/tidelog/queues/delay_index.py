"""Delayed messages that wait: when each is due, and where it is in the log.

An entry takes 17 bytes until its time is near: entries lie in buckets of some seconds, unsorted, and only the bucket whose
time has come is sorted.  A byte for each offset of the log says whether it waits.  Pure; the time is passed in."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

BUCKET_MS = 10_000


class DelayedEntry(NamedTuple):
    due_ms: int
    offset: int


class DelayIndex:
    def __init__(self, start: int = 0) -> None:
        """`start`: no entry has a lower offset."""
        self._buckets: dict[int, array[int]] = {}
        self._bucket_queue: list[int] = []
        self._near: list[DelayedEntry] = []  # a heap: everything of buckets that were opened
        self._opened_below = 0  # the first bucket that is not opened
        self._start = start
        self._waits = bytearray()  # by offset, from `start` on
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[DelayedEntry]:
        """All entries, in no order."""
        for entry in self._near:
            if self.waits(entry.offset):
                yield entry
        for bucket in self._buckets.values():
            for at in range(0, len(bucket), 2):
                if self.waits(bucket[at + 1]):
                    yield DelayedEntry(bucket[at], bucket[at + 1])

    def waits(self, offset: int) -> bool:
        at = offset - self._start
        return 0 <= at < len(self._waits) and self._waits[at] == 1

    def add(self, due_ms: int, offset: int) -> None:
        at = offset - self._start
        self._waits.extend(bytes(max(at + 1 - len(self._waits), 0)))
        self._waits[at] = 1
        self._count += 1
        number = due_ms // BUCKET_MS
        if number < self._opened_below:
            heapq.heappush(self._near, DelayedEntry(due_ms, offset))
            return
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = array("q")
            heapq.heappush(self._bucket_queue, number)
        bucket.append(due_ms)
        bucket.append(offset)

    def remove(self, offsets: Iterable[int]) -> None:
        """Finished or cancelled; those that do not wait are passed over."""
        for offset in offsets:
            if self.waits(offset):
                self._waits[offset - self._start] = 0
                self._count -= 1

    def started(self, start: int) -> None:
        """The log begins at `start` now."""
        if start > self._start:
            del self._waits[: start - self._start]
            self._start = start

    def next_ms(self) -> int | None:
        """When there is something to do: an entry is due, or a bucket is to be opened."""
        self._drop_gone()
        near_ms = self._near[0].due_ms if self._near else None
        bucket_ms = self._bucket_queue[0] * BUCKET_MS if self._bucket_queue else None
        if near_ms is None or (bucket_ms is not None and bucket_ms < near_ms):
            return bucket_ms
        return near_ms

    def due(self, now_ms: int, entries_max: int) -> list[DelayedEntry]:
        """The entries that are due, the earliest first.  They stay until they are removed: ask again after that."""
        while self._bucket_queue and self._bucket_queue[0] * BUCKET_MS <= now_ms:
            number = heapq.heappop(self._bucket_queue)
            bucket = self._buckets.pop(number)
            self._opened_below = max(self._opened_below, number + 1)
            for at in range(0, len(bucket), 2):
                heapq.heappush(self._near, DelayedEntry(bucket[at], bucket[at + 1]))
        self._drop_gone()
        taken: list[DelayedEntry] = []
        while self._near and self._near[0].due_ms <= now_ms and len(taken) < entries_max:
            entry = heapq.heappop(self._near)
            if self.waits(entry.offset):
                taken.append(entry)
        for entry in taken:
            heapq.heappush(self._near, entry)
        return taken

    def _drop_gone(self) -> None:
        while self._near and not self.waits(self._near[0].offset):
            heapq.heappop(self._near)
