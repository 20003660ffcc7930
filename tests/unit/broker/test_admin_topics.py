"""CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders.  The codes are those Apache Kafka 4.3.1 answered."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.unit.broker.admin import Admin, versions
from tidelog.errors import name_of
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

pytestmark = pytest.mark.simulated

TIMEOUT_MS = 1000
NO_ID = UUID(int=0)


def topic(name: str, partitions: int = 1, replication: int = 1, **configs: str | None) -> CreatableTopic:
    settings = [
        CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()
    ]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication, configs=settings
    )


def create(*topics: CreatableTopic, **options: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), **{"timeout_ms": TIMEOUT_MS, **options})


def delete(*topics: str | UUID | DeleteTopicState, **options: Any) -> DeleteTopicsRequest:
    wanted = [
        DeleteTopicState(name=one)
        if isinstance(one, str)
        else DeleteTopicState(name=None, topic_id=one)
        if isinstance(one, UUID)
        else one
        for one in topics
    ]
    return DeleteTopicsRequest(topics=wanted, **{"timeout_ms": TIMEOUT_MS, **options})


def codes(results: list[Any]) -> dict[str, str]:
    return {one.name: name_of(one.error_code) for one in results}


async def test_a_created_topic_is_described_in_the_answer(random: Random) -> None:
    admin = await Admin.start(random, {"log.retention.ms": "77"})
    (made,) = (await admin.ask(create(topic("a", 3, segment_ms="5")))).topics
    assert (made.name, made.error_code, made.error_message) == ("a", 0, None)
    assert (made.num_partitions, made.replication_factor) == (3, 1)
    assert made.topic_id == admin.node.controller.image.topics["a"].id
    configs = {one.name: (one.value, one.config_source) for one in made.configs}
    assert len(configs) == 33
    assert configs["segment.ms"] == ("5", 1)
    assert configs["retention.ms"] == ("77", 4)
    assert configs["preallocate"] == ("false", 5)


@pytest.mark.parametrize("version", versions(CreateTopicsRequest.API_KEY))
async def test_every_version_creates_and_refuses(random: Random, version: int) -> None:
    admin = await Admin.start(random)
    answer = await admin.ask(create(topic("a"), topic("b b")), version)
    assert codes(answer.topics) == {"a": "NONE", "b b": "INVALID_TOPIC_EXCEPTION"}
    assert "a" in admin.node.controller.image.topics


async def test_topics_are_refused_one_by_one(random: Random) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(topic("there"), topic("dot.ted")))
    assigned_twice = CreatableTopic(
        name="assigned twice",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])] * 2,
    )
    answer = await admin.ask(
        create(
            topic("there"),
            topic("dot_ted"),
            topic("twice"),
            topic("twice", 2),
            topic("none", 0),
            topic("many", 1, 2),
            assigned_twice,
            topic("unknown", retentio_ms="1"),
            topic("null", retention_ms=None),
            topic("wrong", retention_ms="x"),
            topic("notbuilt", remote_storage_enable="true"),
            topic("good", retention_ms="1", cleanup_policy="compact,delete,delete"),
        )
    )
    assert codes(answer.topics) == {
        "there": "TOPIC_ALREADY_EXISTS",
        "dot_ted": "INVALID_TOPIC_EXCEPTION",
        "twice": "INVALID_REQUEST",
        "none": "INVALID_PARTITIONS",
        "many": "INVALID_REPLICATION_FACTOR",
        "assigned twice": "INVALID_REPLICA_ASSIGNMENT",
        "unknown": "INVALID_CONFIG",
        "null": "INVALID_CONFIG",
        "wrong": "INVALID_CONFIG",
        "notbuilt": "INVALID_CONFIG",
        "good": "NONE",
    }
    assert all(one.error_message for one in answer.topics if one.error_code)
    assert set(admin.node.controller.image.topics) == {"there", "dot.ted", "good"}


async def test_a_check_tells_what_would_be_and_makes_nothing(random: Random) -> None:
    admin = await Admin.start(random)
    answer = await admin.ask(create(topic("a", 5), topic("b", 0), validate_only=True))
    assert codes(answer.topics) == {"a": "NONE", "b": "INVALID_PARTITIONS"}
    assert answer.topics[0].num_partitions == 5
    assert not admin.node.controller.image.topics


async def test_a_request_for_too_many_partitions_is_refused_as_a_whole(random: Random) -> None:
    admin = await Admin.start(random)
    answer = await admin.ask(create(topic("a", 10_001), topic("b")))
    assert codes(answer.topics) == {"a": "POLICY_VIOLATION", "b": "POLICY_VIOLATION"}


async def test_without_time_nothing_is_done(random: Random) -> None:
    admin = await Admin.start(random)
    answer = await admin.ask(create(topic("a"), timeout_ms=0))
    assert codes(answer.topics) == {"a": "REQUEST_TIMED_OUT"}
    assert await admin.node.store.get("topics/a") is None
    await admin.ask(create(topic("b")))
    assert codes((await admin.ask(delete("b", timeout_ms=-1))).responses) == {"b": "REQUEST_TIMED_OUT"}
    assert await admin.node.store.get("topics/b") is not None


async def test_a_change_that_takes_too_long_is_answered_in_time_and_still_happens(random: Random) -> None:
    admin = await Admin.start(random)
    admin.node._following.cancel()
    await asyncio.wait([admin.node._following])
    answer = await admin.ask(create(topic("a")))
    assert codes(answer.topics) == {"a": "REQUEST_TIMED_OUT"}
    assert (await admin.node.store.get("topics/a")) is not None


async def test_a_failing_store_is_told_for_each_topic(random: Random) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(topic("a")))
    await admin.node.store.close()
    assert codes((await admin.ask(create(topic("b")))).topics) == {"b": "KAFKA_STORAGE_ERROR"}
    assert codes((await admin.ask(delete("a"))).responses) == {"a": "KAFKA_STORAGE_ERROR"}


# Deleting


async def test_topics_are_deleted_by_name_and_by_id(random: Random) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(topic("a"), topic("b"), topic("c")))
    ids = {name: found.id for name, found in admin.node.controller.image.topics.items()}
    answer = await admin.ask(delete("a", ids["b"], "nope", UUID(int=5)))
    told = {(one.name, one.topic_id): name_of(one.error_code) for one in answer.responses}
    assert told == {
        ("a", ids["a"]): "NONE",
        ("b", ids["b"]): "NONE",
        ("nope", NO_ID): "UNKNOWN_TOPIC_OR_PARTITION",
        (None, UUID(int=5)): "UNKNOWN_TOPIC_ID",
    }
    assert set(admin.node.controller.image.topics) == {"c"}


async def test_a_topic_that_is_asked_for_twice_or_not_at_all_is_not_deleted(random: Random) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(*(topic(name) for name in "abcd")))
    ids = {name: found.id for name, found in admin.node.controller.image.topics.items()}
    answer = await admin.ask(
        delete(
            "a",
            "a",
            ids["b"],
            ids["b"],
            "c",
            ids["c"],
            DeleteTopicState(name="d", topic_id=UUID(int=77)),
            NO_ID,
        )
    )
    told = {(one.name, one.topic_id): name_of(one.error_code) for one in answer.responses}
    assert told == dict.fromkeys(
        [("a", NO_ID), (None, ids["b"]), ("c", ids["c"]), ("d", UUID(int=77)), (None, NO_ID)],
        "INVALID_REQUEST",
    )
    assert set(admin.node.controller.image.topics) == set("abcd")


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
async def test_older_versions_delete_by_name(random: Random, version: int) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(topic("a")))
    request = DeleteTopicsRequest(topic_names=["a", "nope"], timeout_ms=TIMEOUT_MS)
    answer = await admin.ask(request, version)
    assert codes(answer.responses) == {"a": "NONE", "nope": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert (answer.responses[1].error_message is not None) == (version >= 5)


async def test_deleting_can_be_forbidden(random: Random) -> None:
    admin = await Admin.start(random, {"delete.topic.enable": "false"})
    await admin.ask(create(topic("a")))
    assert codes((await admin.ask(delete("a"))).responses) == {"a": "TOPIC_DELETION_DISABLED"}
    old = await admin.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=TIMEOUT_MS), 2)
    assert codes(old.responses) == {"a": "INVALID_REQUEST"}
    assert "a" in admin.node.controller.image.topics


# Partitions


def grow(*wanted: tuple[str, int, list[list[int]] | None], **options: Any) -> CreatePartitionsRequest:
    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if brokers is None
            else [CreatePartitionsAssignment(broker_ids=one) for one in brokers],
        )
        for name, count, brokers in wanted
    ]
    return CreatePartitionsRequest(topics=topics, **{"timeout_ms": TIMEOUT_MS, **options})


@pytest.mark.parametrize("version", versions(CreatePartitionsRequest.API_KEY))
async def test_partitions_are_added(random: Random, version: int) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(*(topic(name, 2) for name in "abcd")))
    answer = await admin.ask(
        grow(
            ("a", 3, None),
            ("b", 3, [[1]]),
            ("c", 4, [[1]]),
            ("d", 2, None),
            ("nope", 2, None),
            ("twice", 2, None),
            ("twice", 3, None),
        ),
        version,
    )
    assert codes(answer.results) == {
        "a": "NONE",
        "b": "NONE",
        "c": "INVALID_REPLICA_ASSIGNMENT",
        "d": "INVALID_PARTITIONS",
        "nope": "UNKNOWN_TOPIC_OR_PARTITION",
        "twice": "INVALID_REQUEST",
    }
    counts = {name: len(found.partitions) for name, found in admin.node.controller.image.topics.items()}
    assert counts == {"a": 3, "b": 3, "c": 2, "d": 2}


async def test_adding_partitions_can_be_checked_and_timed_out(random: Random) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(topic("a")))
    assert codes((await admin.ask(grow(("a", 3, None), validate_only=True))).results) == {"a": "NONE"}
    late = await admin.ask(grow(("a", 3, None), timeout_ms=0))
    assert codes(late.results) == {"a": "REQUEST_TIMED_OUT"}
    assert len(admin.node.controller.image.topics["a"].partitions) == 1


# Elections


def elect(kind: int, wanted: dict[str, list[int]] | None) -> ElectLeadersRequest:
    partitions = (
        None
        if wanted is None
        else [TopicPartitions(topic=one, partitions=two) for one, two in wanted.items()]
    )
    return ElectLeadersRequest(election_type=kind, topic_partitions=partitions, timeout_ms=TIMEOUT_MS)


def elected(answer: Any) -> dict[tuple[str, int], str]:
    return {
        (row.topic, one.partition_id): name_of(one.error_code)
        for row in answer.replica_election_results
        for one in row.partition_result
    }


@pytest.mark.parametrize("version", versions(ElectLeadersRequest.API_KEY))
async def test_in_a_cluster_of_one_there_is_nobody_to_elect(random: Random, version: int) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(topic("a", 2)))
    answer = await admin.ask(elect(0, {"a": [0, 1, 7], "nope": [0]}), version)
    assert elected(answer) == {
        ("a", 0): "ELECTION_NOT_NEEDED",
        ("a", 1): "ELECTION_NOT_NEEDED",
        ("a", 7): "UNKNOWN_TOPIC_OR_PARTITION",
        ("nope", 0): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert answer.error_code == 0
    assert elected(await admin.ask(elect(0, None), version)) == {}


async def test_an_election_of_an_unknown_kind_is_refused(random: Random) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(topic("a")))
    answer = await admin.ask(elect(5, {"a": [0]}))
    assert name_of(answer.error_code) == "INVALID_REQUEST"
    assert elected(answer) == {("a", 0): "INVALID_REQUEST"}


async def test_a_chosen_leader_goes_with_one_partition_of_an_unclean_election(random: Random) -> None:
    admin = await Admin.start(random)
    await admin.ask(create(topic("a", 2)))
    request = elect(1, {"a": [0, 1]})
    (row,) = request.topic_partitions or ()
    row.leaders = [1]
    assert set(elected(await admin.ask(request)).values()) == {"INVALID_REQUEST"}
    row.leaders = [1, 1]
    assert set(elected(await admin.ask(request)).values()) == {"ELECTION_NOT_NEEDED"}
    request.election_type = 0
    assert set(elected(await admin.ask(request)).values()) == {"INVALID_REQUEST"}
