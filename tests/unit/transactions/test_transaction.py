"""Every step of a transactional id, with the answers that Kafka's coordinator gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidelog import errors
from tidelog.transactions.state_machine import KINDS, TransactionStateMachine, entry, tombstone
from tidelog.transactions.transaction import (
    EPOCH_MAX,
    NEVER_MS,
    NO_EPOCH,
    NO_PRODUCER,
    ProducerIdAndEpoch,
    Transaction,
    TransactionStatus,
    check_added,
    completed,
    ended,
    fenced,
    initialized,
    needs_producer_id,
    with_partitions,
)
from tidelog.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
BEGUN = initialized(None, "t", 60_000, None, 7, 1_000)
OPEN = with_partitions(BEGUN, ProducerIdAndEpoch(7, 0), frozenset((A,)), 2, 2_000)
COMMITTED = completed(ended(OPEN, ProducerIdAndEpoch(7, 0), True, 2, None, 3_000), 3_001)
ABORTED = completed(ended(OPEN, ProducerIdAndEpoch(7, 0), False, 2, None, 3_000), 3_001)


def test_a_new_id_begins_with_a_fresh_producer_and_epoch_0() -> None:
    assert needs_producer_id(None, None)
    assert (BEGUN.producer_id, BEGUN.epoch, BEGUN.state, BEGUN.timeout_ms) == (
        7,
        0,
        TransactionStatus.EMPTY,
        60_000,
    )


def test_a_second_instance_gets_the_next_epoch_and_fences_the_first() -> None:
    second = initialized(COMMITTED, "t", 30_000, None, None, 5_000)
    assert (second.producer_id, second.epoch, second.timeout_ms) == (7, 2, 30_000)
    for stale in (ProducerIdAndEpoch(7, 0), ProducerIdAndEpoch(7, 1)):
        with pytest.raises(errors.ProducerFenced):
            with_partitions(second, stale, frozenset((A,)), 0, 6_000)
        with pytest.raises(errors.ProducerFenced):
            initialized(second, "t", 30_000, stale, None, 6_000)
        for version in (0, 2):
            with pytest.raises(errors.ProducerFenced):
                ended(second, stale, True, version, None, 6_000)


def test_a_producer_that_goes_on_after_an_error_gets_the_next_epoch_once_however_often_it_asks() -> None:
    first = initialized(COMMITTED, "t", 60_000, ProducerIdAndEpoch(7, 1), None, 5_000)
    again = initialized(first, "t", 60_000, ProducerIdAndEpoch(7, 1), None, 5_001)
    assert first.epoch == again.epoch == 2
    other = initialized(again, "t", 60_000, None, None, 5_002)
    with pytest.raises(errors.ProducerFenced):
        initialized(other, "t", 60_000, ProducerIdAndEpoch(7, 2), None, 5_003)


def test_used_up_epochs_bring_a_new_producer_id() -> None:
    last = replace(BEGUN, epoch=EPOCH_MAX - 1)
    assert needs_producer_id(last, None) and needs_producer_id(last, ProducerIdAndEpoch(7, EPOCH_MAX - 1))
    fresh = initialized(last, "t", 60_000, ProducerIdAndEpoch(7, EPOCH_MAX - 1), 8, 5_000)
    assert (fresh.producer_id, fresh.epoch, fresh.previous_producer_id) == (8, 0, 7)
    again = initialized(fresh, "t", 60_000, ProducerIdAndEpoch(7, EPOCH_MAX - 1), None, 5_001)
    assert (again.producer_id, again.epoch) == (8, 0)


@pytest.mark.parametrize("instance", [ProducerIdAndEpoch(8, 0), ProducerIdAndEpoch(-1, 0)])
@pytest.mark.parametrize("known", [None, OPEN])
def test_a_foreign_producer_changes_nothing(known: Transaction | None, instance: ProducerIdAndEpoch) -> None:
    with pytest.raises(errors.InvalidProducerIdMapping):
        with_partitions(known, instance, frozenset((A,)), 0, 1)
    with pytest.raises(errors.InvalidProducerIdMapping):
        check_added(known, instance, A)
    for version in (0, 2):
        with pytest.raises(errors.InvalidProducerIdMapping):
            ended(known, instance, True, version, None, 1)


def test_partitions_join_an_open_transaction_and_joining_again_is_no_change() -> None:
    more = with_partitions(OPEN, ProducerIdAndEpoch(7, 0), frozenset((B,)), 2, 2_500)
    assert more.partitions == {A, B} and more.started_ms == 2_000
    assert with_partitions(more, ProducerIdAndEpoch(7, 0), frozenset((A,)), 2, 2_600) is more
    check_added(more, ProducerIdAndEpoch(7, 0), B)
    with pytest.raises(errors.TransactionAbortable):
        check_added(OPEN, ProducerIdAndEpoch(7, 0), B)


def test_while_markers_are_written_everything_else_has_to_wait() -> None:
    decided = ended(OPEN, ProducerIdAndEpoch(7, 0), True, 0, None, 3_000)
    assert decided.state is TransactionStatus.PREPARE_COMMIT and decided.epoch == 0
    with pytest.raises(errors.ConcurrentTransactions):
        with_partitions(decided, ProducerIdAndEpoch(7, 0), frozenset((B,)), 0, 3_000)
    with pytest.raises(errors.ConcurrentTransactions):
        check_added(decided, ProducerIdAndEpoch(7, 0), A)
    with pytest.raises(errors.ConcurrentTransactions):
        initialized(decided, "t", 60_000, None, None, 3_000)
    with pytest.raises(errors.ConcurrentTransactions):
        ended(decided, ProducerIdAndEpoch(7, 0), True, 0, None, 3_000)
    with pytest.raises(errors.InvalidTxnState):
        ended(decided, ProducerIdAndEpoch(7, 0), False, 0, None, 3_000)


@pytest.mark.parametrize("epoch", [0, EPOCH_MAX - 1])
def test_a_producer_that_is_at_its_next_transaction_while_markers_are_written_is_not_taken_for_another(
    epoch: int,
) -> None:
    decided = ended(replace(OPEN, epoch=epoch), ProducerIdAndEpoch(7, epoch), True, 2, 8, 3_000)
    done = completed(decided, 3_001)
    now = ProducerIdAndEpoch(done.producer_id, done.epoch)  # what the answer to its end told it
    with pytest.raises(errors.ConcurrentTransactions):
        ended(decided, now, False, 2, 9, 3_000)
    with pytest.raises(errors.ConcurrentTransactions):
        with_partitions(decided, now, frozenset((B,)), 2, 3_000)
    with pytest.raises(errors.ConcurrentTransactions):
        initialized(decided, "t", 60_000, now, None, 3_000)
    assert ended(done, now, False, 2, None, 3_002).state is TransactionStatus.PREPARE_ABORT


def test_before_version_2_an_end_keeps_the_epoch_and_may_come_twice() -> None:
    done = completed(ended(OPEN, ProducerIdAndEpoch(7, 0), True, 0, None, 3_000), 3_001)
    assert (done.state, done.epoch, done.partitions) == (TransactionStatus.COMPLETE_COMMIT, 0, frozenset())
    assert ended(done, ProducerIdAndEpoch(7, 0), True, 0, None, 3_002) is done
    with pytest.raises(errors.InvalidTxnState):
        ended(done, ProducerIdAndEpoch(7, 0), False, 0, None, 3_002)
    with pytest.raises(errors.InvalidTxnState):
        ended(BEGUN, ProducerIdAndEpoch(7, 0), False, 0, None, 3_002)


@pytest.mark.parametrize(("done", "commit"), [(COMMITTED, True), (ABORTED, False)])
def test_from_version_2_on_an_end_gives_the_next_epoch_and_the_same_end_again_tells_it_again(
    done: Transaction, commit: bool
) -> None:
    assert done.epoch == 1
    assert ended(done, ProducerIdAndEpoch(7, 0), commit, 2, None, 4_000) is done
    with pytest.raises(errors.InvalidTxnState):
        ended(done, ProducerIdAndEpoch(7, 0), not commit, 2, None, 4_000)
    # With the new epoch it is the next transaction: an empty one can be aborted, not committed.
    with pytest.raises(errors.InvalidTxnState):
        ended(done, ProducerIdAndEpoch(7, 1), True, 2, None, 4_000)
    empty = ended(done, ProducerIdAndEpoch(7, 1), False, 2, None, 4_000)
    assert (empty.state, empty.epoch, empty.started_ms) == (TransactionStatus.PREPARE_ABORT, 2, 4_000)
    with pytest.raises(errors.ProducerFenced):
        ended(done, ProducerIdAndEpoch(7, 5), commit, 2, None, 4_000)


def test_the_last_epoch_ends_in_another_producer_id() -> None:
    last = replace(OPEN, epoch=EPOCH_MAX - 1)
    decided = ended(last, ProducerIdAndEpoch(7, EPOCH_MAX - 1), True, 2, 8, 3_000)
    assert (decided.producer_id, decided.epoch, decided.next_producer_id) == (7, EPOCH_MAX, 8)
    done = completed(decided, 3_001)
    assert (done.producer_id, done.epoch, done.next_producer_id) == (8, 0, NO_PRODUCER)
    assert ended(done, ProducerIdAndEpoch(7, EPOCH_MAX - 1), True, 2, None, 3_002) is done
    with pytest.raises(errors.InvalidTxnState):
        ended(done, ProducerIdAndEpoch(7, EPOCH_MAX - 1), False, 2, None, 3_002)


def test_an_abort_by_the_broker_takes_the_epoch_away() -> None:
    assert not OPEN.timed_out(62_000) and OPEN.timed_out(62_001)
    assert not replace(OPEN, timeout_ms=NEVER_MS).timed_out(10 * NEVER_MS)
    late = completed(fenced(OPEN, None, 70_000), 70_001)
    assert (late.state, late.epoch) == (TransactionStatus.COMPLETE_ABORT, 1)
    with pytest.raises(errors.ProducerFenced):
        with_partitions(late, ProducerIdAndEpoch(7, 0), frozenset((A,)), 0, 70_002)
    # The producer itself may go on; who comes instead of it fences it.
    assert initialized(late, "t", 60_000, ProducerIdAndEpoch(7, 0), None, 70_002).epoch == 1
    assert initialized(late, "t", 60_000, None, None, 70_002).epoch == 2


def test_only_ids_without_a_transaction_expire() -> None:
    assert COMMITTED.expired(3_001 + 500, 500) and not COMMITTED.expired(3_000 + 500, 500)
    assert not OPEN.expired(1 << 60, 500)


@pytest.mark.parametrize(
    "transaction",
    [BEGUN, OPEN, ended(OPEN, ProducerIdAndEpoch(7, 0), True, 2, None, 3_000), COMMITTED, ABORTED],
)
def test_records_hold_all_but_the_last_epoch(transaction: Transaction) -> None:
    machine = TransactionStateMachine()
    stored = KINDS.decode(*KINDS.encode(entry(transaction)))
    assert stored is not None
    machine.replay(stored, -1)
    assert machine.get("t") == replace(transaction, last_epoch=NO_EPOCH)
    machine.replay(tombstone("t"), -1)
    assert machine.get("t") is None and len(machine) == 0


def test_states_have_the_names_that_tools_know() -> None:
    assert [state.title for state in TransactionStatus] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
