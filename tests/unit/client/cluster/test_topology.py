from __future__ import annotations

import uuid

from tidelog import errors
from tidelog.client.cluster.topology import Node, Topology, under_replicated
from tidelog.types import TopicPartition
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ORDERS = TopicPartition("orders", 0)
ONE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def answer(
    leader: int, epoch: int, topic_id: uuid.UUID = ONE, *, nodes: tuple[int, ...] = (1, 2)
) -> MetadataResponse:
    partition = MetadataResponsePartition(0, 0, leader, epoch, replica_nodes=[1, 2], isr_nodes=[leader])
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node, f"b{node}", 9092) for node in nodes],
        topics=[MetadataResponseTopic(0, "orders", topic_id, False, [partition])],
    )


def test_a_topology_knows_who_leads() -> None:
    topology = Topology().answered(answer(2, 5))
    assert topology.leader(ORDERS) == 2
    assert topology.leader(TopicPartition("orders", 1)) is None
    assert topology.leader(TopicPartition("else", 0)) is None


def test_a_broker_that_lags_behind_does_not_bring_back_a_deposed_leader() -> None:
    topology = Topology().answered(answer(2, 5)).answered(answer(1, 4))
    assert topology.leader(ORDERS) == 2
    assert topology.answered(answer(1, 6)).leader(ORDERS) == 1


def test_a_broker_that_does_not_lead_says_who_does() -> None:
    topology = Topology().answered(answer(2, 5, nodes=(1, 2)))
    assert topology.led(ORDERS, 1, 6, ()).leader(ORDERS) == 1
    assert topology.led(ORDERS, 3, 6, [Node(3, "b3", 9092)]).nodes[3].host == "b3"
    for same in (
        topology.led(ORDERS, 1, 5, ()),  # no news
        topology.led(ORDERS, 1, 4, ()),
        topology.led(ORDERS, 3, 6, ()),  # where is it?
        topology.led(TopicPartition("else", 0), 1, 6, ()),
        topology.led(TopicPartition("orders", 1), 1, 6, ()),
    ):
        assert same is topology


def test_a_topic_made_anew_starts_over() -> None:
    topology = Topology().answered(answer(2, 5)).answered(answer(1, 0, OTHER))
    assert topology.leader(ORDERS) == 1
    assert topology.topics["orders"].id == OTHER


def test_a_leader_without_an_address_is_no_leader_yet() -> None:
    assert Topology().answered(answer(2, 5, nodes=(1,))).leader(ORDERS) is None


def test_an_answer_without_brokers_does_not_make_us_forget_them() -> None:
    topology = Topology().answered(answer(2, 5)).answered(MetadataResponse(brokers=[], topics=[]))
    assert topology.leader(ORDERS) == 2


def test_a_topic_that_is_gone_has_no_leader() -> None:
    gone = MetadataResponse(topics=[MetadataResponseTopic(errors.UnknownTopicOrPartition.code, "orders")])
    topology = Topology().answered(answer(2, 5)).answered(gone)
    assert topology.leader(ORDERS) is None
    assert topology.topics["orders"].error == errors.UnknownTopicOrPartition.code


def test_partitions_are_found_by_number_even_when_some_are_left_out() -> None:
    partitions = [MetadataResponsePartition(0, index, 1, 0) for index in (4, 2)]
    topology = Topology().answered(
        MetadataResponse(
            brokers=[MetadataResponseBroker(1, "b1", 9092)],
            topics=[MetadataResponseTopic(0, "orders", ONE, False, partitions)],
        )
    )
    assert [topology.leader(TopicPartition("orders", index)) for index in range(5)] == [
        None,
        None,
        1,
        None,
        1,
    ]


def test_a_move_alone_makes_no_partition_under_replicated() -> None:
    assert not under_replicated((1, 2, 3), (), (1, 2, 3))
    assert under_replicated((1, 2, 3), (), (1, 2))
    assert not under_replicated((1, 2, 3, 4), (4,), (1, 2, 3))
    assert under_replicated((1, 2, 3, 4), (4,), (1, 2))
    assert not under_replicated((1, 2, 3, 4), (4,), (1, 2, 4)), (
        "one that has caught up stands for one that is gone"
    )
