from __future__ import annotations

import uuid

import pytest

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.record_replay import new_machine
from tidelog.groups.share.group import ShareGroup, StatePartitions
from tidelog.groups.share.heartbeat import (
    ShareGroupLimits,
    ShareHeartbeatResult,
    TopicFacts,
    check_heartbeat,
    deleted,
    heartbeat,
    initialized,
    initializing,
    leave,
    missing,
    next_ms,
)
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

JOBS, MAILS = uuid.UUID(int=1), uuid.UUID(int=2)
TOPICS = {"jobs": TopicFacts(JOBS, 4), "mails": TopicFacts(MAILS, 1)}
INTERVAL_MS = 1_000
CLIENT = ("client", "/host")


class Driver:
    """What the coordinator does, without its log."""

    def __init__(self) -> None:
        self.machine: GroupStateMachine = new_machine()
        self.topics = dict(TOPICS)
        self.now_ms = 10_000

    @property
    def group(self) -> ShareGroup | None:
        group = self.machine.groups.get("g")
        assert group is None or isinstance(group, ShareGroup)
        return group

    def take(self, entries: list[CoordinatorRecord]) -> None:
        for entry in entries:
            self.machine.replay(entry, -1)

    def beat(
        self,
        member: str,
        epoch: int,
        topics: list[str] | None = None,
        may_assign: bool = True,
        most: int = 10,
    ) -> ShareHeartbeatResult:
        request = ShareGroupHeartbeatRequest("g", member, epoch, None, topics)
        limits = ShareGroupLimits(most, INTERVAL_MS)
        beat = heartbeat(self.group, request, CLIENT, self.topics, limits, self.now_ms, may_assign)
        self.take(beat.entries)
        return beat

    def make_states(self) -> None:
        assert self.group is not None
        lacking = missing(self.group, self.group.topics, self.topics)
        self.take(initializing(self.group, lacking))
        self.take(initialized(self.group, lacking))


def joined(*members: str) -> Driver:
    driver = Driver()
    for member in members:
        driver.beat(member, 0, ["jobs"], may_assign=False)
    driver.make_states()
    for member in members:
        driver.now_ms += INTERVAL_MS
        driver.beat(member, 0, ["jobs"])
    return driver


def epoch_of(driver: Driver, member: str) -> int:
    assert driver.group is not None
    return driver.group.members[member].epoch


def test_partitions_are_assigned_once_their_state_is_there() -> None:
    driver = Driver()
    first = driver.beat("ann", 0, ["jobs", "nosuch"], may_assign=False)
    assert (first.assignment, first.again_ms) == ({}, 0)
    driver.make_states()
    second = driver.beat("ann", 0, ["jobs", "nosuch"])
    assert second.assignment == {JOBS: [0, 1, 2, 3]}
    assert second.epoch == epoch_of(driver, "ann") == 1


def test_a_quiet_heartbeat_changes_nothing() -> None:
    driver = joined("ann")
    beat = driver.beat("ann", epoch_of(driver, "ann"))
    assert (beat.entries, beat.assignment, beat.again_ms) == ([], None, None)


def test_members_divide_the_partitions_and_hear_of_it_with_their_next_heartbeat() -> None:
    driver = joined("ann")
    driver.now_ms += INTERVAL_MS
    ben = driver.beat("ben", 0, ["jobs"])
    ann = driver.beat("ann", epoch_of(driver, "ann"))
    assert ann.assignment is not None and ben.assignment is not None
    assert sorted(ann.assignment[JOBS] + ben.assignment[JOBS]) == [0, 1, 2, 3]
    assert len(ann.assignment[JOBS]) == 2


def test_a_new_assignment_waits_for_its_interval() -> None:
    driver = joined("ann")
    hasty = driver.beat("ben", 0, ["jobs"])
    assert (hasty.again_ms, hasty.assignment) == (INTERVAL_MS, {})
    driver.now_ms += INTERVAL_MS
    assert driver.beat("ben", 0, ["jobs"]).assignment


def test_an_answer_that_was_lost_is_given_again() -> None:
    driver = joined("ann")
    before = epoch_of(driver, "ann")
    driver.beat("ben", 0, ["jobs"])
    driver.now_ms += INTERVAL_MS
    driver.beat("ben", 0, ["jobs"])
    answer = driver.beat("ann", before)
    again = driver.beat("ann", before)
    assert answer.epoch > before
    assert (again.epoch, again.assignment, again.entries) == (answer.epoch, answer.assignment, [])


