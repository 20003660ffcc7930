from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.metadata.image import Partition
from tidelog.metadata.records import PartitionRecord, Replicas, Tail
from tidelog.metadata.upkeep import next_state
from tidelog.types import NodeId

ONE, TWO, THREE, FOUR = NodeId(1), NodeId(2), NodeId(3), NodeId(4)
ALL = (ONE, TWO, THREE)


def partition(leader: NodeId | None, in_sync: Replicas, **more: object) -> Partition:
    replicas = more.pop("replicas", ALL)
    return Partition(0, replicas, leader, 5, in_sync, 9, 77, **more)  # type: ignore[arg-type]


def after(
    one: Partition, live: Replicas, leaving: Replicas = (), unclean: bool = False
) -> PartitionRecord | None:
    return next_state(one, live, live + leaving, lambda: unclean)


def test_nothing_changes_when_all_run() -> None:
    assert after(partition(ONE, ALL), ALL) is None
    assert after(partition(ONE, (ONE,)), ALL) is None


def test_a_dead_leader_is_followed_by_the_first_live_in_sync_replica_and_leaves_the_set() -> None:
    assert after(partition(ONE, ALL), (TWO, THREE)) == PartitionRecord(TWO, 6, (TWO, THREE), 10)
    assert after(partition(ONE, (ONE, THREE)), (TWO, THREE)) == PartitionRecord(THREE, 6, (THREE,), 10)


def test_a_dead_follower_leaves_the_set_and_the_leader_keeps_its_epoch() -> None:
    assert after(partition(ONE, ALL), (ONE, THREE)) == PartitionRecord(ONE, 5, (ONE, THREE), 10)


def test_the_last_in_sync_members_stay_when_they_die() -> None:
    assert after(partition(ONE, (ONE,)), (TWO, THREE)) == PartitionRecord(None, 6, (ONE,), 10)
    assert after(partition(ONE, (ONE, TWO)), (THREE,)) == PartitionRecord(None, 6, (ONE, TWO), 10)
    assert after(partition(None, (ONE,)), (TWO, THREE)) is None
    assert after(partition(None, (ONE, TWO)), (TWO, THREE)) == PartitionRecord(TWO, 6, (TWO,), 10)


def test_a_topic_that_says_so_is_led_by_whoever_runs() -> None:
    assert after(partition(ONE, (ONE,)), (THREE,), unclean=True) == PartitionRecord(THREE, 6, (THREE,), 10)
    assert after(partition(ONE, (ONE,)), (FOUR,), unclean=True) == PartitionRecord(None, 6, (ONE,), 10)


def test_one_that_is_leaving_gives_away_what_it_leads_if_somebody_can_take_it() -> None:
    assert after(partition(ONE, ALL), (TWO, THREE), (ONE,)) == PartitionRecord(TWO, 6, (TWO, THREE), 10)
    assert after(partition(ONE, (ONE,)), (TWO, THREE), (ONE,)) is None


def test_a_member_that_may_have_lost_its_end_leaves_the_set_when_another_has_it() -> None:
    unsure = partition(ONE, ALL, unsure=(Tail(ONE, 5, 100),))
    assert after(unsure, ALL) == PartitionRecord(TWO, 6, (TWO, THREE), 10)
    follower = partition(ONE, ALL, unsure=(Tail(TWO, 5, 100),))
    assert after(follower, ALL) == PartitionRecord(ONE, 6, (ONE, THREE), 10)


def test_it_waits_for_a_member_that_is_sure() -> None:
    unsure = partition(None, (ONE, TWO), unsure=(Tail(ONE, 5, 100),))
    assert after(unsure, (ONE,)) == PartitionRecord(None, 6, (TWO,), 10)
    assert after(partition(None, (TWO,)), (ONE, TWO)) == PartitionRecord(TWO, 6, (TWO,), 10)


def test_when_all_may_have_lost_their_end_the_newest_epoch_and_then_the_longest_log_leads() -> None:
    tails = (Tail(ONE, 4, 900), Tail(TWO, 5, 100), Tail(THREE, 5, 120))
    assert after(partition(None, ALL, unsure=tails), ALL) == PartitionRecord(THREE, 6, (THREE,), 10)
    assert after(partition(None, ALL, unsure=tails), (ONE, TWO)) == PartitionRecord(None, 6, (THREE,), 10)


def test_a_leader_alone_leads_on_in_a_new_epoch_after_a_power_cut() -> None:
    alone = partition(ONE, (ONE,), replicas=(ONE,), unsure=(Tail(ONE, 5, 100),))
    assert after(alone, (ONE,)) == PartitionRecord(ONE, 6, (ONE,), 10)


def test_a_move_is_done_when_all_of_its_target_are_in_sync() -> None:
    moving = {"replicas": (FOUR, TWO, ONE), "adding": (FOUR,), "removing": (ONE,), "moved": (FOUR, TWO, ONE)}
    early = partition(ONE, (ONE, TWO), **moving)
    assert after(early, (ONE, TWO, FOUR)) is None
    ready = partition(ONE, (ONE, TWO, FOUR), **moving)
    assert after(ready, (ONE, TWO, FOUR)) == PartitionRecord(
        FOUR, 6, (TWO, FOUR), 10, (), (FOUR, TWO), (), ()
    )


NODES = st.sampled_from((ONE, TWO, THREE, FOUR))
SETS = st.lists(NODES, unique=True, max_size=4).map(tuple)


@given(st.none() | NODES, SETS.filter(len), SETS.filter(len), SETS, SETS, st.sets(NODES), st.booleans())
def test_whatever_happens_a_leader_is_in_sync_and_what_was_acknowledged_has_a_home(
    leader: NodeId | None,
    replicas: Replicas,
    members: Replicas,
    live: Replicas,
    leaving: Replicas,
    unsure: set[NodeId],
    unclean: bool,
) -> None:
    in_sync = tuple(node for node in members if node in replicas) or replicas[:1]
    tails = tuple(Tail(node, 3, 10 * node) for node in in_sync if node in unsure)
    leader = leader if leader in in_sync else None
    one = partition(leader, in_sync, replicas=replicas, unsure=tails)
    changed = after(one, live, leaving, unclean)
    if changed is None:
        return
    assert changed.in_sync
    assert changed.leader is None or changed.leader in changed.in_sync
    assert changed.partition_epoch == 10
    if not unclean:
        assert set(changed.in_sync) <= set(in_sync)
        sure = set(in_sync) - {tail.node for tail in tails}
        assert not sure or set(changed.in_sync) <= sure
    if changed.leader != leader:
        assert changed.leader_epoch == 6
    settled = partition(changed.leader, changed.in_sync, replicas=replicas, unsure=changed.unsure)
    assert after(settled, live, leaving, unclean) is None, "a state that is right stays"
