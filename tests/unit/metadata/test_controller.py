from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest

from tests.unit.metadata.cluster import NODE, Node
from tidelog import errors
from tidelog.config import BrokerConfig
from tidelog.metadata.records import Cause, PartitionRecord, Tail, put_partition, topic_key
from tidelog.metadata.store import DeletePrefix, Put
from tidelog.metadata.topics.plans import NewPartitions, TopicPlan, TopicSpec
from tidelog.types import NodeId, TopicPartition

pytestmark = pytest.mark.simulated


def name_of(outcome: object) -> str:
    return type(outcome).__name__


async def test_a_new_topic_is_known_when_its_creation_returns(random: Random) -> None:
    node = await Node.start(random)
    (plan,) = await node.controller.create_topics([TopicSpec("a", 3, 1, configs={"retention.ms": "5"})])
    assert isinstance(plan, TopicPlan)
    topic = node.controller.image.topics["a"]
    assert topic.id == plan.record.id and topic.id.version == 4
    assert [partition.replicas for partition in topic.partitions] == [(1,)] * 3
    assert {
        (partition.leader, partition.leader_epoch, partition.in_sync) for partition in topic.partitions
    } == {(1, 0, (1,))}
    assert node.controller.image.topic_by_id(topic.id) is topic
    assert node.controller.topic_config("a").retention_ms == 5
    assert [update.topics for update in node.updates if update.topics] == [("a",)]


async def test_defaults_come_from_the_broker(random: Random) -> None:
    node = await Node.start(random, BrokerConfig.of({"num.partitions": "4"}))
    await node.controller.create_topics([TopicSpec("a")])
    assert len(node.controller.image.topics["a"].partitions) == 4


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (TopicSpec("there"), errors.TopicAlreadyExists),
        (TopicSpec("dot_ted"), errors.InvalidTopicException),
        (TopicSpec(""), errors.InvalidTopicException),
        (TopicSpec("a/b"), errors.InvalidTopicException),
        (TopicSpec("__cluster_metadata"), errors.InvalidRequest),
        (TopicSpec("a", 0), errors.InvalidPartitions),
        (TopicSpec("a", 1, 0), errors.InvalidReplicationFactor),
        (TopicSpec("a", 1, 2), errors.InvalidReplicationFactor),
        (TopicSpec("a", 1, -1, {0: [1]}), errors.InvalidRequest),
        (TopicSpec("a", -1, 1, {0: [1]}), errors.InvalidRequest),
        (TopicSpec("a", -1, -1, {1: [1]}), errors.InvalidReplicaAssignment),
        (TopicSpec("a", -1, -1, {0: [1], 2: [1]}), errors.InvalidReplicaAssignment),
        (TopicSpec("a", -1, -1, {0: []}), errors.InvalidReplicaAssignment),
        (TopicSpec("a", -1, -1, {0: [1, 1]}), errors.InvalidReplicaAssignment),
        (TopicSpec("a", -1, -1, {0: [9]}), errors.InvalidReplicaAssignment),
        (TopicSpec("a", configs={"no.such": "1"}), errors.InvalidConfig),
        (TopicSpec("a", configs={"retention.ms": None}), errors.InvalidConfig),
        (
            TopicSpec("a", configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}),
            errors.InvalidConfig,
        ),
    ],
    ids=str,
)
async def test_a_topic_that_cannot_be_is_refused_and_the_others_are_made(
    random: Random, wanted: TopicSpec, error: type[errors.TidelogError]
) -> None:
    node = await Node.start(random)
    await node.controller.create_topics([TopicSpec("there"), TopicSpec("dot.ted")])
    refused, made = await node.controller.create_topics([wanted, TopicSpec("other")])
    assert isinstance(refused, error)
    assert isinstance(made, TopicPlan)
    assert set(node.controller.image.topics) == {"there", "dot.ted", "other"}


async def test_too_many_partitions_in_one_request_are_refused_together(random: Random) -> None:
    node = await Node.start(random)
    with pytest.raises(errors.PolicyViolation):
        await node.controller.create_topics([TopicSpec("a", 6000), TopicSpec("b", 6000)])
    assert not node.controller.image.topics


