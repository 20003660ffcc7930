"""What a transactional id stands for at one moment, and every step it can take: facts in, the next state or the error out.

A `Transaction` never changes; a step makes the next one.  The steps and their errors are those of Kafka's transaction
coordinator.  In version 2 of the protocol every end of a transaction gives the producer a new epoch, so that a request
that was late can never land in the transaction after; version 0 stands for everything before that.  Pure; `coordinator`
keeps and performs what is decided here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from tidelog import errors
from tidelog.types import TopicPartition

EPOCH_MAX = (1 << 15) - 1
NO_PRODUCER = -1
NO_EPOCH = -1
NO_TIME = -1
EPOCH_BUMPS_FROM = 2  # of the transaction protocol
SERVED = 2
"""The newest version of the transaction protocol."""


class TransactionStatus(IntEnum):
    """The numbers are those in the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As clients and tools write it."""
        return self.name.title().replace("_", "")


BY_TITLE = {state.title: state for state in TransactionStatus}
DECIDED = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
"""How it ends is certain, but not every partition has been told."""
RESTING = (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
"""No transaction is open."""


class ProducerIdAndEpoch(NamedTuple):
    """One life of a producer; a higher epoch of the same id fences the lower ones."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Transaction:
    id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionStatus = TransactionStatus.EMPTY
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    """Taken by the producer when the present transaction is complete: its epochs are used up."""
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    version: int = 0
    """Of the protocol that the client spoke in the last step."""
    last_epoch: int = NO_EPOCH
    """The one before, if the same instance of the producer had it.  Not in the records, as in Kafka: a request repeated
    across a failover is fenced."""

    @property
    def exhausted(self) -> bool:
        """Its epochs are used up: the very last one is kept back, so that the producer can always be fenced."""
        return exhausted(self.epoch)

    @property
    def commits(self) -> bool:
        return self.state in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)

    def timed_out(self, now_ms: int) -> bool:
        return self.state is TransactionStatus.ONGOING and self.started_ms + self.timeout_ms < now_ms

    def expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state in RESTING and self.updated_ms <= now_ms - expiration_ms


def exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1


# A producer presents itself


def needs_producer_id(known: Transaction | None, expected: ProducerIdAndEpoch | None) -> bool:
    """Whether `initialized` will ask for a fresh producer id."""
    if known is None:
        return True
    return known.state in RESTING and known.exhausted and (expected is None or expected.epoch == known.epoch)


def initialized(
    known: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    fresh_id: int | None,
    now_ms: int,
) -> Transaction:
    """A producer begins anew.  `expected` is what it was before, when it goes on after an error; whoever had the id
    before is fenced.  A transaction that is open has to be `fenced` first."""
    if known is None:
        assert fresh_id is not None
        return Transaction(transactional_id, fresh_id, 0, timeout_ms, now_ms, previous_producer_id=fresh_id)
    _check_not_being_completed(known)
    if expected is not None and not _may_go_on(known, expected):
        raise fencing(known, expected.epoch)
    assert known.state in RESTING, known.state
    if known.exhausted and (expected is None or expected.epoch == known.epoch):
        assert fresh_id is not None
        last = NO_EPOCH if expected is None else known.epoch
        return _renewed(known, fresh_id, 0, last, timeout_ms, now_ms)
    if expected is None:
        return _renewed(known, known.producer_id, known.epoch + 1, NO_EPOCH, timeout_ms, now_ms)
    if expected.epoch == known.epoch:
        return _renewed(known, known.producer_id, known.epoch + 1, known.epoch, timeout_ms, now_ms)
    if expected.epoch == known.last_epoch:
        # The answer to its last request got lost.  Nobody else can be there: he would have set `last_epoch` back.
        return _renewed(known, known.producer_id, known.epoch, known.last_epoch, timeout_ms, now_ms)
    raise fencing(known, expected.epoch)


def _may_go_on(known: Transaction, expected: ProducerIdAndEpoch) -> bool:
    return expected.producer_id == known.producer_id or (
        expected.producer_id == known.previous_producer_id and exhausted(expected.epoch)
    )


