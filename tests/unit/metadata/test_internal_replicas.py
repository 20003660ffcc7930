"""Internal topics get the replicas that they lack as soon as there are machines for them."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tidelog.config import BrokerConfig
from tidelog.metadata.image.image import BrokerImage, Image, PartitionImage, TopicImage
from tidelog.metadata.image.sharded_map import ShardedMap
from tidelog.metadata.internal_replicas import replication_factors, widened
from tidelog.metadata.records import Cause, PartitionRecord, Replicas, Tail
from tidelog.types import NodeId

NAME, FACTORS = "__consumer_offsets", {"__consumer_offsets": 3}
ONE, TWO, THREE, FOUR = NodeId(1), NodeId(2), NodeId(3), NodeId(4)
ID = UUID(int=7)


def broker(node: NodeId, rack: str | None = None, leaving: bool = False) -> BrokerImage:
    return BrokerImage(node, 40 + node, (), rack, False, leaving)


def held(index: int, *replicas: NodeId, **more: object) -> PartitionImage:
    return PartitionImage(index, replicas, replicas[0], 5, replicas, 9, 77, **more)  # type: ignore[arg-type]


def image(*partitions: PartitionImage, live: Replicas = (ONE, TWO, THREE)) -> Image:
    topic = TopicImage(NAME, ID, partitions, 3)
    return Image(brokers={node: broker(node) for node in live}, topics=ShardedMap([(NAME, topic)]))


def records(now: Image) -> dict[int, PartitionRecord]:
    return {state.index: state.record for state in widened(now, FACTORS)}


def test_a_topic_that_was_made_on_one_machine_gets_a_replica_on_each_and_leaders_everywhere() -> None:
    now = image(*(held(index, ONE) for index in range(6)))
    stored = records(now)
    assert {index: set(record.replicas or ()) for index, record in stored.items()} == {
        index: {ONE, TWO, THREE} for index in range(6)
    }
    assert {set(record.adding or ()) == {TWO, THREE} for record in stored.values()} == {True}
    assert sorted((record.replicas or ())[0] for record in stored.values()) == [
        ONE,
        ONE,
        TWO,
        TWO,
        THREE,
        THREE,
    ]
    assert {record.leader for record in stored.values()} == {ONE}


def test_replicas_come_one_by_one_with_the_machines_and_never_more_than_the_setting() -> None:
    assert set(records(image(held(0, ONE), live=(ONE, TWO)))[0].replicas or ()) == {ONE, TWO}
    assert records(image(held(0, ONE, TWO), live=(ONE, TWO))) == {}
    assert records(image(held(0, ONE, TWO, THREE), live=(ONE, TWO, THREE, FOUR))) == {}


def test_load_is_spread_and_another_rack_comes_first() -> None:
    now = image(*(held(index, ONE) for index in range(3)), live=(ONE, TWO, THREE, FOUR))
    added = [node for record in records(now).values() for node in record.adding or ()]
    assert sorted(added) == [TWO, TWO, THREE, THREE, FOUR, FOUR]
    racks = {ONE: "a", TWO: "a", THREE: "a", FOUR: "b"}
    now = replace(image(held(0, ONE)), brokers={node: broker(node, rack) for node, rack in racks.items()})
    (state,) = widened(now, {NAME: 2})
    assert state.record.adding == (FOUR,)


def test_what_is_moving_in_doubt_or_without_its_brokers_is_left_alone() -> None:
    assert records(image(held(0, ONE, TWO, adding=(TWO,)))) == {}
    assert records(image(held(0, ONE, doubts=(Tail(ONE, 5, 9, Cause.POWER),)))) == {}
    assert records(image(held(0, FOUR))) == {}
    assert records(image(held(0, ONE)._replace(leader=None))) == {}
    now = image(held(0, ONE))
    assert records(replace(now, brokers={ONE: broker(ONE), TWO: broker(TWO, leaving=True)})) == {}


def test_every_internal_topic_has_its_setting() -> None:
    config = BrokerConfig.of(
        {
            "offsets.topic.replication.factor": "4",
            "transaction.state.log.replication.factor": "5",
            "share.coordinator.state.topic.replication.factor": "6",
            "tidelog.audit.topic": "who_did_what",
            "tidelog.audit.topic.replication.factor": "7",
        }
    )
    assert replication_factors(config) == {
        "__consumer_offsets": 4,
        "__transaction_state": 5,
        "_schemas": 5,
        "__share_group_state": 6,
        "__delayed_records": 6,
        "who_did_what": 7,
    }
