"""Finds the messages of a topic for one page: the newest, the oldest, from an offset or a time on, or by content.

Reads windows of offsets: a bounded number of messages in bounded time.  A cursor names the offset in each partition at
which the next page starts; between pages no message is lost and none is shown twice."""

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
    from tidelog.gateways.http.services import GatewayServices

WINDOW = 500  # messages of one partition in one step of a search
WINDOWS_MAX = 5_000  # messages of all partitions in one step
SCANNED_MAX = 50_000
SECONDS_MAX = 6.0
QUIET_MS = 250
READERS_MAX = 4
CLIENT_ID = "tidelog-console"


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """`down`: from the newest messages to older ones.  `cursor`: by partition, where the page before ended."""

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
class MessagePage:
    records: list[Record]
    cursor: dict[int, int]
    """By partition, where the next page starts; empty when there are no more messages."""
    scanned: int


def open_consumer(around: GatewayServices, committed: bool) -> Consumer:
    from tidelog.client.consumer.consumer import Consumer

    return Consumer(
        **around.clients.options(),
        client_id=CLIENT_ID,
        isolation_level="read_committed" if committed else "read_uncommitted",
        fetch_max_wait_ms=50,
        fetch_max_bytes=4 << 20,
        max_partition_fetch_bytes=256 << 10,
        request_timeout_ms=TIMEOUT_MS,
        auto_offset_reset="earliest",
    )


async def read(around: GatewayServices, query: MessageQuery, readers: asyncio.Semaphore) -> MessagePage:
    """`readers` bounds how many searches run at the same time."""
    async with readers, open_consumer(around, query.committed) as consumer:
        names = [TopicPartition(query.topic, index) for index in query.partitions]
        starts = _by_index(await consumer.beginning_offsets(names))
        ends = _by_index(await consumer.end_offsets(names))
        search = _MessageSearch(consumer, query, starts, ends, await _places(consumer, query, starts, ends))
        return await search.run()


def _by_index(offsets: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {name.partition: offset for name, offset in offsets.items()}


async def _places(
    consumer: Consumer, query: MessageQuery, starts: dict[int, int], ends: dict[int, int]
) -> dict[int, int]:
    """By partition, where to begin; going down, the offset after the first message."""
    if query.cursor:
        return {
            index: min(max(query.cursor[index], starts[index]), ends[index])
            for index in query.partitions
            if index in query.cursor
        }
    if query.time_ms is not None:
        names = [TopicPartition(query.topic, index) for index in query.partitions]
        first = await consumer.offsets_for_times(dict.fromkeys(names, query.time_ms))
        return {
            name.partition: ends[name.partition] if at is None else min(at.offset, ends[name.partition])
            for name, at in first.items()
        }
    if query.offset is not None:
        return {index: min(max(query.offset, starts[index]), ends[index]) for index in query.partitions}
    return dict(ends if query.down else starts)


class _MessageSearch:
    def __init__(
        self,
        consumer: Consumer,
        query: MessageQuery,
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

    async def run(self) -> MessagePage:
        matches: list[Record] = []
        deadline = asyncio.get_running_loop().time() + SECONDS_MAX
        while len(matches) < self._query.limit and self._scanned < SCANNED_MAX:
            windows = self._next()
            if not windows:
                break
            try:
                async with asyncio.timeout_at(deadline):
                    records = await self._read(windows)
            except TimeoutError:
                if self._scanned == 0:
                    raise errors.RequestTimedOut(
                        f"reading messages of {self._query.topic!r} took longer than {SECONDS_MAX:.0f} seconds: "
                        "show fewer messages, or one partition"
                    ) from None
                break
            self._scanned += len(records)
            matches += [record for record in records if self._query.wants(record)]
            for index, (first, end) in windows.items():
                self._places[index] = first if self._query.down else end
        return self._page(matches)

    def _next(self) -> dict[int, tuple[int, int]]:
        """The next window of each partition that has more messages."""
        windows = {}
        for index, place in self._places.items():
            if self._query.down and place > self._starts[index]:
                windows[index] = max(self._starts[index], place - self._window), place
            elif not self._query.down and place < self._ends[index]:
                windows[index] = place, min(self._ends[index], place + self._window)
        return windows

    async def _read(self, windows: dict[int, tuple[int, int]]) -> list[Record]:
        consumer, topic = self._consumer, self._query.topic
        consumer.assign([TopicPartition(topic, index) for index in windows])
        for index, (first, _) in windows.items():
            consumer.seek(TopicPartition(topic, index), first)
        consumer.resume()  # the partitions that the window before paused
        read: list[Record] = []
        left = {index: end for index, (_, end) in windows.items()}
        quiet_ms = 0
        while left and quiet_ms < QUIET_MS * 4:
            records = await consumer.poll(QUIET_MS)
            quiet_ms = 0 if records else quiet_ms + QUIET_MS
            read += [record for record in records if record.offset < windows[record.partition][1]]
            for index, end in list(left.items()):
                name = TopicPartition(topic, index)
                if await consumer.position(name) >= end:
                    consumer.pause(name)
                    del left[index]
        return read

    def _page(self, matches: list[Record]) -> MessagePage:
        """The messages that fit on the page; the cursor leaves the others to the next page."""
        down = self._query.down
        # By offset within a partition, by time between partitions: what is left over is then the rest of each partition.
        queues: dict[int, list[Record]] = {}
        for record in sorted(matches, key=lambda record: record.offset, reverse=down):
            queues.setdefault(record.partition, []).append(record)
        merged = list(heapq.merge(*queues.values(), key=lambda record: record.timestamp, reverse=down))
        shown, rest = merged[: self._query.limit], merged[self._query.limit :]
        cursor = dict(self._places)
        for record in rest:
            if down:
                cursor[record.partition] = max(cursor[record.partition], record.offset + 1)
            else:
                cursor[record.partition] = min(cursor[record.partition], record.offset)
        more = any(
            place > self._starts[index] if down else place < self._ends[index]
            for index, place in cursor.items()
        )
        return MessagePage(shown, cursor if more else {}, self._scanned)
