"""Offsets, plain and in transactions, against a list of everything that was ever written."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.offsets.records import tombstone
from tidelog.groups.record_replay import new_machine
from tidelog.groups.record_types import KINDS
from tidelog.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue

PLACES = st.tuples(st.sampled_from(["g", "h"]), st.sampled_from(["t", "u"]), st.integers(0, 1))
PRODUCERS = st.integers(1, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), PLACES, st.integers(0, 99)),
        st.tuples(st.just("pending"), PLACES, st.integers(0, 99), PRODUCERS),
        st.tuples(st.just("delete"), PLACES),
        st.tuples(st.just("end"), PRODUCERS, st.booleans()),
    ),
    max_size=40,
)


def expected(steps: list[Any]) -> tuple[dict[Any, int], set[Any]]:
    """(what is committed, what is pending): for each place the last write that counts, in the order of the log."""
    written: list[list[Any]] = []  # place, offset, producer or None, state
    for step in steps:
        kind = step[0]
        if kind == "commit":
            written.append([step[1], step[2], None, "committed"])
        elif kind == "pending":
            written.append([step[1], step[2], step[3], "pending"])
        elif kind == "delete":
            written = [write for write in written if write[0] != step[1]]
        else:
            for write in written:
                if write[2] == step[1] and write[3] == "pending":
                    write[3] = "committed" if step[2] else "aborted"
    committed = {write[0]: write[1] for write in written if write[3] == "committed"}
    return committed, {write[0] for write in written if write[3] == "pending"}


@given(STEPS)
def test_offsets_are_the_last_that_count(steps: list[Any]) -> None:
    machine = new_machine()
    for count, step in enumerate(steps, 1):
        if step[0] == "end":
            machine.ended(step[1], step[2])
        else:
            machine.replay(through_bytes(step), step[3] if step[0] == "pending" else -1)
        committed, pending = expected(steps[:count])
        for group in ("g", "h"):
            offsets = {(group, *place): stored.offset for place, stored in machine.offsets.of(group).items()}
            assert offsets == {place: offset for place, offset in committed.items() if place[0] == group}
            assert {(group, *place) for place in machine.offsets.pending(group)} == {
                place for place in pending if place[0] == group
            }
            for topic in ("t", "u"):
                for partition in (0, 1):
                    is_pending = machine.offsets.is_pending(group, topic, partition)
                    assert is_pending == ((group, topic, partition) in pending)
            assert machine.offsets.has_any(group) == bool(offsets or machine.offsets.pending(group))


def through_bytes(step: Any) -> CoordinatorRecord:
    key = OffsetCommitKey(*step[1])
    entry = tombstone(*step[1]) if step[0] == "delete" else CoordinatorRecord(key, OffsetCommitValue(step[2]))
    read = KINDS.decode(*KINDS.encode(entry))
    assert read is not None
    return read
