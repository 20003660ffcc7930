"""What electing a replica would lose."""

from __future__ import annotations

from tidelog.client.admin.replica_states import PartitionState, ReplicaDoubt, ReplicaLog
from tidelog.client.admin.unclean_election import ElectionChoices, ElectionLoss, choices


def log(end: int, *epochs: tuple[int, int], committed: int = 0, damaged: int = 0) -> ReplicaLog:
    return ReplicaLog(end, committed, damaged, epochs)


def look(
    logs: dict[int, ReplicaLog | None], *doubts: ReplicaDoubt, in_sync: tuple[int, ...] = ()
) -> ElectionChoices:
    """Of a partition with three replicas: those that are named run."""
    state = PartitionState("t", 0, -1, 9, (1, 2, 3), in_sync, (), doubts, ())
    return choices(state, set(logs), logs)


def test_what_another_replica_has_beyond_the_elected_one_is_lost() -> None:
    choices = look({1: log(50, (4, 0)), 2: log(80, (4, 0), committed=60), 3: log(70, (4, 0), committed=75)})
    assert choices.losses == {
        1: ElectionLoss(30, 25, False, ()),
        2: ElectionLoss(0, 0, False, ()),
        3: ElectionLoss(10, 0, False, ()),
    }
    assert choices.best == 2


def test_records_of_a_newer_epoch_count_from_where_it_began() -> None:
    choices = look(
        {1: log(90, (4, 0)), 2: log(60, (4, 0), (5, 40), committed=55), 3: log(60, (4, 0), (5, 40))}
    )
    assert choices.losses[1] == ElectionLoss(20, 15, False, ()), (
        "its own 50 beyond that are cut, whoever leads"
    )
    assert choices.losses[2] == ElectionLoss(0, 0, False, ())
    assert choices.best == 2


def test_a_new_epoch_without_records_is_no_loss() -> None:
    choices = look({1: log(50, (4, 0)), 2: log(50, (4, 0), (5, 50)), 3: log(50, (4, 0))}, in_sync=(1,))
    assert {loss.offsets for loss in choices.losses.values()} == {0} and choices.best == 1


def test_what_retention_has_taken_is_not_lost_again() -> None:
    choices = look({1: log(0), 2: log(1_500, (7, 1_000))})
    assert choices.losses[1].offsets == 500


def test_a_replica_that_does_not_run_is_unknown_unless_it_has_reported() -> None:
    gone = look({1: log(50, (4, 0)), 2: log(40, (4, 0))})
    assert (
        gone.losses == {1: ElectionLoss(0, 0, False, (3,)), 2: ElectionLoss(10, 0, False, (3,))}
        and gone.best == 1
    )
    reported = look({1: log(50, (4, 0)), 2: log(40, (4, 0))}, ReplicaDoubt(3, 4, 70, "power"))
    assert reported.losses == {1: ElectionLoss(20, 0, False, ()), 2: ElectionLoss(30, 0, False, ())}
    newer = look({1: log(50, (4, 0))}, ReplicaDoubt(2, 5, 40, "power"), ReplicaDoubt(3, -1, -1, "missing"))
    assert newer.losses == {1: ElectionLoss(0, 0, True, ())}
    alone = look({1: log(50, (4, 0))}, ReplicaDoubt(2, -1, -1, "power"), ReplicaDoubt(3, -1, -1, "offline"))
    assert alone.losses == {1: ElectionLoss(0, 0, False, (2, 3))}


def test_an_empty_replica_is_no_best_choice_while_another_may_have_records() -> None:
    empty = ReplicaDoubt(1, -1, -1, "new-directory")
    assert look({1: log(0)}, empty).best is None
    assert look({1: log(0), 2: log(0), 3: log(0)}, empty).best == 1
    assert look({1: log(0), 2: log(5, (3, 0))}, empty).best == 2
    assert look({1: None}, empty).best is None, "its directory is offline"
    assert look({}).best is None


def test_of_equal_ends_one_without_damage_is_better() -> None:
    choices = look(
        {1: log(50, (4, 0), damaged=2), 2: log(50, (4, 0)), 3: log(50, (4, 0), damaged=1)}, in_sync=(1,)
    )
    assert choices.best == 2
