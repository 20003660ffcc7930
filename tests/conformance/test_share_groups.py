"""Share groups, seen by a client that keeps every field in its hand; on Tidelog and on Apache Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from tests.conformance.batches import Record, batch
from tests.conformance.process import BrokerProcess
from tests.conformance.raw import Connection
from tests.conformance.share_client import (
    ACCEPT,
    FINAL,
    LEAVE,
    REJECT,
    RELEASE,
    RENEW,
    Asking,
    ShareMember,
    acknowledge_codes,
    acquired,
    set_group,
)
from tests.conformance.topics import append, create_topic
from tidelog import errors
from tidelog.record.reader import read_records
from tidelog.wire.messages import alter_share_group_offsets as alter
from tidelog.wire.messages import delete_share_group_offsets as forget
from tidelog.wire.messages import describe_share_group_offsets as offsets
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.share_group_describe import ShareGroupDescribeRequest

LOCK_MS = 1_000  # of tests that wait for its end
LONG_LOCK_MS = 30_000  # of all others
WAIT_MS = 10_000


class World:
    """A topic with one partition, a share group on it, and its members."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = group
        self._members: list[ShareMember] = []

    def member(self) -> tuple[ShareMember, tuple[uuid.UUID, int]]:
        joined = ShareMember(self.bootstrap, self.group)
        self._members.append(joined)
        (part,) = joined.join(self.topic)
        return joined, part

    def append(self, count: int, first: int = 0) -> None:
        with Connection(self.bootstrap) as connection:
            append(connection, self.topic, batch([Record(b"v%d" % i) for i in range(first, first + count)]))

    def close(self) -> None:
        for member in self._members:
            member.socket.close()


@pytest.fixture
def world(share_broker: BrokerProcess, name: Callable[[], str]) -> Iterator[World]:
    made = World(share_broker.bootstrap, name(), name())
    create_topic(made.bootstrap, made.topic)
    set_group(
        made.bootstrap,
        made.group,
        share_auto_offset_reset="earliest",
        share_delivery_count_limit="3",
    )
    yield made
    made.close()


def values(answer: Any) -> list[bytes | None]:
    """What the records that were given say, in order."""
    return [
        record.value
        for topic in answer.responses
        for part in topic.partitions
        for record in read_records(part.records or b"")
        if any(one.first_offset <= record.offset <= one.last_offset for one in part.acquired_records)
    ]


def gather(member: ShareMember, count: int, parts: Any = ()) -> list[tuple[int, int, int]]:
    """Fetches until so many records were given."""
    found: list[tuple[int, int, int]] = []
    deadline = time.monotonic() + 20
    while sum(last - first + 1 for first, last, _ in found) < count:
        assert time.monotonic() < deadline, f"only {found}"
        found += acquired(member.fetch(list(parts)))
    return found


def test_a_record_is_given_to_one_member_and_never_again_once_it_is_accepted(world: World) -> None:
    ann, part = world.member()
    ben, _ = world.member()
    world.append(10)
    answer = ann.fetch([part], max_wait_ms=WAIT_MS)
    assert acquired(answer) == [(0, 9, 1)]
    assert values(answer) == [b"v%d" % i for i in range(10)]
    assert answer.acquisition_lock_timeout_ms == LONG_LOCK_MS
    assert acquired(ben.fetch([part], max_wait_ms=0)) == []
    assert acknowledge_codes(ann.acknowledge({part: [(0, 9, [ACCEPT])]})) == [0]
    ann.acknowledge({}, share_session_epoch=FINAL)
    assert acquired(ben.fetch(max_wait_ms=200)) == []


def test_a_released_record_is_given_again_and_its_deliveries_count(world: World) -> None:
    ann, part = world.member()
    ben, _ = world.member()
    world.append(4)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    assert acknowledge_codes(ann.acknowledge({part: [(0, 3, [RELEASE, ACCEPT, RELEASE, ACCEPT])]})) == [0]
    assert gather(ben, 2, [part]) == [(0, 0, 2), (2, 2, 2)]


