"""The state of a transactional id, and its transitions: facts in, the next state or an error out.

A `Transaction` is immutable; a transition returns the next one.  Transitions and errors are those of Kafka's transaction
coordinator.  In version 2 of the transaction protocol, the end of a transaction gives the producer a new epoch, so that
a late request cannot become part of the next transaction; version 0 stands for all earlier protocols.  An exactly-once
commit is decided in `ended`.  Pure; `coordinator` writes and performs the decisions."""

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
NEVER_MS = (1 << 31) - 1
"""The timeout of transactions that an outside coordinator ends: Kafka writes the same number."""
EPOCH_BUMPS_FROM = 2  # of the transaction protocol
SERVED = 2
"""The newest version of the transaction protocol."""


class TransactionStatus(IntEnum):
    """The numbers are those in `__transaction_state`."""

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
        """The name in Kafka's tools and protocol."""
        return self.name.title().replace("_", "")


BY_TITLE = {state.title: state for state in TransactionStatus}
DECIDED = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)
"""The outcome is decided, but some partitions do not have their marker yet."""
RESTING = (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
"""No transaction is open."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer instance; a higher epoch of the same producer id fences lower ones."""

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
    """The producer's id after the present transaction, because the epochs of its present id are used up."""
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    version: int = 0
    """The version of the transaction protocol in the client's last request."""
    last_epoch: int = NO_EPOCH
    """The previous epoch, if the same producer instance had it.  Not in the records, as in Kafka: a request that is
    repeated after a failover is fenced."""

    @property
    def exhausted(self) -> bool:
        """True if the epochs of the producer id are used up; the last epoch is reserved for fencing."""
        return exhausted(self.epoch)

    @property
    def commits(self) -> bool:
        return self.state in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)

    def timed_out(self, now_ms: int) -> bool:
        if self.timeout_ms == NEVER_MS:
            return False
        return self.state is TransactionStatus.ONGOING and self.started_ms + self.timeout_ms < now_ms

    def expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state in RESTING and self.updated_ms <= now_ms - expiration_ms


def exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1


# InitProducerId


def needs_producer_id(transaction: Transaction | None, expected: ProducerIdAndEpoch | None) -> bool:
    """True if `initialized` needs a new producer id."""
    if transaction is None:
        return True
    return (
        transaction.state in RESTING
        and transaction.exhausted
        and (expected is None or expected.epoch == transaction.epoch)
    )


def initialized(
    transaction: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    fresh_id: int | None,
    now_ms: int,
) -> Transaction:
    """A producer instance starts.  `expected` is its previous id and epoch if it continues after an error; earlier
    instances are fenced.  An open transaction must be `fenced` first."""
    if transaction is None:
        assert fresh_id is not None
        return Transaction(transactional_id, fresh_id, 0, timeout_ms, now_ms, previous_producer_id=fresh_id)
    _check_not_being_completed(transaction)
    if expected is not None and not _may_go_on(transaction, expected):
        raise fencing(transaction, expected.epoch)
    assert transaction.state in RESTING, transaction.state
    if transaction.exhausted and (expected is None or expected.epoch == transaction.epoch):
        assert fresh_id is not None
        last = NO_EPOCH if expected is None else transaction.epoch
        return _renewed(transaction, fresh_id, 0, last, timeout_ms, now_ms)
    if expected is None:
        return _renewed(
            transaction, transaction.producer_id, transaction.epoch + 1, NO_EPOCH, timeout_ms, now_ms
        )
    if expected.epoch == transaction.epoch:
        return _renewed(
            transaction, transaction.producer_id, transaction.epoch + 1, transaction.epoch, timeout_ms, now_ms
        )
    if expected.epoch == transaction.last_epoch:
        # The answer to its last request got lost.  Another instance would have reset `last_epoch`.
        return _renewed(
            transaction,
            transaction.producer_id,
            transaction.epoch,
            transaction.last_epoch,
            timeout_ms,
            now_ms,
        )
    raise fencing(transaction, expected.epoch)


