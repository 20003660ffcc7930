"""One consumer instance: a consumer that is read over HTTP, and the progress of its client.

An answer that was sent may not have arrived.  So auto-commit covers only the records before which the client has asked
again, and records that did not fit into an answer, or whose client hung up, are kept for the next answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.client.groups.metadata import OffsetAndMetadata
from tidelog.client.groups.rebalance_listener import RebalanceListener
from tidelog.errors import TidelogError
from tidelog.gateways.http.problem import Problem
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.consumer.consumer import Consumer
    from tidelog.client.consumer.fetch.assigned_partition import Record
    from tidelog.clock import Clock

log = logging.getLogger("tidelog.rest")

COMMIT_INTERVAL_MS = 5_000
SLICE_MS = 200  # other requests wait at most this long for an instance that waits for records
CLOSE_S_MAX = 5.0
GONE, CONFLICT = 40403, 40903

BREATH_BYTES = 256 << 10  # of JSON records before other work gets a turn

WriteRecord = Callable[["Record"], Awaitable[bytes]]


class WrittenRecord(NamedTuple):
    record: Record
    json: bytes


class Options(NamedTuple):
    name: str
    kind: str
    reset: str
    auto_commit: bool
    bytes_min: int
    """An answer waits for this many bytes, or until its time is up."""
    wait_ms: int | None


class ReadBounds(NamedTuple):
    """The bounds of one answer."""

    wait_ms: int
    bytes_max: int


class ConsumerInstance(RebalanceListener):
    def __init__(self, group: str, options: Options, consumer: Consumer, clock: Clock) -> None:
        self.group = group
        self.options = options
        self.requests = 0
        """Requests that are being answered."""
        self.used_ms = clock.monotonic_ms()
        self._consumer = consumer
        self._clock = clock
        self._in_turn = asyncio.Lock()
        self._closing = False
        self._by: str | None = None
        self._pattern: Any = None
        self._left: list[Record] = []
        self._in_hand: list[list[WrittenRecord]] = []
        """The records of each answer that is being built."""
        self._sent: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}
        self._committed_ms = clock.monotonic_ms()

    # Subscriptions and assignments

    async def subscribe(self, topics: list[str]) -> None:
        async with self._in_turn:
            self._chosen("topics")
            self._consumer.subscribe(topics, listener=self)

    async def subscribe_pattern(self, pattern: Any) -> None:
        """`pattern`: compiled, with `fullmatch`."""
        async with self._in_turn:
            self._chosen("a pattern")
            self._consumer.subscribe(pattern=pattern, listener=self)
            self._pattern = pattern

    async def unsubscribe(self) -> None:
        async with self._in_turn:
            self._check()
            await self._settle()
            await self._consumer.unsubscribe()
            self._by = self._pattern = None
            self._forget(None)

    def subscription(self, topics: Iterable[str]) -> list[str]:
        """`topics`: all topics of the cluster."""
        self._check()
        if self._pattern is not None:
            return sorted(name for name in topics if self._pattern.fullmatch(name))
        return sorted(self._consumer.subscription())

    async def assign(self, partitions: list[TopicPartition]) -> None:
        async with self._in_turn:
            self._chosen("partitions")
            before = self._consumer.assignment()
            self._consumer.assign(partitions)
            self._forget(before - set(partitions))

    def assignment(self) -> list[TopicPartition]:
        self._check()
        return sorted(self._consumer.assignment())

    def _chosen(self, by: str) -> None:
        self._check()
        if self._by not in (None, by):
            raise Problem(
                409,
                f"this instance already reads {self._by}: delete its subscription before it reads {by}",
                CONFLICT,
            )
        self._by = by

    # Positions

    async def seek(self, places: Mapping[TopicPartition, int | str]) -> None:
        """Seeks to offsets, or to the "beginning" or the "end"."""
        async with self._in_turn:
            self._check()
            strange = set(places) - self._consumer.assignment()
            if strange:
                topic, partition = min(strange)
                raise Problem(409, f"{topic}-{partition} is not assigned to this instance", CONFLICT)
            for name, place in places.items():
                if place == "beginning":
                    self._consumer.seek_to_beginning(name)
                elif place == "end":
                    self._consumer.seek_to_end(name)
                else:
                    self._consumer.seek(name, int(place))
            self._forget(places)

    async def times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | str]:
        """The offset of the first record at or after each time; the end where there is none."""
        first = await self._consumer.offsets_for_times(times)
        return {name: "end" if at is None else at.offset for name, at in first.items()}

    # Records

    async def read(
        self, bounds: ReadBounds, tell: WriteRecord, gone: Callable[[], Awaitable[bool]]
    ) -> list[bytes]:
        """`tell` makes JSON of a record, or raises `Problem`; `gone`: whether the client has hung up."""
        self._done.update(self._sent)  # the client asks again, so it has the last answer
        self._commit_by_itself()
        deadline_ms = self._clock.monotonic_ms() + bounds.wait_ms
        batch: list[WrittenRecord] = []
        bytes_left = bounds.bytes_max
        self._in_hand.append(batch)
        try:
            while True:
                left_ms = deadline_ms - self._clock.monotonic_ms()
                async with self._in_turn:
                    await self._more(max(0, min(left_ms, SLICE_MS)))
                    bytes_left, whole = await self._tell(batch, bytes_left, tell)
                    if await gone():
                        self._left = [written.record for written in batch] + self._left
                        return []
                    enough = whole or (batch and bounds.bytes_max - bytes_left >= self.options.bytes_min)
                    if enough or left_ms <= 0 or self._closing:
                        self._sent |= {_partition(record): record.offset + 1 for record, _ in batch}
                        return [written.json for written in batch]
        finally:
            self._in_hand = [other for other in self._in_hand if other is not batch]

    async def _more(self, wait_ms: int) -> None:
        self._check()
        if self._by is None:
            raise Problem(409, "this instance has no subscription: subscribe to topics first", CONFLICT)
        try:
            # The consumer is polled even with records left over: that is how it takes part in rebalances.  The poll may
            # revoke partitions, and drop their records from `_left`, which is read only afterwards.
            more = await (self._consumer.poll(0, 0) if self._left else self._consumer.poll(wait_ms))
            self._left += more
        except TidelogError:
            if not self._left:
                raise

    async def _tell(self, batch: list[WrittenRecord], bytes_left: int, tell: WriteRecord) -> tuple[int, bool]:
        """The room that is left, and whether the answer is full."""
        breath = 0
        while self._left:
            record = self._left[0]
            size = len(record.key or b"") + len(record.value or b"")
            if batch and size > bytes_left:
                return bytes_left, True
            try:
                batch.append(WrittenRecord(record, await tell(record)))
            except Problem:
                if batch:
                    return bytes_left, True  # first answer with the records before this one
                raise
            self._left.pop(0)
            bytes_left -= size
            breath += len(batch[-1].json)
            if breath > BREATH_BYTES:
                breath = 0
                await asyncio.sleep(0)
        return bytes_left, bytes_left <= 0

    # Offsets

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, wait: bool
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Commits these offsets, or those after all records that were answered."""
        if offsets is None:
            offsets = {name: OffsetAndMetadata(offset, "") for name, offset in self._sent.items()}
        async with self._in_turn:
            self._check()
            if offsets and wait:
                await self._consumer.commit(offsets)
            elif offsets:
                self._consumer.commit_async(offsets, self._told)
        return offsets

    async def committed(
        self, partitions: list[TopicPartition] | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        wanted = self.assignment() if partitions is None else partitions
        return await self._consumer.committed(wanted) if wanted else {}

    def _commit_by_itself(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self.options.auto_commit and self._done and now_ms - self._committed_ms >= COMMIT_INTERVAL_MS:
            self._committed_ms = now_ms
            done, self._done = self._done, {}
            self._consumer.commit_async(done, self._told)

    def _told(self, _: object, problem: TidelogError | None) -> None:
        if problem is not None:
            log.warning(
                "offsets of instance %s of %r were not committed: %s", self.options.name, self.group, problem
            )

    async def _settle(self, only: Collection[TopicPartition] | None = None, all_sent: bool = True) -> None:
        """Commits before partitions are revoked; a failure is only logged."""
        if not self.options.auto_commit:
            return
        progress = {**self._done, **self._sent} if all_sent else self._done
        offsets = {name: offset for name, offset in progress.items() if only is None or name in only}
        try:
            if offsets:
                await self._consumer.commit(offsets)
        except TidelogError as problem:
            self._told(None, problem)

    # Rebalances, inside a poll

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await self._settle(partitions, all_sent=False)
        self._forget(partitions)

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition] | None) -> None:
        """Drops the records and progress of these partitions, or of all."""
        self._left = [
            record for record in self._left if partitions is not None and _partition(record) not in partitions
        ]
        for batch in self._in_hand:
            batch[:] = [
                written
                for written in batch
                if partitions is not None and _partition(written.record) not in partitions
            ]
        for kept in (self._sent, self._done):
            for name in list(kept) if partitions is None else partitions:
                kept.pop(name, None)

    # Closing

    async def close(self) -> None:
        """Requests that wait for records are answered with what there is."""
        self._closing = True
        async with self._in_turn:
            try:
                async with asyncio.timeout(CLOSE_S_MAX):
                    await self._settle()
                    await self._consumer.close()
            except (TimeoutError, TidelogError) as problem:
                log.warning("instance %s of %r: %r", self.options.name, self.group, problem)
                await self._consumer.close(timeout=0)

    def _check(self) -> None:
        if self._closing:
            raise Problem(404, "this consumer instance was closed", GONE)


def _partition(record: Record) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
