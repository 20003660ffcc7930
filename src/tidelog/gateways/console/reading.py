"""Messages of a topic for a page: the newest, the oldest, from an offset or a time on, those with something in them.

Read in windows, a bounded number of messages in bounded time.  A cursor says for each partition where the next page goes
on; no message between two pages is lost, none is shown twice."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog import errors
from tidelog.gateways.http.clients import TIMEOUT_MS
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.consumer.consumer import Consumer
    from tidelog.client.consumer.fetch.assigned_partition import Record
    from tidelog.gateways.http.surroundings import Surroundings

WINDOW = 500  # messages of one partition in one step of a search
WINDOWS_MAX = 5_000  # messages of all partitions in one step
SCANNED_MAX = 50_000
SECONDS_MAX = 6.0
QUIET_MS = 250
READERS_MAX = 4
CLIENT_ID = "tidelog-console"


@dataclass(frozen=True, slots=True)
class Query:
    """`down`: from the newest to older ones.  `cursor`: where each partition goes on, from the page before."""

    topic: str
    partitions: tuple[int, ...]
    down: bool
    limit: int
    cursor: Mapping[int, int] = field(default_factory=dict)
    offset: int | None = None
    time_ms: int | None = None
    key: bytes = b""
    value: bytes = b""
    committed: bool = True

    @property
    def searches(self) -> bool:
        return bool(self.key or self.value)

    def wants(self, record: Record) -> bool:
        if self.key and self.key not in (record.key or b""):
            return False
        return (
            not self.value
            or self.value in (record.value or b"")
            or any(
                self.value in name.encode() or self.value in (value or b"") for name, value in record.headers
            )
        )


@dataclass
class Found:
    records: list[Record]
    cursor: dict[int, int]
    """Empty when there is nothing more."""
    scanned: int


def open_consumer(around: Surroundings, committed: bool) -> Consumer:
    from tidelog.client.consumer.consumer import Consumer

    return Consumer(
        bootstrap_servers=around.bootstrap,
        client_id=CLIENT_ID,
        isolation_level="read_committed" if committed else "read_uncommitted",
        fetch_max_wait_ms=50,
        fetch_max_bytes=4 << 20,
        max_partition_fetch_bytes=256 << 10,
        request_timeout_ms=TIMEOUT_MS,
        auto_offset_reset="earliest",
    )


async def read(around: Surroundings, query: Query, readers: asyncio.Semaphore) -> Found:
    """`readers`: so many read at the same time."""
    async with readers, open_consumer(around, query.committed) as consumer:
        names = [TopicPartition(query.topic, one) for one in query.partitions]
        starts = _by_index(await consumer.beginning_offsets(names))
        ends = _by_index(await consumer.end_offsets(names))
        search = _Search(consumer, query, starts, ends, await _places(consumer, query, starts, ends))
        return await search.run()


def _by_index(offsets: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {name.partition: offset for name, offset in offsets.items()}


async def _places(
    consumer: Consumer, query: Query, starts: dict[int, int], ends: dict[int, int]
) -> dict[int, int]:
    """Where to begin: on the way down the offset behind the first message wanted."""
    if query.cursor:
        return {
            one: min(max(query.cursor[one], starts[one]), ends[one])
            for one in query.partitions
            if one in query.cursor
        }
    if query.time_ms is not None:
        names = [TopicPartition(query.topic, one) for one in query.partitions]
        found = await consumer.offsets_for_times(dict.fromkeys(names, query.time_ms))
        return {
            name.partition: ends[name.partition] if one is None else min(one.offset, ends[name.partition])
            for name, one in found.items()
        }
    if query.offset is not None:
        return {one: min(max(query.offset, starts[one]), ends[one]) for one in query.partitions}
    return dict(ends if query.down else starts)


class _Search:
    def __init__(
        self,
        consumer: Consumer,
        query: Query,
        starts: dict[int, int],
        ends: dict[int, int],
        places: dict[int, int],
    ) -> None:
        self._consumer = consumer
        self._query = query
        self._starts = starts
        self._ends = ends
        self._places = places
        wished = WINDOW if query.searches else query.limit
        self._window = max(1, min(wished, WINDOWS_MAX // max(1, len(query.partitions))))
        self._scanned = 0

    async def run(self) -> Found:
        found: list[Record] = []
        deadline = asyncio.get_running_loop().time() + SECONDS_MAX
        while len(found) < self._query.limit and self._scanned < SCANNED_MAX:
            windows = self._next()
            if not windows:
                break
            try:
                async with asyncio.timeout_at(deadline):
                    records = await self._read(windows)
            except TimeoutError:
                if self._scanned == 0:
                    raise errors.RequestTimedOut(
                        f"messages of {self._query.topic!r} did not come within {SECONDS_MAX:.0f} seconds: "
                        "ask for fewer, or for one partition"
                    ) from None
                break
            self._scanned += len(records)
            found += [one for one in records if self._query.wants(one)]
            for one, (first, end) in windows.items():
                self._places[one] = first if self._query.down else end
        return self._page(found)

    def _next(self) -> dict[int, tuple[int, int]]:
        """The next window of each partition that has more."""
        windows = {}
        for one, place in self._places.items():
            if self._query.down and place > self._starts[one]:
                windows[one] = max(self._starts[one], place - self._window), place
            elif not self._query.down and place < self._ends[one]:
                windows[one] = place, min(self._ends[one], place + self._window)
        return windows

    async def _read(self, windows: dict[int, tuple[int, int]]) -> list[Record]:
        consumer, topic = self._consumer, self._query.topic
        consumer.assign([TopicPartition(topic, one) for one in windows])
        for one, (first, _) in windows.items():
            consumer.seek(TopicPartition(topic, one), first)
        consumer.resume()  # those that the window before has paused
        found: list[Record] = []
        left = {one: end for one, (_, end) in windows.items()}
        quiet_ms = 0
        while left and quiet_ms < QUIET_MS * 4:
            records = await consumer.poll(QUIET_MS)
            quiet_ms = 0 if records else quiet_ms + QUIET_MS
            found += [one for one in records if one.offset < windows[one.partition][1]]
            for one, end in list(left.items()):
                name = TopicPartition(topic, one)
                if await consumer.position(name) >= end:
                    consumer.pause(name)
                    del left[one]
        return found

    def _page(self, found: list[Record]) -> Found:
        """As many as fit; the others are for the next page."""
        down = self._query.down
        # In each partition by offset, between partitions by time: so what is left for later is the rest of each.
        queues: dict[int, list[Record]] = {}
        for one in sorted(found, key=lambda one: one.offset, reverse=down):
            queues.setdefault(one.partition, []).append(one)
        merged = list(heapq.merge(*queues.values(), key=lambda one: one.timestamp, reverse=down))
        shown, rest = merged[: self._query.limit], merged[self._query.limit :]
        cursor = dict(self._places)
        for one in rest:
            if down:
                cursor[one.partition] = max(cursor[one.partition], one.offset + 1)
            else:
                cursor[one.partition] = min(cursor[one.partition], one.offset)
        more = any(
            place > self._starts[one] if down else place < self._ends[one] for one, place in cursor.items()
        )
        return Found(shown, cursor if more else {}, self._scanned)
