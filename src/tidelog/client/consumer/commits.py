"""A consumer's commits, one after the other: those that the application asks for, and automatic ones at intervals.

An automatic commit commits only settled positions: records after which the application has polled again.  So a crash
in the middle of processing repeats records and never loses one.  `Consumer` owns the only instance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from tidelog import errors
from tidelog.client.consumer.fetch.fetcher import Fetcher
from tidelog.client.groups.metadata import OffsetAndMetadata
from tidelog.client.telemetry.recent_times import RecentTimes
from tidelog.types import TopicPartition

log = logging.getLogger("tidelog.client")

Callback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], errors.TidelogError | None], object]


class OffsetCommitter(Protocol):
    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None
    ) -> None: ...


class Commits:
    def __init__(
        self,
        committer: OffsetCommitter,
        fetcher: Fetcher,
        *,
        auto_interval_ms: int | None,
        due: Callable[[], None],
    ) -> None:
        """`due` is called when it is time for an automatic commit; with None for `auto_interval_ms` there is none."""
        self.committed = 0
        self.failed = 0
        self.latencies = RecentTimes()
        self.paused = False  # `Consumer.process` commits by itself
        self._committer = committer
        self._fetcher = fetcher
        self._auto_interval_ms = auto_interval_ms
        self._due = due
        self._in_turn = asyncio.Lock()
        self._last: dict[TopicPartition, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._auto_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._schedule()

    def handed_out(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions behind everything that was handed out."""
        return {
            state.partition: OffsetAndMetadata(state.position, "", state.epoch)
            for state in self._fetcher.assigned.values()
            if state.position is not None
        }

    def settled(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            state.partition: OffsetAndMetadata(state.settled, "", state.settled_epoch)
            for state in self._fetcher.assigned.values()
            if state.settled is not None
        }

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: int | None = None
    ) -> None:
        # In turn, so that a commit that is retried does not undo a later one.
        async with self._in_turn:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            try:
                await self._committer.commit(offsets, timeout_ms)
            except errors.TidelogError:
                self.failed += 1
                raise
            self.committed += 1
            self.latencies.add(loop.time(), 1000 * (loop.time() - began_s))
            self._last.update({partition: committed.offset for partition, committed in offsets.items()})

    def commit_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Callback | None
    ) -> asyncio.Task[None]:
        async def run() -> None:
            problem: errors.TidelogError | None = None
            try:
                await self.commit(offsets)
            except errors.TidelogError as failed:
                problem = failed
            if callback is not None:
                callback(offsets, problem)
            elif problem is not None:
                raise problem

        task = asyncio.get_running_loop().create_task(run(), name="commit")
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            # A caller that awaits the task gets the error; for others it is in the log.
            log.warning("a commit failed: %s", problem)

    # By itself

    def auto(self) -> None:
        """Commits in the background, when automatic commits are on and none is under way."""
        if self._auto_interval_ms is None:
            return
        self._schedule()
        if self.paused:
            return
        if self._auto_task is None or self._auto_task.done():
            news = self._news(self.settled())
            if news:
                self._auto_task = asyncio.get_running_loop().create_task(self._auto(news), name="auto commit")
                self._tasks.add(self._auto_task)
                self._auto_task.add_done_callback(self._tasks.discard)

    async def auto_now(
        self, partitions: Collection[TopicPartition] | None, all_handed_out: bool = False
    ) -> None:
        """Commits before these partitions (all with None) go to other members; a failure is only logged."""
        if self._auto_interval_ms is not None and not self.paused:
            offsets = self.handed_out() if all_handed_out else self.settled()
            if partitions is not None:
                wanted = set(partitions)
                offsets = {partition: offset for partition, offset in offsets.items() if partition in wanted}
            await self._auto(self._news(offsets))

    def dropped(self, partitions: Collection[TopicPartition]) -> None:
        """The partitions belong to other members now: forgets what was committed for them."""
        for partition in partitions:
            self._last.pop(partition, None)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _news(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            partition: offset
            for partition, offset in offsets.items()
            if self._last.get(partition) != offset.offset
        }

    async def _auto(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            if offsets:
                await self.commit(offsets)
        except errors.TidelogError as problem:
            log.warning("offsets were not committed: %s", problem)

    def _schedule(self) -> None:
        if self._auto_interval_ms is not None:
            if self._timer is not None:
                self._timer.cancel()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._auto_interval_ms / 1000, self._due)
