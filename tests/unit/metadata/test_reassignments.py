from __future__ import annotations

import pytest

from tidelog import errors
from tidelog.metadata.elections.elections import next_state
from tidelog.metadata.image.image import BrokerImage, PartitionImage
from tidelog.metadata.reassignments import begin, cancel
from tidelog.metadata.records import PartitionRecord, Replicas
from tidelog.types import NodeId

ONE, TWO, THREE, FOUR, FIVE = map(NodeId, range(1, 6))
KNOWN = (ONE, TWO, THREE, FOUR, FIVE)
BROKERS = {node: BrokerImage(node, 1, (), None, False) for node in KNOWN}


def at_rest(replicas: Replicas = (ONE, TWO), in_sync: Replicas | None = None) -> PartitionImage:
    return PartitionImage(0, replicas, ONE, 5, in_sync or replicas, 9, 77)


def stored(record: PartitionRecord) -> PartitionImage:
    assert record.replicas is not None
    return PartitionImage(
        0,
        record.replicas,
        record.leader,
        record.leader_epoch,
        record.in_sync,
        record.partition_epoch,
        78,
        (),
        record.replicas,
        record.adding,
        record.removing,
    )


def moved(partition: PartitionImage, *target: NodeId, same_number: bool = False) -> PartitionRecord:
    record = begin(partition, target, BROKERS, same_number)
    assert record is not None
    return record


def test_old_and_new_replicas_hold_it_while_it_moves() -> None:
    record = moved(at_rest(), THREE, TWO)
    assert (record.replicas, record.adding, record.removing) == ((THREE, TWO, ONE), (THREE,), (ONE,))
    assert (record.leader, record.leader_epoch, record.in_sync) == (ONE, 5, (ONE, TWO))


def test_it_ends_when_the_new_ones_are_in_sync_and_then_the_old_leader_is_out() -> None:
    moving = stored(moved(at_rest(), THREE, TWO))
    assert next_state(moving, KNOWN, KNOWN, lambda: False) is None
    caught_up = moving._replace(in_sync=(THREE, TWO, ONE))
    ended = next_state(caught_up, KNOWN, KNOWN, lambda: False)
    assert ended is not None
    assert (ended.replicas, ended.adding, ended.removing) == ((THREE, TWO), (), ())
    assert (ended.leader, ended.leader_epoch) == (THREE, 6)


def test_a_move_that_only_takes_away_ends_at_once() -> None:
    moving = stored(moved(at_rest((ONE, TWO, THREE)), ONE, TWO))
    ended = next_state(moving, KNOWN, KNOWN, lambda: False)
    assert ended is not None and ended.replicas == (ONE, TWO) and ended.in_sync == (ONE, TWO)


def test_a_move_that_only_adds_ends_when_the_new_ones_are_in_sync() -> None:
    moving = stored(moved(at_rest(), ONE, TWO, THREE))
    assert next_state(moving, KNOWN, KNOWN, lambda: False) is None
    ended = next_state(moving._replace(in_sync=(ONE, TWO, THREE)), KNOWN, KNOWN, lambda: False)
    assert ended is not None
    assert (ended.replicas, ended.adding, ended.removing) == ((ONE, TWO, THREE), (), ())
    assert (ended.leader, ended.leader_epoch, ended.in_sync) == (ONE, 5, (ONE, TWO, THREE))


def test_a_move_to_where_it_is_changes_nothing_and_a_new_order_is_a_move() -> None:
    assert begin(at_rest(), (ONE, TWO), BROKERS, False) is None
    assert moved(at_rest(), TWO, ONE).replicas == (TWO, ONE)


def test_another_move_takes_the_place_of_one_under_way() -> None:
    moving = stored(moved(at_rest(), THREE, FOUR))
    record = moved(moving, ONE, FIVE)
    assert (record.replicas, record.adding, record.removing) == ((ONE, FIVE, TWO), (FIVE,), (TWO,))


def test_a_move_can_be_called_off() -> None:
    moving = stored(moved(at_rest(), THREE, TWO))._replace(in_sync=(THREE, TWO, ONE), leader=THREE)
    record = cancel(moving)
    assert (record.replicas, record.adding, record.removing) == ((TWO, ONE), (), ())
    assert record.in_sync == (TWO, ONE) and record.leader is None
    with pytest.raises(errors.NoReassignmentInProgress):
        cancel(at_rest())


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ((), errors.InvalidReplicaAssignment),
        ((1, 1), errors.InvalidReplicaAssignment),
        ((1, 9), errors.InvalidReplicaAssignment),
        ((1, 2, 3), errors.InvalidReplicationFactor),
    ],
)
def test_impossible_moves_are_refused(target: tuple[int, ...], problem: type[errors.TidelogError]) -> None:
    with pytest.raises(problem):
        begin(at_rest(), target, BROKERS, True)