def test_acknowledgements_ride_on_a_fetch(world: World) -> None:
    ann, part = world.member()
    world.append(2)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    world.append(2, first=2)
    answer = ann.fetch(acks={part: [(0, 1, [ACCEPT])]}, max_wait_ms=WAIT_MS)
    assert acknowledge_codes(answer) == [0]
    assert acquired(answer) or gather(ann, 2) == [(2, 3, 1)]


def test_a_record_whose_lock_runs_out_is_given_again(world: World) -> None:
    set_group(world.bootstrap, world.group, share_record_lock_duration_ms=str(LOCK_MS))
    ann, part = world.member()
    ben, _ = world.member()
    world.append(3)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    ben.fetch([part], max_wait_ms=0)
    assert gather(ben, 3) == [(0, 2, 2)]
    assert acknowledge_codes(ann.acknowledge({part: [(0, 2, [ACCEPT])]})) == [errors.InvalidRecordState.code]


def test_a_renewed_lock_lasts_longer(world: World) -> None:
    set_group(world.bootstrap, world.group, share_record_lock_duration_ms="4000")
    ann, part = world.member()
    ben, _ = world.member()
    world.append(1)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    ben.fetch([part], max_wait_ms=0)
    for _ in range(3):
        time.sleep(1.5)
        renewed = ann.acknowledge({part: [(0, 0, [RENEW])]}, is_renew_ack=True)
        assert acknowledge_codes(renewed) == [0]
    assert acquired(ben.fetch(max_wait_ms=0)) == []
    assert acknowledge_codes(ann.acknowledge({part: [(0, 0, [ACCEPT])]})) == [0]


def test_renewals_can_be_switched_off_and_come_with_a_flag(world: World) -> None:
    ann, part = world.member()
    world.append(1)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    assert acknowledge_codes(ann.acknowledge({part: [(0, 0, [RENEW])]})) == [errors.InvalidRequest.code]
    set_group(world.bootstrap, world.group, share_renew_acknowledge_enable="false")
    renewed = ann.acknowledge({part: [(0, 0, [RENEW])]}, is_renew_ack=True)
    assert acknowledge_codes(renewed) == [errors.InvalidRecordState.code]


def test_past_the_delivery_limit_and_once_rejected_a_record_is_given_up(world: World) -> None:
    ann, part = world.member()
    world.append(2)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    assert acknowledge_codes(ann.acknowledge({part: [(0, 1, [RELEASE, REJECT])]})) == [0]
    for count in (2, 3):
        assert gather(ann, 1) == [(0, 0, count)]
        assert acknowledge_codes(ann.acknowledge({part: [(0, 0, [RELEASE])]})) == [0]
    world.append(1, first=2)
    assert gather(ann, 1) == [(2, 2, 1)]


def test_what_a_session_leaves_behind_is_given_to_others(world: World) -> None:
    ann, part = world.member()
    ben, _ = world.member()
    world.append(4)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    ann.acknowledge({part: [(0, 1, [ACCEPT])]})
    answer = ann.acknowledge({}, share_session_epoch=FINAL)
    assert answer.error_code == 0
    assert gather(ben, 2, [part]) == [(2, 3, 2)]
    assert ann.fetch(share_session_epoch=2).error_code == errors.ShareSessionNotFound.code


def test_a_member_whose_connection_closes_gives_back_what_it_had(world: World) -> None:
    ann, part = world.member()
    ben, _ = world.member()
    world.append(3)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    ann.socket.close()
    assert gather(ben, 3, [part]) == [(0, 2, 2)]


def test_who_goes_away_while_it_waits_is_given_nothing(world: World) -> None:
    ann, part = world.member()
    ben, _ = world.member()
    ann.fetch([part], max_wait_ms=0)
    ben.fetch([part], max_wait_ms=0)
    ann.send_fetch(max_wait_ms=20_000)
    time.sleep(0.3)
    ann.socket.close()
    time.sleep(0.3)
    world.append(3)
    # Kafka may give them to whoever is gone first, and takes them back.
    assert [given[:2] for given in gather(ben, 3)] == [(0, 2)]


def test_a_strict_fetch_gives_no_record_more_and_an_easy_one_whole_batches(world: World) -> None:
    ann, part = world.member()
    world.append(10)
    strict = ann.fetch([part], max_wait_ms=WAIT_MS, max_records=3, share_acquire_mode=1)
    assert acquired(strict) == [(0, 2, 1)]
    easy = ann.fetch(max_wait_ms=WAIT_MS, max_records=3)
    assert [(first, last) for first, last, _ in acquired(easy)] == [(3, 9)]


