"""The state of share partitions in `__share_group_state`: start offset and delivery states, by group and partition.

Every change is one record (an update); from time to time a record holds the whole state (a snapshot), and makes earlier
records useless.  Records and error codes are Kafka's.  Pure: a decision takes the state and a request and returns
records, or raises the protocol's error; `state_coordinator` appends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord, RecordType, RecordTypes
from tidelog.groups.share.in_flight import StateBatch, UndecidedBatch
from tidelog.wire.messages.share_snapshot_record import ShareSnapshotKey, ShareSnapshotValue
from tidelog.wire.messages.share_snapshot_record import StateBatch as SnapshotBatch
from tidelog.wire.messages.share_update_record import ShareUpdateKey, ShareUpdateValue
from tidelog.wire.messages.share_update_record import StateBatch as UpdateBatch

KINDS = RecordTypes(
    RecordType(ShareSnapshotKey, ShareSnapshotValue, 0), RecordType(ShareUpdateKey, ShareUpdateValue, 0)
)

UNKNOWN_START = -1  # the partition's leader has to find out where the group starts
UNCHANGED = -1


class ShareKey(NamedTuple):
    group: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{self.group}:{self.topic_id}:{self.partition}"


class TransactionMember(NamedTuple):
    """The producer whose transaction an acknowledgement joins."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class ShareState(NamedTuple):
    """`updates` counts the records since the last snapshot; `undecided` batches wait for the end of their
    transactions."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start: int
    finished: int
    batches: tuple[StateBatch, ...]
    created_ms: int
    updates: int
    undecided: tuple[UndecidedBatch, ...] = ()


class ShareStateMachine:
    """The state of one shard.  What a transaction has written lies beside the states until the transaction ends."""

    def __init__(self, decided: Callable[[ShareKey], None] = lambda _: None) -> None:
        """`decided` is called when a transaction with acknowledgements of the key has ended."""
        self.states: dict[ShareKey, ShareState] = {}
        self._open: dict[int, list[tuple[ShareKey, tuple[StateBatch, ...]]]] = {}  # by producer id
        self._decided = decided

    def state(self, key: ShareKey) -> ShareState | None:
        """With its undecided batches."""
        state = self.states.get(key)
        if state is None or not self._open:
            return state
        undecided = [
            UndecidedBatch(producer_id, *batch)
            for producer_id, joined in self._open.items()
            for name, batches in joined
            if name == key
            for batch in batches
        ]
        return state._replace(undecided=tuple(sorted(undecided, key=lambda batch: batch.first)))

    def replay(self, entry: CoordinatorRecord, producer_id: int) -> None:
        key = ShareKey(entry.key.group_id, entry.key.topic_id, entry.key.partition)
        if isinstance(entry.key, ShareSnapshotKey):
            if entry.value is None:
                self.states.pop(key, None)
                self._forget(key)
            else:
                if _begins(entry.value, self.states.get(key)):
                    self._forget(key)
                self.states[key] = _of_snapshot(entry.value)
        elif entry.value is None:
            return
        elif producer_id >= 0:
            batches = tuple(_batch(batch) for batch in entry.value.state_batches)
            self._open.setdefault(producer_id, []).append((key, batches))
        elif key in self.states:
            self.states[key] = _updated(self.states[key], entry.value)

    def _forget(self, key: ShareKey) -> None:
        """The key's offsets mean something else now."""
        for producer_id, joined in list(self._open.items()):
            self._open[producer_id] = [(name, batches) for name, batches in joined if name != key]

    def ended(self, producer_id: int, committed: bool) -> None:
        keys: dict[ShareKey, None] = {}
        for key, batches in self._open.pop(producer_id, ()):
            keys[key] = None
            state = self.states.get(key)
            if committed and state is not None:
                update = StateWrite(state.state_epoch, state.leader_epoch, UNCHANGED, state.finished, batches)
                self.states[key] = _taken(state, update)
        for key in keys:
            self._decided(key)