async def test_checking_only_makes_nothing(random: Random) -> None:
    node = await Node.start(random)
    before = (await node.store.range("")).revision
    plans = await node.controller.create_topics([TopicSpec("a"), TopicSpec("b", 0)], validate_only=True)
    assert list(map(name_of, plans)) == ["TopicPlan", "InvalidPartitions"]
    assert (await node.store.range("")).revision == before


async def test_of_many_who_create_one_topic_at_once_one_succeeds(random: Random) -> None:
    node = await Node.start(random)
    tries = [node.controller.create_topics([TopicSpec("a"), TopicSpec(f"own-{who}")]) for who in range(8)]
    outcomes = await asyncio.gather(*tries)
    assert sorted(name_of(first) for first, _ in outcomes) == ["TopicAlreadyExists"] * 7 + ["TopicPlan"]
    assert all(isinstance(own, TopicPlan) for _, own in outcomes)
    assert len(node.controller.image.topics) == 9


async def test_a_decision_on_old_facts_is_taken_again(random: Random) -> None:
    node = await Node.start(random)
    # Written directly to the store: the controller's image does not have it when the controller decides.
    await node.store.txn((), [Put(topic_key("a"), b'{"id":"%s","replicas":[[1]]}' % (b"1" * 32))])
    (refused,) = await node.controller.create_topics([TopicSpec("a")])
    assert isinstance(refused, errors.TopicAlreadyExists)


async def test_partitions_are_added_behind_those_there_are(random: Random) -> None:
    node = await Node.start(random)
    await node.controller.create_topics([TopicSpec("a", 2), TopicSpec("b")])
    outcome = await node.controller.create_partitions(
        [
            NewPartitions("a", 4),
            NewPartitions("b", 1),
            NewPartitions("c", 2),
            NewPartitions("b", 3, [[1]]),
        ]
    )
    assert list(map(name_of, outcome)) == [
        "TopicPlan",
        "InvalidPartitions",
        "UnknownTopicOrPartition",
        "InvalidReplicaAssignment",
    ]
    assert [partition.index for partition in node.controller.image.topics["a"].partitions] == [0, 1, 2, 3]
    assert len(node.controller.image.topics["b"].partitions) == 1


async def test_a_deleted_topic_leaves_nothing_behind(random: Random) -> None:
    node = await Node.start(random)
    await node.controller.create_topics([TopicSpec("a", 2, configs={"retention.ms": "5"}), TopicSpec("b")])
    node = await node.restarted(random, clean=False)
    a, b = node.controller.image.topics["a"], node.controller.image.topics["b"]
    kept = {entry.key for entry in (await node.store.range("")).entries}
    outcome = await node.controller.delete_topics(["a", "nope", b.id, UUID(int=9)])
    assert outcome[0] == a and outcome[2] == b
    assert list(map(name_of, outcome[1::2])) == ["UnknownTopicOrPartition", "UnknownTopicId"]
    assert not node.controller.image.topics and not node.controller.image.strays
    left = {entry.key for entry in (await node.store.range("")).entries}
    assert left == {
        key for key in kept if key in ("cluster", "configs/brokers/all", "controller", "brokers/1")
    }


async def test_settings_of_a_topic_change_and_go(random: Random) -> None:
    node = await Node.start(random)
    controller = node.controller
    await controller.create_topics([TopicSpec("a")])
    await controller.alter_topic_configs("a", lambda held: {**held, "retention.ms": "7"})
    assert controller.image.topic_overrides("a") == {"retention.ms": "7"}
    await controller.alter_topic_configs("a", lambda held: {**held, "segment.ms": "8"}, validate_only=True)
    assert controller.image.topic_overrides("a") == {"retention.ms": "7"}
    with pytest.raises(errors.InvalidConfig):
        await controller.alter_topic_configs("a", lambda held: {"retention.ms": "x"})
    with pytest.raises(errors.UnknownTopicOrPartition):
        await controller.alter_topic_configs("b", lambda held: {"retention.ms": "1"})
    await controller.alter_topic_configs("a", lambda held: {})
    assert controller.image.topic_overrides("a") == {}
    assert [update.topic_configs for update in node.updates if update.topic_configs] == [("a",), ("a",)]


