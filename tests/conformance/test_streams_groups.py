"""StreamsGroupHeartbeat and StreamsGroupDescribe: who takes part, at which epoch, with which tasks; and what OffsetCommit,
ListGroups, DescribeGroups and DeleteGroups make of such groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance import streams_members as codes
from tests.conformance.members import Member, await_coordinator, subscription
from tests.conformance.raw import Connection
from tests.conformance.streams_members import (
    NONE,
    StreamsMember,
    changelog,
    settle,
    subtopology,
    topic_info,
    topology,
)
from tests.conformance.topics import describe

Members = Callable[..., StreamsMember]


@pytest.fixture
def member(bootstrap: str, connection: Connection, group: str) -> Iterator[Members]:
    made: list[StreamsMember] = []

    def make(**options: Any) -> StreamsMember:
        made.append(StreamsMember(bootstrap, options.pop("group", group), **options))
        return made[-1]

    await_coordinator(connection, group)
    yield make
    for one in made:
        one.close()


def commit(member: StreamsMember, topic: str, partition: int, epoch: int, version: int = 9) -> int:
    answer = member.connection.call(
        "offset_commit",
        version,
        group_id=member.group,
        generation_id_or_member_epoch=epoch,
        member_id=member.id,
        group_instance_id=None,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": 1,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                ],
            }
        ],
    )
    return int(answer.topics[0].partitions[0].error_code)


def test_the_first_member_waits_and_gets_everything(member: Members, topic: Any, group: str) -> None:
    known = topic(partitions=3)
    first = member()
    store = f"{group}-store-changelog"
    assert first.join(topology(subtopology("0", known, state_changelog_topics=[changelog(store)]))) == NONE
    assert first.epoch == 1 and first.active == {}
    assert codes.ASSIGNMENT_DELAYED in first.statuses
    assert first.describe().group_state in ("NotReady", "Assigning")
    settle(first)
    assert (first.active, first.standby) == ({"0": [0, 1, 2]}, {})
    assert len(describe(first.connection, store).partitions) == 3
    told = first.describe()
    assert (told.group_state, told.topology.epoch) == ("Stable", 0)
    (kept,) = told.topology.subtopologies[0].state_changelog_topics
    assert (kept.name, kept.partitions) == (store, 3)
    (one,) = told.members
    assert (one.process_id, one.client_id, one.is_classic) == (first.process, "raw", False)
    assert codes.tasks(one.target_assignment.active_tasks) == {"0": [0, 1, 2]}


def test_tasks_are_given_back_before_another_gets_them(member: Members, topic: Any) -> None:
    known = topology(subtopology("0", topic(partitions=4)))
    first, second = member(), member()
    first.join(known)
    settle(first)
    epoch = first.epoch
    assert second.join(known) == NONE and second.active == {}
    deadline = time.monotonic() + 20
    while first.active == {"0": [0, 1, 2, 3]}:
        assert first.beat() == second.beat() == NONE and time.monotonic() < deadline
        time.sleep(0.05)
    assert first.epoch == epoch and second.beat() == NONE and second.active == {}
    assert first.acknowledge() == NONE and first.epoch > epoch
    settle(first, second)
    assert sorted(first.active["0"] + second.active["0"]) == [0, 1, 2, 3]
    assert len(first.active["0"]) == 2
    assert second.leave() == NONE and second.answer.member_epoch == -1
    settle(first)
    assert first.active == {"0": [0, 1, 2, 3]}


def test_a_repartition_topic_is_created_with_its_settings(member: Members, topic: Any, group: str) -> None:
    source, other = topic(partitions=2), topic(partitions=3)
    through = f"{group}-by-key-repartition"
    first = member()
    parts = (
        subtopology("0", source, repartition_sink_topics=[through]),
        subtopology(
            "1",
            other,
            repartition_source_topics=[topic_info(through)],
            copartition_groups=[
                {"source_topics": [0], "source_topic_regex": [], "repartition_source_topics": [0]}
            ],
        ),
    )
    assert first.join(topology(*parts)) == NONE
    settle(first)
    assert first.active == {"0": [0, 1], "1": [0, 1, 2]}
    assert len(describe(first.connection, through).partitions) == 3


def test_topics_that_do_not_fit_are_told(member: Members, topic: Any, name: Any) -> None:
    first, second = member(), member(group=name())
    await_coordinator(second.connection, second.group)
    missing = name()
    assert first.join(topology(subtopology("0", missing))) == NONE
    assert first.statuses[codes.MISSING_SOURCE_TOPICS] == f"Source topics {missing} are missing."
    together = {"source_topics": [0, 1], "source_topic_regex": [], "repartition_source_topics": []}
    parts = subtopology("0", topic(partitions=1), topic(partitions=2), copartition_groups=[together])
    assert second.join(topology(parts)) == NONE
    assert "same number of partitions" in second.statuses[codes.INCORRECTLY_PARTITIONED_TOPICS]


def test_an_internal_topic_that_cannot_be_created_is_told(member: Members, topic: Any, group: str) -> None:
    first, store = member(), f"{group}-store-changelog"
    wrong = {**changelog(store), "replication_factor": 7}
    assert first.join(topology(subtopology("0", topic(), state_changelog_topics=[wrong]))) == NONE
    deadline = time.monotonic() + 20
    while "Creation failed" not in first.statuses[codes.MISSING_INTERNAL_TOPICS]:
        assert first.beat() == NONE and time.monotonic() < deadline
        assert first.statuses[codes.MISSING_INTERNAL_TOPICS].startswith(
            f"Internal topics are missing: {store}"
        )
        time.sleep(0.1)
    assert first.describe().group_state == "NotReady"


def test_the_topology_of_the_group_does_not_change(member: Members, topic: Any) -> None:
    known = topic()
    first, second = member(), member()
    assert first.join(topology(subtopology("0", known), epoch=3)) == NONE
    assert second.join(topology(subtopology("1", known), epoch=3)) == codes.INVALID_REQUEST
    assert second.answer.error_message == "Topology updates are not supported yet."
    assert second.join(topology(subtopology("0", known), epoch=4)) == codes.INVALID_REQUEST
    assert second.join(topology(subtopology("0", known), epoch=2)) == NONE
    assert set(second.statuses) >= {codes.STALE_TOPOLOGY}


def test_wrong_requests_get_their_errors(member: Members, topic: Any) -> None:
    known = topology(subtopology("0", topic()))
    first = member()
    refused = [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"rebalance_timeout": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"active_tasks": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"instance_id": "i"}, "Static membership is not yet supported."),
    ]
    for fields, text in refused:
        assert first.join(known, **fields) == codes.INVALID_REQUEST, fields
        assert first.answer.error_message == text
    unset = topology(subtopology("0", "in", state_changelog_topics=[{**changelog("c"), "partitions": 2}]))
    assert first.join(unset) == codes.STREAMS_INVALID_TOPOLOGY
    assert first.join(topology(subtopology("0", "__consumer_offsets"))) == codes.STREAMS_INVALID_TOPOLOGY
    assert first.join(topology(subtopology("0", "a b"))) == codes.STREAMS_INVALID_TOPOLOGY
    assert first.beat(member_epoch=1) == codes.GROUP_ID_NOT_FOUND
    assert first.join(known) == NONE
    assert first.beat(topology=known) == codes.INVALID_REQUEST
    assert first.beat(active_tasks=[]) == codes.INVALID_REQUEST
    assert first.beat(member_epoch=-3) == codes.INVALID_REQUEST
    assert first.beat(member_epoch=99) == codes.FENCED_MEMBER_EPOCH
    assert first.beat(member_id="another") == codes.UNKNOWN_MEMBER_ID


def test_offsets_are_committed_with_the_epoch_of_the_task(member: Members, topic: Any) -> None:
    known = topic(partitions=2)
    first, second = member(), member()
    first.join(topology(subtopology("0", known)))
    settle(first)
    since = first.epoch
    assert commit(first, known, 0, since) == NONE
    assert commit(first, known, 0, since, version=8) == codes.UNSUPPORTED_VERSION
    second.join(topology(subtopology("0", known)))
    settle(first, second)
    assert first.epoch > since
    mine, other = first.active["0"][0], second.active["0"][0]
    assert commit(first, known, mine, since) == NONE  # it has had this task since then
    assert commit(first, known, other, since) == codes.STALE_MEMBER_EPOCH
    assert commit(second, known, other, since) == codes.STALE_MEMBER_EPOCH
    assert commit(first, known, mine, first.epoch + 1) == codes.STALE_MEMBER_EPOCH


def test_a_streams_group_is_listed_and_deleted_as_one(
    member: Members, connection: Connection, topic: Any, group: str
) -> None:
    first = member()
    first.join(topology(subtopology("0", topic())))
    settle(first)
    listed = connection.call("list_groups", 5, states_filter=[], types_filter=["streams"]).groups
    mine = next(one for one in listed if one.group_id == group)
    assert (mine.protocol_type, mine.group_state, mine.group_type) == ("streams", "Stable", "streams")
    described = connection.call("describe_groups", 6, groups=[group], include_authorized_operations=False)
    assert described.groups[0].error_code == codes.GROUP_ID_NOT_FOUND
    deleted = connection.call("delete_groups", 2, groups_names=[group])
    assert deleted.results[0].error_code == codes.NON_EMPTY_GROUP
    assert first.leave() == NONE
    assert first.describe().group_state == "Empty"
    assert connection.call("delete_groups", 2, groups_names=[group]).results[0].error_code == NONE
    assert first.describe().error_code == codes.GROUP_ID_NOT_FOUND


def test_a_stopped_classic_group_becomes_a_streams_group(
    member: Members, bootstrap: str, topic: Any, group: str
) -> None:
    known = topic()
    old = Member(bootstrap, group, protocols=(("range", subscription(known)),))
    assert old.join().error_code == 0
    first = member()
    assert first.join(topology(subtopology("0", known))) == codes.GROUP_ID_NOT_FOUND
    assert old.leave() == 0
    old.close()
    assert first.join(topology(subtopology("0", known))) == NONE
    settle(first)
    assert first.active == {"0": [0]}


def test_a_shutdown_is_told_to_the_others(member: Members, topic: Any) -> None:
    first, second = member(), member()
    known = topology(subtopology("0", topic()))
    assert first.join(known) == second.join(known) == NONE
    assert first.beat(shutdown_application=True) == NONE
    assert codes.SHUTDOWN_APPLICATION in first.statuses
    assert second.beat() == NONE
    assert first.id in second.statuses[codes.SHUTDOWN_APPLICATION]