def test_who_wants_no_records_or_no_bytes_is_given_nothing(world: World) -> None:
    ann, part = world.member()
    world.append(2)
    for limit in ("max_bytes", "max_records"):
        assert acquired(ann.fetch([part], max_wait_ms=0, **{limit: 0})) == []
    assert gather(ann, 2) == [(0, 1, 1)]


def test_records_that_are_given_are_bounded(world: World) -> None:
    set_group(world.bootstrap, world.group, share_partition_max_record_locks="100")
    ann, part = world.member()
    for at in range(0, 300, 50):
        world.append(50, first=at)
    assert gather(ann, 100, [part])[-1][1] == 99
    assert acquired(ann.fetch(max_wait_ms=200)) == []
    ann.acknowledge({part: [(0, 49, [ACCEPT])]})
    assert gather(ann, 50)[0][0] == 100


WRONG = [
    ([(3, 2, [ACCEPT])], errors.InvalidRequest),
    ([(0, 0, [])], errors.InvalidRequest),
    ([(0, 0, [9])], errors.InvalidRequest),
    ([(0, 0, [-1])], errors.InvalidRequest),
    ([(0, 3, [ACCEPT, ACCEPT])], errors.InvalidRequest),
    ([(4, 4, [ACCEPT]), (2, 3, [ACCEPT])], errors.InvalidRequest),
    ([(0, 2, [ACCEPT]), (2, 3, [ACCEPT])], errors.InvalidRecordState),
    ([(100, 100, [ACCEPT])], errors.InvalidRequest),
    ([(5, 100, [ACCEPT])], errors.InvalidRequest),
    ([(0, 0, [RENEW])], errors.InvalidRequest),
]


def test_acknowledgements_that_cannot_be_are_refused_and_change_nothing(world: World) -> None:
    ann, part = world.member()
    ben, _ = world.member()
    world.append(10)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    for batches, problem in WRONG:
        assert acknowledge_codes(ann.acknowledge({part: batches})) == [problem.code], batches
    ben.fetch([part], max_wait_ms=0)
    foreign = ben.acknowledge({part: [(0, 0, [ACCEPT])]})
    assert acknowledge_codes(foreign) == [errors.InvalidRecordState.code]
    unknown = ann.acknowledge({(uuid.uuid4(), 0): [(0, 0, [ACCEPT])]})
    assert acknowledge_codes(unknown) == [errors.UnknownTopicId.code]
    beyond = ann.acknowledge({(part[0], 7): [(0, 0, [ACCEPT])]})
    assert acknowledge_codes(beyond) == [errors.UnknownTopicOrPartition.code]
    assert acknowledge_codes(ann.acknowledge({part: [(0, 9, [ACCEPT])]})) == [0]


def test_sessions_are_kept_in_order_by_their_epochs(world: World) -> None:
    ann, part = world.member()
    asked: dict[str, Any]
    problem: Any
    for asked, problem in (
        ({"share_session_epoch": 5}, errors.ShareSessionNotFound),
        ({"share_session_epoch": FINAL}, errors.ShareSessionNotFound),
        ({"acks": {part: [(0, 0, [ACCEPT])]}}, errors.InvalidRequest),
        ({"group_id": None}, errors.InvalidRequest),
        ({"member_id": ""}, errors.InvalidRequest),
        ({"member_id": "x" * 40}, errors.InvalidRequest),
    ):
        assert ann.fetch([part], **asked).error_code == problem.code, asked
    for epoch, problem in ((0, errors.InvalidShareSessionEpoch), (1, errors.ShareSessionNotFound)):
        answer = ann.acknowledge({part: [(0, 0, [ACCEPT])]}, share_session_epoch=epoch)
        assert answer.error_code == problem.code
    first = ann.fetch([part], max_wait_ms=500)
    assert [one.partition_index for topic in first.responses for one in topic.partitions] == [0]
    assert ann.fetch(share_session_epoch=9).error_code == errors.InvalidShareSessionEpoch.code
    assert ann.acknowledge({}, share_session_epoch=9).error_code == errors.InvalidShareSessionEpoch.code
    assert ann.fetch(max_wait_ms=0).responses == []


