"""What a share group's records add up to: against one state for each offset, and from a log cut at any record."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.share import group_state
from tidelog.groups.share.group_state import KINDS, ShareKey, ShareStateMachine, StateWrite, combined
from tidelog.groups.share.in_flight import StateBatch
from tidelog.groups.share.partition import (
    AcknowledgedRange,
    AcquireRequest,
    OffsetSpan,
    RecordState,
    SharePartition,
    ShareTerms,
)

KEY = ShareKey("group", UUID(int=5), 3)
TERMS = ShareTerms(50, 200, 1_000, dead_letters=False, renewals=True)

batches = st.builds(
    lambda first, size, state, count: StateBatch(first, first + size - 1, state, count),
    st.integers(0, 20),
    st.integers(1, 6),
    st.sampled_from((0, 2, 4)),
    st.integers(0, 3),
)


def apart(batches: list[StateBatch]) -> list[StateBatch]:
    """Those of them that do not overlap."""
    kept: list[StateBatch] = []
    for batch in sorted(batches):
        if not kept or batch.first > kept[-1].last:
            kept.append(batch)
    return kept


@given(st.lists(batches).map(apart), st.lists(batches).map(apart), st.integers(0, 22))
def test_of_each_offset_the_later_delivery_counts(
    known: list[StateBatch], news: list[StateBatch], start: int
) -> None:
    model: dict[int, tuple[int, int]] = {}
    for batch in [*known, *news]:
        for offset in range(max(batch.first, start), batch.last + 1):
            model[offset] = max(model.get(offset, (-1, -1)), (batch.deliveries, batch.state))
    found = combined(known, news, start)
    assert {
        offset: (batch.deliveries, batch.state)
        for batch in found
        for offset in range(batch.first, batch.last + 1)
    } == model
    assert all(one.last < other.first for one, other in pairwise(found))


def through_bytes(entry: CoordinatorRecord) -> CoordinatorRecord:
    again = KINDS.decode(*KINDS.encode(entry))
    assert again is not None
    return again


@given(
    st.lists(
        st.tuples(st.integers(1, 8), st.lists(st.sampled_from((1, 2, 3)), min_size=8, max_size=8)),
        max_size=12,
    ),
    st.integers(0, 6),
)
def test_from_a_log_cut_anywhere_nothing_accepted_comes_back(
    rounds: list[tuple[int, list[int]]], updates_max: int
) -> None:
    machine = ShareStateMachine()
    log: list[CoordinatorRecord] = []
    accepted: list[frozenset[int]] = []

    def append(entries: list[CoordinatorRecord], done: frozenset[int]) -> None:
        for entry in entries:
            log.append(entry)
            accepted.append(done)
            machine.replay(entry, -1)

    append(group_state.initialize(machine, KEY, 1, 0, 0), frozenset())
    partition, done = SharePartition(0), frozenset[int]()
    for size, kinds in rounds:
        start = partition.next_offset()
        wish = AcquireRequest("m", size, 0, strict=True)
        grant = partition.acquire(wish, [OffsetSpan(start, start + 7)], TERMS, 0)
        for acquired in grant.acquired:
            types = kinds[: acquired.last - acquired.first + 1]
            change = partition.acknowledge(
                "m", [AcknowledgedRange(acquired.first, acquired.last, types)], TERMS, 0
            )
            done |= {acquired.first + at for at, kind in enumerate(types) if kind != 2}
            what = StateWrite(1, 0, *partition.outlook(), change.batches)
            append(group_state.write(machine, KEY, what, updates_max, 0), done)
            partition.confirmed(change)
    for cut in range(1, len(log) + 1):
        loaded = ShareStateMachine()
        for entry in log[:cut]:
            loaded.replay(through_bytes(entry), -1)
        state = loaded.states[KEY]
        restored = SharePartition(state.start, state.batches)
        open_ones = {
            offset
            for run in restored.runs
            if run.state is RecordState.AVAILABLE
            for offset in range(run.first, run.last + 1)
        }
        finished = set(range(restored.end)) - open_ones
        assert accepted[cut - 1] == finished
        assert state.updates <= updates_max
