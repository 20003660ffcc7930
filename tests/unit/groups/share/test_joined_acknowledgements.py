"""Acknowledgements that joined a transaction: what the state of a share partition is before and after it is decided."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog import errors
from tidelog.groups.share import group_state
from tidelog.groups.share.group_state import ShareKey, ShareStateMachine, StateWrite
from tidelog.groups.share.in_flight import JoinedAcknowledgement, RecordState, StateBatch, UndecidedBatch
from tidelog.groups.share.joined_acknowledgements import KnownOutcomes, joined
from tidelog.groups.share.partition import (
    AcknowledgedRange,
    AcknowledgeType,
    AcquireRequest,
    OffsetSpan,
    SharePartition,
    ShareTerms,
    check_acknowledgements,
)

KEY = ShareKey("group", UUID(int=5), 3)
TERMS = ShareTerms(5, 200, 1_000, dead_letters=False, renewals=True)
PRODUCER = 7
ACCEPT = AcknowledgeType.ACCEPT_IN_TRANSACTION


def fetched(count: int, terms: ShareTerms = TERMS) -> SharePartition:
    partition = SharePartition(0)
    spans = [OffsetSpan(offset, offset, key=b"same") for offset in range(count)]
    partition.acquire(AcquireRequest("ann", count, 0, strict=True), spans, terms, 0)
    return partition


def join(partition: SharePartition, first: int, last: int) -> list[StateBatch]:
    acknowledgement = JoinedAcknowledgement(PRODUCER, written=True)
    change = partition.acknowledge(
        "ann", [AcknowledgedRange(first, last, [ACCEPT])], TERMS, 0, acknowledgement
    )
    assert not change.batches and not change.moves
    return change.joins


def ask(partition: SharePartition, machine: ShareStateMachine) -> None:
    state = machine.state(KEY)
    assert state is not None
    outcomes = KnownOutcomes(joined(partition.runs), state.start, state.batches, state.undecided)
    partition.decided(outcomes, TERMS, 0)


def machine_with(joins: list[StateBatch]) -> ShareStateMachine:
    machine = ShareStateMachine()
    for entry in group_state.initialize(machine, KEY, 0, 0, 0):
        machine.replay(entry, -1)
    for entry in group_state.join(machine, KEY, StateWrite(0, 0, -1, 0, joins)):
        machine.replay(entry, PRODUCER)
    return machine


def test_a_commit_finishes_the_records_and_an_abort_delivers_them_again() -> None:
    for committed, start, free in ((True, 2, 2), (False, 0, 0)):
        partition = fetched(3)
        machine = machine_with(join(partition, 0, 1))
        ask(partition, machine)
        assert partition.outlook() == (0, 0)
        machine.ended(PRODUCER, committed)
        ask(partition, machine)
        assert partition.start == start
        partition.released("ann", TERMS)
        assert partition.next_offset() == free


def test_neither_a_lock_nor_a_session_ends_what_is_undecided() -> None:
    partition = fetched(2)
    join(partition, 0, 0)
    partition.expired(10_000, TERMS)
    partition.released("ann", TERMS)
    assert partition.next_offset() == 1
    assert partition.picture() == [StateBatch(1, 1, RecordState.AVAILABLE, 1)]
    assert partition.runs.counts() == (1, 1)


def test_an_open_transaction_survives_the_partitions_restart() -> None:
    partition = fetched(3)
    machine = machine_with(join(partition, 1, 1))
    state = machine.state(KEY)
    assert state is not None
    assert state.undecided == (UndecidedBatch(PRODUCER, 1, 1, RecordState.ACKNOWLEDGED, 1),)
    again = SharePartition(state.start, state.batches, state.undecided)
    assert [run.joined is not None for run in again.runs] == [False, True]
    machine.ended(PRODUCER, False)
    ask(again, machine)
    assert again.runs.over(1, 1)[0].free


def test_a_group_that_orders_by_key_waits_for_undecided_records_after_a_restart() -> None:
    by_key = TERMS._replace(by_key=True)
    partition = SharePartition(0, (), [UndecidedBatch(PRODUCER, 0, 0, RecordState.ACKNOWLEDGED, 1)])
    assert not partition.has_room(by_key)
    assert partition.has_room(TERMS)
    partition.decided(KnownOutcomes(joined(partition.runs), 0, (), ()), by_key, 0)
    assert partition.has_room(by_key)


def test_what_is_finished_cannot_join() -> None:
    """Another member has done the work: its output is there already."""
    partition = fetched(2)
    plain = [AcknowledgedRange(0, 0, [AcknowledgeType.ACCEPT])]
    change = partition.acknowledge("ann", plain, TERMS, 0)
    partition.confirmed(change)
    assert partition.start == 1
    assert not partition.acknowledge("ann", plain, TERMS, 0).batches
    with pytest.raises(errors.InvalidRecordState):
        join(partition, 0, 1)


def test_a_state_that_begins_anew_forgets_what_transactions_acknowledged() -> None:
    machine = machine_with([StateBatch(4, 6, RecordState.ACKNOWLEDGED, 1)])
    for entry in group_state.initialize(machine, KEY, 1, 0, 1_000):
        machine.replay(entry, -1)
    machine.ended(PRODUCER, True)
    assert machine.states[KEY].batches == ()


def test_a_snapshot_keeps_what_transactions_acknowledged() -> None:
    told = []
    machine = machine_with([StateBatch(4, 6, RecordState.ACKNOWLEDGED, 1)])
    machine._decided = told.append
    for entry in group_state.snapshots(machine, [KEY], 1_000):
        machine.replay(entry, -1)
    machine.ended(PRODUCER, True)
    assert machine.states[KEY].batches == (StateBatch(4, 6, RecordState.ACKNOWLEDGED, 1),)
    assert told == [KEY]


def test_the_types_need_a_transaction() -> None:
    ranges = [AcknowledgedRange(0, 0, [ACCEPT])]
    check_acknowledgements(ranges, renewals=True, in_transaction=True)
    with pytest.raises(errors.InvalidRequest):
        check_acknowledgements(ranges, renewals=True)