def lag_of(state: ShareState, log_start: int, committed: int) -> int:
    """The number of records that are not finished yet.  Records that the log has deleted do not count as lag."""
    start = max(state.start, log_start)
    finished = max(state.finished, 0) if start == state.start else 0
    return max(committed - start - finished, 0)


# Decisions


class StateWrite(NamedTuple):
    """The state that the leader of a partition persists."""

    state_epoch: int
    leader_epoch: int
    start: int
    finished: int
    batches: Sequence[StateBatch]


def write(
    machine: ShareStateMachine, key: ShareKey, update: StateWrite, updates_max: int, now_ms: int
) -> list[CoordinatorRecord]:
    state = _checked(machine, key, update)
    if state.updates >= updates_max:
        return [_snapshot(key, _taken(state, update), now_ms)]
    return [_update(key, state, update)]


def join(machine: ShareStateMachine, key: ShareKey, update: StateWrite) -> list[CoordinatorRecord]:
    """To be written in the producer's transaction."""
    state = _checked(machine, key, update)
    return [_update(key, state, update._replace(start=UNCHANGED, finished=state.finished))]


def _checked(machine: ShareStateMachine, key: ShareKey, update: StateWrite) -> ShareState:
    state = machine.states.get(key)
    if state is None:
        raise errors.InvalidRequest(f"{key} is not initialized")
    if state.leader_epoch > update.leader_epoch:
        raise errors.FencedLeaderEpoch(
            f"{key} was written by the leader of epoch {state.leader_epoch}, not {update.leader_epoch}"
        )
    if state.state_epoch > update.state_epoch:
        raise errors.FencedStateEpoch(
            f"{key} is at state epoch {state.state_epoch}, not {update.state_epoch}"
        )
    return state


def _update(key: ShareKey, state: ShareState, update: StateWrite) -> CoordinatorRecord:
    value = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start,
        delivery_complete_count=update.finished,
        state_batches=[UpdateBatch(*batch) for batch in update.batches],
    )
    return CoordinatorRecord(ShareUpdateKey(key.group, key.topic_id, key.partition), value)


def initialize(
    machine: ShareStateMachine, key: ShareKey, state_epoch: int, start: int, now_ms: int
) -> list[CoordinatorRecord]:
    """Sets the group's start offset, and forgets all earlier state."""
    before = machine.states.get(key)
    if before is not None and before.state_epoch > state_epoch:
        raise errors.FencedStateEpoch(f"{key} is at state epoch {before.state_epoch}, not {state_epoch}")
    epoch = 0 if before is None else before.snapshot_epoch + 1
    leader_epoch = 0 if before is None else before.leader_epoch
    fresh = ShareState(epoch, state_epoch, leader_epoch, start, 0, (), now_ms, 0)
    return [_snapshot(key, fresh, now_ms, epoch)]


def read(
    machine: ShareStateMachine, key: ShareKey, leader_epoch: int
) -> tuple[ShareState, list[CoordinatorRecord]]:
    """The state, and a record that a newer leader has read it: the old leader's writes are fenced from then on."""
    state = machine.state(key)
    if state is None:
        raise errors.InvalidRequest(f"{key} is not initialized")
    if state.leader_epoch > leader_epoch:
        raise errors.FencedLeaderEpoch(
            f"{key} was read by the leader of epoch {state.leader_epoch}, not {leader_epoch}"
        )
    if state.leader_epoch == leader_epoch:
        return state, []
    value = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=UNCHANGED,
        delivery_complete_count=state.finished,
    )
    return state, [CoordinatorRecord(ShareUpdateKey(key.group, key.topic_id, key.partition), value)]


def delete(machine: ShareStateMachine, key: ShareKey) -> list[CoordinatorRecord]:
    if key not in machine.states:
        return []
    return [CoordinatorRecord(ShareSnapshotKey(key.group, key.topic_id, key.partition), None)]