def test_members_join_beat_and_leave(world: World) -> None:
    ann = ShareMember(world.bootstrap, world.group)
    for asked, problem in (
        ({"topics": [world.topic], "member_epoch": 5}, errors.GroupIdNotFound),
        ({"topics": None}, errors.InvalidRequest),
        ({"topics": []}, errors.InvalidRequest),
        ({"topics": [world.topic], "member_id": ""}, errors.InvalidRequest),
        ({"topics": [world.topic], "group_id": ""}, errors.InvalidRequest),
        ({"topics": [world.topic], "rack_id": ""}, errors.InvalidRequest),
        ({"topics": [world.topic], "member_epoch": -2}, errors.InvalidRequest),
        ({"topics": None, "member_epoch": LEAVE}, errors.GroupIdNotFound),
    ):
        assert ann.beat(**asked).error_code == problem.code, asked
    joined, _ = world.member()
    assert joined.beat().assignment is None
    assert joined.beat(member_epoch=joined.epoch + 7).error_code == errors.FencedMemberEpoch.code
    for epoch in (1, LEAVE):
        strange = joined.beat(member_id=str(uuid.uuid4()), member_epoch=epoch)
        assert strange.error_code == errors.UnknownMemberId.code
    left = joined.beat(member_epoch=LEAVE)
    assert (left.error_code, left.member_epoch) == (0, LEAVE)
    assert joined.beat(member_epoch=1).error_code == errors.UnknownMemberId.code


def test_a_silent_member_is_removed(world: World) -> None:
    set_group(world.bootstrap, world.group, share_session_timeout_ms="1000")
    ann, _ = world.member()
    deadline = time.monotonic() + 10
    while ann.ask(ShareGroupDescribeRequest([world.group])).groups[0].members:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert ann.beat().error_code == errors.UnknownMemberId.code


def test_members_share_partitions_and_every_one_has_a_reader(world: World, name: Any) -> None:
    wide = name()
    create_topic(world.bootstrap, wide, 4)
    members = [ShareMember(world.bootstrap, world.group) for _ in range(3)]
    for member in members:
        member.join(wide)
    deadline = time.monotonic() + 20
    while True:
        for member in members:
            member.beat()
        read = sorted(
            index for member in members for indexes in member.assigned.values() for index in indexes
        )
        if read == [0, 1, 2, 3]:
            break
        assert time.monotonic() < deadline, [member.assigned for member in members]
        time.sleep(0.1)
    for member in members:
        member.socket.close()


def test_groups_are_listed_described_and_deleted(world: World) -> None:
    ann, _ = world.member()
    listed = {one.group_id: one for one in ann.ask(ListGroupsRequest(types_filter=["share"])).groups}
    found = listed[world.group]
    assert (found.protocol_type, found.group_state, found.group_type) == ("share", "Stable", "share")
    (group,) = ann.ask(ShareGroupDescribeRequest([world.group])).groups
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    assert [(one.member_id, one.subscribed_topic_names) for one in group.members] == [
        (ann.member, [world.topic])
    ]
    assert [one.topic_name for one in group.members[0].assignment.topic_partitions] == [world.topic]
    (missing,) = ann.ask(ShareGroupDescribeRequest(["nosuch"])).groups
    assert missing.error_code == errors.GroupIdNotFound.code
    (full,) = ann.ask(DeleteGroupsRequest([world.group])).results
    assert full.error_code == errors.NonEmptyGroup.code
    ann.beat(member_epoch=LEAVE)
    (empty,) = ann.ask(DeleteGroupsRequest([world.group])).results
    assert empty.error_code == 0
    assert world.group not in [one.group_id for one in ann.ask(ListGroupsRequest()).groups]


def position(member: ShareMember, group: str) -> list[tuple[str, int, int, int]]:
    """(topic, partition, start, lag) of everything that the group keeps state for."""
    (answer,) = member.ask(
        offsets.DescribeShareGroupOffsetsRequest([offsets.DescribeShareGroupOffsetsRequestGroup(group, None)])
    ).groups
    assert answer.error_code == 0
    return [
        (topic.topic_name, one.partition_index, one.start_offset, one.lag)
        for topic in answer.topics
        for one in topic.partitions
    ]


