from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog import errors
from tidelog.metadata.elections.elections import (
    awaited,
    can_be_preferred,
    elect_preferred,
    elect_unclean,
    next_state,
)
from tidelog.metadata.image.image import PartitionImage
from tidelog.metadata.records import Cause, PartitionRecord, Replicas, Tail
from tidelog.types import NodeId

ONE, TWO, THREE, FOUR = NodeId(1), NodeId(2), NodeId(3), NodeId(4)
ALL = (ONE, TWO, THREE)


def partition(leader: NodeId | None, in_sync: Replicas, **more: object) -> PartitionImage:
    replicas = more.pop("replicas", ALL)
    return PartitionImage(0, replicas, leader, 5, in_sync, 9, 77, **more)  # type: ignore[arg-type]


def after(
    before: PartitionImage, live: Replicas, leaving: Replicas = (), unclean: bool = False
) -> PartitionRecord | None:
    return next_state(before, live, live + leaving, lambda: unclean)


def test_nothing_changes_when_all_run() -> None:
    assert after(partition(ONE, ALL), ALL) is None
    assert after(partition(ONE, (ONE,)), ALL) is None


def test_a_dead_leader_is_followed_by_the_first_live_in_sync_replica_and_the_set_stays() -> None:
    assert after(partition(ONE, ALL), (TWO, THREE)) == PartitionRecord(TWO, 6, ALL, 10)
    assert after(partition(ONE, (ONE, THREE)), (TWO, THREE)) == PartitionRecord(THREE, 6, (ONE, THREE), 10)


def test_a_dead_follower_is_its_leaders_business() -> None:
    assert after(partition(ONE, ALL), (ONE, THREE)) is None


def test_nobody_leads_when_no_in_sync_replica_runs() -> None:
    assert after(partition(ONE, (ONE,)), (TWO, THREE)) == PartitionRecord(None, 6, (ONE,), 10)
    assert after(partition(ONE, (ONE, TWO)), (THREE,)) == PartitionRecord(None, 6, (ONE, TWO), 10)
    assert after(partition(None, (ONE,)), (TWO, THREE)) is None
    assert after(partition(None, (ONE, TWO)), (TWO, THREE)) == PartitionRecord(TWO, 6, (ONE, TWO), 10)


def test_a_topic_that_says_so_is_led_by_any_replica_that_runs() -> None:
    assert after(partition(ONE, (ONE,)), (THREE,), unclean=True) == PartitionRecord(THREE, 6, (THREE,), 10)
    assert after(partition(ONE, (ONE,)), (FOUR,), unclean=True) == PartitionRecord(None, 6, (ONE,), 10)


def test_a_broker_that_is_leaving_gives_away_what_it_leads_if_another_can_take_it() -> None:
    assert after(partition(ONE, ALL), (TWO, THREE), (ONE,)) == PartitionRecord(TWO, 6, ALL, 10)
    assert after(partition(ONE, (ONE,)), (TWO, THREE), (ONE,)) is None


def test_a_broker_in_doubt_is_passed_over_and_stays_in_doubt() -> None:
    doubts = (Tail(ONE, 5, 100),)
    assert after(partition(None, ALL, doubts=doubts), ALL) == PartitionRecord(
        TWO, 6, ALL, 10, (Tail(ONE, 5, 100, followed=True),)
    )
    assert after(partition(TWO, ALL, doubts=doubts), ALL) is None, "the leader drops it"


def test_a_partition_waits_for_a_member_that_has_not_reported() -> None:
    before = partition(None, (ONE, TWO), doubts=(Tail(ONE, 5, 100),))
    assert after(before, (ONE, THREE)) is None
    assert awaited(before, (ONE, THREE)) == (TWO,)
    after_return = after(before, (ONE, TWO))
    assert after_return is not None and after_return.leader == TWO


def test_when_all_are_in_doubt_the_newest_epoch_and_then_the_longest_log_leads() -> None:
    tails = (Tail(ONE, 4, 900), Tail(TWO, 5, 100), Tail(THREE, 5, 120))
    before = partition(None, ALL, doubts=tails)
    others = tuple(tail._replace(followed=True) for tail in tails[:2])
    assert after(before, ALL) == PartitionRecord(THREE, 6, ALL, 10, others), "others stay in doubt"
    assert after(before, (ONE, TWO)) is None
    assert awaited(before, (ONE, TWO)) == (THREE,)


