"""Simulated producers: plain ones that send once and may lose, idempotent ones that repeat until answered.

Each writes to one partition over a connection of its own, with up to five requests in flight, and notes in the history
what it sent and what it was promised."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.simulation.history import Origin, PartitionHistory
from tests.simulation.world import REQUEST_TIMEOUT_MS, TRAVEL_MS, Meeting
from tidelog import errors
from tidelog._speed.log.records import Record
from tidelog.net.requester import Requester
from tidelog.record.builder import build_batch
from tidelog.record.codecs import Codec
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ACKS_ALL = -1
IN_FLIGHT_MAX = 5
BATCH_SIZES = (1, 1, 2, 5)
KEYS = 6
LAST_VERSION_WITH_NAMES = 12
FORGOTTEN = {errors.OutOfOrderSequenceNumber.code, errors.UnknownProducerId.code}
RETRIED = {
    errors.KafkaStorageError.code,
    errors.LeaderNotAvailable.code,
    errors.NotEnoughReplicas.code,
    errors.NotEnoughReplicasAfterAppend.code,
    errors.NotLeaderOrFollower.code,
    errors.UnknownTopicOrPartition.code,
    errors.RequestTimedOut.code,
    errors.NetworkException.code,
    *FORGOTTEN,
}


class StateForgotten(AssertionError):
    """The broker refused the sequence of an idempotent producer it had no reason to forget."""


@dataclass(slots=True)
class Batch:
    values: list[bytes]
    data: bytes
    in_flight: bool = False
    power_losses: int = 0
    without_lease: bool = False
    sent_ms: int = 0


@dataclass(slots=True)
class Producer:
    world: Meeting
    random: Random
    number: int
    history: PartitionHistory
    idempotent: bool
    acks: int
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    without_lease: Callable[[], bool] | None = None
    """For one that asks for less than all replicas, of several: only what leaders without a lease say is a promise."""
    answered_without_lease: Callable[[], bool] | None = None
    """Whether the leader had no lease when it sent what arrives now; None: it is judged by `without_lease` alone."""
    last_answer_ms: int = 0
    session: int = 0
    unanswered: deque[Batch] = field(default_factory=deque)
    answers: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    next_number: int = 0
    recovering: bool = False
    """Something failed: what an idempotent producer has no answer for is sent again, one by one."""
    moved: bool = False
    """Another broker leads the partition now: the next connection goes there."""
    problem: BaseException | None = None
    refusals: dict[int, int] = field(default_factory=dict)
    """By error code."""

    def __str__(self) -> str:
        kind = "idempotent" if self.idempotent else "plain"
        state = f"session {self.session}, {len(self.unanswered)} unanswered, refused {self.refusals}"
        return f"{kind} producer {self.number} of {self.history.name} ({state})"

    async def run(self) -> None:
        """Until cancelled; connects again whenever the connection breaks."""
        while True:
            requester: Requester | None = None
            try:
                requester = await self.world.connect(f"producer-{self.number}")
                await self._send_over(requester)
            except (OSError, errors.TidelogError):
                pass
            finally:
                if requester is not None:
                    requester.close()
            if self.problem is not None:
                raise self.problem
            self._connection_lost()
            await asyncio.sleep(self.random.uniform(0.01, 0.5))

    def begin_anew(self, history: PartitionHistory) -> None:
        """Its topic was deleted and made again."""
        self.history = history
        self._new_session()

    def _new_session(self) -> None:
        self.session, self.next_number = self.session + 1, 0
        self.unanswered.clear()
        self.producer_id = -1

    async def _send_over(self, requester: Requester) -> None:
        if self.idempotent and self.producer_id < 0:
            await self._get_id(requester)
        elif not self.idempotent:
            # What an earlier connection still carries may arrive later than what this one does.
            self._new_session()
        self.moved = False
        while requester.broken is None and self.problem is None and not self.moved:
            if self.idempotent and self.producer_id < 0:
                return  # a new session begins on a new connection
            batch = self._next_batch()
            if batch is not None:
                self._send(requester, batch)
            pause = 0.3 if self.recovering else self.random.choice((0.0, 0.001, 0.05, 0.3))
            await asyncio.sleep(pause * self.random.random())

    async def _get_id(self, requester: Requester) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await requester.ask(request, InitProducerIdResponse)
        if answer.error_code != errors.NONE:
            raise errors.by_code(answer.error_code)()
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.recovering = False

    def _next_batch(self) -> Batch | None:
        """One to send again, or a new one; None when it is not the time for either."""
        flying = sum(batch.in_flight for batch in self.unanswered)
        waiting = next((batch for batch in self.unanswered if not batch.in_flight), None)
        if waiting is not None:
            return waiting if flying == 0 else None
        self.recovering = self.recovering and flying > 0
        return self._new_batch() if flying < IN_FLIGHT_MAX and not self.recovering else None

    def _new_batch(self) -> Batch:
        records, first = [], self.next_number
        for _ in range(self.random.choice(self.batch_sizes)):
            origin = Origin(self.number, self.session, self.next_number)
            filler = self.random.randbytes(self.random.choice((0, 10, 100, 600, 3000)))
            value = b"%d.%d.%d|" % origin + filler
            key = b"key-%d" % self.random.randrange(KEYS) if self.history.compacted else None
            self.history.sent(origin, value, key, self.idempotent)
            self.next_number += 1
            records.append(Record(0, self.world.clock.now_ms(), key, value))
        data = build_batch(
            records,
            codec=self.random.choice((Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4)),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=first if self.idempotent else -1,
        )
        batch = Batch([record.value or b"" for record in records], data)
        self.unanswered.append(batch)
        return batch

    def _send(self, requester: Requester, batch: Batch) -> None:
        name = self.history.name
        part = PartitionProduceData(index=name.partition, records=batch.data)
        request = ProduceRequest(
            acks=self.acks,
            timeout_ms=REQUEST_TIMEOUT_MS // 2 if self.acks == ACKS_ALL else REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name.topic, partition_data=[part])],
        )
        batch.in_flight, batch.power_losses = True, self.history.power_losses
        batch.without_lease = self.without_lease is not None and self.without_lease()
        batch.sent_ms = self.world.clock.monotonic_ms()
        alone = len(self.unanswered) == 1 or all(
            not other.in_flight for other in self.unanswered if other is not batch
        )
        answer = requester.submit(
            request, ProduceResponse, version=self.random.randint(3, LAST_VERSION_WITH_NAMES)
        )
        answer.add_done_callback(lambda done: self._answered(batch, done, alone))

    def _answered(self, batch: Batch, done: asyncio.Future[ProduceResponse], alone: bool) -> None:
        if batch not in self.unanswered or not batch.in_flight:
            return
        if done.cancelled() or done.exception() is not None:
            self._failed(batch)
            return
        answer = done.result().responses[0].partition_responses[0]
        try:
            self._told(batch, answer, alone)
        except AssertionError as problem:
            self.problem = self.problem or problem

    def _told(self, batch: Batch, answer: PartitionProduceResponse, alone: bool) -> None:
        code = answer.error_code
        if code != errors.NONE:
            self.refusals[code] = self.refusals.get(code, 0) + 1
        if code == errors.NONE:
            self.answers += 1
            if self.without_lease is None:
                self.history.acknowledged(answer.base_offset, batch.values, batch.power_losses)
            elif batch.without_lease or self._acknowledged_without_lease(batch):
                self.history.acknowledged_without_lease(answer.base_offset, batch.values, batch.power_losses)
            self.unanswered.remove(batch)
        elif code not in RETRIED:
            raise AssertionError(f"{self.history.name}: a good batch was refused: {answer.error_message}")
        elif code in FORGOTTEN and alone and batch is self.unanswered[0]:
            self._forgotten(answer)
        elif code == errors.NotLeaderOrFollower.code:
            self.moved = True
            self._failed(batch)
        else:
            self._failed(batch)

    def _acknowledged_without_lease(self, batch: Batch) -> bool:
        """An answer that arrives with the one before it may have been ready long ago: it waited for its turn."""
        now_ms = self.world.clock.monotonic_ms()
        waited = batch.sent_ms <= self.last_answer_ms and now_ms - self.last_answer_ms <= TRAVEL_MS
        self.last_answer_ms = now_ms
        return not waited and self.answered_without_lease is not None and self.answered_without_lease()

    def _failed(self, batch: Batch) -> None:
        batch.in_flight = False
        self.recovering = True
        if not self.idempotent:
            self.unanswered.remove(batch)

    def _forgotten(self, answer: PartitionProduceResponse) -> None:
        session = self.history.sessions[self.number, self.session]
        if not session.power_losses:
            raise StateForgotten(f"{self.history.name}: producer {self.number}: {answer.error_message}")
        self._new_session()

    def _connection_lost(self) -> None:
        for batch in list(self.unanswered):
            self._failed(batch)