def test_offsets_are_told_moved_and_forgotten(world: World) -> None:
    ann, part = world.member()
    world.append(10)
    ann.fetch([part], max_wait_ms=WAIT_MS)
    ann.acknowledge({part: [(2, 4, [ACCEPT])]})
    assert position(ann, world.group) == [(world.topic, 0, 0, 7)]
    to_three = alter.AlterShareGroupOffsetsRequest(
        world.group,
        [
            alter.AlterShareGroupOffsetsRequestTopic(
                name, [alter.AlterShareGroupOffsetsRequestPartition(index, 3)]
            )
            for name, index in ((world.topic, 0), ("nosuch", 0))
        ],
    )
    assert ann.ask(to_three).error_code == errors.NonEmptyGroup.code
    gone = forget.DeleteShareGroupOffsetsRequest(
        world.group, [forget.DeleteShareGroupOffsetsRequestTopic(world.topic)]
    )
    assert ann.ask(gone).error_code == errors.NonEmptyGroup.code
    ann.acknowledge({}, share_session_epoch=FINAL)
    ann.beat(member_epoch=LEAVE)
    moved = {topic.topic_name: topic.partitions[0].error_code for topic in ann.ask(to_three).responses}
    assert moved == {world.topic: 0, "nosuch": errors.UnknownTopicOrPartition.code}
    assert position(ann, world.group) == [(world.topic, 0, 3, 7)]
    assert [one.error_code for one in ann.ask(gone).responses] == [0]
    assert position(ann, world.group) == []


def test_a_group_that_nobody_has_read_with_yet_can_be_given_a_start(world: World) -> None:
    world.append(10)
    starts = [alter.AlterShareGroupOffsetsRequestPartition(0, 3)]
    with Asking(world.bootstrap) as admin:
        admin.ask(FindCoordinatorRequest(coordinator_keys=[world.group]))
        moved = admin.ask(
            alter.AlterShareGroupOffsetsRequest(
                world.group, [alter.AlterShareGroupOffsetsRequestTopic(world.topic, starts)]
            )
        )
        assert (moved.error_code, moved.responses[0].partitions[0].error_code) == (0, 0)
    ann, part = world.member()
    assert gather(ann, 7, [part]) == [(3, 9, 1)]


@pytest.mark.parametrize(
    "reset, expected",
    [("earliest", [(0, 9)]), ("latest", [(10, 12)]), ("by_duration:PT1H", [(5, 9)])],
)
def test_a_group_starts_where_its_setting_says(world: World, reset: str, expected: Any) -> None:
    set_group(world.bootstrap, world.group, share_auto_offset_reset=reset)
    now = int(time.time() * 1000)
    with Connection(world.bootstrap) as connection:
        old = [Record(b"old")] * 5
        append(connection, world.topic, batch(old, base_timestamp=now - 2 * 3_600_000))
        append(connection, world.topic, batch([Record(b"new")] * 5, base_timestamp=now))
    ann, part = world.member()
    first = acquired(ann.fetch([part], max_wait_ms=0))
    if reset == "latest":
        assert first == []
        world.append(3)
    found = first or gather(ann, 3)
    assert (found[0][0], found[-1][1]) == expected[0]


def test_a_group_that_reads_committed_gets_nothing_of_aborted_transactions(world: World) -> None:
    set_group(world.bootstrap, world.group, share_isolation_level="read_committed")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": world.bootstrap, "transactional.id": f"tx-{world.group}"}
    )
    producer.init_transactions(30)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for index in range(3):
            producer.produce(world.topic, value=b"t%d-%d" % (number, index))
        producer.flush()
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    ann, part = world.member()
    got: list[bytes | None] = []
    deadline = time.monotonic() + 20
    while len(got) < 6:
        assert time.monotonic() < deadline, got
        answer = ann.fetch([part])
        given = acquired(answer)
        got += values(answer)
        if given:
            ann.acknowledge({part: [(first, last, [ACCEPT]) for first, last, _ in given]})
    assert got == [b"t%d-%d" % (number, index) for number in (0, 2) for index in range(3)]
