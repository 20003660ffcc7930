"""What a log knows of its idempotent producers: which batches it has seen last, and which transactions are open.  Pure.

A producer numbers its records; a batch that continues the numbers is new, one that repeats the last five is answered
with what became of the first copy, anything else is refused.  Whether a batch is new is judged natively
(`_speed/log/append.pyx`), before an append, which notes the batch; `roller` keeps snapshots of it on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import NamedTuple

from tidelog._speed.log.append import (
    VERDICT_EPOCH_NOT_FROM_ZERO,
    VERDICT_GAP,
    VERDICT_NUMBERS_USED_AGAIN,
    VERDICT_OLDER_EPOCH,
    KeptBatch,
    NativeProducer,
    NativeProducers,
)
from tidelog._speed.log.batch import Header
from tidelog._speed.log.crc32c import crc32c
from tidelog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TidelogError,
    TransactionCoordinatorFenced,
    UnknownProducerId,
)
from tidelog.storage.segments.txn_index import Aborted

BATCHES_KEPT = 5
NO_EPOCH = -1
NO_SEQUENCE = -1
EPOCH_MAX = (1 << 15) - 1
EPOCH_BUMPS_FROM = 2  # version of the transaction protocol
SEQUENCE_MAX = (1 << 31) - 1

_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">qi")  # where the log ended, and how many producers follow
_PRODUCER = Struct(">qhiqqB")
_BATCH = Struct(">iiqqq")


class CorruptSnapshot(Exception):
    """Not a snapshot, or a torn one: an older one and the log itself have the same facts."""


class Beginning(NamedTuple):
    producer_id: int
    epoch: int
    sequence: int
    timestamp: int


class ProducerState(NativeProducer):
    __slots__ = ("last_end",)

    batches: deque[KeptBatch]
    last_end: int
    """The offset of its latest marker since this state was built; -1 without one."""

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.id = producer_id
        self.epoch = epoch
        self.next_sequence = 0
        self.batches = deque(maxlen=BATCHES_KEPT)
        self.timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_start = -1
        self.last_end = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches.clear()
        self.next_sequence = 0


class Producers(NativeProducers):
    __slots__ = ("_decided", "_last_end", "restored_to")

    _producers: dict[int, ProducerState]

    def __init__(self) -> None:
        self._producers = {}
        self._open = {}  # first offset of a transaction that has no marker yet: its producer
        self._decided: list[
            tuple[int, int]
        ] = []  # (first offset, marker's offset) while that is not committed
        self._last_end = -1  # the latest marker: nothing above it can be undone by forgetting batches alone
        self.restored_to = (
            0  # where the log ended when the snapshot was made: markers before it are not known
        )

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    def unstable_below(self, committed: int) -> int | None:
        """As `first_unstable`, with everything below `committed` on all replicas."""
        if self._decided:
            self.committed(committed)
        return self.first_unstable

    @property
    def first_unstable(self) -> int | None:
        """The first offset whose transaction is open, or ended by a marker that is not committed yet."""
        first = next(iter(self._open), None)
        if self._decided:
            decided = min(start for start, _ in self._decided)
            return decided if first is None else min(first, decided)
        return first

    # The leader's side

    def refusal(self, header: Header, verdict: int) -> TidelogError:
        """The error for a batch that is neither new nor a copy."""
        producer, sequence = self._producers[header.producer_id], header.base_sequence
        if verdict == VERDICT_GAP:
            return _gap(producer, sequence)
        if verdict == VERDICT_NUMBERS_USED_AGAIN:
            last = header.last_sequence
            offsets = [
                batch.base_offset
                for batch in producer.batches
                if (batch.first_sequence, batch.last_sequence) == (sequence, last)
            ]
            return _numbers_used_again(producer, sequence, offsets[0])
        if verdict == VERDICT_OLDER_EPOCH:
            return _older_epoch(producer, header.producer_epoch)
        if verdict == VERDICT_EPOCH_NOT_FROM_ZERO:
            return OutOfOrderSequenceNumber(
                f"producer {producer.id} begins epoch {header.producer_epoch} with sequence {sequence}, not 0"
            )
        return InvalidTxnState(
            f"producer {producer.id} has a transaction open since offset {producer.transaction_start} "
            f"and sent a batch outside of it"
        )

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether this instance of the producer has a transaction open here."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.transaction_start >= 0 and producer.epoch == epoch

    def last_end(self, producer_id: int) -> int:
        """Changes with every marker that ends a transaction of the producer here; compare it under one leader epoch."""
        producer = self._producers.get(producer_id)
        return -1 if producer is None else producer.last_end

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise _older_epoch(producer, epoch)

    def check_begin(self, header: Header, from_the_first: bool) -> None:
        """Whether a producer's transaction may begin here with this batch.  `from_the_first`: epochs of this producer end
        with their transactions, so of a new one its first batch must come first."""
        if from_the_first and header.base_sequence != 0 and header.producer_id not in self._producers:
            raise OutOfOrderSequenceNumber(
                f"producer {header.producer_id} begins a transaction with sequence {header.base_sequence}, not 0"
            )

    def check_end(self, producer_id: int, epoch: int, coordinator_epoch: int, version: int) -> None:
        """Whether a coordinator may end the producer's transaction.  From version 2 of the protocol on the marker has
        the epoch that the producer gets for its next one; an equal one is a marker sent again."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        current = producer.epoch
        if version >= EPOCH_BUMPS_FROM:
            again = epoch == current and (producer.transaction_start < 0 or epoch == EPOCH_MAX)
            stale = epoch <= current and not again
        else:
            stale = epoch < current
        if stale:
            raise _older_epoch(producer, epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"the marker for producer {producer_id} comes from coordinator epoch {coordinator_epoch}, "
                f"and {producer.coordinator_epoch} is known: another broker coordinates it now"
            )

    def aborted_at(self, producer_id: int, offset: int) -> Aborted | None:
        """What a marker at `offset` that aborts the producer's transaction takes back; None if it has none here."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.transaction_start < 0:
            return None
        start = producer.transaction_start
        stable = next((first for first in self._open if first != start), offset + 1)
        return Aborted(producer_id, start, offset, stable)

    # Facts, from the leader's appends, a follower's, or a scan

    def met(self, producer_id: int, epoch: int) -> ProducerState:
        """A producer of which nothing is known."""
        producer = self._producers[producer_id] = ProducerState(producer_id, epoch)
        return producer

    def append_failed(self, header: Header) -> None:
        """The batch with this header could not be written."""
        self.expect(
            Beginning(header.producer_id, header.producer_epoch, header.base_sequence, header.max_timestamp)
        )

    def begun_at(self, offset: int) -> list[Beginning]:
        """Producers of which nothing before `offset` is known, and how they began."""
        return [
            Beginning(p.id, p.epoch, p.batches[0].first_sequence, p.timestamp)
            for p in self
            if p.batches and p.batches[0].base_offset >= offset
        ]

    def expect(self, beginning: Beginning) -> None:
        """A producer's first batch could not be written.  The producer will send it again: its later batches must not be
        accepted first, as those of an unknown producer would be."""
        if beginning.producer_id not in self._producers:
            producer = ProducerState(beginning.producer_id, beginning.epoch)
            producer.next_sequence = beginning.sequence
            producer.timestamp = beginning.timestamp
            self._producers[producer.id] = producer

    def ended(self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp: int) -> int:
        """A marker at `offset` ended the producer's transaction; the transaction's first offset, -1 if it had
        none here."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerState(producer_id, epoch)
        elif producer.epoch != epoch:
            producer.begin_epoch(epoch)
        start = producer.transaction_start
        if start >= 0:
            self._open.pop(start, None)
            self._decided.append((start, offset))
        producer.transaction_start = -1
        producer.coordinator_epoch = coordinator_epoch
        producer.timestamp = timestamp
        producer.last_end = self._last_end = offset
        return start

    def committed(self, offset: int) -> None:
        """Markers below `offset` are replicated: what they decided is stable."""
        if self._decided:
            self._decided = [pair for pair in self._decided if pair[1] >= offset]

    def truncate_to(self, offset: int) -> bool:
        """Forgets what the log forgot at `offset` and later; false when that takes more than is kept here, and the
        state has to be built anew from a snapshot and the log."""
        if self._last_end >= offset or offset < self.restored_to:
            return False
        for producer in list(self._producers.values()):
            kept = [batch for batch in producer.batches if batch.last_offset < offset]
            if len(kept) == len(producer.batches):
                continue
            if not kept:
                return False
            producer.batches.clear()
            for batch in kept:
                producer.keep(batch)
            if producer.transaction_start >= offset:
                self._open.pop(producer.transaction_start, None)
                producer.transaction_start = -1
        return True

    def clear(self) -> None:
        self._producers.clear()
        self._open.clear()
        self._decided.clear()
        self._last_end = -1
        self.restored_to = 0

    def expire(self, before_ms: int) -> int:
        """Forgets producers silent since `before_ms`, unless a transaction of theirs is open; how many."""
        gone = [p.id for p in self if p.timestamp <= before_ms and p.transaction_start < 0]
        for producer_id in gone:
            del self._producers[producer_id]
        return len(gone)

    # Snapshots

    def snapshot(self, log_end: int) -> bytes:
        """`log_end` is the offset after the last batch that is known here."""
        # One that is only expected has left nothing in the log.
        producers = [p for p in self if p.batches or p.coordinator_epoch >= 0]
        parts = [_COUNT.pack(log_end, len(producers))]
        for p in producers:
            start, count = p.transaction_start, len(p.batches)
            parts.append(_PRODUCER.pack(p.id, p.epoch, p.coordinator_epoch, p.timestamp, start, count))
            parts += [_BATCH.pack(*batch) for batch in p.batches]
        body = b"".join(parts)
        return _HEAD.pack(_VERSION, crc32c(body)) + body

    def restore(self, data: bytes) -> int:
        """The state that `snapshot` wrote, and its `log_end`; CorruptSnapshot leaves nothing behind."""
        self.clear()
        try:
            version, checksum = _HEAD.unpack_from(data)
            body = memoryview(data)[_HEAD.size :]
            if version != _VERSION or checksum != crc32c(body):
                raise CorruptSnapshot("its version or checksum is wrong")
            producers = list(_read_producers(body))
            log_end: int = _COUNT.unpack_from(body)[0]
        except error as problem:
            raise CorruptSnapshot(f"it is cut: {problem}") from None
        self._restore(producers)
        return log_end

    def _restore(self, producers: Iterable[ProducerState]) -> None:
        for producer in producers:
            self._producers[producer.id] = producer
        opened = sorted((p.transaction_start, p.id) for p in self if p.transaction_start >= 0)
        self._open.update(opened)


