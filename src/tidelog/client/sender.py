"""Ships the producer's batches: one queue per partition, several requests in flight per broker, no task of
its own.

Everything happens in `_pump`, which runs when something changed: a batch became ready, an answer came, a
connection opened, a timer ran out.  It decides from the queues (`PartitionQueue`, pure) and submits; answers
come back as futures.  `Producer` owns the only instance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

from tidelog import errors
from tidelog.client.answers import problem_of
from tidelog.client.backoff import delay_ms
from tidelog.client.batch import Headers, OutgoingBatch, RecordMetadata
from tidelog.client.cluster import Cluster
from tidelog.client.errors import DeliveryTimedOut
from tidelog.client.identity import Identity
from tidelog.client.memory import BufferMemory
from tidelog.client.options import ProducerOptions
from tidelog.client.partition_queue import PartitionQueue
from tidelog.client.produce_request import ProduceCall, build_produce, read_produce
from tidelog.client.unfinished import Unfinished
from tidelog.net.requester import Requester
from tidelog.record import codec_named
from tidelog.types import TopicPartition
from tidelog.wire.messages.produce import ProduceResponse

log = logging.getLogger("tidelog.client")

_COUNT_LOST = (errors.OutOfOrderSequenceNumber, errors.UnknownProducerId, errors.InvalidProducerEpoch)


class Sender:
    def __init__(self, cluster: Cluster, options: ProducerOptions, memory: BufferMemory) -> None:
        self._cluster = cluster
        self._options = options
        self._memory = memory
        self._codec = codec_named(options.compression_type)
        self._loop = asyncio.get_running_loop()
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._busy: dict[TopicPartition, PartitionQueue] = {}
        self._in_flight: dict[int, int] = {}
        self._unfinished = Unfinished()
        self._identity = Identity(cluster, options.delivery_timeout_ms)
        self._pump_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    # Called by the producer

    def append(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        bytes_taken: int,
    ) -> asyncio.Future[RecordMetadata]:
        """`bytes_taken` of memory are taken already and are given back when the record is settled."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = self._queue(partition)
        outcome: asyncio.Future[RecordMetadata] = self._loop.create_future()
        batch = queue.open
        if batch is None or not batch.add(key, value, timestamp, headers, outcome, bytes_taken):
            queue.close_open()
            now_ms = self._cluster.environment.clock.monotonic_ms()
            batch = OutgoingBatch(partition, self._options.batch_size, now_ms)
            batch.add(key, value, timestamp, headers, outcome, bytes_taken)
            queue.open = batch
            self._unfinished.add(batch)
            self._busy[partition] = queue
            self.wake()
        return outcome

    def wake(self, *_: Any) -> None:
        """Something changed: look soon, once."""
        if not self._pump_due and not self._closed:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    @property
    def waiting_records(self) -> int:
        return self._unfinished.records

    async def flush(self) -> None:
        """Until everything appended so far is settled, well or not."""
        self.wake()
        await self._unfinished.all_settled()

    async def close(self, problem: errors.TidelogError) -> None:
        """Stops at once; what is not settled fails with `problem`."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._identity.close()
        self._fail_all(problem)

    # The pump

    def _queue(self, partition: TopicPartition) -> PartitionQueue:
        options = self._options
        # Without sequence numbers only one batch at a time keeps its order when it has to be sent again.
        pipelined = options.enable_idempotence or options.acks == 0 or options.retries == 0
        return PartitionQueue(
            partition,
            codec=self._codec,
            idempotent=options.enable_idempotence,
            unsettled_max=options.max_in_flight_requests if pipelined else 1,
        )

    def _pump(self) -> None:
        self._pump_due = False
        if self._closed:
            return
        try:
            now_ms = self._cluster.environment.clock.monotonic_ms()
            self._expire(now_ms)
            self._send_ready(now_ms)
            self._set_timer(now_ms)
        except Exception as bug:
            # Nobody awaits the pump: without this, a defect would leave every record waiting for ever.
            log.exception("the producer's sender failed")
            self._fail_all(errors.UnknownServerError(f"the producer failed: {bug!r}"))

    def _expire(self, now_ms: float) -> None:
        limit_ms = self._options.delivery_timeout_ms
        for partition, queue in list(self._busy.items()):
            late = takewhile(lambda one: one.done or now_ms - one.created_ms >= limit_ms, queue.batches())
            for batch in list(late):
                if not batch.done:
                    reason = f": {batch.last_problem}" if batch.last_problem else ""
                    said = f"no acknowledgement from {partition} within {limit_ms} ms{reason}"
                    problem: errors.TidelogError = DeliveryTimedOut(said)
                    self._finish(queue, batch, problem, keep=batch.in_flight)

    def _send_ready(self, now_ms: float) -> None:
        hurry = self._unfinished.awaited or self._memory.exhausted
        progress = True
        while progress:
            by_node: dict[int, list[tuple[PartitionQueue, OutgoingBatch]]] = {}
            sizes: dict[int, int] = {}
            for queue in self._sendable(now_ms, hurry):
                batch = queue.next(now_ms, self._options.linger_ms, hurry)
                node = self._leader(queue.partition)
                if batch is None or node is None or not self._has_room(node):
                    continue
                size = sizes.get(node, 0) + batch.size
                if node in by_node and size > self._options.max_request_size:
                    continue
                sizes[node] = size
                by_node.setdefault(node, []).append((queue, batch))
            for node, chosen in by_node.items():
                self._ship(node, chosen)
            progress = bool(by_node)

    def _sendable(self, now_ms: float, hurry: bool) -> Iterable[PartitionQueue]:
        for partition, queue in list(self._busy.items()):
            if queue.empty:
                del self._busy[partition]
            elif queue.next(now_ms, self._options.linger_ms, hurry) is not None and self._identified(queue):
                yield queue

    def _leader(self, partition: TopicPartition) -> int | None:
        node = self._cluster.topology.leader(partition)
        if node is None:
            self._cluster.refresh_soon().add_done_callback(self.wake)
        elif self._cluster.ready(node) is None:
            self._cluster.dial(node).add_done_callback(self._dialled)
            return None
        return node

    def _dialled(self, task: asyncio.Task[Requester]) -> None:
        if not task.cancelled() and task.exception() is not None and not self._closed:
            # The leader may be another one by now.
            self._cluster.refresh_soon().add_done_callback(self.wake)
        self.wake()

    def _has_room(self, node: int) -> bool:
        connection = self._cluster.ready(node)
        in_flight = self._in_flight.get(node, 0)
        allowed = in_flight < self._options.max_in_flight_requests
        return allowed and connection is not None and connection.has_room

    def _set_timer(self, now_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = []
        for queue in self._busy.values():
            ready_ms = queue.ready_ms(self._options.linger_ms)
            if ready_ms is not None and ready_ms > now_ms:
                times.append(ready_ms)
            oldest = next((one for one in queue.batches() if not one.done), None)
            if oldest is not None:
                times.append(oldest.created_ms + self._options.delivery_timeout_ms)
        if times:
            self._timer = self._loop.call_later(max(0.0, min(times) - now_ms) / 1000, self.wake)

    def _identified(self, queue: PartitionQueue) -> bool:
        if queue.wants_producer_id:
            identity = self._identity.other_than(queue.spent_id)
            if identity is None:
                self._identity.ask().add_done_callback(self._identity_answered)
                return False
            queue.identified(*identity)
        return True

    def _identity_answered(self, task: asyncio.Task[None]) -> None:
        if self._closed or task.cancelled():
            return
        problem = task.exception()
        if isinstance(problem, errors.TidelogError):
            self._fail_all(problem)
        self.wake()

    # Requests and answers

    def _ship(self, node: int, chosen: list[tuple[PartitionQueue, OutgoingBatch]]) -> None:
        connection = self._cluster.ready(node)
        assert connection is not None
        for queue, batch in chosen:
            queue.take(batch)
        call = build_produce(
            connection,
            self._cluster.topology,
            [batch for _, batch in chosen],
            acks=self._options.acks,
            timeout_ms=self._cluster.options.request_timeout_ms,
        )
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        if self._options.acks == 0:
            sent = connection.tell(call.request, version=call.version)
            sent.add_done_callback(self._then(node, lambda done: self._sent(chosen, done)))
        else:
            answer = connection.submit(call.request, ProduceResponse, version=call.version)
            answer.add_done_callback(self._then(node, lambda done: self._answered(chosen, call, done)))

    def _then(self, node: int, act: Callable[[Any], None]) -> Callable[[Any], None]:
        def settled(done: asyncio.Future[Any]) -> None:
            self._in_flight[node] -= 1
            if not self._closed:
                act(done)
                self.wake()
            elif not done.cancelled():
                done.exception()

        return settled

    def _sent(self, chosen: list[tuple[PartitionQueue, OutgoingBatch]], done: asyncio.Future[None]) -> None:
        problem = done.exception()
        for queue, batch in chosen:
            if problem is None:
                self._finish(queue, batch, None)
            else:
                assert isinstance(problem, errors.TidelogError)
                self._failed(queue, batch, problem)

    def _answered(
        self,
        chosen: list[tuple[PartitionQueue, OutgoingBatch]],
        call: ProduceCall,
        done: asyncio.Future[ProduceResponse],
    ) -> None:
        problem = done.exception()
        if problem is not None:
            assert isinstance(problem, errors.TidelogError)
            for queue, batch in chosen:
                self._failed(queue, batch, problem)
            return
        answers = read_produce(done.result(), call.names)
        for queue, batch in chosen:
            answer = answers.get(batch.partition)
            if answer is None:
                unanswered = errors.UnknownServerError(f"the broker's answer leaves out {batch.partition}")
                self._failed(queue, batch, unanswered)
            elif answer.error_code in (errors.NONE, errors.DuplicateSequenceNumber.code):
                self._finish(queue, batch, None, offset=answer.base_offset, time_ms=answer.log_append_time_ms)
            else:
                self._failed(
                    queue, batch, problem_of(answer.error_code, str(batch.partition), answer.error_message)
                )

    def _failed(self, queue: PartitionQueue, batch: OutgoingBatch, problem: errors.TidelogError) -> None:
        too_large = isinstance(problem, errors.MessageTooLarge | errors.RecordListTooLarge)
        if batch.done:
            queue.settled(batch)
        elif self._options.enable_idempotence and isinstance(problem, _COUNT_LOST):
            fenced = isinstance(problem, errors.InvalidProducerEpoch)
            not_before_ms = self._retry_ms(queue) if batch.attempts > 1 else 0
            queue.sequence_refused(batch, problem, not_before_ms, new_id=fenced)
        elif too_large and batch.count > 1 and not batch.maybe_written:
            halves = queue.split(batch)
            self._unfinished.settled(batch, halves)
        elif problem.retriable and batch.attempts <= self._options.retries:
            queue.again(batch, problem, self._retry_ms(queue))
            self._cluster.refresh_soon().add_done_callback(self.wake)
        else:
            self._finish(queue, batch, problem)

    def _retry_ms(self, queue: PartitionQueue) -> float:
        options, environment = self._cluster.options, self._cluster.environment
        wait_ms = delay_ms(
            options.retry_backoff_ms, options.retry_backoff_max_ms, queue.failures, environment.random
        )
        return environment.clock.monotonic_ms() + wait_ms

    def _finish(
        self,
        queue: PartitionQueue,
        batch: OutgoingBatch,
        problem: errors.TidelogError | None,
        *,
        offset: int = -1,
        time_ms: int = -1,
        keep: bool = False,
    ) -> None:
        """`keep`: its place in the queue stays taken until the answer comes."""
        if problem is None:
            queue.acknowledged(batch)
        elif not keep:
            queue.settled(batch)
        if batch.done:
            return
        if problem is None:
            batch.acknowledged(offset, time_ms)
        else:
            batch.failed(problem)
        self._memory.give(batch.bytes_taken)
        self._unfinished.settled(batch)

    def _fail_all(self, problem: errors.TidelogError) -> None:
        for queue in self._queues.values():
            for batch in list(queue.batches()):
                self._finish(queue, batch, problem, keep=batch.in_flight)
