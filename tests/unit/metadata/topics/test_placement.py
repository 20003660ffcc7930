from __future__ import annotations

import pytest

from tidelog import errors
from tidelog.metadata.image.image import BrokerImage
from tidelog.metadata.records import Endpoint, PartitionRecord
from tidelog.metadata.topics.placement import check_assignment, check_replicas, first_state, place
from tidelog.types import NodeId

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def test_a_new_partition_stores_its_state_only_when_a_replica_is_down() -> None:
    assert first_state((ONE, TWO), {ONE, TWO, THREE}) is None
    assert first_state((ONE, TWO), {TWO}) == PartitionRecord(TWO, 0, (TWO,), 0)
    with pytest.raises(errors.InvalidReplicaAssignment):
        first_state((ONE,), {TWO})


def test_more_replicas_than_brokers_are_refused() -> None:
    brokers = [BrokerImage(ONE, 1, (Endpoint("PLAINTEXT", "h", 1),), None, False)]
    with pytest.raises(
        errors.InvalidReplicationFactor,
        match="replication factor of 2 cannot be reached because only 1 broker",
    ):
        place(brokers, 1, 2, 0)


def test_small_topics_begin_at_different_brokers() -> None:
    brokers = [BrokerImage(NodeId(node), 1, (), None, False) for node in range(3)]
    assert {place(brokers, 1, 1, start)[0][0] for start in range(3)} == {0, 1, 2}


def on_machine(node: NodeId, machine: str | None) -> BrokerImage:
    return BrokerImage(node, 1, (), None, False, machine=machine)


def test_replicas_never_share_a_machine() -> None:
    brokers = [on_machine(ONE, "a"), on_machine(TWO, "a"), on_machine(THREE, None)]
    for replicas in place(brokers, 12, 2, 0):
        assert THREE in replicas
    with pytest.raises(errors.InvalidReplicationFactor, match=r"3 registered brokers run on 2 machine"):
        place(brokers, 1, 3, 0)


def test_an_assignment_to_one_machine_is_refused() -> None:
    brokers = {ONE: on_machine(ONE, "a"), TWO: on_machine(TWO, "a"), THREE: on_machine(THREE, "b")}
    check_replicas([1, 3], brokers)
    with pytest.raises(
        errors.InvalidReplicaAssignment, match="brokers 1 and 2, which run on the same machine, a"
    ):
        check_replicas([3, 1, 2], brokers)


def test_partitions_of_one_assignment_have_equally_many_replicas() -> None:
    brokers = {node: on_machine(node, None) for node in (ONE, TWO)}
    check_assignment({0: [1, 2], 1: [2, 1]}, 0, brokers)
    with pytest.raises(
        errors.InvalidReplicaAssignment, match=r"Partition . has . replicas in the assignment, and partition"
    ):
        check_assignment({0: [1, 2], 1: [2]}, 0, brokers)
