"""When is a record committed?  Facts in, decisions out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.replication.replica_state import ReplicaState
from tidelog.types import Epoch, NodeId, Offset

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def leader(end: int, *in_sync: NodeId, committed: int = 0, epoch: int = 5) -> ReplicaState:
    state = ReplicaState(ONE, Offset(committed), Offset(end))
    state.led(Epoch(epoch), frozenset(in_sync))
    return state


def test_a_leader_alone_commits_what_it_appends() -> None:
    state = leader(10, ONE)
    assert state.committed == 10
    assert state.appended(Offset(12))
    assert state.committed == 12


def test_a_record_is_committed_when_the_slowest_in_sync_member_has_it() -> None:
    state = leader(10, ONE, TWO, THREE)
    assert state.committed == 0
    assert not state.follower_fetched(TWO, Offset(10), 0)
    assert state.follower_fetched(THREE, Offset(4), 0)
    assert state.committed == 4


def test_what_a_follower_fetched_in_an_older_epoch_does_not_count() -> None:
    state = leader(10, ONE, TWO)
    state.follower_fetched(TWO, Offset(10), 0)
    state.appended(Offset(20))
    state.led(Epoch(6), frozenset((ONE, TWO)))
    assert state.committed == 10
    assert state.follower_end(TWO) is None
    assert state.follower_fetched(TWO, Offset(20), 0)


def test_committed_does_not_wait_for_a_member_that_left() -> None:
    state = leader(10, ONE, TWO)
    assert state.in_sync_changed(frozenset((ONE,)))
    assert state.committed == 10


def test_a_follower_lags_only_when_it_has_not_been_level_for_longer_than_allowed() -> None:
    state = leader(10, ONE, TWO)
    state.follower_fetched(TWO, Offset(10), 1_000)
    state.appended(Offset(11))
    assert state.lagging(1_500, 500) == frozenset()
    assert state.lagging(1_501, 500) == {TWO}
    state.follower_fetched(TWO, Offset(11), 1_600)
    assert state.lagging(9_999, 500) == frozenset()


@given(st.lists(st.tuples(st.sampled_from(["append", "two", "three", "shrink", "grow"]), st.integers(0, 8))))
def test_committed_never_goes_back_and_never_passes_an_in_sync_member(steps: list[tuple[str, int]]) -> None:
    state = leader(0, ONE, TWO, THREE)
    ends = {ONE: 0, TWO: 0, THREE: 0}
    for what, amount in steps:
        before = state.committed
        if what == "append":
            ends[ONE] += amount
            moved = state.appended(Offset(ends[ONE]))
        elif what in ("two", "three"):
            node = TWO if what == "two" else THREE
            ends[node] = min(ends[ONE], ends[node] + amount)
            moved = state.follower_fetched(node, Offset(ends[node]), 0)
        elif what == "shrink":
            moved = state.in_sync_changed(frozenset((ONE, TWO)))
        else:
            if ends[THREE] < state.committed:
                continue  # a follower joins the set only when it holds all that is committed
            moved = state.in_sync_changed(frozenset((ONE, TWO, THREE)))
        assert moved == (state.committed > before)
        assert state.committed >= before
        assert all(ends[node] >= state.committed for node in state.in_sync)


def test_members_of_a_proposed_set_count_until_its_fate_is_known() -> None:
    state = leader(10, ONE, TWO)
    state.follower_fetched(TWO, Offset(10), 0)
    assert state.committed == 10
    state.follower_fetched(THREE, Offset(10), 0)
    assert state.caught_up(THREE)
    state.propose(frozenset((ONE, TWO, THREE)))
    state.appended(Offset(20))
    assert not state.follower_fetched(TWO, Offset(20), 1), "the one that may have joined has not got it"
    assert state.follower_fetched(THREE, Offset(15), 1)
    assert state.committed == 15
    assert state.settled(), "it was not stored: the old set alone counts"
    assert state.committed == 20


def test_a_member_that_is_about_to_leave_counts_until_it_has_left() -> None:
    state = leader(10, ONE, TWO)
    state.propose(frozenset((ONE,)))
    assert state.committed == 0
    state.in_sync_changed(frozenset((ONE,)))
    assert state.settled() or state.committed == 10


def test_a_follower_joins_only_with_all_that_was_there_when_the_epoch_began() -> None:
    state = leader(10, ONE)
    state.led(Epoch(6), frozenset((ONE, TWO)))
    state.in_sync_changed(frozenset((ONE,)))
    assert not state.caught_up(TWO)
    state.follower_fetched(TWO, Offset(9), 0)
    assert not state.caught_up(TWO)
    state.follower_fetched(TWO, Offset(10), 0)
    assert state.caught_up(TWO)


def test_a_follower_of_a_busy_partition_does_not_lag_while_it_keeps_pace() -> None:
    state = leader(10, ONE, TWO)
    state.follower_fetched(TWO, Offset(10), 0)
    for now in range(100, 1_000, 100):
        state.appended(Offset(10 + now))
        state.follower_fetched(TWO, Offset(10 + now - 100), now)
    assert state.lagging(1_000, 250) == frozenset()
    assert state.lagging(2_000, 250) == {TWO}


def test_a_follower_has_the_whole_time_from_the_start_of_an_epoch() -> None:
    state = leader(10, ONE, TWO)
    assert state.lagging(50_000, 250) == frozenset()
    assert state.lagging(50_251, 250) == {TWO}


def test_what_waits_is_not_committed_by_fewer_members_than_the_topic_asks_for() -> None:
    state = leader(10, ONE, TWO, THREE)
    state.need(2)
    assert not state.in_sync_changed(frozenset((ONE,)))
    assert not state.appended(Offset(11))
    assert state.committed == 0
    state.follower_fetched(TWO, Offset(11), 0)
    assert state.in_sync_changed(frozenset((ONE, TWO)))
    assert state.committed == 11


def test_a_lower_minimum_commits_what_waited() -> None:
    state = leader(10, ONE, TWO)
    state.need(2)
    state.in_sync_changed(frozenset((ONE,)))
    assert state.need(1)
    assert state.committed == 10


def test_a_replica_that_follows_commits_nothing_by_itself() -> None:
    state = leader(10, ONE)
    state.followed(Epoch(6))
    state.end = Offset(20)
    assert not state.need(1), "as after a change of the topic's settings"
    assert state.committed == 10
    assert not state.is_alone