async def test_changes_of_settings_at_once_do_not_undo_each_other(random: Random) -> None:
    node = await Node.start(random)
    await node.controller.create_topics([TopicSpec("a")])
    names = ["retention.ms", "segment.ms", "flush.ms", "delete.retention.ms"]
    await asyncio.gather(
        *(
            node.controller.alter_topic_configs("a", lambda held, name=name: {**held, name: "9"})
            for name in names
        )  # type: ignore[misc]
    )
    assert node.controller.image.topic_overrides("a") == dict.fromkeys(names, "9")


async def test_settings_of_brokers_take_effect_in_the_order_of_their_layers(random: Random) -> None:
    node = await Node.start(random, BrokerConfig.of({"message.max.bytes": "1"}))
    controller = node.controller
    await controller.create_topics([TopicSpec("a")])
    await controller.alter_broker_configs(None, lambda held: {"message.max.bytes": "2"})
    assert controller.topic_config("a").max_message_bytes == 2
    await controller.alter_broker_configs(NODE, lambda held: {"message.max.bytes": "3"})
    await controller.alter_broker_configs(NodeId(9), lambda held: {"message.max.bytes": "4"})
    assert controller.config().topic_defaults.max_message_bytes == 3
    node = await node.restarted(random, clean=True)
    assert node.controller.config().topic_defaults.max_message_bytes == 3
    await node.controller.alter_broker_configs(NODE, lambda held: {})
    await node.controller.alter_broker_configs(None, lambda held: {})
    assert node.controller.config().topic_defaults.max_message_bytes == 1_048_588
    with pytest.raises(errors.InvalidConfig):
        await node.controller.alter_broker_configs(NODE, lambda held: {"message.max.bytes": "-1"})


async def test_elections_in_a_cluster_of_one_are_not_needed(random: Random) -> None:
    node = await Node.start(random)
    await node.controller.create_topics([TopicSpec("a")])
    for unclean in (False, True):
        outcome = await node.controller.elect_leaders(
            [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)], unclean
        )
        assert list(map(name_of, outcome.values())) == [
            "ElectionNotNeeded",
            "UnknownTopicOrPartition",
            "UnknownTopicOrPartition",
        ]


async def test_the_preferred_replica_takes_leadership_back(random: Random) -> None:
    node = await Node.start(random)
    await node.join(2)
    await node.controller.create_topics([TopicSpec("a", assignment={0: [1, 2]})])
    topic = node.controller.image.topics["a"]
    state = PartitionRecord(NodeId(2), 4, (NodeId(1), NodeId(2)), 6)
    await node.controller.reached(await node.store.txn((), [put_partition(topic.id, 0, state)]) or 0)
    assert await node.controller.elect_leaders([TopicPartition("a", 0)], unclean=False) == {
        TopicPartition("a", 0): None
    }
    (partition,) = node.controller.image.topics["a"].partitions
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 5, 7)


async def test_an_operator_chooses_who_leads_a_partition_without_a_leader(random: Random) -> None:
    node = await Node.start(random)
    await node.join(2)
    await node.join(3)
    await node.controller.create_topics([TopicSpec("a", assignment={0: [1, 2, 3]})])
    name, node_id = TopicPartition("a", 0), NodeId(1)
    state = PartitionRecord(None, 4, (node_id,), 6, (Tail(node_id, -1, -1, Cause.NEW_DIRECTORY),))
    topic = node.controller.image.topics["a"]
    await node.controller.reached(await node.store.txn((), [put_partition(topic.id, 0, state)]) or 0)
    outcome = await node.controller.elect_leaders([name], unclean=True, chosen={name: NodeId(4)})
    assert name_of(outcome[name]) == "EligibleLeadersNotAvailable"
    outcome = await node.controller.elect_leaders([name], unclean=True, chosen={name: NodeId(3)})
    assert outcome == {name: None}
    (partition,) = node.controller.image.topics["a"].partitions
    assert partition.record == PartitionRecord(NodeId(3), 5, (NodeId(3),), 7)
    outcome = await node.controller.elect_leaders([name], unclean=True, chosen={name: NodeId(1)})
    assert name_of(outcome[name]) == "ElectionNotNeeded"


