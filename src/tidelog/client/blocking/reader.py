"""Reading assigned partitions, blocking face: which, from where, and what is known about them."""

from __future__ import annotations

import asyncio
import inspect
import queue
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from tidelog.client.blocking import loop_thread
from tidelog.client.cluster.list_offsets import OffsetAndTimestamp
from tidelog.client.consumer.reader import Reader
from tidelog.client.errors import ClientClosed
from tidelog.types import TopicPartition

T = TypeVar("T")
Partitions = TopicPartition | Iterable[TopicPartition]


class BlockingReader:
    """What the asyncio consumer wants called (listeners) is called by the thread that waits for it, so that it
    may use the consumer."""

    _core: Reader
    _thread: loop_thread.LoopThread

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._listens = False
        self._closed = True

    # Which partitions

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now.

        print(sorted(consumer.assignment()))
        """
        return self._do(self._core.assignment)

    def pause(self, *partitions: Partitions) -> None:
        """These, or all: nothing more of them is handed out until `resume`; what was fetched is kept.

        consumer.pause(TopicPartition("orders", 0))
        """
        self._do(lambda: self._core.pause(*partitions))

    def resume(self, *partitions: Partitions) -> None:
        """Goes on with these, or with all.

        consumer.resume(TopicPartition("orders", 0))
        """
        self._do(lambda: self._core.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        """Those that `pause` has stopped.

        consumer.resume(consumer.paused())
        """
        return self._do(self._core.paused)

    def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions.

        partitions = consumer.partitions_for("orders")
        """
        return self._run(self._core.partitions_for(topic))

    # Where in them

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next `poll` goes on there.

        consumer.seek(TopicPartition("orders", 0), 42)
        """
        self._do(lambda: self._core.seek(partition, offset))

    def seek_to_beginning(self, *partitions: Partitions) -> None:
        """These partitions, or all that are assigned.

        consumer.seek_to_beginning()
        """
        self._do(lambda: self._core.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Partitions) -> None:
        """These partitions, or all that are assigned: only what comes from now on.

        consumer.seek_to_end()
        """
        self._do(lambda: self._core.seek_to_end(*partitions))

    def seek_to_time(self, timestamp: int, *partitions: Partitions) -> None:
        """To the first record that is not older than `timestamp`, or to the end when there is none.

        consumer.seek_to_time(1_700_000_000_000)
        """
        self._do(lambda: self._core.seek_to_time(timestamp, *partitions))

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` returns from it.

        offset = consumer.position(TopicPartition("orders", 0))
        """
        return self._run(self._core.position(partition))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition's log starts.

        starts = consumer.beginning_offsets([TopicPartition("orders", 0)])
        """
        return self._run(self._core.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """With `isolation_level="read_committed"` the first offset of an unfinished transaction, if there is
        one.

            ends = consumer.end_offsets([TopicPartition("orders", 0)])
        """
        return self._run(self._core.end_offsets(partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record that is not older than the time given; None where there is none.

        found = consumer.offsets_for_times({TopicPartition("orders", 0): 1_700_000_000_000})
        """
        return self._run(self._core.offsets_for_times(times))

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each assigned partition's position is behind the end, as of its last fetch.

        behind = sum(consumer.lag().values())
        """
        return self._do(self._core.lag)

    # Inside

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise ClientClosed("this consumer is closed: make a new one")
        if not self._listens and self._calls.empty():
            return self._thread.run(work)
        return self._run_with_calls(work)

    def _do(self, work: Callable[[], T]) -> T:
        """The core belongs to the clients' thread, also for what does not wait."""

        async def done() -> T:
            return work()

        return self._run(done())

    def _run_with_calls(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it there, and here what it asks to be called here."""
        result: list[T] = []
        problems: list[BaseException] = []

        def over() -> None:
            """The end of this run; that of one which was interrupted may still be in the queue."""

        async def watched() -> None:
            try:
                result.append(await work)
            except BaseException as problem:
                problems.append(problem)
                if isinstance(problem, asyncio.CancelledError):
                    raise
            finally:
                self._calls.put(over)

        future = self._thread.submit(watched())
        try:
            while (call := self._calls.get()) is not over:
                call()
        except BaseException:
            future.cancel()
            raise
        if problems:
            raise problems[0]
        return result[0]

    async def _call_here(self, method: Callable[[Any], Any], argument: Any) -> Any:
        """What the core awaits when a listener or a store is to be called: done by the thread that polls."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def call() -> None:
            answer, problem = None, None
            try:
                answer = method(argument)
                if inspect.iscoroutine(answer):
                    answer.close()
                    raise TypeError("a blocking consumer calls plain methods, not async ones")
            except BaseException as raised:
                problem = raised
            loop.call_soon_threadsafe(settle, answer, problem)

        def settle(answer: Any, problem: BaseException | None) -> None:
            if not done.done():
                if problem is None:
                    done.set_result(answer)
                else:
                    done.set_exception(problem)

        self._calls.put(call)
        return await done