def _gap(producer: ProducerState, sequence: int) -> OutOfOrderSequenceNumber:
    problem = OutOfOrderSequenceNumber(
        f"producer {producer.id} sent sequence {sequence} where {producer.next_sequence} is next: "
        f"a batch before it was lost or is still under way"
    )
    problem.expected = producer.next_sequence
    return problem


def _numbers_used_again(producer: ProducerState, sequence: int, offset: int) -> UnknownProducerId:
    """librdkafka gives the numbers of records that it dropped in an abort to those of its next transaction, although the
    first ones may be in the log.  Taken for copies, these would be acknowledged and lost.  On this error clients abort
    and begin a new epoch."""
    return UnknownProducerId(
        f"producer {producer.id} sent sequence {sequence} in a new transaction, and the batch with it, at offset {offset}, "
        f"belongs to one that has ended: abort, and send the records again in another transaction"
    )


def _older_epoch(producer: ProducerState, epoch: int) -> InvalidProducerEpoch:
    return InvalidProducerEpoch(
        f"producer {producer.id} has epoch {producer.epoch} now, not {epoch}: another instance took over"
    )


def _read_producers(body: memoryview) -> Iterator[ProducerState]:
    _, count = _COUNT.unpack_from(body)
    at = _COUNT.size
    for _ in range(count):
        producer_id, epoch, coordinator_epoch, timestamp, start, batches = _PRODUCER.unpack_from(body, at)
        at += _PRODUCER.size
        producer = ProducerState(producer_id, epoch)
        for _ in range(batches):
            producer.keep(KeptBatch(*_BATCH.unpack_from(body, at)))
            at += _BATCH.size
        producer.timestamp = timestamp
        producer.coordinator_epoch = coordinator_epoch
        producer.transaction_start = start
        yield producer