# Starting again


async def test_epochs_stay_after_a_clean_stop_and_rise_after_any_other(random: Random) -> None:
    node = await Node.start(random)
    await node.controller.create_topics([TopicSpec("a", 3)])
    for clean, epoch in ((True, 0), (False, 1), (True, 1), (False, 2)):
        node = await node.restarted(random, clean)
        epochs = {partition.leader_epoch for partition in node.controller.image.topics["a"].partitions}
        assert epochs == {epoch}


async def test_the_cluster_keeps_its_id_and_the_broker_gets_larger_epochs(random: Random) -> None:
    node = await Node.start(random)
    cluster_id = node.controller.image.cluster_id
    assert len(cluster_id) == 22
    epoch = node.controller.image.brokers[NODE].epoch
    node = await node.restarted(random, clean=True)
    assert node.controller.image.cluster_id == cluster_id
    assert node.controller.image.brokers[NODE].epoch > epoch
    assert node.controller.image.controller == NODE


async def test_an_image_is_shown_only_after_it_was_applied(random: Random) -> None:
    node = await Node.start(random)
    controller = node.controller
    node._following.cancel()
    await asyncio.wait([node._following])
    creating = asyncio.ensure_future(controller.create_topics([TopicSpec("a")]))
    following = controller.follow()
    update = await anext(following)
    assert update.topics == ("a",) and "a" in update.image.topics
    await asyncio.sleep(1)
    assert "a" not in controller.image.topics and not creating.done()
    waiting = asyncio.ensure_future(anext(following))
    await creating
    assert "a" in controller.image.topics
    waiting.cancel()


async def test_a_follower_that_fell_behind_catches_up(random: Random) -> None:
    node = await Node.start(random)
    node._following.cancel()
    await asyncio.wait([node._following])
    many = [Put(f"unrelated/{number}", b"") for number in range(15_000)]
    await node.store.txn((), many)
    await node.store.txn((), [Put(topic_key("a"), b'{"id":"%s","replicas":[[1]]}' % (b"1" * 32))])
    await node.store.txn((), [DeletePrefix("unrelated/")])
    update = await anext(node.controller.follow())
    assert update.topics == ("a",) and not update.brokers
    assert update.image.revision == (await node.store.range("")).revision


async def test_a_lease_lost_in_a_pause_is_taken_again(random: Random) -> None:
    node = await Node.start(random)
    epoch = node.controller.image.brokers[NODE].epoch
    await asyncio.sleep(60)
    assert NODE not in node.controller.image.brokers
    keeping = asyncio.ensure_future(node.registration.keep())
    await asyncio.sleep(60)
    assert node.controller.image.brokers[NODE].epoch > epoch
    held = node.controller.image.brokers[NODE].epoch
    await asyncio.sleep(600)
    assert node.controller.image.brokers[NODE].epoch == held
    keeping.cancel()
    await node.registration.end()
    await asyncio.sleep(0.001)
    assert not node.controller.image.brokers


async def test_two_brokers_of_one_number_are_refused(random: Random) -> None:
    node = await Node.start(random)
    keeping = asyncio.ensure_future((await node.join(2)).keep())
    assert node.controller.image.controller == NODE
    with pytest.raises(errors.DuplicateBrokerRegistration):
        await node.join(2)
    keeping.cancel()


async def test_a_broker_that_was_killed_is_back_when_its_old_lease_is_over(random: Random) -> None:
    node = await Node.start(random)
    killed = await node.join(2)
    before = node.controller.image.brokers[NodeId(2)].epoch
    assert (await node.join(2)).epoch > before
    assert not await killed._lease.keep_alive()  # type: ignore[union-attr]
