from __future__ import annotations

from tidelog.metadata.elections.elections import awaited, best_in_doubt, next_epoch
from tidelog.metadata.elections.replica_doubts import (
    NO_LOG,
    ReplicaCondition,
    handed_over,
    in_doubt,
    reported_again,
    restarted,
    rolled_back,
)
from tidelog.metadata.image.image import PartitionImage
from tidelog.metadata.records import Cause, PartitionRecord, Replicas, Tail
from tidelog.types import NodeId

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ALL = (ONE, TWO, THREE)
SURE = ReplicaCondition(None, lambda: (5, 100))
POWER = ReplicaCondition(Cause.POWER, lambda: (5, 100))
MISSING = ReplicaCondition(Cause.MISSING, lambda: NO_LOG)


def partition(leader: NodeId | None, in_sync: Replicas, **more: object) -> PartitionImage:
    replicas = more.pop("replicas", ALL)
    return PartitionImage(0, replicas, leader, 5, in_sync, 9, 77, **more)  # type: ignore[arg-type]


def test_a_leader_in_doubt_gives_up_its_leadership_in_the_same_change() -> None:
    assert restarted(partition(ONE, ALL), ONE, POWER, unclean=True) == PartitionRecord(
        None, 6, ALL, 10, (Tail(ONE, 5, 100),)
    )


def test_a_follower_in_doubt_leaves_the_leader_alone() -> None:
    assert restarted(partition(TWO, ALL), ONE, POWER, unclean=True) == PartitionRecord(
        TWO, 5, ALL, 10, (Tail(ONE, 5, 100, followed=True),)
    )
    assert restarted(partition(TWO, (TWO, THREE)), ONE, POWER, unclean=True) is None


def test_a_leader_that_was_killed_leads_on_in_a_new_epoch() -> None:
    assert restarted(partition(ONE, ALL), ONE, SURE, unclean=True) == PartitionRecord(ONE, 6, ALL, 10)
    assert restarted(partition(ONE, ALL), ONE, SURE, unclean=False) is None


def test_the_only_holder_has_the_best_log_there_is() -> None:
    assert restarted(partition(ONE, (ONE,)), ONE, POWER, unclean=True) == PartitionRecord(ONE, 7, (ONE,), 10)
    never_made = partition(ONE, (ONE,), replicas=(ONE,))
    assert restarted(never_made, ONE, MISSING, unclean=False) == PartitionRecord(ONE, 7, (ONE,), 10)


def test_the_only_holder_does_not_lead_without_its_log_when_others_may_have_an_old_one() -> None:
    assert restarted(partition(ONE, (ONE,)), ONE, MISSING, unclean=False) == PartitionRecord(
        None, 6, (ONE,), 10, (Tail(ONE, -1, -1, Cause.MISSING),)
    )


def test_a_doubt_stays_over_another_restart_with_the_log_as_it_is_now() -> None:
    before = partition(None, ALL, doubts=(Tail(ONE, 5, 120),))
    changed = restarted(before, ONE, SURE, unclean=False)
    assert changed is not None and changed.doubts == (Tail(ONE, 5, 100),)
    assert restarted(before, ONE, ReplicaCondition(None, lambda: (5, 120)), unclean=False) is None


def test_an_empty_log_in_the_place_of_a_missing_one_does_not_end_the_doubt() -> None:
    missing = Tail(ONE, -1, -1, Cause.MISSING)
    assert restarted(partition(None, ALL, doubts=(missing,)), ONE, SURE, unclean=True) is None


def test_a_directory_that_is_there_again_ends_the_doubt() -> None:
    before = partition(None, (ONE,), doubts=(Tail(ONE, -1, -1, Cause.OFFLINE),))
    assert restarted(before, ONE, SURE, unclean=False) == PartitionRecord(None, 5, (ONE,), 10)


def test_a_directory_that_was_away_meanwhile_does_not_end_another_doubt() -> None:
    before = partition(None, ALL, doubts=(Tail(ONE, 5, 120),))
    offline = ReplicaCondition(Cause.OFFLINE, lambda: NO_LOG)
    away = restarted(before, ONE, offline, unclean=False)
    assert away == PartitionRecord(None, 5, ALL, 10, (Tail(ONE, -1, -1),)), (
        "nobody knows how far it reaches now"
    )
    before = partition(None, ALL, doubts=away.doubts)
    assert restarted(before, ONE, offline, unclean=False) is None
    back = restarted(before, ONE, SURE, unclean=False)
    assert back is not None and back.doubts == (Tail(ONE, 5, 100),)


def test_a_running_broker_whose_disk_failed_hands_over_to_a_holder_that_runs() -> None:
    changed = handed_over(partition(ONE, ALL), ONE, Cause.DISK, lambda: NO_LOG, ALL)
    failed = Tail(ONE, -1, -1, Cause.DISK, followed=True)
    assert changed == PartitionRecord(TWO, 6, ALL, 10, (failed,))
    follower = handed_over(partition(TWO, ALL), ONE, Cause.DISK, lambda: NO_LOG, ALL)
    assert follower == PartitionRecord(TWO, 5, ALL, 10, (failed,))


