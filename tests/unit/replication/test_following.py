"""Where a follower cuts its log, what it asks for, and what it appends at once."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog import errors
from tidelog.record.builder import BatchBuilder
from tidelog.replication.following import Session, Wanted, cut_at, runs
from tidelog.storage.epochs import Epochs

A, B = (UUID(int=1), 0), (UUID(int=1), 1)

# A history of leaders: each epoch's records, as (epoch, number).  What a follower has is a prefix of one such history,
# what the leader has is another that shares some of it.
HISTORIES = st.lists(st.integers(0, 4), max_size=5)


def written(counts: list[int], from_epoch: int = 0) -> list[int]:
    """The epoch of every record."""
    return [from_epoch + at for at, count in enumerate(counts) for _ in range(count)]


def epochs_of(log: list[int]) -> Epochs:
    epochs = Epochs()
    for offset, epoch in enumerate(log):
        epochs.assign(epoch, offset)
    return epochs


@given(HISTORIES, HISTORIES, HISTORIES, st.booleans())
def test_a_follower_ends_where_the_logs_part_and_loses_nothing_that_they_share(
    shared: list[int], own: list[int], leaders: list[int], led_in_vain: bool
) -> None:
    common = written(shared)
    # Odd epochs were led by the follower's former leader, even ones by the present one's line: they never share.
    mine = common + [2 * epoch + 101 for epoch in written(own)]
    theirs = common + [2 * epoch + 102 for epoch in written(leaders)]
    leader = epochs_of(theirs)
    leader.assign(999, len(theirs))  # it has begun its own epoch
    mine_epochs = epochs_of(mine)
    if led_in_vain:
        mine_epochs.assign(501, len(mine))  # it led, and nobody wrote anything
    for _ in range(20):
        if mine_epochs.latest < 0:
            break
        known, end = leader.end_of(mine_epochs.latest, len(theirs))
        if known == mine_epochs.latest and end >= len(mine):
            break
        before = len(mine), mine_epochs.latest
        cut = cut_at(mine_epochs, len(mine), known, end)
        mine = mine[:cut]
        mine_epochs.truncate_to(cut)
        assert (len(mine), mine_epochs.latest) < before, "every round gets somewhere"
    assert mine == theirs[: len(mine)]
    assert len(mine) >= len(common)


def test_a_session_names_partitions_once_and_then_what_changed() -> None:
    session = Session(3)

    def named(**wanted: Wanted) -> tuple[list[int], list[int]]:
        keys = {"a": A, "b": B}
        request = session.request({keys[name]: one for name, one in wanted.items()}, 7, 500, 1, 1000, 100)
        asked = [part.partition for topic in request.topics for part in topic.partitions]
        gone = [index for topic in request.forgotten_topics_data for index in topic.partitions]
        return asked, gone

    first = Wanted(1, 0, 0, 0)
    assert named(a=first, b=first) == ([0, 1], [])
    session.answered(55)
    assert named(a=first, b=Wanted(1, 9, 0, 0)) == ([1], [])
    session.answered(55)
    assert named(b=Wanted(1, 9, 0, 0)) == ([], [0])
    session.forget(B)
    assert named(b=Wanted(1, 9, 0, 0)) == ([1], [])
    # An answer for it came too late: it is not followed any more, and the leader must hear of it.
    session.forget(B)
    assert named(a=first) == ([0], [1])
    assert named(a=first) == ([], [])
    session.lost()
    assert named(a=first) == ([0], [])


def test_a_session_counts_its_requests() -> None:
    session = Session(3)
    seen = []
    for answer in (55, 55, 55, 0, 56):
        request = session.request({A: Wanted(1, 0, 0, 0)}, 7, 500, 1, 1000, 100)
        seen.append((request.session_id, request.session_epoch))
        session.answered(answer)
    assert seen == [(0, 0), (55, 1), (55, 2), (55, 3), (0, 0)]
    assert request.replica_state.replica_id == 3 and request.replica_state.replica_epoch == 7


def test_no_more_is_asked_for_than_a_throttle_leaves() -> None:
    wanted = {A: Wanted(1, 0, 0, 0), B: Wanted(1, 0, 0, 0, bytes_max=40)}
    request = Session(3).request(wanted, 7, 500, 9, 1000, 100)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 9, 1000)
    asked = {
        part.partition: part.partition_max_bytes for topic in request.topics for part in topic.partitions
    }
    assert asked == {0: 100, 1: 40}


def batch(base: int, count: int, epoch: int) -> bytes:
    builder = BatchBuilder()
    for _ in range(count):
        builder.add(b"k", b"v", 5)
    return builder.build(base_offset=base, leader_epoch=epoch)


def test_batches_go_together_while_they_are_of_one_epoch_and_fit() -> None:
    data = batch(0, 2, 1) + batch(2, 1, 1) + batch(3, 1, 2) + batch(4, 1, 2)
    spans = [[one.header.base_offset for one in run] for run in runs(memoryview(data), 0, 1 << 20)]
    assert spans == [[0, 2], [3, 4]]
    spans = [[one.header.base_offset for one in run] for run in runs(memoryview(data), 2, 1)]
    assert spans == [[2], [3], [4]]
    cut = data[:-3]
    assert [run[-1].header.last_offset for run in runs(memoryview(cut), 0, 1 << 20)] == [2, 3]


def test_a_batch_that_rotted_on_the_way_is_not_taken() -> None:
    data = bytearray(batch(0, 2, 1))
    data[-1] ^= 1
    with pytest.raises(errors.CorruptMessage):
        list(runs(memoryview(data), 0, 1 << 20))
