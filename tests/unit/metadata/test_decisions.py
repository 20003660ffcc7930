from __future__ import annotations

import pytest

from tidelog import errors
from tidelog.metadata.decisions import (
    check_assignment,
    choose_leader,
    elect_preferred,
    elect_unclean,
    first_state,
    place,
)
from tidelog.metadata.image import Broker, Partition
from tidelog.metadata.records import Endpoint, PartitionRecord
from tidelog.types import NodeId

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def partition(leader: NodeId | None, in_sync: tuple[NodeId, ...]) -> Partition:
    return Partition(0, (ONE, TWO, THREE), leader, 5, in_sync, 9, 77)


def test_a_leader_that_runs_stays() -> None:
    assert choose_leader(partition(ONE, (ONE, TWO)), {ONE}, unclean=True) is None


def test_the_first_live_in_sync_replica_follows_a_dead_leader() -> None:
    assert choose_leader(partition(ONE, (ONE, TWO, THREE)), {TWO, THREE}, unclean=False) == PartitionRecord(
        TWO, 6, (ONE, TWO, THREE), 10
    )
    assert choose_leader(partition(ONE, (ONE, THREE)), {TWO, THREE}, unclean=False) == PartitionRecord(
        THREE, 6, (ONE, THREE), 10
    )


def test_nobody_leads_when_no_in_sync_replica_runs() -> None:
    gone = choose_leader(partition(ONE, (ONE,)), {TWO}, unclean=False)
    assert gone == PartitionRecord(None, 6, (ONE,), 10)
    assert choose_leader(partition(None, (ONE,)), {TWO}, unclean=False) is None


def test_leadership_comes_back_with_the_last_in_sync_replica() -> None:
    assert choose_leader(partition(None, (ONE,)), {ONE, TWO}, unclean=False) == PartitionRecord(
        ONE, 6, (ONE,), 10
    )


def test_an_unclean_leader_is_in_sync_alone() -> None:
    assert choose_leader(partition(ONE, (ONE,)), {THREE}, unclean=True) == PartitionRecord(
        THREE, 6, (THREE,), 10
    )


def test_the_preferred_leader_is_elected_only_if_it_can_lead() -> None:
    assert elect_preferred(partition(TWO, (ONE, TWO)), {ONE, TWO}).leader == ONE
    with pytest.raises(errors.ElectionNotNeeded):
        elect_preferred(partition(ONE, (ONE, TWO)), {ONE, TWO})
    with pytest.raises(errors.PreferredLeaderNotAvailable):
        elect_preferred(partition(TWO, (ONE, TWO)), {TWO})
    with pytest.raises(errors.PreferredLeaderNotAvailable):
        elect_preferred(partition(TWO, (TWO,)), {ONE, TWO})


def test_an_unclean_election_needs_a_dead_leader_and_a_live_replica() -> None:
    assert elect_unclean(partition(None, (ONE,)), {THREE}).leader == THREE
    assert elect_unclean(partition(ONE, (ONE, TWO)), {TWO}).in_sync == (ONE, TWO)
    with pytest.raises(errors.ElectionNotNeeded):
        elect_unclean(partition(ONE, (ONE,)), {ONE})
    with pytest.raises(errors.EligibleLeadersNotAvailable):
        elect_unclean(partition(None, (ONE,)), {NodeId(9)})


def test_a_new_partition_stores_its_state_only_when_a_replica_is_down() -> None:
    assert first_state((ONE, TWO), {ONE, TWO, THREE}) is None
    assert first_state((ONE, TWO), {TWO}) == PartitionRecord(TWO, 0, (TWO,), 0)
    with pytest.raises(errors.InvalidReplicaAssignment):
        first_state((ONE,), {TWO})


def test_more_replicas_than_brokers_are_refused() -> None:
    brokers = [Broker(ONE, 1, (Endpoint("PLAINTEXT", "h", 1),), None, False)]
    with pytest.raises(
        errors.InvalidReplicationFactor, match="2 replicas need as many brokers, and there are 1"
    ):
        place(brokers, 1, 2, 0)


def test_small_topics_begin_at_different_brokers() -> None:
    brokers = [Broker(NodeId(node), 1, (), None, False) for node in range(3)]
    assert {place(brokers, 1, 1, start)[0][0] for start in range(3)} == {0, 1, 2}


def test_partitions_of_one_assignment_have_equally_many_replicas() -> None:
    check_assignment({0: [1, 2], 1: [2, 1]}, 0, {ONE, TWO})
    with pytest.raises(errors.InvalidReplicaAssignment, match="another number of replicas"):
        check_assignment({0: [1, 2], 1: [2]}, 0, {ONE, TWO})