def _renewed(
    known: Transaction, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> Transaction:
    return replace(
        known,
        producer_id=producer_id,
        previous_producer_id=known.producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
        state=TransactionStatus.EMPTY,
        partitions=frozenset(),
        started_ms=NO_TIME,
    )


# It adds partitions


def with_partitions(
    known: Transaction | None,
    instance: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    version: int,
    now_ms: int,
) -> Transaction:
    """`known` itself when all of them are in it already."""
    _check_not_being_completed(known)
    known = _of_this_instance(known, instance)
    if known.state is TransactionStatus.ONGOING and partitions <= known.partitions:
        return known
    return replace(
        known,
        previous_producer_id=known.producer_id,
        partitions=known.partitions | partitions,
        started_ms=known.started_ms if known.state is TransactionStatus.ONGOING else now_ms,
        updated_ms=now_ms,
        state=TransactionStatus.ONGOING,
        version=version,
    )


def check_added(
    known: Transaction | None, instance: ProducerIdAndEpoch, partition: TopicPartition
) -> Transaction:
    """The producer's transaction; raises unless the partition is part of it."""
    known = _of_this_instance(known, instance)
    if partition not in known.partitions:
        raise errors.TransactionAbortable(f"{partition} is not part of the transaction of {known.id!r}")
    return known


def _of_this_instance(known: Transaction | None, instance: ProducerIdAndEpoch) -> Transaction:
    if known is None or known.producer_id != instance.producer_id:
        raise foreign(known, instance)
    if known.epoch != instance.epoch:
        raise fencing(known, instance.epoch)
    if known.state in DECIDED:
        raise concurrent(known)
    return known


# It ends


def ends_with_producer_id(known: Transaction | None, version: int) -> bool:
    """Whether `ended` or `fenced` may need a fresh producer id."""
    return known is not None and known.exhausted and version >= EPOCH_BUMPS_FROM


def ended(
    known: Transaction | None,
    instance: ProducerIdAndEpoch,
    commit: bool,
    version: int,
    fresh_id: int | None,
    now_ms: int,
) -> Transaction:
    """The transaction with its outcome decided; `known` itself when this was done before and the request comes again."""
    if version >= EPOCH_BUMPS_FROM:
        return _ended(known, instance, commit, version, fresh_id, now_ms)
    if known is None or known.producer_id != instance.producer_id:
        raise foreign(known, instance)
    if known.epoch != instance.epoch:
        raise fencing(known, instance.epoch)
    if known.state is TransactionStatus.ONGOING:
        return _decided(known, commit, version, None, now_ms)
    return _ended_before(known, commit)


def _ended(
    known: Transaction | None,
    instance: ProducerIdAndEpoch,
    commit: bool,
    version: int,
    fresh_id: int | None,
    now_ms: int,
) -> Transaction:
    if known is None:
        raise foreign(known, instance)
    _check_not_being_completed(known)
    overflowed = (
        known.previous_producer_id == instance.producer_id
        and instance.epoch == EPOCH_MAX - 1
        and known.epoch == 0
    )
    again = known.epoch == instance.epoch + 1 or overflowed
    if known.producer_id != instance.producer_id and not overflowed:
        raise foreign(known, instance)
    again = again and known.state in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
    if not again and known.epoch != instance.epoch:
        raise fencing(known, instance.epoch)
    if known.state is TransactionStatus.ONGOING:
        return _decided(known, commit, version, fresh_id, now_ms)
    if again:
        return _ended_before(known, commit)
    if commit:
        raise _no_transaction(known, commit)
    # A client cannot know whether the first batch of its transaction arrived.  Aborting is always right, and gives it
    # an epoch that whatever is still on its way does not have.
    return replace(_decided(known, commit, version, fresh_id, now_ms), started_ms=now_ms)


def _ended_before(known: Transaction, commit: bool) -> Transaction:
    if known.state is TransactionStatus.EMPTY or known.commits != commit:
        raise _no_transaction(known, commit)
    if known.state in DECIDED:
        raise concurrent(known)
    return known


def fenced(known: Transaction, fresh_id: int | None, now_ms: int) -> Transaction:
    """The broker aborts it: it took too long, or another instance of the producer is there."""
    assert known.state is TransactionStatus.ONGOING
    return _decided(known, False, SERVED, fresh_id, now_ms)


def _decided(
    known: Transaction, commit: bool, version: int, fresh_id: int | None, now_ms: int
) -> Transaction:
    bumps = version >= EPOCH_BUMPS_FROM
    assert not (bumps and known.exhausted) or fresh_id is not None
    return replace(
        known,
        previous_producer_id=known.producer_id,
        next_producer_id=fresh_id if bumps and known.exhausted and fresh_id is not None else NO_PRODUCER,
        epoch=min(known.epoch + 1, EPOCH_MAX) if bumps else known.epoch,
        last_epoch=known.epoch if bumps else known.last_epoch,
        updated_ms=now_ms,
        state=TransactionStatus.PREPARE_COMMIT if commit else TransactionStatus.PREPARE_ABORT,
        version=version,
    )


def completed(known: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker."""
    assert known.state in DECIDED
    rotates = known.next_producer_id != NO_PRODUCER
    return replace(
        known,
        previous_producer_id=known.producer_id,
        producer_id=known.next_producer_id if rotates else known.producer_id,
        next_producer_id=NO_PRODUCER,
        epoch=0 if rotates else known.epoch,
        partitions=frozenset(),
        updated_ms=now_ms,
        state=TransactionStatus.COMPLETE_COMMIT if known.commits else TransactionStatus.COMPLETE_ABORT,
    )


# What is said to whom it does not concern


def foreign(known: Transaction | None, instance: ProducerIdAndEpoch) -> errors.TidelogError:
    if known is None:
        return errors.InvalidProducerIdMapping(
            "the transactional id is not known: initialize the producer first"
        )
    return errors.InvalidProducerIdMapping(
        f"transactional id {known.id!r} belongs to producer {known.producer_id}, not {instance.producer_id}"
    )


def fencing(known: Transaction, epoch: int) -> errors.TidelogError:
    return errors.ProducerFenced(
        f"transactional id {known.id!r} has epoch {known.epoch} now, not {epoch}: another instance took over"
    )


def _check_not_being_completed(known: Transaction | None) -> None:
    """Who it is does not matter yet: a producer has its next epoch, or id, as soon as the outcome is certain, and may be
    further in its next transaction than the partitions are in the last one."""
    if known is not None and known.state in DECIDED:
        raise concurrent(known)


def concurrent(known: Transaction) -> errors.TidelogError:
    return errors.ConcurrentTransactions(
        f"the last transaction of {known.id!r} is being completed: try again"
    )


def _no_transaction(known: Transaction, commit: bool) -> errors.TidelogError:
    wanted = "committed" if commit else "aborted"
    return errors.InvalidTxnState(f"{known.id!r} is in state {known.state.title}: it cannot be {wanted}")