def test_a_directory_that_is_offline_is_waited_for() -> None:
    tails = (Tail(ONE, 5, 100), Tail(TWO, 5, 90), Tail(THREE, -1, -1, Cause.OFFLINE))
    assert after(partition(None, ALL, doubts=tails), ALL) is None
    assert awaited(partition(None, ALL, doubts=tails), ALL) == (THREE,)


def test_a_disk_that_failed_under_its_broker_is_waited_for() -> None:
    """It may have everything, and work again: how far its log reaches is known when the broker has started anew."""
    failed, others = Tail(THREE, -1, -1, Cause.DISK), (Tail(ONE, 5, 100), Tail(TWO, 5, 90))
    before = partition(None, ALL, doubts=(*others, failed))
    assert after(before, ALL) is None
    assert awaited(before, ALL) == (THREE,)
    changed = after(partition(None, ALL, doubts=(*others, Tail(THREE, 5, 120, Cause.DISK))), ALL)
    assert changed is not None and changed.leader == THREE


def test_of_metadata_that_were_rolled_back_a_log_that_nobody_can_read_is_waited_for_and_an_empty_one_is_not() -> (
    None
):
    tails = (Tail(ONE, 5, 100, Cause.ROLLED_BACK), Tail(TWO, 5, 90, Cause.ROLLED_BACK))
    before = partition(None, ALL, doubts=(*tails, Tail(THREE, -1, -1, Cause.ROLLED_BACK)))
    assert after(before, ALL) is None
    assert awaited(before, ALL) == (THREE,)
    changed = after(partition(None, ALL, doubts=(*tails, Tail(THREE, -1, 0, Cause.ROLLED_BACK))), ALL)
    assert changed is not None and changed.leader == ONE


def test_doubts_outlive_an_elected_leader_that_turns_out_to_be_in_doubt_too() -> None:
    elected = PartitionRecord(TWO, 6, ALL, 10, (Tail(ONE, 5, 100),))
    back = partition(None, elected.in_sync, doubts=(*elected.doubts, Tail(TWO, 5, 90), Tail(THREE, 5, 80)))
    changed = after(back, ALL)
    assert changed is not None and changed.leader == ONE


def test_a_replica_without_a_log_is_not_elected_while_another_may_have_one() -> None:
    empty = Tail(ONE, -1, -1, Cause.MISSING)
    assert after(partition(None, (ONE,), doubts=(empty,)), ALL) is None
    assert awaited(partition(None, (ONE,), doubts=(empty,)), ALL) == (), "an operator has to decide"
    new = Tail(ONE, -1, -1, Cause.NEW_DIRECTORY)
    assert after(partition(None, (ONE,), replicas=(ONE,), doubts=(new,)), ALL) is None
    changed = after(partition(None, (ONE, TWO), doubts=(new, Tail(TWO, 3, 10))), ALL)
    assert changed is not None and changed.leader == TWO


def test_a_partition_whose_logs_were_never_made_gets_a_leader() -> None:
    tails = tuple(Tail(node, -1, -1, Cause.MISSING) for node in ALL)
    changed = after(partition(None, ALL, doubts=tails), ALL)
    assert changed is not None and changed.leader == ONE


def test_an_eligible_leader_replica_leads_when_no_member_can() -> None:
    before = partition(ONE, (ONE,), eligible=(TWO,))
    assert after(before, (TWO, THREE)) == PartitionRecord(TWO, 6, (ONE, TWO), 10)
    assert after(before, (THREE,)) == PartitionRecord(None, 6, (ONE,), 10, eligible=(TWO,))


def test_a_move_ends_when_all_of_its_target_are_in_sync_and_none_in_doubt() -> None:
    moving = {"replicas": (FOUR, TWO, ONE), "adding": (FOUR,), "removing": (ONE,), "moved": (FOUR, TWO, ONE)}
    assert after(partition(ONE, (ONE, TWO), **moving), (ONE, TWO, FOUR)) is None
    ready = partition(ONE, (ONE, TWO, FOUR), **moving)
    assert after(ready, (ONE, TWO, FOUR)) == PartitionRecord(
        FOUR, 6, (TWO, FOUR), 10, (), (FOUR, TWO), (), ()
    )
    assert after(ready._replace(doubts=(Tail(FOUR, 5, 10),)), (ONE, TWO, FOUR)) is None