def test_the_last_holder_that_runs_stays_what_it_is() -> None:
    assert handed_over(partition(ONE, (ONE,)), ONE, Cause.DISK, lambda: NO_LOG, ALL) is None
    assert handed_over(partition(ONE, ALL), ONE, Cause.DISK, lambda: NO_LOG, (ONE,)) is None


def test_doubts_that_a_backup_brought_back_do_not_count_as_reports() -> None:
    """They are of another time: the logs of those brokers may have everything now."""
    backup = partition(None, ALL, doubts=(Tail(ONE, -1, 0), Tail(TWO, -1, -1, Cause.MISSING)))
    first = rolled_back(backup, THREE, lambda: (5, 19), lambda: 5, certain=True)
    assert first is not None and first.doubts == (Tail(THREE, 5, 19, Cause.ROLLED_BACK),)


def test_reports_that_a_backup_brought_back_do_not_count() -> None:
    """A backup of the time in which brokers reported after an earlier restoration: they have other records now."""
    old = tuple(Tail(node, -1, 0, Cause.ROLLED_BACK) for node in (ONE, THREE))
    backup = partition(None, ALL, doubts=old)
    first = rolled_back(backup, ONE, lambda: (-1, 0), lambda: -1, certain=True)
    assert first is not None and first.doubts == (Tail(ONE, -1, 0, Cause.ROLLED_BACK),)
    reported = partition(None, ALL, doubts=first.doubts)
    assert rolled_back(reported, ONE, lambda: (-1, 0), lambda: -1, certain=True) is None
    second = rolled_back(reported, THREE, lambda: (6, 19), lambda: 6)
    assert second is not None and second.doubts == (Tail(THREE, 6, 19, Cause.ROLLED_BACK),)
    again = rolled_back(partition(None, ALL, doubts=second.doubts), ONE, lambda: (-1, 0), lambda: -1)
    assert again is not None and len(again.doubts) == 2


def test_a_log_that_has_grown_since_its_report_is_reported_again_while_nobody_leads() -> None:
    doubts = (Tail(ONE, 4, 50), Tail(TWO, -1, -1, Cause.MISSING), Tail(THREE, -1, -1, Cause.OFFLINE))
    waiting = partition(None, ALL, doubts=doubts)
    grown = reported_again(waiting, TWO, lambda: (5, 60))
    assert grown == PartitionRecord(None, 5, ALL, 10, (doubts[0], Tail(TWO, 5, 60, Cause.POWER), doubts[2]))
    assert reported_again(waiting, ONE, lambda: (4, 50)) is None
    assert reported_again(waiting, ONE, lambda: (4, 40)) is None
    assert reported_again(waiting, TWO, lambda: (-1, 0)) is None  # an empty log in the place of a missing one
    assert reported_again(waiting, THREE, lambda: (5, 60)) is None
    assert reported_again(waiting._replace(leader=ONE), TWO, lambda: (5, 60)) is None


def test_a_report_from_before_the_last_leader_does_not_elect() -> None:
    """The replica in doubt may have fetched from that leader, or have cut its log to follow it."""
    led = partition(ONE, (ONE, TWO))
    doubted = in_doubt(led, TWO, Cause.POWER, lambda: (4, 50))
    assert doubted is not None and doubted.doubts == (Tail(TWO, 4, 50, followed=True),)
    all_down = in_doubt(partition(ONE, (ONE, TWO), doubts=doubted.doubts), ONE, Cause.POWER, lambda: (5, 40))
    assert all_down is not None and all_down.leader is None
    waiting = partition(None, (ONE, TWO), doubts=all_down.doubts)
    assert best_in_doubt(waiting) is None
    assert awaited(waiting, {ONE}) == (TWO,)
    for reach in ((5, 60), (4, 50), (4, 30)):
        started = restarted(waiting, TWO, ReplicaCondition(None, lambda reach=reach: reach), unclean=True)  # type: ignore[misc]
        runs = reported_again(waiting, TWO, lambda reach=reach: reach)  # type: ignore[misc]
        assert started is not None and runs is not None
        assert set(started.doubts) == set(runs.doubts) == {Tail(ONE, 5, 40), Tail(TWO, *reach)}
        assert best_in_doubt(waiting._replace(doubts=runs.doubts)) == (TWO if reach == (5, 60) else ONE)
    damaged = reported_again(waiting, TWO, lambda: (5, 60), damaged=True)
    assert damaged is not None and damaged.doubts[0] == Tail(TWO, 5, 60, Cause.DAMAGED)
    elected = next_epoch(partition(None, ALL, doubts=(Tail(ONE, 5, 40), Tail(TWO, 4, 50))), ONE)
    assert elected.doubts == (Tail(TWO, 4, 50, followed=True),)
