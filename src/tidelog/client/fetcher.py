"""Keeps the assigned partitions' buffers filled: one Fetch under way per broker, offsets looked up where
needed.

Like the sender it has no task of its own: `_pump` runs when something changed, decides from the partitions
(`Assigned`, pure) and submits.  What is buffered is bounded: a partition with more than half of
`max_partition_fetch_bytes` waiting is not asked for.  `Consumer` owns the only instance.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from tidelog import errors
from tidelog.client.answers import problem_of
from tidelog.client.assigned import Assigned, Record
from tidelog.client.backoff import delay_ms
from tidelog.client.cluster import Cluster
from tidelog.client.fetch_request import FetchCall, build_fetch, read_fetch
from tidelog.client.offsets import LATEST, list_offsets
from tidelog.client.options import ConsumerOptions
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.fetch import FetchResponse, PartitionData

log = logging.getLogger("tidelog.client")


class Fetcher:
    def __init__(self, cluster: Cluster, options: ConsumerOptions) -> None:
        self._cluster = cluster
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._assigned: dict[TopicPartition, Assigned] = {}
        self._fetching: set[int] = set()
        self._looking_up: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._pump_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # Called by the consumer

    @property
    def assigned(self) -> dict[TopicPartition, Assigned]:
        return self._assigned

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Partitions that were assigned before keep their place; new ones start where `auto_offset_reset`
        says."""
        before, self._assigned = self._assigned, {}
        for one in partitions:
            known = before.get(one)
            if known is None:
                known = Assigned(one)
                self._start(known)
            self._assigned[one] = known
        self.wake()

    def _start(self, one: Assigned) -> None:
        reset = self._options.auto_offset_reset
        if reset is not None:
            one.seek_by_look_up(reset)
        else:
            one.problem = errors.OffsetOutOfRange(
                f"{one.partition} has no position: seek, or set auto_offset_reset"
            )

    def wake(self, *_: Any) -> None:
        if not self._pump_due and not self._closed:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def take(self, records_max: int) -> list[Record]:
        """What is buffered; raises what has stopped a partition, once the others have nothing to hand out."""
        out: list[Record] = []
        for one in list(self._assigned.values()):
            if one.has_records and len(out) < records_max:
                # Turns: a full partition does not starve the ones behind it.
                self._assigned[one.partition] = self._assigned.pop(one.partition)
                try:
                    out += one.take(records_max - len(out))
                except errors.TidelogError as problem:
                    one.problem = problem
        if not out:
            self._raise_problem()
        self.wake()
        return out

    def _raise_problem(self) -> None:
        for one in self._assigned.values():
            if one.problem is not None and not one.paused:
                problem, one.problem = one.problem, None
                one.failing_since_ms = None
                raise problem

    async def arrival(self, timeout_ms: float) -> None:
        """Until something was fetched or has failed, or the time is up."""
        self._arrived.clear()
        if any(one.has_records or one.problem is not None for one in self._assigned.values()):
            return
        self.wake()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._arrived.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        self._closed = True
        self._arrived.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._looking_up is not None:
            self._looking_up.cancel()
            await asyncio.gather(self._looking_up, return_exceptions=True)

    # The pump

    def _pump(self) -> None:
        self._pump_due = False
        if self._closed:
            return
        try:
            now_ms = self._cluster.environment.clock.monotonic_ms()
            if self._looking_up is None and any(one.look_up is not None for one in self._assigned.values()):
                self._looking_up = self._loop.create_task(self._look_up(), name="offsets")
                self._looking_up.add_done_callback(self.wake)
            by_node: dict[int, list[Assigned]] = {}
            for one in self._assigned.values():
                if one.wants_fetch(now_ms, max(1, self._options.max_partition_fetch_bytes // 2)):
                    node = self._leader(one, now_ms)
                    if node is not None:
                        by_node.setdefault(node, []).append(one)
            for node, partitions in by_node.items():
                self._fetch(node, partitions)
            self._set_timer(now_ms)
        except Exception as bug:
            # Nobody awaits the pump: without this, a defect would leave the reader waiting for ever.
            log.exception("the consumer's fetcher failed")
            for one in self._assigned.values():
                one.problem = errors.UnknownServerError(f"the consumer failed: {bug!r}")
            self._arrived.set()

    def _leader(self, one: Assigned, now_ms: float) -> int | None:
        node = self._cluster.topology.leader(one.partition)
        if node is None:
            self._failed(one, self._cluster.missing(one.partition))
            return None
        if node in self._fetching:
            return None
        if self._cluster.ready(node) is None:
            self._fetching.add(node)
            self._cluster.dial(node).add_done_callback(lambda task: self._dialled(node, task))
            return None
        return node

    def _dialled(self, node: int, task: asyncio.Task[Requester]) -> None:
        self._fetching.discard(node)
        if not task.cancelled():
            problem = task.exception()
            if isinstance(problem, errors.TidelogError) and not self._closed:
                for one in self._assigned.values():
                    if self._cluster.topology.leader(one.partition) == node:
                        self._failed(one, problem)
        self.wake()

    def _set_timer(self, now_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [one.not_before_ms for one in self._assigned.values() if one.not_before_ms > now_ms]
        if times:
            self._timer = self._loop.call_later((min(times) - now_ms) / 1000, self.wake)

    # Requests and answers

    def _fetch(self, node: int, partitions: list[Assigned]) -> None:
        connection = self._cluster.ready(node)
        assert connection is not None
        call = build_fetch(connection, self._cluster.topology, partitions, self._options)
        self._fetching.add(node)
        for one in partitions:
            one.fetching = True
        timeout_ms = self._cluster.options.request_timeout_ms + self._options.fetch_max_wait_ms
        answer = connection.submit(call.request, FetchResponse, version=call.version, timeout_ms=timeout_ms)
        answer.add_done_callback(lambda done: self._answered(node, call, done))

    def _answered(self, node: int, call: FetchCall, done: asyncio.Future[FetchResponse]) -> None:
        self._fetching.discard(node)
        asked = [
            one
            for partition, generation in call.generations.items()
            if (one := self._assigned.get(partition)) is not None and one.generation == generation
        ]
        for one in asked:
            one.fetching = False
        if done.cancelled() or self._closed:
            return
        problem = done.exception()
        if problem is None and done.result().error_code != errors.NONE:
            problem = problem_of(done.result().error_code, f"the fetch from broker {node}")
        if problem is not None:
            assert isinstance(problem, errors.TidelogError)
            for one in asked:
                self._failed(one, problem)
        else:
            current = {one.partition: one for one in asked}
            for partition, data in read_fetch(done.result(), call.names):
                if partition in current:
                    self._partition_answered(current[partition], data)
        self.wake()

    def _partition_answered(self, one: Assigned, data: PartitionData) -> None:
        if data.error_code == errors.NONE:
            one.fetched(data.records or b"", data.high_watermark, self._options.check_crcs)
            if one.has_records or one.problem is not None:
                self._arrived.set()
        elif data.error_code == errors.OffsetOutOfRange.code:
            self._out_of_range(one)
        else:
            self._failed(one, problem_of(data.error_code, str(one.partition)))

    def _out_of_range(self, one: Assigned) -> None:
        if one.has_records:
            # What was fetched before is still good; the answer to the next fetch will be the same.
            one.not_before_ms = (
                self._cluster.environment.clock.monotonic_ms() + self._cluster.options.retry_backoff_ms
            )
            return
        reset = self._options.auto_offset_reset
        if reset is None:
            one.problem = errors.OffsetOutOfRange(
                f"offset {one.fetch_offset} of {one.partition} is not in the log: seek, or set auto_offset_reset"
            )
            self._arrived.set()
        else:
            log.warning("offset %s of %s is not in the log: resetting", one.fetch_offset, one.partition)
            one.seek_by_look_up(reset)

    def _failed(self, one: Assigned, problem: errors.TidelogError) -> None:
        options, environment = self._cluster.options, self._cluster.environment
        if not problem.retriable:
            one.problem = problem
        else:
            wait_ms = delay_ms(
                options.retry_backoff_ms, options.retry_backoff_max_ms, one.failures, environment.random
            )
            one.failed(problem, environment.clock.monotonic_ms(), wait_ms, options.request_timeout_ms)
            self._cluster.refresh_soon().add_done_callback(self.wake)
        if one.problem is not None:
            self._arrived.set()

    # Positions

    async def _look_up(self) -> None:
        try:
            while wanted := [one for one in self._assigned.values() if one.look_up is not None]:
                await self._resolve(wanted)
        finally:
            self._looking_up = None

    async def _resolve(self, wanted: list[Assigned]) -> None:
        asked = {one.partition: (one, one.generation, one.look_up) for one in wanted}
        times = {one.partition: one.look_up for one in wanted if one.look_up is not None}
        try:
            found = await list_offsets(self._cluster, times, self._cluster.options.request_timeout_ms)
            late = [partition for partition, answer in found.items() if answer.offset < 0]
            if late:
                # No record is that late: reading goes on with the next one that comes.
                ends = await list_offsets(
                    self._cluster, dict.fromkeys(late, LATEST), self._cluster.options.request_timeout_ms
                )
                found.update(ends)
        except errors.TidelogError as problem:
            for one, generation, _ in asked.values():
                if one.generation == generation:
                    one.problem = problem
                    one.look_up = None
            self._arrived.set()
            return
        for partition, (one, generation, _) in asked.items():
            if one.generation == generation and partition in found:
                one.seek(found[partition].offset)
        self._arrived.set()
