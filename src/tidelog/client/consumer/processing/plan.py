"""The plan of `process`: which record may begin next, and up to which offset all records are done.  Pure.

Records of one lane (a key, a partition, or each record for itself) are processed one after the other, in order;
lanes run side by side.  Per partition, `done_to` is the offset below which nothing is left to do: only that may
be committed, whatever is done above it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Literal

from tidelog._speed.client.consumed import Record
from tidelog.types import TopicPartition

Order = Literal["key", "partition", "none"]


class _Progress:
    """The records of one partition that are not done, in order."""

    __slots__ = ("done", "end", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[int] = deque()
        self.done: set[int] = set()
        self.end = -1

    def added(self, offset: int) -> None:
        self.waiting.append(offset)
        self.end = offset + 1

    def finished(self, offset: int) -> None:
        self.done.add(offset)
        while self.waiting and self.waiting[0] in self.done:
            self.done.discard(self.waiting.popleft())

    @property
    def done_to(self) -> int:
        return self.waiting[0] if self.waiting else self.end


def _lane_of(order: Order) -> Callable[[Record], Hashable]:
    if order == "partition":
        return lambda record: (record.topic, record.partition)
    if order == "key":
        # Records without a key have no order to keep.
        return lambda record: (
            (record.topic, record.partition, record.key if record.key is not None else (record.offset,))
        )
    return lambda record: (record.topic, record.partition, record.offset)


class ProcessingPlan:
    def __init__(self, order: Order) -> None:
        if order not in ("key", "partition", "none"):
            raise ValueError(f"order cannot be {order!r}: use 'key', 'partition' or 'none'")
        self._lane_of = _lane_of(order)
        self._lanes: dict[Hashable, deque[Record]] = {}
        self._ready: deque[Hashable] = deque()
        self._running: dict[tuple[str, int, int], Record] = {}
        self._progress: dict[TopicPartition, _Progress] = {}
        self.unfinished = 0  # waiting or running

    @property
    def running(self) -> int:
        return len(self._running)

    def add(self, records: Iterable[Record]) -> None:
        """In the order of their partitions."""
        for record in records:
            where = TopicPartition(record.topic, record.partition)
            self._progress.setdefault(where, _Progress()).added(record.offset)
            self.unfinished += 1
            lane = self._lane_of(record)
            queue = self._lanes.get(lane)
            if queue is None:
                self._lanes[lane] = deque([record])
                self._ready.append(lane)
            else:
                queue.append(record)

    def next(self) -> Record | None:
        """A record to process now; it stays the first of its lane until it is done."""
        if not self._ready:
            return None
        record = self._lanes[self._ready.popleft()][0]
        self._running[record.topic, record.partition, record.offset] = record
        return record

    def finished(self, record: Record) -> None:
        """The record is processed, or given up.  A record whose partition was dropped meanwhile is ignored."""
        place = (record.topic, record.partition, record.offset)
        if self._running.get(place) is not record:
            return
        del self._running[place]
        self.unfinished -= 1
        self._progress[TopicPartition(record.topic, record.partition)].finished(record.offset)
        lane = self._lane_of(record)
        queue = self._lanes[lane]
        queue.popleft()
        if queue:
            self._ready.append(lane)
        else:
            del self._lanes[lane]

    def done_to(self) -> dict[TopicPartition, int]:
        return {where: progress.done_to for where, progress in self._progress.items()}

    def withhold(self, partitions: Collection[TopicPartition]) -> None:
        """No more records of these partitions begin; records that are running go on."""
        gone = set(partitions)
        for lane, queue in list(self._lanes.items()):
            if TopicPartition(queue[0].topic, queue[0].partition) in gone:
                first = queue[0]
                self.unfinished -= len(queue)
                queue.clear()
                if self._running.get((first.topic, first.partition, first.offset)) is first:
                    queue.append(first)
                    self.unfinished += 1
                else:
                    del self._lanes[lane]
                    self._ready.remove(lane)

    def is_running(self, partitions: Collection[TopicPartition]) -> bool:
        gone = set(partitions)
        return any(TopicPartition(topic, index) in gone for topic, index, _ in self._running)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """The partitions belong to other members now."""
        self.withhold(partitions)
        for where in partitions:
            self._progress.pop(where, None)
        gone = set(partitions)
        for place, record in list(self._running.items()):
            if TopicPartition(place[0], place[1]) in gone:
                del self._running[place]
                self.unfinished -= 1
                self._lanes.pop(self._lane_of(record), None)
