"""The sender: sends the producer's batches, from one queue per partition, with several requests in flight per broker
and no task of its own.

Callers put records into batches on their own threads (`Intake`); everything else happens in `_pump`, on the
loop, which runs when something changed: a batch was begun, an answer came, a connection opened, a timer ran
out.  It decides from the queues (`PartitionQueue`, pure) and submits; answers come back as futures.
`Producer` owns the only instance.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

from tidelog import errors
from tidelog.client.cluster.backoff import delay_ms
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import problem_of
from tidelog.client.errors import DeliveryTimedOut, TransactionAborted
from tidelog.client.producer.batch import OutgoingBatch
from tidelog.client.producer.buffer_memory import BufferMemory
from tidelog.client.producer.incomplete_batches import IncompleteBatches
from tidelog.client.producer.metrics import ProducerCounters, ProducerMetrics
from tidelog.client.producer.options import ProducerOptions
from tidelog.client.producer.partition_queue import PartitionQueue
from tidelog.client.producer.produce_request import ProduceCall, build_produce, read_produce
from tidelog.client.producer.producer_id import ProducerIdentity
from tidelog.client.producer.record_accumulator import RecordAccumulator
from tidelog.client.transactions.transactions import ProducerTransactions
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.produce import ProduceResponse

log = logging.getLogger("tidelog.client")

_COUNT_LOST = (errors.OutOfOrderSequenceNumber, errors.UnknownProducerId, errors.InvalidProducerEpoch)


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        memory: BufferMemory,
        transactions: ProducerTransactions | None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._memory = memory
        self._transactions = transactions
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._busy: dict[TopicPartition, PartitionQueue] = {}
        self._in_flight: dict[int, int] = {}
        self._holding: dict[int, Requester] = {}
        self._incomplete = IncompleteBatches()
        self._identity = ProducerIdentity(cluster, options.delivery_timeout_ms)
        self._pump_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0.0
        self._turns: list[Callable[[], None]] = []
        self._closed = False
        self.counters = ProducerCounters(self._loop.time())
        self.accumulator = RecordAccumulator(cluster, options, memory, self.wake)
        self.intake = self.accumulator.intake
        self._queues = self.accumulator.queues

    # Called from any thread

    def wake(self, *_: Any) -> None:
        """Runs the pump soon, once: something has changed."""
        if not self._pump_due and not self._closed:
            self._pump_due = True
            if threading.get_ident() == self._thread:
                self._loop.call_soon(self._pump)
            else:
                self._loop.call_soon_threadsafe(self._pump)

    def turn(self, wait_s_max: float) -> None:
        """For a caller on another thread that fills batches faster than the loop sends them: blocks until the pump
        has run."""
        if threading.get_ident() == self._thread:
            return
        looked = threading.Lock()
        looked.acquire()
        self._turns.append(looked.release)
        self.wake()
        looked.acquire(timeout=wait_s_max)

    # Called by the producer

    @property
    def waiting_records(self) -> int:
        self._note_new()
        return self._incomplete.records

    def metrics(self) -> ProducerMetrics:
        """From any thread."""
        return self.counters.metrics(
            self._loop.time(),
            waiting=self._incomplete.records,
            in_flight=sum(self._in_flight.values()),
            buffer_used=self._memory.used,
            buffer_total=self._memory.bytes_max,
        )

    async def flush(self) -> None:
        """Waits until every batch of this moment is acknowledged or has failed."""
        self._note_new()
        self.wake()
        await self._incomplete.all_settled()

    async def abandon(self, problem: errors.TidelogError) -> None:
        """Batches that have not left yet fail with `problem`; returns when the others are settled."""
        self._note_new()
        self._fail_waiting(problem)
        await self._incomplete.all_settled()

    async def close(self, problem: errors.TidelogError) -> None:
        """Stops at once; batches that are not settled fail with `problem`."""
        self._closed = True
        self.accumulator.close()
        if self._timer is not None:
            self._timer.cancel()
        await self._identity.close()
        self._fail_all(problem)

    # The pump

    def _note_new(self) -> None:
        for batch in self.intake.drain():
            self._incomplete.add(batch)
            self._busy[batch.partition] = self._queues[batch.partition]

    def _pump(self) -> None:
        self._pump_due = False
        if self._closed:
            return
        try:
            now_ms = self._cluster.environment.clock.monotonic_ms()
            self._note_new()
            self.accumulator.follow()
            self._end_broken_transaction()
            self._expire(now_ms)
            self._send_ready(now_ms)
            self._set_timer(now_ms)
            turns, self._turns = self._turns, []
            for looked in turns:
                looked()
        except Exception as bug:
            # Nobody awaits the pump: without this, a defect would leave every record waiting for ever.
            log.exception("the producer's sender failed")
            self._fail_all(errors.UnknownServerError(f"the producer failed: {bug!r}"))

    def _end_broken_transaction(self) -> None:
        """Batches that have not left fail: the transaction has failed."""
        problem = None if self._transactions is None else self._transactions.problem
        if problem is not None:
            self.intake.admitting = False
            self._fail_waiting(TransactionAborted(f"its transaction has failed: {problem}"))

    def _fail_waiting(self, problem: errors.TidelogError) -> None:
        for queue in list(self._busy.values()):
            for batch in queue.batches():
                if not batch.in_flight and not batch.done:
                    self._finish(queue, batch, problem)

    def _expire(self, now_ms: float) -> None:
        limit_ms = self._options.delivery_timeout_ms
        for partition, queue in list(self._busy.items()):
            oldest = queue.oldest()
            if oldest is None or not (oldest.done or now_ms - oldest.created_ms >= limit_ms):
                continue
            late = takewhile(
                lambda batch: batch.done or now_ms - batch.created_ms >= limit_ms, queue.batches()
            )
            for batch in list(late):
                if not batch.done:
                    reason = f": {batch.last_problem}" if batch.last_problem else ""
                    message = f"no acknowledgement from {partition} within {limit_ms} ms{reason}"
                    problem: errors.TidelogError = DeliveryTimedOut(message)
                    self._finish(queue, batch, problem, keep=batch.in_flight)

    def _send_ready(self, now_ms: float) -> None:
        # Requests in flight will make room by themselves; small batches sent for that would only take their turns.
        stuck = self._memory.exhausted and not any(self._in_flight.values())
        hurry = self._incomplete.awaited or stuck
        progress = True
        while progress:
            by_node: dict[int, list[tuple[PartitionQueue, OutgoingBatch]]] = {}
            sizes: dict[int, int] = {}
            for queue in self._sendable(now_ms, hurry):
                batch = queue.next(now_ms, self._options.linger_ms, hurry)
                node = self._leader(queue.partition)
                if batch is None or node is None or not self._has_room(node):
                    continue
                size = sizes.get(node, 0) + batch.wire_size
                if node in by_node and size > self._options.max_request_size:
                    continue
                sizes[node] = size
                by_node.setdefault(node, []).append((queue, batch))
            for node, chosen in by_node.items():
                self._ship(node, chosen)
            progress = bool(by_node)
        for held in self._holding.values():
            held.let_go()
        self._holding.clear()

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
        wanted_ms = float("inf")
        for queue in self._busy.values():
            ready_ms = queue.ready_ms(self._options.linger_ms)
            if ready_ms is not None and ready_ms > now_ms:
                wanted_ms = min(wanted_ms, ready_ms)
            oldest = queue.oldest()
            if oldest is not None and not oldest.done:
                wanted_ms = min(wanted_ms, oldest.created_ms + self._options.delivery_timeout_ms)
        if self._timer is not None:
            if now_ms < self._timer_ms <= wanted_ms:
                return  # a look too many costs less than a new timer for every batch
            self._timer.cancel()
            self._timer = None
        if wanted_ms != float("inf"):
            self._timer_ms = wanted_ms
            self._timer = self._loop.call_later(max(0.0, wanted_ms - now_ms) / 1000, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self.wake()

    def _identified(self, queue: PartitionQueue) -> bool:
        if self._transactions is not None:
            if not self._transactions.admits(queue.partition):
                self._transactions.add(queue.partition).add_done_callback(self.wake)
                return False
            queue.identify(*self._transactions.identity)
        elif queue.wants_producer_id:
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
        if node not in self._holding:
            self._holding[node] = connection
            connection.hold()
        for queue, batch in chosen:
            queue.take(batch)
            if batch.attempts > 1:
                self.counters.retried(batch.count)
            else:
                queued_ms = self._cluster.environment.clock.monotonic_ms() - batch.created_ms
                self.counters.sent(self._loop.time(), queued_ms)
        call = build_produce(
            connection,
            self._cluster.topology,
            [batch for _, batch in chosen],
            acks=self._options.acks,
            timeout_ms=self._cluster.options.request_timeout_ms,
            transaction=None if self._transactions is None else self._transactions.produce_transaction,
        )
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        if self._options.acks == 0:
            sent = connection.tell(call.request, version=call.version)
            sent.add_done_callback(self._then(node, lambda done: self._sent(chosen, done)))
        else:
            answer = connection.submit(call.request, ProduceResponse, version=call.version)
            answer.add_done_callback(self._then(node, lambda done: self._answered(node, chosen, call, done)))

    def _then(self, node: int, act: Callable[[Any], None]) -> Callable[[Any], None]:
        began_s = self._loop.time()

        def settled(done: asyncio.Future[Any]) -> None:
            self._in_flight[node] -= 1
            now_s = self._loop.time()
            self.counters.answered(now_s, now_s - began_s)
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
        node: int,
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
        response = done.result()
        self.counters.throttle(self._loop.time(), response.throttle_time_ms)
        answers = read_produce(response, call.names)
        for queue, batch in chosen:
            answer = answers.get(batch.partition)
            if answer is None:
                unanswered = errors.UnknownServerError(f"the broker's answer leaves out {batch.partition}")
                self._failed(queue, batch, unanswered)
            elif answer.error_code in (errors.NONE, errors.DuplicateSequenceNumber.code):
                self._finish(queue, batch, None, offset=answer.base_offset, time_ms=answer.log_append_time_ms)
            else:
                problem = problem_of(answer.error_code, str(batch.partition), answer.error_message)
                moved = self._cluster.leader_reported(
                    batch.partition, node, answer.current_leader, response.node_endpoints
                )
                self._failed(queue, batch, problem, moved)

    def _failed(
        self, queue: PartitionQueue, batch: OutgoingBatch, problem: errors.TidelogError, moved: bool = False
    ) -> None:
        """`moved`: another broker is known to lead the partition now."""
        too_large = isinstance(problem, errors.MessageTooLarge | errors.RecordListTooLarge)
        if batch.done:
            queue.settled(batch)
        elif self._transactions is not None and isinstance(problem, _COUNT_LOST):
            # Only the coordinator may raise the epoch here.  Behind a batch that is sent again a gap is
            # natural; otherwise the transaction has to be aborted.
            if isinstance(problem, errors.OutOfOrderSequenceNumber) and queue.sent[0] is not batch:
                queue.again(batch, problem, self._retry_ms(queue))
            else:
                self._finish(queue, batch, problem)
        elif self._options.enable_idempotence and isinstance(problem, _COUNT_LOST):
            fenced = isinstance(problem, errors.InvalidProducerEpoch)
            not_before_ms = self._retry_ms(queue) if batch.attempts > 1 else 0
            queue.sequence_refused(batch, problem, not_before_ms, new_id=fenced)
        elif too_large and batch.count > 1 and not batch.maybe_written:
            halves = queue.split(batch)
            self._incomplete.settled(batch, halves)
        elif problem.retriable and batch.attempts <= self._options.retries:
            queue.again(batch, problem, 0 if moved else self._retry_ms(queue))
            if not moved:
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
        """`keep`: the batch keeps its place in the queue until the answer comes."""
        if problem is None:
            queue.acknowledged(batch)
        elif not keep:
            queue.settled(batch)
        if batch.done:
            return
        if problem is None:
            self.counters.acknowledged(self._loop.time(), batch.count, len(batch.data))
            batch.acknowledged(offset, time_ms)
        else:
            self.counters.failed(self._loop.time(), batch.count)
            # A batch that never left has broken nothing.
            if self._transactions is not None and (
                batch.attempts or not isinstance(problem, TransactionAborted)
            ):
                self._transactions.failed(problem)
                if self._transactions.problem is not None:
                    self.intake.admitting = False
            batch.failed(problem)
        self._memory.give(batch.bytes_taken)
        self._incomplete.settled(batch)

    def _fail_all(self, problem: errors.TidelogError) -> None:
        self._note_new()
        for queue in self._queues.values():
            for batch in list(queue.batches()):
                self._finish(queue, batch, problem, keep=batch.in_flight)
