"""OffsetCommit, OffsetFetch and OffsetDelete, and the groups they belong to as administrators see them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.conformance.members import (
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    NON_EMPTY_GROUP,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    Member,
    commit,
    committed,
    subscription,
)
from tests.conformance.raw import Connection
from tests.conformance.topics import describe

UNKNOWN_TOPIC_ID = 100
SIMPLE: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": ""}


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_are_kept_without_members(
    version: int, connection: Connection, group: str, topic: Any
) -> None:
    known = topic(partitions=2)
    epoch = {"committed_leader_epoch": 0} if version >= 6 else {}
    wanted = {"partition_index": 1, "committed_offset": 7, "committed_metadata": "note", **epoch}
    answer = connection.call(
        "offset_commit", version, group_id=group, topics=[{"name": known, "partitions": [wanted]}], **SIMPLE
    )
    assert answer.topics[0].partitions[0].error_code == NONE
    found = fetch(connection, group, known, [0, 1])
    assert found == {0: (-1, "", NONE), 1: (7, "note", NONE)}


def fetch(connection: Connection, group: str, topic: str, partitions: list[int]) -> dict[int, Any]:
    answer = connection.call(
        "offset_fetch", 5, group_id=group, topics=[{"name": topic, "partition_indexes": partitions}]
    )
    return {
        one.partition_index: (one.committed_offset, one.metadata, one.error_code)
        for one in answer.topics[0].partitions
    }


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version_fetches(version: int, connection: Connection, group: str, topic: Any) -> None:
    known = topic()
    assert commit(connection, known, 7, group_id=group, **SIMPLE) == NONE
    wanted = [{"name": known, "partition_indexes": [0]}]
    asked = [wanted, None] if version >= 2 else [wanted]
    for topics in asked:
        answer = connection.call("offset_fetch", version, group_id=group, topics=topics)
        (told,) = answer.topics
        assert (told.name, told.partitions[0].committed_offset) == (known, 7)


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_are_asked_for_at_once(
    version: int, connection: Connection, group: str, name: Any, topic: Any
) -> None:
    known, nobody = topic(), name()
    assert commit(connection, known, 7, group_id=group, **SIMPLE) == NONE
    wanted = [{"name": known, "partition_indexes": [0]}]
    asked = [
        {"group_id": group, "topics": wanted, "member_id": None},
        {"group_id": group, "topics": None, "member_id": None},
        {"group_id": nobody, "topics": wanted, "member_id": None},
        {"group_id": nobody, "topics": None, "member_id": None},
    ]
    answer = connection.call("offset_fetch", version, groups=asked)
    told = [
        [(topic.name, one.committed_offset) for topic in told.topics for one in topic.partitions]
        for told in answer.groups
    ]
    assert [one.error_code for one in answer.groups] == [NONE] * 4
    assert told == [[(known, 7)], [(known, 7)], [(known, -1)], []]


def test_topics_by_id(connection: Connection, group: str, topic: Any) -> None:
    known = topic()
    topic_id = describe(connection, known).topic_id
    stranger = uuid.uuid4()
    partitions = [{"partition_index": 0, "committed_offset": 9, "committed_metadata": ""}]
    answer = connection.call(
        "offset_commit",
        10,
        group_id=group,
        topics=[
            {"topic_id": topic_id, "partitions": partitions},
            {"topic_id": stranger, "partitions": partitions},
        ],
        **SIMPLE,
    )
    codes = {one.topic_id: one.partitions[0].error_code for one in answer.topics}
    assert codes == {topic_id: NONE, stranger: UNKNOWN_TOPIC_ID}
    asked = [{"topic_id": one, "partition_indexes": [0]} for one in (topic_id, stranger)]
    (told,) = connection.call(
        "offset_fetch", 10, groups=[{"group_id": group, "topics": asked, "member_id": None}]
    ).groups
    found = {
        one.topic_id: (one.partitions[0].committed_offset, one.partitions[0].error_code)
        for one in told.topics
    }
    assert found == {topic_id: (9, NONE), stranger: (-1, UNKNOWN_TOPIC_ID)}


def test_offsets_go_with_their_topic(connection: Connection, group: str, topic: Any) -> None:
    known = topic()
    assert commit(connection, known, 7, group_id=group, **SIMPLE) == NONE
    connection.call("delete_topics", 5, topic_names=[known], timeout=10_000)
    while committed(connection, group, known) != -1:
        pass


def test_what_is_not_there_cannot_be_committed(
    connection: Connection, group: str, name: Any, topic: Any
) -> None:
    known = topic()
    assert commit(connection, name(), 1, group_id=group, **SIMPLE) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(connection, known, 1, 1, group_id=group, **SIMPLE) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(connection, known, 1, -1, group_id=group, **SIMPLE) == UNKNOWN_TOPIC_OR_PARTITION
    assert commit(connection, known, 1, 0, "x" * 4096, group_id=group, **SIMPLE) == NONE
    assert commit(connection, known, 2, 0, "x" * 4097, group_id=group, **SIMPLE) == OFFSET_METADATA_TOO_LARGE
    assert commit(connection, known, 3, 0, None, group_id=group, **SIMPLE) == NONE
    assert fetch(connection, group, known, [0]) == {0: (3, "", NONE)}


@pytest.mark.parametrize(("version", "code"), [(8, ILLEGAL_GENERATION), (9, GROUP_ID_NOT_FOUND)])
def test_a_generation_of_a_group_that_is_not_there(
    version: int, code: int, connection: Connection, group: str, topic: Any
) -> None:
    fields: dict[str, Any] = {"group_id": group, "generation_id_or_member_epoch": 1, "member_id": "me"}
    assert commit(connection, topic(), 1, version=version, **fields) == code


def test_only_members_commit_for_a_group_that_has_some(
    connection: Connection, bootstrap: str, group: str, topic: Any
) -> None:
    known = topic()
    member = Member(bootstrap, group).form()
    assert member.commit(known, 5) == NONE
    assert member.commit(known, 6, generation=0) == ILLEGAL_GENERATION
    assert member.commit(known, 6, generation=2) == ILLEGAL_GENERATION
    assert member.commit(known, 6, generation=-1) == ILLEGAL_GENERATION
    assert member.commit(known, 6, member_id="stranger") == UNKNOWN_MEMBER_ID
    assert member.commit(known, 6, group_instance_id="stranger") == UNKNOWN_MEMBER_ID
    assert commit(connection, known, 6, group_id=group, **SIMPLE) == UNKNOWN_MEMBER_ID
    assert committed(connection, group, known) == 5
    member.close()


def test_while_a_group_rebalances_only_what_was_assigned_is_committed(
    connection: Connection, bootstrap: str, group: str, topic: Any
) -> None:
    known = topic()
    first, second = Member(bootstrap, group).form(), Member(bootstrap, group)
    second.announce()
    while first.heartbeat() != REBALANCE_IN_PROGRESS:
        pass
    assert first.commit(known, 5) == NONE  # the last of its generation
    first.join()
    assert first.commit(known, 6) == REBALANCE_IN_PROGRESS
    assert first.commit(known, 6, generation=1) == ILLEGAL_GENERATION
    assert committed(connection, group, known) == 5
    first.close()
    second.close()


def test_offsets_outlive_their_members(
    connection: Connection, bootstrap: str, group: str, topic: Any
) -> None:
    known = topic()
    member = Member(bootstrap, group).form()
    assert member.commit(known, 5) == NONE
    assert member.leave() == NONE
    assert member.commit(known, 6) == UNKNOWN_MEMBER_ID
    assert committed(connection, group, known) == 5
    assert commit(connection, known, 4, group_id=group, **SIMPLE) == NONE
    member.close()


# Deleting


def delete_offset(
    connection: Connection, group: str, topic: str, partition: int = 0
) -> tuple[int, list[int]]:
    wanted = [{"name": topic, "partitions": [{"partition_index": partition}]}]
    answer = connection.call("offset_delete", 0, group_id=group, topics=wanted)
    return int(answer.error_code), [int(one.error_code) for told in answer.topics for one in told.partitions]


def test_offsets_are_deleted_when_nobody_needs_them(
    connection: Connection, bootstrap: str, group: str, name: Any, topic: Any
) -> None:
    read, unread = topic(), topic()
    member = Member(bootstrap, group, protocols=(("range", subscription(read)),)).form()
    assert member.commit(read, 5) == member.commit(unread, 6) == NONE
    assert delete_offset(connection, group, read) == (NONE, [GROUP_SUBSCRIBED_TO_TOPIC])
    assert delete_offset(connection, group, unread) == (NONE, [NONE])
    assert delete_offset(connection, group, unread) == (NONE, [NONE])
    assert delete_offset(connection, group, unread, 1) == (NONE, [UNKNOWN_TOPIC_OR_PARTITION])
    assert delete_offset(connection, group, name()) == (NONE, [UNKNOWN_TOPIC_OR_PARTITION])
    assert delete_offset(connection, name(), unread) == (GROUP_ID_NOT_FOUND, [])
    assert delete_offset(connection, "", unread) == (INVALID_GROUP_ID, [])
    assert (committed(connection, group, read), committed(connection, group, unread)) == (5, -1)
    assert member.leave() == NONE
    assert delete_offset(connection, group, read) == (NONE, [NONE])
    assert committed(connection, group, read) == -1
    member.close()


def test_offsets_of_a_group_whose_topics_are_not_known(
    connection: Connection, bootstrap: str, group: str, topic: Any
) -> None:
    known = topic()
    member = Member(bootstrap, group, protocol_type="connect").form()
    assert member.commit(known, 5) == NONE
    assert delete_offset(connection, group, known) == (NON_EMPTY_GROUP, [])
    member.close()


# Groups


def listed(connection: Connection, group: str, **filters: Any) -> Any:
    answer = connection.call("list_groups", 5, **{"states_filter": [], "types_filter": [], **filters})
    assert answer.error_code == NONE
    found = [one for one in answer.groups if one.group_id == group]
    return (found[0].protocol_type, found[0].group_state, found[0].group_type) if found else None


def test_groups_are_listed(connection: Connection, bootstrap: str, group: str, topic: Any) -> None:
    known = topic()
    assert listed(connection, group) is None
    assert commit(connection, known, 1, group_id=group, **SIMPLE) == NONE
    assert listed(connection, group) == ("", "Empty", "classic")
    member = Member(bootstrap, group).form()
    assert listed(connection, group) == ("consumer", "Stable", "classic")
    assert listed(connection, group, states_filter=["stable", "Empty"]) is not None
    assert listed(connection, group, states_filter=["Empty"]) is None
    assert listed(connection, group, states_filter=["nonsense"]) is None
    assert listed(connection, group, types_filter=["Classic"]) is not None
    assert listed(connection, group, types_filter=["consumer"]) is None
    for version in range(5):
        fields: dict[str, Any] = {"states_filter": []} if version == 4 else {}
        names = [one.group_id for one in connection.call("list_groups", version, **fields).groups]
        assert group in names
    assert member.leave() == NONE
    assert listed(connection, group) == ("consumer", "Empty", "classic")
    member.close()


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(
    version: int, connection: Connection, bootstrap: str, group: str, name: Any
) -> None:
    member = Member(bootstrap, group, instance="a").form()
    nobody = name()
    extra = {"include_authorized_operations": True} if version >= 3 else {}
    found, missing = connection.call("describe_groups", version, groups=[group, nobody], **extra).groups
    assert (found.error_code, found.group_state) == (NONE, "Stable")
    assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
    (one,) = found.members
    assert (one.member_id, one.client_id, one.client_host) == (member.id, "raw", "/127.0.0.1")
    assert (one.member_metadata, one.member_assignment) == (b"data", b"everything")
    if version >= 3:
        assert found.authorized_operations == 3400
    if version >= 4:
        assert one.group_instance_id == "a"
    assert missing.group_state == "Dead"
    assert missing.error_code == (GROUP_ID_NOT_FOUND if version >= 6 else NONE)
    member.close()


def test_a_group_that_rebalances_shows_no_protocol(
    connection: Connection, bootstrap: str, group: str
) -> None:
    member = Member(bootstrap, group)
    member.join()
    (found,) = connection.call("describe_groups", 5, groups=[group]).groups
    assert (found.group_state, found.protocol_data) == ("CompletingRebalance", "")
    assert found.members[0].member_metadata == b""
    member.close()


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_are_deleted(
    version: int, connection: Connection, bootstrap: str, group: str, name: Any, topic: Any
) -> None:
    known, nobody = topic(), name()
    member = Member(bootstrap, group).form()
    assert member.commit(known, 5) == NONE

    def delete() -> dict[str, int]:
        answer = connection.call("delete_groups", version, groups_names=[group, nobody])
        return {one.group_id: int(one.error_code) for one in answer.results}

    assert delete() == {group: NON_EMPTY_GROUP, nobody: GROUP_ID_NOT_FOUND}
    assert committed(connection, group, known) == 5
    assert member.leave() == NONE
    assert delete() == {group: NONE, nobody: GROUP_ID_NOT_FOUND}
    assert committed(connection, group, known) == -1
    assert listed(connection, group) is None
    assert delete()[group] == GROUP_ID_NOT_FOUND
    member.close()


@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_the_coordinator(version: int, connection: Connection, name: Any) -> None:
    key = name()
    fields: dict[str, Any] = {"coordinator_keys": [key]} if version >= 4 else {"key": key}
    if version >= 1:
        fields["key_type"] = 0
    answer = connection.call("find_coordinator", version, **fields)
    while (answer.coordinators[0] if version >= 4 else answer).error_code != NONE:
        answer = connection.call("find_coordinator", version, **fields)
    found = answer.coordinators[0] if version >= 4 else answer
    assert f"{found.host}:{found.port}" == ":".join(map(str, connection.socket.getpeername()[:2]))
