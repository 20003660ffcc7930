"""`consumer.process(fn)`: many records at a time, each key's in order, committed only up to the first unprocessed record.

`ProcessingPlan` (pure) decides which records may begin.  This module runs them in tasks or threads, retries failed ones,
and writes records that keep failing to a dead-letter topic.  Polls continue meanwhile, so that the consumer stays in its
group.  Before partitions go to other members, their running records are finished and committed.

However processing ends, it starts no more records, waits for running ones, and sets the consumer's positions back to the
processed records before any commit.  A second cancellation does not wait for running records.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog import errors
from tidelog._speed.client.consumed import Record
from tidelog.client.cluster.backoff import delay_ms
from tidelog.client.consumer.processing.dead_letters import DeadLetterWriter, described
from tidelog.client.consumer.processing.plan import Order, ProcessingPlan
from tidelog.client.errors import ProcessingFailed
from tidelog.client.groups.rebalance_listener import RebalanceListener
from tidelog.schema.serializer import SerializationError
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.consumer.assigned_partitions import AssignedPartitions
    from tidelog.client.consumer.deserializers import Deserializers
    from tidelog.client.consumer.group_commits import GroupCommits
    from tidelog.client.consumer.poller import Poller
    from tidelog.client.consumer.runtime import ConsumerRuntime
    from tidelog.client.producer.producer import Producer

log = logging.getLogger("tidelog.client")

# How long the loop waits before it looks again whether the consumer needs anything.
TURN_MS = 100
# How many records wait for each worker, so that none is idle.
AHEAD = 16


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
        for name in ("retries", "idle_timeout_ms"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} cannot be {value}: it must be at least 0")


class Processing:
    """One run of `Consumer.process`."""

    def __init__(
        self,
        runtime: ConsumerRuntime,
        poller: Poller,
        partitions: AssignedPartitions,
        commits: GroupCommits,
        work: Callable[[Record], Any],
        options: ProcessOptions,
        deserializers: Deserializers,
        new_producer: Callable[[], Producer],
    ) -> None:
        self.processed = 0
        self.busy_ms = 0.0
        self._runtime = runtime
        self._poller = poller
        self._partitions = partitions
        self._commits = commits
        self._clock = runtime.config.environment.clock
        self._work = work
        self._options = options
        self._deserializers = deserializers
        self._new_producer = new_producer
        self._plan = ProcessingPlan(options.order)
        self._committed: dict[TopicPartition, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._problem: BaseException | None = None
        self._draining = False
        self._threads: ThreadPoolExecutor | None = None
        self._own_threads: set[int] = set()
        self._letters: DeadLetterWriter | None = None
        self._worker: asyncio.Task[Any] | None = None
        self._cancels = 0  # what was asked of the task before it came here
        self._stopped_by_other = False
        self._ending = asyncio.Event()
        self._over = asyncio.Event()

    async def run(self) -> None:
        self._worker = worker = asyncio.current_task()
        assert worker is not None
        self._cancels = worker.cancelling()
        if not _is_async(self._work):
            self._threads = ThreadPoolExecutor(
                self._options.workers,
                thread_name_prefix="tidelog-process",
                initializer=lambda: self._own_threads.add(threading.get_ident()),
            )
        try:
            async with self._dead_letters():
                await self._loop()
        except asyncio.CancelledError:
            if self._problem is not None and worker.cancelling() - self._stopped_by_other <= self._cancels:
                raise self._problem from None
            raise
        finally:
            if self._stopped_by_other:
                worker.uncancel()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
            self._over.set()

    async def stop(self, problem: Exception) -> None:
        """From another task: `run` raises `problem`, unless it ends already; waits for its end.  If the caller is
        cancelled, running records are not waited for."""
        worker = self._worker
        if worker is None or worker is asyncio.current_task():
            return
        if not self._ending.is_set() and worker.cancelling() <= self._cancels:
            self._problem = self._problem or problem
            self._stopped_by_other = True
            worker.cancel()
        try:
            await self._over.wait()
        except asyncio.CancelledError:
            self._abandon()
            raise

    def runs_here(self) -> bool:
        """True in the calling thread, which would wait for itself."""
        return threading.get_ident() in self._own_threads

    @contextlib.asynccontextmanager
    async def _dead_letters(self) -> AsyncIterator[None]:
        if self._options.dead_letter_topic is None:
            yield
            return
        async with self._new_producer() as producer:
            self._letters = DeadLetterWriter(self._options.dead_letter_topic, producer)
            yield

    # The loop

    async def _loop(self) -> None:
        clock = self._clock
        commit_ms = idle_ms = clock.monotonic_ms()
        try:
            while self._problem is None:
                came = await self._fill()
                now_ms = clock.monotonic_ms()
                if now_ms - commit_ms >= self._options.commit_interval_ms:
                    commit_ms = now_ms
                    await self._commit()
                if came or self._plan.unfinished or not self._settled_in:
                    idle_ms = now_ms
                elif self._idle(now_ms - idle_ms):
                    return
            raise self._problem
        finally:
            await self._finish()

    @property
    def _settled_in(self) -> bool:
        """The consumer has partitions, or the group has none for it."""
        rebalancer = self._runtime.rebalancer
        return bool(self._partitions.all()) or rebalancer is None or rebalancer.settled_in

    def _idle(self, for_ms: float) -> bool:
        return self._options.idle_timeout_ms is not None and for_ms >= self._options.idle_timeout_ms

    async def _fill(self) -> int:
        """Takes in as much as keeps the workers busy, then waits until that has become less; how many came."""
        records: list[Record] = []
        records_max = self._options.workers * AHEAD - self._plan.unfinished
        if self._is_low():
            timeout_ms = 0 if self._plan.unfinished else TURN_MS
            records = await self._poller.poll(timeout_ms, records_max)
            self._plan.add(records)
        else:
            await self._poller.keep_alive()
        if self._plan.unfinished:
            self._changed.clear()
            self._begin()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TURN_MS / 1000):
                    await self._changed.wait()
        return len(records)

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
        if self._problem is None and not self._ending.is_set():
            self._begin()
        if self._draining or self._problem is not None or self._is_low():
            self._changed.set()

    async def _finish(self) -> None:
        """Tasks that are running are cancelled; a thread cannot be, and is waited for."""
        self._ending.set()
        if self._threads is None:
            self._abandon()
        try:
            while self._tasks:
                await asyncio.wait(self._tasks)
            await self._commit()
        except asyncio.CancelledError:
            self._abandon()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=TURN_MS / 1000)
            raise
        finally:
            # Polls have settled all that was handed out: without this it would count as done.
            self._partitions.go_back(self._plan.done_to())

    def _abandon(self) -> None:
        for task in self._tasks:
            task.cancel()

    # One record

    async def _process(self, record: Record) -> None:
        """`record` has its bytes, for the dead letters and for the order of keys; the work gets what they stand
        for."""
        options, clock = self._options, self._clock
        for attempt in range(options.retries + 1):
            begun_ms = clock.monotonic_ms()
            problem = await self._tried(record)
            self.busy_ms += clock.monotonic_ms() - begun_ms
            if problem is None:
                break
            if not isinstance(problem, Exception | asyncio.CancelledError):
                # `sys.exit()` and the like mean all of it, and must not be raised in a task: that ends the loop.
                self._problem = self._problem or problem
                return
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            log.warning("processing %s failed (attempt %s): %s", where, attempt + 1, described(problem))
            # Bytes that mean nothing will mean nothing the next time.
            hopeless = isinstance(problem, SerializationError) and not problem.retriable
            if attempt == options.retries or hopeless:
                await self._give_up(record, problem, attempt + 1)
                break
            if not await self._waited(attempt):
                return
        self._plan.finished(record)
        self.processed += 1

    async def _tried(self, record: Record) -> BaseException | None:
        """What the work has raised, which is not raised here: not all of it may pass through a coroutine."""
        try:
            converted = await self._deserializers.converted(record)
            if self._threads is None:
                await self._work(converted)
                return None
            answer, problem = await asyncio.get_running_loop().run_in_executor(
                self._threads, _called, self._work, converted
            )
            if inspect.isawaitable(answer):
                await answer
            return problem
        except asyncio.CancelledError as stray:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return stray  # of something that the work has waited for
        except BaseException as problem:
            return problem

    async def _waited(self, attempt: int) -> bool:
        """Before it is tried again; false when there is no other time."""
        options, chance = self._options, self._runtime.config.environment.random
        wait_ms = delay_ms(options.retry_backoff_ms, options.retry_backoff_max_ms, attempt, chance)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                await self._ending.wait()
        return not self._ending.is_set()

    async def _give_up(self, record: Record, problem: BaseException, attempts: int) -> None:
        if self._letters is not None:
            await self._letters.write(record, problem, attempts)
            return
        raise ProcessingFailed(
            f"{record.topic}-{record.partition} at offset {record.offset} failed {attempts} times; the last "
            f"time with {described(problem)}: set dead_letter_topic to continue without such records"
        ) from problem

    # Offsets

    async def _commit(self) -> None:
        news = {p: to for p, to in self._plan.done_to().items() if self._committed.get(p) != to}
        if news and self._runtime.commits is not None:
            try:
                await self._commits.commit(news)
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
        for partition in partitions:
            self._committed.pop(partition, None)


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


def _called(work: Callable[[Record], Any], record: Record) -> tuple[Any, BaseException | None]:
    """In a thread."""
    try:
        return work(record), None
    except BaseException as problem:
        return None, problem
