"""The blocking consumer's face for assigned partitions: which there are, pauses, seeks, positions, lag."""

from __future__ import annotations

import asyncio
import inspect
import queue
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from tidelog.client.blocking import loop_thread
from tidelog.client.cluster.list_offsets import OffsetAndTimestamp
from tidelog.client.consumer.reader import PartitionReader
from tidelog.client.errors import ClientClosed
from tidelog.types import TopicPartition

T = TypeVar("T")
Partitions = TopicPartition | Iterable[TopicPartition]


class BlockingReader:
    """The asyncio consumer's calls of listeners and stores run on the thread that waits for the consumer, so that
    they may use the consumer."""

    _core: PartitionReader
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
        """Hands out no more records of these partitions, or of all, until `resume`; buffered records are kept.

        consumer.pause(TopicPartition("orders", 0))
        """
        self._do(lambda: self._core.pause(*partitions))

    def resume(self, *partitions: Partitions) -> None:
        """Goes on with these partitions, or with all.

        consumer.resume(TopicPartition("orders", 0))
        """
        self._do(lambda: self._core.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` has stopped.

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
        """Sets the position: the next `poll` reads from `offset` on.

        consumer.seek(TopicPartition("orders", 0), 42)
        """
        self._do(lambda: self._core.seek(partition, offset))

    def seek_to_beginning(self, *partitions: Partitions) -> None:
        """Sets these partitions, or all that are assigned, to the start of their logs.

        consumer.seek_to_beginning()
        """
        self._do(lambda: self._core.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: Partitions) -> None:
        """Sets these partitions, or all that are assigned, to the end of their logs: only new records are read.

        consumer.seek_to_end()
        """
        self._do(lambda: self._core.seek_to_end(*partitions))

    def seek_to_time(self, timestamp: int, *partitions: Partitions) -> None:
        """Sets the position to the first record that is not older than `timestamp`, or to the end when there is none.

        consumer.seek_to_time(1_700_000_000_000)
        """
        self._do(lambda: self._core.seek_to_time(timestamp, *partitions))

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` returns from this partition.

        offset = consumer.position(TopicPartition("orders", 0))
        """
        return self._run(self._core.position(partition))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition's log.

        starts = consumer.beginning_offsets([TopicPartition("orders", 0)])
        """
        return self._run(self._core.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark of each partition; with `isolation_level="read_committed"` its last stable offset, the
        first offset of an unfinished transaction if there is one.

            ends = consumer.end_offsets([TopicPartition("orders", 0)])
        """
        return self._run(self._core.end_offsets(partitions))

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than its time; None where there is none.

        firsts = consumer.offsets_for_times({TopicPartition("orders", 0): 1_700_000_000_000})
        """
        return self._run(self._core.offsets_for_times(times))

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets the position of each assigned partition is behind the end, as of its last fetch.

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
        """Runs `work` on the clients' thread, which alone may touch the core."""

        async def done() -> T:
            return work()

        return self._run(done())

    def _run_with_calls(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the clients' thread, and on this thread the calls that it asks for meanwhile."""
        result: list[T] = []
        problems: list[BaseException] = []

        def over() -> None:
            """Marks the end of this run in the queue; the mark of an interrupted run may still be there, too."""

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
        """The core awaits this to call a listener or a store; the thread that polls makes the call."""
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