@pytest.mark.parametrize("off", [-2, 1])
def test_an_epoch_that_is_neither_the_last_nor_the_one_before_is_fenced(off: int) -> None:
    driver = joined("ann")
    for other in ("ben", "cid", "dan"):
        driver.now_ms += INTERVAL_MS
        driver.beat(other, 0, ["jobs"])
        driver.beat("ann", epoch_of(driver, "ann"))
    with pytest.raises(errors.FencedMemberEpoch):
        driver.beat("ann", epoch_of(driver, "ann") + off)


def test_a_subscription_that_changes_a_topic_that_grows_and_a_member_that_leaves_move_the_epoch() -> None:
    driver = joined("ann", "ben")
    assert driver.group is not None
    epoch = driver.group.epoch
    driver.beat("ann", epoch_of(driver, "ann"), ["jobs", "mails"], may_assign=False)
    assert driver.group.epoch == epoch + 1
    driver.topics["jobs"] = TopicFacts(JOBS, 5)
    driver.beat("ben", epoch_of(driver, "ben"), may_assign=False)
    assert driver.group.epoch == epoch + 2
    assert missing(driver.group, driver.group.topics, driver.topics) == {
        JOBS: StatePartitions("jobs", frozenset([4])),
        MAILS: StatePartitions("mails", frozenset([0])),
    }
    driver.take(leave(driver.group, "ann", driver.topics))
    assert (driver.group.epoch, set(driver.group.members)) == (epoch + 3, {"ben"})
    driver.make_states()
    driver.now_ms += INTERVAL_MS
    assert driver.beat("ben", epoch_of(driver, "ben")).assignment == {JOBS: [0, 1, 2, 3, 4]}


def test_a_topic_that_a_member_left_is_not_its_own_before_there_is_a_new_assignment() -> None:
    driver = joined("ann")
    hasty = driver.beat("ann", epoch_of(driver, "ann"), ["mails"], may_assign=False)
    assert hasty.assignment == {}
    driver.make_states()
    waiting = driver.beat("ann", epoch_of(driver, "ann"), ["mails"])
    assert (waiting.assignment, waiting.again_ms) == ({}, INTERVAL_MS)
    assert driver.beat("ann", epoch_of(driver, "ann")).entries == []
    driver.now_ms += INTERVAL_MS
    assert driver.beat("ann", epoch_of(driver, "ann")).assignment == {MAILS: [0]}


@pytest.mark.parametrize(
    ("again_ms", "told_ms"), [(None, 5_000), (0, 5_000), (3, 100), (700, 700), (9_000, 5_000)]
)
def test_who_has_to_come_again_is_told_when(again_ms: int | None, told_ms: int) -> None:
    assert next_ms(5_000, again_ms) == told_ms


def test_a_full_group_takes_nobody_new() -> None:
    driver = joined("ann")
    with pytest.raises(errors.GroupMaxSizeReached):
        driver.beat("ben", 0, ["jobs"], most=1)
    driver.beat("ann", 0, ["jobs"], most=1)


def test_who_is_not_there_cannot_beat_or_leave() -> None:
    driver = Driver()
    with pytest.raises(errors.GroupIdNotFound):
        driver.beat("ann", 3)
    driver = joined("ann")
    with pytest.raises(errors.UnknownMemberId):
        driver.beat("ben", 3)
    assert driver.group is not None
    with pytest.raises(errors.UnknownMemberId):
        leave(driver.group, "ben", driver.topics)


def test_a_group_is_there_as_it_was_after_its_records_are_read_back() -> None:
    driver, kept = Driver(), new_machine()
    replay = driver.machine.replay

    def both(entry: CoordinatorRecord, producer_id: int) -> None:
        replay(entry, producer_id)
        kept.replay(entry, producer_id)

    driver.machine.replay = both  # type: ignore[method-assign]
    driver.beat("ann", 0, ["jobs"], may_assign=False)
    driver.make_states()
    driver.beat("ann", 0, ["jobs"])
    driver.now_ms += INTERVAL_MS
    driver.beat("ben", 0, ["jobs"])
    assert driver.group is not None
    again = kept.groups["g"]
    assert vars(again) == vars(driver.group)
    for entry in driver.group.tombstones():
        kept.replay(entry, -1)
    assert kept.groups == {}


def test_a_deleted_topic_is_forgotten() -> None:
    driver = joined("ann")
    assert driver.group is not None
    driver.take(deleted(driver.group, [JOBS]))
    assert driver.group.initialized == {}
    assert deleted(driver.group, [JOBS]) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"member_id": "x" * 37},
        {"rack_id": " "},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
    ],
)
def test_requests_that_cannot_be_are_refused(fields: dict[str, object]) -> None:
    good = {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["t"]}
    check_heartbeat(ShareGroupHeartbeatRequest(**good))  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidRequest):
        check_heartbeat(ShareGroupHeartbeatRequest(**{**good, **fields}))  # type: ignore[arg-type]
