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
    known = Topology().answered(answer(2, 5))
    assert known.leader(ORDERS) == 2
    assert known.leader(TopicPartition("orders", 1)) is None
    assert known.leader(TopicPartition("else", 0)) is None


def test_a_broker_that_lags_behind_does_not_bring_back_a_deposed_leader() -> None:
    known = Topology().answered(answer(2, 5)).answered(answer(1, 4))
    assert known.leader(ORDERS) == 2
    assert known.answered(answer(1, 6)).leader(ORDERS) == 1


def test_a_broker_that_does_not_lead_says_who_does() -> None:
    known = Topology().answered(answer(2, 5, nodes=(1, 2)))
    assert known.led(ORDERS, 1, 6, ()).leader(ORDERS) == 1
    assert known.led(ORDERS, 3, 6, [Node(3, "b3", 9092)]).nodes[3].host == "b3"
    for told in (
        known.led(ORDERS, 1, 5, ()),  # no news
        known.led(ORDERS, 1, 4, ()),
        known.led(ORDERS, 3, 6, ()),  # where is it?
        known.led(TopicPartition("else", 0), 1, 6, ()),
        known.led(TopicPartition("orders", 1), 1, 6, ()),
    ):
        assert told is known


def test_a_topic_made_anew_starts_over() -> None:
    known = Topology().answered(answer(2, 5)).answered(answer(1, 0, OTHER))
    assert known.leader(ORDERS) == 1
    assert known.topics["orders"].id == OTHER


def test_a_leader_without_an_address_is_no_leader_yet() -> None:
    assert Topology().answered(answer(2, 5, nodes=(1,))).leader(ORDERS) is None


def test_an_answer_without_brokers_does_not_make_us_forget_them() -> None:
    known = Topology().answered(answer(2, 5)).answered(MetadataResponse(brokers=[], topics=[]))
    assert known.leader(ORDERS) == 2


def test_a_topic_that_is_gone_has_no_leader() -> None:
    gone = MetadataResponse(topics=[MetadataResponseTopic(errors.UnknownTopicOrPartition.code, "orders")])
    known = Topology().answered(answer(2, 5)).answered(gone)
    assert known.leader(ORDERS) is None
    assert known.topics["orders"].error == errors.UnknownTopicOrPartition.code


def test_partitions_are_found_by_number_even_when_some_are_left_out() -> None:
    partitions = [MetadataResponsePartition(0, index, 1, 0) for index in (4, 2)]
    known = Topology().answered(
        MetadataResponse(
            brokers=[MetadataResponseBroker(1, "b1", 9092)],
            topics=[MetadataResponseTopic(0, "orders", ONE, False, partitions)],
        )
    )
    assert [known.leader(TopicPartition("orders", index)) for index in range(5)] == [None, None, 1, None, 1]


def test_a_move_alone_makes_no_partition_under_replicated() -> None:
    assert not under_replicated((1, 2, 3), (), (1, 2, 3))
    assert under_replicated((1, 2, 3), (), (1, 2))
    assert not under_replicated((1, 2, 3, 4), (4,), (1, 2, 3))
    assert under_replicated((1, 2, 3, 4), (4,), (1, 2))
    assert not under_replicated((1, 2, 3, 4), (4,), (1, 2, 4)), (
        "one that has caught up stands for one that is gone"
    )
