"""CreateTopics, DeleteTopics, CreatePartitions: what is made, and the error for each thing that cannot be."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.conformance.batches import batch
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection
from tests.conformance.topics import append, await_leaders, describe, list_offset

LONGEST = "x" * 249


def create(connection: Connection, *topics: dict[str, Any], **fields: Any) -> list[Any]:
    wanted = [{"num_partitions": 1, "replication_factor": 1} | topic for topic in topics]
    answer = connection.call("create_topics", 7, topics=wanted, timeout=10_000, **fields)
    return list(answer.topics)


def delete(connection: Connection, *topics: dict[str, Any]) -> list[Any]:
    return list(connection.call("delete_topics", 6, topics=list(topics), timeout=10_000).responses)


def grow(connection: Connection, name: str, count: int, **fields: Any) -> Any:
    extra = {key: fields.pop(key) for key in ("assignments",) if key in fields}
    answer = connection.call(
        "create_partitions", 3, topics=[{"name": name, "count": count} | extra], timeout=10_000, **fields
    )
    return answer.results[0]


def exists(connection: Connection, name: str) -> bool:
    return bool(describe(connection, name).error_code == 0)


def test_a_created_topic_is_described(connection: Connection, name: Any) -> None:
    fresh = name()
    (made,) = create(connection, {"name": fresh, "num_partitions": 3})
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 3, 1)
    assert made.topic_id
    await_leaders(connection, fresh, 3)
    found = describe(connection, fresh)
    assert found.topic_id == made.topic_id
    assert not found.is_internal
    assert [p.partition_index for p in sorted(found.partitions, key=lambda p: p.partition_index)] == [0, 1, 2]
    assert all(p.replica_nodes == p.isr_nodes == (p.leader_id,) for p in found.partitions)
    assert all(not p.offline_replicas for p in found.partitions)


def test_the_settings_of_a_created_topic_are_answered(connection: Connection, name: Any) -> None:
    (made,) = create(connection, {"name": name(), "configs": [{"name": "retention.ms", "value": "12345"}]})
    found = {c.name: (c.value, c.config_source, c.read_only, c.is_sensitive) for c in made.configs}
    dynamic, default = 1, 5
    assert found["retention.ms"] == ("12345", dynamic, False, False)
    assert found["cleanup.policy"] == ("delete", default, False, False)
    assert made.topic_config_error_code == 0


def test_minus_1_means_the_brokers_defaults(connection: Connection, name: Any) -> None:
    (made,) = create(connection, {"name": name(), "num_partitions": -1, "replication_factor": -1})
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 1, 1)


def test_replicas_may_be_assigned_by_hand(connection: Connection, name: Any) -> None:
    node = connection.call("metadata", 12, topics=[]).brokers[0].node_id
    fresh = name()
    assignments = [{"partition_index": index, "broker_ids": [node]} for index in (0, 1)]
    wanted = {"name": fresh, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    (made,) = create(connection, wanted)
    assert (made.error_code, made.num_partitions) == (0, 2)


def test_validate_only_creates_nothing(connection: Connection, name: Any) -> None:
    fresh = name()
    (made,) = create(connection, {"name": fresh}, validate_only=True)
    assert made.error_code == 0
    (again,) = create(connection, {"name": fresh}, validate_only=True)
    assert again.error_code == 0
    assert not exists(connection, fresh)


BAD_TOPICS: dict[str, tuple[dict[str, Any], str]] = {
    "empty name": ({"name": ""}, "invalid_topic_exception"),
    "one dot": ({"name": "."}, "invalid_topic_exception"),
    "two dots": ({"name": ".."}, "invalid_topic_exception"),
    "too long": ({"name": "x" * 250}, "invalid_topic_exception"),
    "slash": ({"name": "a/b"}, "invalid_topic_exception"),
    "parent folder": ({"name": "../../etc"}, "invalid_topic_exception"),
    "space": ({"name": "a b"}, "invalid_topic_exception"),
    "colon": ({"name": "a:b"}, "invalid_topic_exception"),
    "nul": ({"name": "a\0b"}, "invalid_topic_exception"),
    "umlaut": ({"name": "straße"}, "invalid_topic_exception"),
    "no partitions": ({"num_partitions": 0}, "invalid_partitions"),
    "negative partitions": ({"num_partitions": -2}, "invalid_partitions"),
    "no replicas": ({"replication_factor": 0}, "invalid_replication_factor"),
    "negative replicas": ({"replication_factor": -2}, "invalid_replication_factor"),
    "more replicas than brokers": ({"replication_factor": 3}, "invalid_replication_factor"),
    "unknown setting": ({"configs": [{"name": "no.such.setting", "value": "1"}]}, "invalid_config"),
    "not a number": ({"configs": [{"name": "retention.ms", "value": "soon"}]}, "invalid_config"),
    "out of range": ({"configs": [{"name": "segment.bytes", "value": "1"}]}, "invalid_config"),
    "unknown choice": ({"configs": [{"name": "cleanup.policy", "value": "burn"}]}, "invalid_config"),
    "null value": ({"configs": [{"name": "retention.ms", "value": None}]}, "invalid_config"),
    "unknown broker": (
        {"assignments": [{"partition_index": 0, "broker_ids": [999]}]},
        "invalid_replica_assignment",
    ),
    "partitions that skip a number": (
        {"assignments": [{"partition_index": 1, "broker_ids": [1]}]},
        "invalid_replica_assignment",
    ),
    "a partition twice": (
        {
            "assignments": [
                {"partition_index": 0, "broker_ids": [1]},
                {"partition_index": 0, "broker_ids": [1]},
            ]
        },
        "invalid_replica_assignment",
    ),
    "a broker twice": (
        {"assignments": [{"partition_index": 0, "broker_ids": [1, 1]}]},
        "invalid_replica_assignment",
    ),
    "no brokers": ({"assignments": [{"partition_index": 0, "broker_ids": []}]}, "invalid_replica_assignment"),
    "assignments and a count": (
        {"num_partitions": 3, "assignments": [{"partition_index": 0, "broker_ids": [1]}]},
        "invalid_request",
    ),
}


@pytest.mark.parametrize("case", BAD_TOPICS)
def test_bad_topics_are_refused(case: str, connection: Connection, name: Any) -> None:
    wanted, error = BAD_TOPICS[case]
    if "assignments" in wanted:
        wanted = {"num_partitions": -1, "replication_factor": -1} | wanted
    (made,) = create(connection, {"name": name()} | wanted)
    assert made.error_code.name == error
    assert made.error_message


def test_good_names_beside_bad_ones_are_made(connection: Connection, name: Any) -> None:
    good, bad = name(), "bad name"
    found = {t.name: t.error_code.name for t in create(connection, {"name": good}, {"name": bad})}
    assert found == {good: "none", bad: "invalid_topic_exception"}


@pytest.mark.parametrize("shape", ["{}", "{}.a.b", "{}_a_b", "{}-A-9", "x" * 150 + "{}"])
def test_legal_names(shape: str, connection: Connection, name: Any) -> None:
    (made,) = create(connection, {"name": shape.format(name())})
    assert made.error_code == 0


def test_a_topic_that_exists_is_not_made_again(connection: Connection, topic: Any) -> None:
    (again,) = create(connection, {"name": topic()})
    assert again.error_code.name == "topic_already_exists"


def test_names_that_differ_in_dots_and_underscores_collide(connection: Connection, name: Any) -> None:
    base = name()
    (first,) = create(connection, {"name": f"{base}.a"})
    (second,) = create(connection, {"name": f"{base}_a"})
    assert first.error_code == 0
    assert second.error_code.name == "invalid_topic_exception"


def test_a_name_given_twice_is_refused(connection: Connection, name: Any) -> None:
    fresh = name()
    made = create(connection, {"name": fresh}, {"name": fresh})
    assert {t.error_code.name for t in made} == {"invalid_request"}
    assert not exists(connection, fresh)


def test_a_deleted_topic_is_gone(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch())
    (gone,) = delete(connection, {"name": known})
    assert (gone.error_code, gone.name) == (0, known)
    wait_until(lambda: not exists(connection, known), 10, "the topic is gone")
    assert list_offset(connection, known, -1).error_code.name == "unknown_topic_or_partition"


def test_a_topic_can_be_deleted_by_id(connection: Connection, topic: Any) -> None:
    known = topic()
    topic_id = describe(connection, known).topic_id
    (gone,) = delete(connection, {"topic_id": topic_id})
    assert (gone.error_code, gone.topic_id, gone.name) == (0, topic_id, known)
    wait_until(lambda: not exists(connection, known), 10, "the topic is gone")


def test_a_topic_made_again_is_another_topic(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"old"]))
    first = describe(connection, known).topic_id
    delete(connection, {"name": known})
    wait_until(lambda: create(connection, {"name": known})[0].error_code == 0, 10, "the name is free again")
    await_leaders(connection, known)
    wait_until(lambda: describe(connection, known).topic_id != first, 10, "a new id")
    assert list_offset(connection, known, -1).offset == 0
    assert append(connection, known, batch([b"new"])) == 0


def test_deleting_what_is_not_there(connection: Connection, name: Any) -> None:
    (by_name,) = delete(connection, {"name": name()})
    assert by_name.error_code.name == "unknown_topic_or_partition"
    (by_id,) = delete(connection, {"topic_id": uuid.uuid4()})
    assert by_id.error_code.name == "unknown_topic_id"


def test_deleting_by_name_and_id_at_once_is_refused(connection: Connection, topic: Any) -> None:
    known = topic()
    (refused,) = delete(connection, {"name": known, "topic_id": describe(connection, known).topic_id})
    assert refused.error_code.name == "invalid_request"
    assert exists(connection, known)


def test_partitions_can_be_added(connection: Connection, topic: Any) -> None:
    known = topic()
    append(connection, known, batch([b"x"]))
    assert grow(connection, known, 4).error_code == 0
    await_leaders(connection, known, 4)
    assert len(describe(connection, known).partitions) == 4
    assert list_offset(connection, known, -1, 0).offset == 1
    assert append(connection, known, batch([b"y"]), 3) == 0


@pytest.mark.parametrize(
    ("count", "error"),
    [
        (3, "invalid_partitions"),
        (2, "invalid_partitions"),
        (0, "invalid_partitions"),
        (-1, "invalid_partitions"),
    ],
)
def test_the_number_of_partitions_only_grows(
    count: int, error: str, connection: Connection, topic: Any
) -> None:
    refused = grow(connection, topic(partitions=3), count)
    assert refused.error_code.name == error
    assert refused.error_message


def test_growing_an_unknown_topic(connection: Connection, name: Any) -> None:
    assert grow(connection, name(), 2).error_code.name == "unknown_topic_or_partition"


def test_growing_with_validate_only_changes_nothing(connection: Connection, topic: Any) -> None:
    known = topic()
    assert grow(connection, known, 5, validate_only=True).error_code == 0
    assert len(describe(connection, known).partitions) == 1


@pytest.mark.parametrize(
    "assignments",
    [[], [{"broker_ids": [1]}, {"broker_ids": [1]}], [{"broker_ids": [999]}], [{"broker_ids": []}]],
)
def test_growing_needs_a_fitting_assignment(assignments: Any, connection: Connection, topic: Any) -> None:
    known = topic()
    refused = grow(connection, known, 2, assignments=assignments)
    assert refused.error_code.name == "invalid_replica_assignment"
    assert len(describe(connection, known).partitions) == 1


def test_growing_the_same_topic_twice_in_one_request_is_refused(connection: Connection, topic: Any) -> None:
    wanted = {"name": topic(), "count": 3}
    answer = connection.call("create_partitions", 3, topics=[wanted, wanted], timeout=5000)
    assert {r.error_code.name for r in answer.results} == {"invalid_request"}
