"""Metadata, DescribeTopicPartitions, DescribeCluster, FindCoordinator, and topics that are created by asking."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import describe

NOT_ASKED = -(2**31)


def metadata(connection: Connection, *topics: dict[str, Any], version: int = 12, **fields: Any) -> Any:
    return connection.call("metadata", version, topics=list(topics), **fields)


def test_the_broker_names_itself(connection: Connection, broker: BrokerProcess) -> None:
    answer = metadata(connection)
    (node,) = answer.brokers
    assert (node.host, node.port) == (broker.host, broker.port)
    assert node.rack is None
    assert answer.controller_id == node.node_id
    assert answer.cluster_id
    assert answer.topics == ()


def test_null_means_all_topics_and_empty_means_none(connection: Connection, topic: Any) -> None:
    names = {topic(), topic()}
    everything = connection.call("metadata", 12, topics=None)
    assert names <= {t.name for t in everything.topics}
    assert metadata(connection).topics == ()


def test_in_version_0_empty_means_all_topics(connection: Connection, topic: Any) -> None:
    known = topic()
    assert known in {t.name for t in metadata(connection, version=0).topics}


def test_a_topic_can_be_asked_for_by_id(connection: Connection, topic: Any) -> None:
    known = topic()
    topic_id = describe(connection, known).topic_id
    (found,) = metadata(connection, {"topic_id": topic_id, "name": None}).topics
    assert (found.error_code, found.name, found.topic_id) == (0, known, topic_id)


def test_an_unknown_id(connection: Connection) -> None:
    (found,) = metadata(connection, {"topic_id": uuid.uuid4(), "name": None}).topics
    assert found.error_code.name == "unknown_topic_id"


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_before_version_12(version: int, connection: Connection, topic: Any) -> None:
    topic_id = describe(connection, topic()).topic_id
    (found,) = metadata(connection, {"topic_id": topic_id, "name": None}, version=version).topics
    assert (found.error_code.name, found.topic_id) == ("invalid_request", topic_id)


def test_unknown_topics_are_not_created_when_the_client_says_so(connection: Connection, name: Any) -> None:
    fresh = name()
    for _ in range(2):
        (found,) = metadata(connection, {"name": fresh}, allow_auto_topic_creation=False).topics
        assert found.error_code.name == "unknown_topic_or_partition"
        assert found.name == fresh


def test_asking_creates_a_topic(connection: Connection, name: Any) -> None:
    fresh = name()
    (first,) = metadata(connection, {"name": fresh}, allow_auto_topic_creation=True).topics
    assert first.error_code.name in {"none", "unknown_topic_or_partition", "leader_not_available"}
    wait_until(lambda: describe(connection, fresh).error_code == 0, 10, "the topic exists")
    assert len(describe(connection, fresh).partitions) == 1


@pytest.mark.parametrize("version", [0, 1, 3])
def test_old_versions_always_ask_for_creation(version: int, connection: Connection, name: Any) -> None:
    fresh = name()
    metadata(connection, {"name": fresh}, version=version)
    wait_until(lambda: describe(connection, fresh).error_code == 0, 10, "the topic exists")


@pytest.mark.parametrize("bad", ["bad name", "a/b", "..", "x" * 250])
def test_bad_names_are_not_created(bad: str, connection: Connection) -> None:
    (found,) = metadata(connection, {"name": bad}, allow_auto_topic_creation=True).topics
    assert found.error_code.name == "invalid_topic_exception"


def test_creation_by_asking_can_be_switched_off(own_broker: Any, name: Any) -> None:
    fresh = name()
    with Connection(own_broker({"auto.create.topics.enable": "false"}).bootstrap) as connection:
        for _ in range(2):
            (found,) = metadata(connection, {"name": fresh}, allow_auto_topic_creation=True).topics
            assert found.error_code.name == "unknown_topic_or_partition"


def test_created_topics_have_num_partitions(own_broker: Any, name: Any) -> None:
    fresh = name()
    with Connection(own_broker({"num.partitions": "3"}).bootstrap) as connection:
        metadata(connection, {"name": fresh}, allow_auto_topic_creation=True)
        wait_until(lambda: len(describe(connection, fresh).partitions) == 3, 10, "three partitions")


def test_authorized_operations_come_when_asked_for(connection: Connection, topic: Any) -> None:
    known = topic()
    (plain,) = metadata(connection, {"name": known}).topics
    assert plain.topic_authorized_operations == NOT_ASKED
    (asked,) = metadata(connection, {"name": known}, include_topic_authorized_operations=True).topics
    # read write create delete alter describe alter_configs describe_configs: bits 3-8, 10, 11
    assert asked.topic_authorized_operations == 0b110111111000
    asking = {"include_topic_authorized_operations": True, "allow_auto_topic_creation": False}
    (missing,) = metadata(connection, {"name": f"{known}-missing"}, **asking).topics
    assert missing.topic_authorized_operations == 0b110111111000
    (nobody,) = metadata(connection, {"topic_id": uuid.uuid4(), "name": None}, **asking).topics
    assert nobody.topic_authorized_operations == NOT_ASKED


def describe_partitions(connection: Connection, *names: str, limit: int = 2000, cursor: Any = None) -> Any:
    topics = [{"name": name} for name in names]
    return connection.call(
        "describe_topic_partitions", 0, topics=topics, response_partition_limit=limit, cursor=cursor
    )


def test_topic_partitions_are_described(connection: Connection, topic: Any) -> None:
    known = topic(partitions=3)
    answer = describe_partitions(connection, known)
    (found,) = answer.topics
    assert (found.error_code, found.name) == (0, known)
    assert found.topic_id == describe(connection, known).topic_id
    assert [p.partition_index for p in found.partitions] == [0, 1, 2]
    assert all(p.replica_nodes == p.isr_nodes == (p.leader_id,) for p in found.partitions)
    assert answer.next_cursor is None


def test_a_cursor_continues_where_the_limit_cut(connection: Connection, topic: Any) -> None:
    names = sorted([topic(partitions=3), topic(partitions=3)])
    seen, cursor, rounds = [], None, 0
    while rounds == 0 or cursor:
        answer = describe_partitions(connection, *names, limit=2, cursor=cursor)
        page = [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
        assert len(page) <= 2
        seen += page
        found = answer.next_cursor
        cursor = found and {"topic_name": found.topic_name, "partition_index": found.partition_index}
        rounds += 1
        assert rounds < 10
    assert seen == [(name, index) for name in names for index in range(3)]


def test_topics_before_the_cursor_are_left_out(connection: Connection, topic: Any) -> None:
    first, second = sorted([topic(), topic()])
    cursor = {"topic_name": second, "partition_index": 0}
    assert [t.name for t in describe_partitions(connection, first, second, cursor=cursor).topics] == [second]


@pytest.mark.parametrize("limit", [0, -1])
def test_the_least_limit_is_one_partition(limit: int, connection: Connection, topic: Any) -> None:
    answer = describe_partitions(connection, topic(partitions=2), limit=limit)
    assert [p.partition_index for p in answer.topics[0].partitions] == [0]
    assert answer.next_cursor.partition_index == 1


def test_a_cursor_must_point_into_the_request(connection: Connection, topic: Any, name: Any) -> None:
    known = topic(partitions=2)
    for cursor in (
        {"topic_name": known, "partition_index": -1},
        {"topic_name": name(), "partition_index": 0},
    ):
        answer = describe_partitions(connection, known, cursor=cursor)
        assert [(t.name, t.error_code.name) for t in answer.topics] == [(known, "invalid_request")]
        assert answer.next_cursor is None


def test_a_cursor_past_the_last_partition(connection: Connection, topic: Any) -> None:
    known = topic(partitions=2)
    answer = describe_partitions(connection, known, cursor={"topic_name": known, "partition_index": 7})
    assert [(t.name, t.error_code.name, t.partitions) for t in answer.topics] == [(known, "none", ())]


def test_no_names_means_all_topics(connection: Connection, topic: Any) -> None:
    known = topic()
    assert known in {t.name for t in describe_partitions(connection).topics}


def test_describing_partitions_of_unknown_topics(connection: Connection, topic: Any, name: Any) -> None:
    known, fresh = topic(), name()
    found = {t.name: t.error_code.name for t in describe_partitions(connection, known, fresh).topics}
    assert found == {known: "none", fresh: "unknown_topic_or_partition"}


def test_describing_partitions_creates_nothing(connection: Connection, name: Any) -> None:
    fresh = name()
    describe_partitions(connection, fresh)
    assert describe(connection, fresh).error_code.name == "unknown_topic_or_partition"


def test_the_cluster_is_described(connection: Connection, broker: BrokerProcess) -> None:
    answer = connection.call("describe_cluster", 2, endpoint_type=1)
    assert answer.error_code == 0
    assert [(b.host, b.port, b.is_fenced) for b in answer.brokers] == [(broker.host, broker.port, False)]
    assert answer.cluster_id == metadata(connection).cluster_id
    assert answer.controller_id == answer.brokers[0].broker_id
    assert answer.cluster_authorized_operations == NOT_ASKED
    asked = connection.call(
        "describe_cluster", 2, endpoint_type=1, include_cluster_authorized_operations=True
    )
    assert asked.cluster_authorized_operations > 0


def test_controllers_are_not_described_here(connection: Connection) -> None:
    answer = connection.call("describe_cluster", 1, endpoint_type=2)
    assert answer.error_code.name == "mismatched_endpoint_type"
    answer = connection.call("describe_cluster", 1, endpoint_type=9)
    assert answer.error_code.name == "unsupported_endpoint_type"


@pytest.mark.parametrize("kind", [0, 1])
def test_the_coordinator_is_this_broker(
    kind: int, connection: Connection, broker: BrokerProcess, name: Any
) -> None:
    group = name()

    def found() -> Any:
        return connection.call("find_coordinator", 4, key_type=kind, coordinator_keys=[group]).coordinators[0]

    wait_until(lambda: found().error_code == 0, 30, "a coordinator")
    answer = found()
    assert (answer.key, answer.host, answer.port) == (group, broker.host, broker.port)


def test_an_unknown_kind_of_coordinator_is_refused(connection: Connection) -> None:
    answer = connection.call("find_coordinator", 4, key_type=9, coordinator_keys=["x"])
    assert {c.error_code.name for c in answer.coordinators} == {"invalid_request"}