def snapshots(machine: ShareStateMachine, keys: Iterable[ShareKey], now_ms: int) -> list[CoordinatorRecord]:
    """Snapshots of `keys`: all earlier records about them can be deleted then."""
    return [_snapshot(key, machine.states[key], now_ms) for key in keys if key in machine.states]


def deletions(machine: ShareStateMachine, topics: frozenset[UUID]) -> list[CoordinatorRecord]:
    """Tombstones of the states of deleted topics."""
    return [entry for key in machine.states if key.topic_id in topics for entry in delete(machine, key)]


# States


def combined(
    earlier: Iterable[StateBatch], later: Iterable[StateBatch], start: int
) -> tuple[StateBatch, ...]:
    """Where both cover an offset, the higher delivery count wins, and for equal counts the later state in a record's
    life; offsets below `start` are dropped."""
    result: list[StateBatch] = sorted(_clipped(earlier, start))
    for batch in _clipped(later, start):
        result = _laid_over(result, batch)
    merged: list[StateBatch] = []
    for batch in result:
        if merged and merged[-1][2:] == batch[2:] and merged[-1].last + 1 == batch.first:
            merged[-1] = merged[-1]._replace(last=batch.last)
        else:
            merged.append(batch)
    return tuple(merged)


def _clipped(batches: Iterable[StateBatch], start: int) -> list[StateBatch]:
    return [batch._replace(first=max(batch.first, start)) for batch in batches if batch.last >= start]


def _laid_over(earlier: list[StateBatch], new: StateBatch) -> list[StateBatch]:
    result = []
    rest = [new]
    for old in earlier:
        if old.last < new.first or old.first > new.last:
            result.append(old)
            continue
        if (old.deliveries, old.state) > (new.deliveries, new.state):
            result.append(old)
            rest = [part for piece in rest for part in _without(piece, old)]
        else:
            result += _without(old, new)
    return sorted(result + rest)


def _without(batch: StateBatch, hole: StateBatch) -> list[StateBatch]:
    parts = []
    if batch.first < hole.first:
        parts.append(batch._replace(last=min(batch.last, hole.first - 1)))
    if batch.last > hole.last:
        parts.append(batch._replace(first=max(batch.first, hole.last + 1)))
    return parts


def _taken(state: ShareState, update: StateWrite) -> ShareState:
    """The state after `update`."""
    # A write that is repeated late does not move the start back.
    start = max(state.start, update.start)
    return state._replace(
        leader_epoch=max(state.leader_epoch, update.leader_epoch),
        start=start,
        finished=update.finished,
        batches=combined(state.batches, update.batches, start),
    )


def _snapshot(key: ShareKey, state: ShareState, now_ms: int, epoch: int | None = None) -> CoordinatorRecord:
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch + 1 if epoch is None else epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start,
        delivery_complete_count=state.finished,
        create_timestamp=state.created_ms,
        write_timestamp=now_ms,
        state_batches=[SnapshotBatch(*batch) for batch in state.batches],
    )
    return CoordinatorRecord(ShareSnapshotKey(key.group, key.topic_id, key.partition), value)


def _begins(value: ShareSnapshotValue, before: ShareState | None) -> bool:
    """Whether the snapshot is that of `initialize`."""
    if before is not None and before.created_ms == value.create_timestamp:
        return False
    return bool(value.create_timestamp == value.write_timestamp)


def _of_snapshot(value: ShareSnapshotValue) -> ShareState:
    batches = tuple(_batch(batch) for batch in value.state_batches)
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        batches,
        value.create_timestamp,
        0,
    )


def _updated(state: ShareState, value: ShareUpdateValue) -> ShareState:
    batches = [_batch(batch) for batch in value.state_batches]
    update = StateWrite(
        state.state_epoch, value.leader_epoch, value.start_offset, value.delivery_complete_count, batches
    )
    return _taken(state, update)._replace(updates=state.updates + 1)


def _batch(stored: SnapshotBatch | UpdateBatch) -> StateBatch:
    return StateBatch(stored.first_offset, stored.last_offset, stored.delivery_state, stored.delivery_count)
