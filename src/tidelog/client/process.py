"""`consumer.process(fn)`: many records at a time, each key's in order, committed only as far as all is done.

`Plan` (pure) decides what may begin; here it is run, in tasks or in threads, tried again when it fails, and
written to a dead-letter topic when it keeps failing.  Polls go on all the while, so that the consumer stays in
its group; before partitions go to others, what is running of them is waited for and committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog import errors
from tidelog._speed.consumed import Record
from tidelog.client.backoff import delay_ms
from tidelog.client.errors import ProcessingFailed
from tidelog.client.listener import RebalanceListener
from tidelog.client.process_plan import Order, Plan
from tidelog.schema.serializer import SerializationError
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.consumer import Consumer
    from tidelog.client.deserializing import Deserializers
    from tidelog.client.producer import Producer

log = logging.getLogger("tidelog.client")

# How long the loop waits before it looks again whether the consumer needs anything.
TURN_MS = 100
# How many records wait for each worker, so that none is idle.
AHEAD = 16
HEADER = "tidelog.dead.letter."


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    workers: int = 8
    order: Order = "key"
    retries: int = 3
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 10_000
    dead_letter_topic: str | None = None
    commit_interval_ms: int = 1_000
    idle_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "retry_backoff_ms", "retry_backoff_max_ms", "commit_interval_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} cannot be {getattr(self, name)}: it must be at least 1")
        if self.retries < 0:
            raise ValueError(f"retries cannot be {self.retries}: it must be at least 0")


class Processing:
    """One run of `Consumer.process`."""

    def __init__(
        self,
        consumer: Consumer,
        work: Callable[[Record], Any],
        options: ProcessOptions,
        deserializers: Deserializers,
        new_producer: Callable[[], Producer],
    ) -> None:
        self.processed = 0
        self.busy_ms = 0.0
        self._consumer = consumer
        self._work = work
        self._options = options
        self._deserializers = deserializers
        self._new_producer = new_producer
        self._plan = Plan(options.order)
        self._committed: dict[TopicPartition, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._problem: BaseException | None = None
        self._draining = False
        self._threads: ThreadPoolExecutor | None = None
        self._letters: Producer | None = None

    async def run(self) -> None:
        if not _is_async(self._work):
            self._threads = ThreadPoolExecutor(self._options.workers, thread_name_prefix="tidelog-process")
        try:
            async with self._dead_letters():
                await self._loop()
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    @contextlib.asynccontextmanager
    async def _dead_letters(self) -> AsyncIterator[None]:
        if self._options.dead_letter_topic is None:
            yield
            return
        async with self._new_producer() as self._letters:
            yield

    # The loop

    async def _loop(self) -> None:
        clock = self._consumer._environment.clock
        commit_ms = idle_ms = clock.monotonic_ms()
        try:
            while self._problem is None:
                await self._fill()
                now_ms = clock.monotonic_ms()
                if now_ms - commit_ms >= self._options.commit_interval_ms:
                    commit_ms = now_ms
                    await self._commit()
                if self._plan.unfinished or not self._consumer.assignment():
                    idle_ms = now_ms
                elif self._idle(now_ms - idle_ms):
                    return
            raise self._problem
        finally:
            await self._finish()

    def _idle(self, for_ms: float) -> bool:
        return self._options.idle_timeout_ms is not None and for_ms >= self._options.idle_timeout_ms

    async def _fill(self) -> None:
        """Takes in as much as keeps the workers busy, then waits until that has become less."""
        room = self._options.workers * AHEAD - self._plan.unfinished
        if self._is_low():
            timeout_ms = 0 if self._plan.unfinished else TURN_MS
            self._plan.add(await self._consumer.poll(timeout_ms, room))
        else:
            await self._consumer._keep_alive()
        if self._plan.unfinished:
            self._changed.clear()
            self._begin()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TURN_MS / 1000):
                    await self._changed.wait()

    def _is_low(self) -> bool:
        return self._plan.unfinished <= self._options.workers * AHEAD // 2

    def _begin(self) -> None:
        while len(self._tasks) < self._options.workers and (record := self._plan.next()) is not None:
            task = asyncio.get_running_loop().create_task(self._process(record), name="process")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._problem = self._problem or problem
        # The next one begins at once, without a turn of the loop.
        if self._problem is None:
            self._begin()
        if self._draining or self._problem is not None or self._is_low():
            self._changed.set()

    async def _finish(self) -> None:
        """What is running is cancelled; a thread cannot be, and is waited for."""
        if _is_async(self._work):
            for task in self._tasks:
                task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._commit()
        self._consumer._go_back(self._plan.done_to())

    # One record

    async def _process(self, record: Record) -> None:
        """`record` has its bytes, for the dead letters and for the order of keys; the work gets what they stand
        for."""
        options, environment = self._options, self._consumer._environment
        for attempt in range(options.retries + 1):
            begun_ms = environment.clock.monotonic_ms()
            try:
                await self._call(await self._deserializers.converted(record))
                break
            except Exception as problem:
                where = f"{record.topic}-{record.partition} at offset {record.offset}"
                log.warning("processing %s failed (attempt %s): %r", where, attempt + 1, problem)
                # Bytes that mean nothing will mean nothing the next time.
                hopeless = isinstance(problem, SerializationError) and not problem.retriable
                if attempt == options.retries or hopeless:
                    await self._give_up(record, problem, attempt + 1)
                    break
            finally:
                self.busy_ms += environment.clock.monotonic_ms() - begun_ms
            wait_ms = delay_ms(
                options.retry_backoff_ms, options.retry_backoff_max_ms, attempt, environment.random
            )
            await asyncio.sleep(wait_ms / 1000)
        self._plan.finished(record)
        self.processed += 1

    async def _call(self, record: Record) -> None:
        if self._threads is None:
            await self._work(record)
            return
        answer = await asyncio.get_running_loop().run_in_executor(self._threads, self._work, record)
        if inspect.isawaitable(answer):
            await answer

    async def _give_up(self, record: Record, problem: Exception, attempts: int) -> None:
        if self._letters is None:
            raise ProcessingFailed(
                f"{record.topic}-{record.partition} at offset {record.offset} failed {attempts} times; the last "
                f"time with {problem!r}: name a dead_letter_topic to go on without such records"
            ) from problem
        topic = self._options.dead_letter_topic
        assert topic is not None
        facts = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "attempts": str(attempts),
            "error": type(problem).__name__,
            "reason": str(problem),
        }
        headers = [*record.headers, *[(HEADER + name, text.encode()) for name, text in facts.items()]]
        sent = await self._letters.send(topic, record.value, record.key, headers)
        await sent

    # Offsets

    async def _commit(self) -> None:
        news = {p: to for p, to in self._plan.done_to().items() if self._committed.get(p) != to}
        if news and self._consumer._commits is not None:
            try:
                await self._consumer.commit(news)
                self._committed.update(news)
            except errors.TidelogError as problem:
                log.warning("offsets of processed records were not committed: %s", problem)

    async def give_up_partitions(self, partitions: Collection[TopicPartition], lost: bool) -> None:
        """Before they go to others: what is running of them ends, and is committed."""
        self._plan.withhold(partitions)
        self._draining = True
        while not lost and self._problem is None and self._plan.is_running(partitions):
            self._changed.clear()
            await self._changed.wait()
        self._draining = False
        if not lost:
            await self._commit()
        self._plan.drop(partitions)
        for one in partitions:
            self._committed.pop(one, None)


class ProcessListener(RebalanceListener):
    """Around the application's own listener, if it has one."""

    _own = True

    def __init__(
        self,
        processing: Processing,
        inner: RebalanceListener | None,
        call: Callable[..., Awaitable[None]],
    ) -> None:
        self._processing = processing
        self._inner = inner
        self._call = call

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        if self._inner is not None:
            await self._call(self._inner.on_partitions_assigned, partitions)

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await self._processing.give_up_partitions(partitions, lost=False)
        if self._inner is not None:
            await self._call(self._inner.on_partitions_revoked, partitions)

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        await self._processing.give_up_partitions(partitions, lost=True)
        if self._inner is not None:
            await self._call(self._inner.on_partitions_lost, partitions)


def _is_async(work: Callable[[Record], Any]) -> bool:
    return inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(getattr(work, "__call__", None))  # noqa: B004
