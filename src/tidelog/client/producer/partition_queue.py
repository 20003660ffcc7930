"""One partition's batches, in order: which may be sent now, and what an answer means for the others.  Pure: no clock,
no I/O.

Batches leave and are acknowledged in the order of their records, through retries and splits.  `sent` has
those that were sent at least once and are not settled.  With idempotence each carries the next sequence
number, and the broker refuses gaps: so several may be on their way at once.  Without, a batch leaves only
when the one before it is settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain

from tidelog import errors
from tidelog._speed.client.intake import Lane
from tidelog.client.producer.batch import NO_STAMP, OutgoingBatch, Stamp
from tidelog.record import Codec
from tidelog.types import TopicPartition

# Brokers remember this many batches of a producer to recognise what is sent again.
REMEMBERED_BATCHES = 5
EPOCH_MAX = 32767
SEQUENCE_END = 1 << 31
OUTCOME_UNKNOWN = (errors.NetworkException, errors.RequestTimedOut, errors.NotEnoughReplicasAfterAppend)


class PartitionQueue:
    def __init__(
        self,
        partition: TopicPartition,
        *,
        codec: Codec,
        idempotent: bool,
        unsettled_max: int,
        transactional: bool = False,
    ) -> None:
        self.partition = partition
        self.full: deque[OutgoingBatch] = deque()
        self.lane = Lane(partition, self.full)
        self.sent: list[OutgoingBatch] = []
        self.not_before_ms = 0.0
        self.failures = 0
        self.spent_id = -1
        self._codec = codec
        self._idempotent = idempotent
        self._transactional = transactional
        self._unsettled_max = min(unsettled_max, REMEMBERED_BATCHES) if idempotent else unsettled_max
        self._producer_id = -1
        self._epoch = -1
        self._sequence = 0
        self._ordinal = 0
        self._known = False

    @property
    def empty(self) -> bool:
        return not self.sent and self.lane.open is None and not self.full

    @property
    def wants_producer_id(self) -> bool:
        """Before the first batch, and when the epochs of the last one are used up."""
        return self._idempotent and self._producer_id < 0

    def batches(self) -> Iterator[OutgoingBatch]:
        """Oldest first."""
        # Callers' threads fill the lane meanwhile.  The growing batch is looked at first: one that is full by
        # the time it comes to the others is met twice, which does no harm; the other way round it is missed.
        growing = self.lane.open
        return chain(tuple(self.sent), tuple(self.full), () if growing is None else (growing,))

    def oldest(self) -> OutgoingBatch | None:
        if self.sent:
            return self.sent[0]
        growing = self.lane.open
        return self.full[0] if self.full else growing

    def close_open(self) -> None:
        """Closes the growing batch: it counts as full."""
        growing = self.lane.close_open()
        if growing is not None:
            self.full.append(growing)

    def identify(self, producer_id: int, epoch: int) -> None:
        """Sets the producer id and epoch, if they are new."""
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self.identified(producer_id, epoch)

    def identified(self, producer_id: int, epoch: int) -> None:
        self._producer_id, self._epoch, self._sequence = producer_id, epoch, 0
        self._known = False

    @property
    def _limit(self) -> int:
        # A broker that has not met a producer takes any sequence number from it: a second batch could pass a
        # first one that it refused.  So the first goes alone.
        return self._unsettled_max if self._known or not self._idempotent else 1

    # Sending

    def next(self, now_ms: float, linger_ms: int, hurry: bool) -> OutgoingBatch | None:
        """The batch that should leave now, if any; `hurry` does not wait for the open one to fill."""
        if self.sent:
            flying = sum(batch.in_flight for batch in self.sent)
            waiting = next((batch for batch in self.sent if not batch.in_flight), None)
            if waiting is not None:
                if self._lost_count(waiting) and (flying or waiting is not self.sent[0]):
                    return None
                free = flying < self._limit and now_ms >= self.not_before_ms
                return waiting if free else None
            if len(self.sent) >= self._limit or self._too_far_ahead():
                return None
        if self.full:
            return self.full[0]
        growing = self.lane.open
        if growing is not None and (hurry or now_ms - growing.created_ms >= linger_ms):
            return growing
        return None

    def ready_ms(self, linger_ms: int) -> float | None:
        """When `next` may have something without any further event; None when only an answer changes that."""
        if any(not batch.in_flight for batch in self.sent):
            return self.not_before_ms
        growing = self.lane.open
        if growing is not None and not self.full:
            return growing.created_ms + linger_ms
        return None

    def take(self, batch: OutgoingBatch) -> None:
        """`batch`, which `next` gave, leaves now."""
        if not batch.packed:
            if not self.full:
                self.close_open()
            first = self.full.popleft()
            assert first is batch, "batches leave in order"
            self.sent.append(batch)
            batch.pack(self._codec, self._stamp(batch), self._transactional)
        elif self._lost_count(batch):
            self._count_anew()
        batch.in_flight = True
        batch.attempts += 1

    def _lost_count(self, batch: OutgoingBatch) -> bool:
        """A batch that was sent and has no valid sequence number any more."""
        return self._idempotent and batch.stamp == NO_STAMP

    def _too_far_ahead(self) -> bool:
        """A broker must still remember the oldest unsettled batch when that is sent again, however many later
        ones it has acknowledged."""
        return self._idempotent and self._ordinal - self.sent[0].ordinal >= REMEMBERED_BATCHES

    def _stamp(self, batch: OutgoingBatch) -> Stamp:
        if not self._idempotent:
            return NO_STAMP
        batch.ordinal = self._ordinal
        self._ordinal += 1
        stamp = Stamp(self._producer_id, self._epoch, self._sequence)
        self._sequence = (self._sequence + batch.count) % SEQUENCE_END
        return stamp

    def _count_anew(self) -> None:
        # Nothing is in flight, and the broker is known to lack the first of these, so, refusing gaps, it has
        # none of them: under a new epoch they count from 0 again.  Doing so with a batch that it might have
        # would write it twice.
        self._epoch += 1
        self._sequence = 0
        self._known = False
        for batch in self.sent:
            batch.restamp(self._stamp(batch))

    # Answers

    def acknowledged(self, batch: OutgoingBatch) -> None:
        self._known = self._known or batch.stamp.epoch == self._epoch
        self.settled(batch)

    def settled(self, batch: OutgoingBatch) -> None:
        """Removes the batch from the queue."""
        batch.in_flight = False
        self.failures = 0
        if batch in self.sent:
            self.sent.remove(batch)
        else:
            self.lane.drop(batch)

    def again(self, batch: OutgoingBatch, problem: errors.TidelogError, not_before_ms: float) -> None:
        """Keeps the batch for a retry: its failure is retriable."""
        batch.in_flight = False
        batch.last_problem = problem
        batch.maybe_written = batch.maybe_written or isinstance(problem, OUTCOME_UNKNOWN)
        self.failures += 1
        self.not_before_ms = max(self.not_before_ms, not_before_ms)

    def sequence_refused(
        self,
        batch: OutgoingBatch,
        problem: errors.TidelogError,
        not_before_ms: float,
        *,
        new_id: bool = False,
    ) -> None:
        """The broker expected another sequence number.  Behind a batch that failed that is bound to happen,
        and passes when the first one is through; for the first one itself it means that the count was
        lost."""
        self.again(batch, problem, not_before_ms)
        if self.sent[0] is batch:
            batch.stamp = NO_STAMP
            self._spare_epoch(new_id)

    def split(self, batch: OutgoingBatch) -> tuple[OutgoingBatch, OutgoingBatch]:
        """Replaces a batch that the broker has refused as too large, and does not have, by two halves."""
        halves = batch.split(self._codec)
        at = self.sent.index(batch)
        self.sent[at : at + 1] = halves
        self._spare_epoch()
        return halves

    def _spare_epoch(self, new_id: bool = False) -> None:
        """To count anew takes one more epoch; when there is none, another producer id."""
        if self._epoch >= EPOCH_MAX or new_id:
            self.spent_id, self._producer_id = self._producer_id, -1