def test_the_preferred_leader_is_elected_only_if_it_can_lead() -> None:
    assert elect_preferred(partition(TWO, (ONE, TWO)), {ONE, TWO}).leader == ONE
    with pytest.raises(errors.ElectionNotNeeded):
        elect_preferred(partition(ONE, (ONE, TWO)), {ONE, TWO})
    with pytest.raises(errors.PreferredLeaderNotAvailable):
        elect_preferred(partition(TWO, (ONE, TWO)), {TWO})
    with pytest.raises(errors.PreferredLeaderNotAvailable):
        elect_preferred(partition(TWO, (TWO,)), {ONE, TWO})
    with pytest.raises(errors.PreferredLeaderNotAvailable):
        elect_preferred(partition(TWO, (ONE, TWO), doubts=(Tail(ONE, 5, 10),)), {ONE, TWO})


def test_the_preferred_leader_is_not_elected_before_all_logs_were_reported_after_a_restoration() -> None:
    waiting = partition(None, ALL, doubts=(Tail(TWO, 5, 90, Cause.ROLLED_BACK),))
    assert not can_be_preferred(waiting, ALL)
    with pytest.raises(errors.PreferredLeaderNotAvailable):
        elect_preferred(waiting, ALL)


def test_an_unclean_election_needs_a_dead_leader_and_a_live_replica() -> None:
    assert elect_unclean(partition(None, (ONE,)), {THREE}).leader == THREE
    assert elect_unclean(partition(ONE, (ONE, TWO)), {TWO}).in_sync == (ONE, TWO), "nothing is lost"
    with pytest.raises(errors.ElectionNotNeeded):
        elect_unclean(partition(ONE, (ONE,)), {ONE})
    with pytest.raises(errors.EligibleLeadersNotAvailable):
        elect_unclean(partition(None, (ONE,)), {FOUR})


def test_an_unclean_election_takes_the_replica_that_probably_loses_least_or_the_one_that_is_chosen() -> None:
    waiting = partition(None, ALL, doubts=(Tail(ONE, 4, 900), Tail(TWO, 5, 100)))
    assert elect_unclean(waiting, {ONE, TWO}) == PartitionRecord(TWO, 6, (TWO,), 10)
    assert elect_unclean(waiting, {ONE, TWO}, chosen=ONE) == PartitionRecord(ONE, 6, (ONE,), 10)
    empty = partition(None, (ONE,), doubts=(Tail(ONE, -1, -1, Cause.NEW_DIRECTORY),))
    assert elect_unclean(empty, {ONE, TWO}).leader == TWO
    with pytest.raises(errors.EligibleLeadersNotAvailable):
        elect_unclean(waiting, {ONE, TWO}, chosen=THREE)


NODES = st.sampled_from((ONE, TWO, THREE, FOUR))
SETS = st.lists(NODES, unique=True, max_size=4).map(tuple)


@given(st.none() | NODES, SETS.filter(len), SETS.filter(len), SETS, SETS, SETS, st.sets(NODES), st.booleans())
def test_whatever_happens_a_leader_is_in_sync_and_what_was_acknowledged_has_a_home(
    leader: NodeId | None,
    replicas: Replicas,
    members: Replicas,
    others: Replicas,
    live: Replicas,
    leaving: Replicas,
    doubted: set[NodeId],
    unclean: bool,
) -> None:
    in_sync = tuple(node for node in members if node in replicas) or replicas[:1]
    eligible = tuple(node for node in others if node in replicas and node not in in_sync)
    tails = tuple(Tail(node, 3, 10 * node) for node in in_sync + eligible if node in doubted)
    leader = leader if leader in in_sync and leader not in doubted else None
    before = partition(leader, in_sync, replicas=replicas, doubts=tails, eligible=eligible)
    changed = after(before, live, leaving, unclean)
    if changed is None:
        return
    assert changed.leader is None or changed.leader in changed.in_sync
    assert changed.leader not in {tail.node for tail in changed.doubts}
    assert changed.partition_epoch == 10
    assert changed.leader_epoch == 6, "there is another leader, or none"
    if not unclean:
        assert set(changed.in_sync) >= set(in_sync)
        assert set(changed.in_sync + changed.eligible) == set(in_sync + eligible)
        sure = set(in_sync + eligible) - doubted
        assert changed.leader is None or not sure or changed.leader in sure
        assert sure or {tail.node for tail in changed.doubts} == doubted & set(in_sync + eligible) - {
            changed.leader
        }
    settled = partition(
        changed.leader,
        changed.in_sync,
        replicas=replicas,
        doubts=changed.doubts,
        eligible=changed.eligible,
    )
    assert after(settled, live, leaving, unclean) is None, "a state that is right stays"