def _may_go_on(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    return expected.producer_id == transaction.producer_id or (
        expected.producer_id == transaction.previous_producer_id and exhausted(expected.epoch)
    )


def _renewed(
    transaction: Transaction, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> Transaction:
    return replace(
        transaction,
        producer_id=producer_id,
        previous_producer_id=transaction.producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
        state=TransactionStatus.EMPTY,
        partitions=frozenset(),
        started_ms=NO_TIME,
    )


# AddPartitionsToTxn


def with_partitions(
    transaction: Transaction | None,
    instance: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    version: int,
    now_ms: int,
) -> Transaction:
    """The transaction with these partitions; `transaction` itself if it has all of them already."""
    _check_not_being_completed(transaction)
    transaction = _of_this_instance(transaction, instance)
    if transaction.state is TransactionStatus.ONGOING and partitions <= transaction.partitions:
        return transaction
    return replace(
        transaction,
        previous_producer_id=transaction.producer_id,
        partitions=transaction.partitions | partitions,
        started_ms=transaction.started_ms if transaction.state is TransactionStatus.ONGOING else now_ms,
        updated_ms=now_ms,
        state=TransactionStatus.ONGOING,
        version=version,
    )


def check_added(
    transaction: Transaction | None, instance: ProducerIdAndEpoch, partition: TopicPartition
) -> Transaction:
    """The producer's transaction; raises unless the partition is part of it."""
    transaction = _of_this_instance(transaction, instance)
    if partition not in transaction.partitions:
        raise errors.TransactionAbortable(f"{partition} is not part of the transaction of {transaction.id!r}")
    return transaction


def _of_this_instance(transaction: Transaction | None, instance: ProducerIdAndEpoch) -> Transaction:
    if transaction is None or transaction.producer_id != instance.producer_id:
        raise foreign(transaction, instance)
    if transaction.epoch != instance.epoch:
        raise fencing(transaction, instance.epoch)
    if transaction.state in DECIDED:
        raise concurrent(transaction)
    return transaction


# EndTxn


def ends_with_producer_id(transaction: Transaction | None, version: int) -> bool:
    """True if `ended` or `fenced` may need a new producer id."""
    return transaction is not None and transaction.exhausted and version >= EPOCH_BUMPS_FROM


def ended(
    transaction: Transaction | None,
    instance: ProducerIdAndEpoch,
    commit: bool,
    version: int,
    fresh_id: int | None,
    now_ms: int,
) -> Transaction:
    """The transaction with its outcome decided; `transaction` itself if an earlier, same request decided it."""
    if version >= EPOCH_BUMPS_FROM:
        return _ended(transaction, instance, commit, version, fresh_id, now_ms)
    if transaction is None or transaction.producer_id != instance.producer_id:
        raise foreign(transaction, instance)
    if transaction.epoch != instance.epoch:
        raise fencing(transaction, instance.epoch)
    if transaction.state is TransactionStatus.ONGOING:
        return _decided(transaction, commit, version, None, now_ms)
    return _ended_before(transaction, commit)


def _ended(
    transaction: Transaction | None,
    instance: ProducerIdAndEpoch,
    commit: bool,
    version: int,
    fresh_id: int | None,
    now_ms: int,
) -> Transaction:
    if transaction is None:
        raise foreign(transaction, instance)
    _check_not_being_completed(transaction)
    overflowed = (
        transaction.previous_producer_id == instance.producer_id
        and instance.epoch == EPOCH_MAX - 1
        and transaction.epoch == 0
    )
    again = transaction.epoch == instance.epoch + 1 or overflowed
    if transaction.producer_id != instance.producer_id and not overflowed:
        raise foreign(transaction, instance)
    again = again and transaction.state in (
        TransactionStatus.COMPLETE_COMMIT,
        TransactionStatus.COMPLETE_ABORT,
    )
    if not again and transaction.epoch != instance.epoch:
        raise fencing(transaction, instance.epoch)
    if transaction.state is TransactionStatus.ONGOING:
        return _decided(transaction, commit, version, fresh_id, now_ms)
    if again:
        return _ended_before(transaction, commit)
    if commit:
        raise _no_transaction(transaction, commit)
    # A client cannot know whether the first batch of its transaction arrived.  Aborting is always right: the producer
    # gets a new epoch, which fences requests that are still on their way.
    return replace(_decided(transaction, commit, version, fresh_id, now_ms), started_ms=now_ms)


def _ended_before(transaction: Transaction, commit: bool) -> Transaction:
    if transaction.state is TransactionStatus.EMPTY or transaction.commits != commit:
        raise _no_transaction(transaction, commit)
    if transaction.state in DECIDED:
        raise concurrent(transaction)
    return transaction


def fenced(transaction: Transaction, fresh_id: int | None, now_ms: int) -> Transaction:
    """The broker aborts the transaction: it timed out, or a new producer instance has started."""
    assert transaction.state is TransactionStatus.ONGOING
    return _decided(transaction, False, SERVED, fresh_id, now_ms)


def _decided(
    transaction: Transaction, commit: bool, version: int, fresh_id: int | None, now_ms: int
) -> Transaction:
    bumps = version >= EPOCH_BUMPS_FROM
    assert not (bumps and transaction.exhausted) or fresh_id is not None
    return replace(
        transaction,
        previous_producer_id=transaction.producer_id,
        next_producer_id=fresh_id
        if bumps and transaction.exhausted and fresh_id is not None
        else NO_PRODUCER,
        epoch=min(transaction.epoch + 1, EPOCH_MAX) if bumps else transaction.epoch,
        last_epoch=transaction.epoch if bumps else transaction.last_epoch,
        updated_ms=now_ms,
        state=TransactionStatus.PREPARE_COMMIT if commit else TransactionStatus.PREPARE_ABORT,
        version=version,
    )


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """The transaction after all partitions have their marker."""
    assert transaction.state in DECIDED
    rotates = transaction.next_producer_id != NO_PRODUCER
    return replace(
        transaction,
        previous_producer_id=transaction.producer_id,
        producer_id=transaction.next_producer_id if rotates else transaction.producer_id,
        next_producer_id=NO_PRODUCER,
        epoch=0 if rotates else transaction.epoch,
        partitions=frozenset(),
        updated_ms=now_ms,
        state=TransactionStatus.COMPLETE_COMMIT if transaction.commits else TransactionStatus.COMPLETE_ABORT,
    )


# Errors


def foreign(transaction: Transaction | None, instance: ProducerIdAndEpoch) -> errors.TidelogError:
    if transaction is None:
        return errors.InvalidProducerIdMapping(
            "the transactional id does not exist: send InitProducerId first"
        )
    return errors.InvalidProducerIdMapping(
        f"transactional id {transaction.id!r} belongs to producer {transaction.producer_id}, not {instance.producer_id}"
    )


def fencing(transaction: Transaction, epoch: int) -> errors.TidelogError:
    return errors.ProducerFenced(
        f"transactional id {transaction.id!r} is at epoch {transaction.epoch}, not {epoch}: "
        f"another producer instance has taken over"
    )


def _check_not_being_completed(transaction: Transaction | None) -> None:
    """Raises while the last transaction is being completed, before id and epoch are checked: a producer gets its next
    epoch or id as soon as the outcome is decided, and may start its next transaction before all markers are written."""
    if transaction is not None and transaction.state in DECIDED:
        raise concurrent(transaction)


def concurrent(transaction: Transaction) -> errors.TidelogError:
    return errors.ConcurrentTransactions(
        f"the last transaction of {transaction.id!r} is being completed: try again"
    )


def _no_transaction(transaction: Transaction, commit: bool) -> errors.TidelogError:
    wanted = "committed" if commit else "aborted"
    return errors.InvalidTxnState(
        f"{transaction.id!r} is in state {transaction.state.title}: it cannot be {wanted}"
    )
