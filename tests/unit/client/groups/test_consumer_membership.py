from __future__ import annotations

import uuid
from typing import Any

import pytest

from tidelog import errors
from tidelog.client.groups.consumer_membership import ConsumerMembership
from tidelog.client.groups.membership import AssignmentChange, CoordinatorRequest, MetadataLookup
from tidelog.types import TopicPartition
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

T = uuid.uuid5(uuid.NAMESPACE_DNS, "t")
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(**options: Any) -> ConsumerMembership:
    made = ConsumerMembership("g", "me", rebalance_timeout_ms=300_000, rack="east", **options)
    made.subscribed(["t"])
    return made


def beat(machine: ConsumerMembership, now_ms: float = 0) -> ConsumerGroupHeartbeatRequest:
    step = machine.due(now_ms)
    assert isinstance(step, CoordinatorRequest), step
    request = step.request
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    return request


def answer(machine: ConsumerMembership, epoch: int, *indexes: int | None, now_ms: float = 0) -> None:
    """Without `indexes` the answer has no assignment; with one None, an empty one."""
    assignment = None
    if indexes:
        kept = [index for index in indexes if index is not None]
        assignment = Assignment([TopicPartitions(T, kept)] if kept else [])
    machine.answered(
        ConsumerGroupHeartbeatResponse(
            member_id="me", member_epoch=epoch, heartbeat_interval_ms=5_000, assignment=assignment
        ),
        now_ms,
    )


def joined(machine: ConsumerMembership, *indexes: int) -> None:
    beat(machine)
    answer(machine, 1, *indexes)
    assert machine.due(0) == MetadataLookup(ids=(T,))
    machine.looked_up({"t": 2}, {T: "t"}, 0)
    machine.applied()
    beat(machine)
    answer(machine, 1)


def test_the_first_heartbeat_tells_everything_and_later_ones_what_changed() -> None:
    machine = member(server_assignor="uniform")
    first = beat(machine)
    assert (first.member_epoch, first.rack_id, first.server_assignor) == (0, "east", "uniform")
    assert (first.subscribed_topic_names, first.topic_partitions) == (["t"], [])
    assert first.rebalance_timeout_ms == 300_000
    answer(machine, 1, None)
    later = beat(machine, 5_000)
    assert (later.member_epoch, later.rack_id, later.subscribed_topic_names) == (1, None, None)
    assert (later.topic_partitions, later.rebalance_timeout_ms) == (None, -1)


def test_a_member_without_partitions_asks_more_often_at_first() -> None:
    machine = member()
    beat(machine)
    answer(machine, 1)
    now_ms, waits = 0.0, []
    for _ in range(8):
        due_ms = machine.next_ms()
        assert due_ms is not None and machine.due(due_ms - 1) is None
        waits.append(due_ms - now_ms)
        now_ms = due_ms
        beat(machine, now_ms)
        answer(machine, 1, now_ms=now_ms)
    assert waits == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]


def test_what_the_coordinator_assigns_is_taken_and_acknowledged_at_once() -> None:
    machine = member()
    beat(machine)
    answer(machine, 1, 0, 1)
    assert machine.due(0) == MetadataLookup(ids=(T,))
    machine.looked_up({"t": 2}, {T: "t"}, 0)
    assert machine.change == AssignmentChange(owned=(P0, P1), added=(P0, P1))
    assert machine.due(1) is None  # nothing is acknowledged that the reader has not taken
    machine.applied()
    assert beat(machine, 1).topic_partitions == [TopicPartitions(T, [0, 1])]
    answer(machine, 1)
    assert machine.due(2) is None
    assert machine.identity == ("g", 1, "me", None)


def test_what_goes_to_others_is_acknowledged_when_the_reader_has_let_go() -> None:
    machine = member()
    joined(machine, 0, 1)
    beat(machine, 5_000)
    answer(machine, 1, 0, now_ms=5_000)
    assert machine.change == AssignmentChange(owned=(P0,), revoked=(P1,))
    assert machine.due(5_001) is None
    assert beat(machine, 10_000).topic_partitions is None
    answer(machine, 1, now_ms=10_000)
    machine.applied()
    assert beat(machine, 10_001).topic_partitions == [TopicPartitions(T, [0])]


def test_another_subscription_is_told_at_once() -> None:
    machine = member()
    joined(machine, 0)
    machine.subscribed(["t", "u"])
    assert beat(machine, 1).subscribed_topic_names == ["t", "u"]
    answer(machine, 2, now_ms=1)
    machine.subscribed((), "t.*")
    request = beat(machine, 2)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "t.*")


def test_after_a_failure_everything_is_told_again() -> None:
    machine = member()
    joined(machine, 0)
    beat(machine, 5_000)
    machine.failed(errors.NetworkException(), 5_000, 100)
    assert machine.due(5_099) is None
    request = beat(machine, 5_100)
    assert (request.member_epoch, request.subscribed_topic_names) == (1, ["t"])
    assert request.topic_partitions == [TopicPartitions(T, [0])]


@pytest.mark.parametrize("problem", [errors.FencedMemberEpoch, errors.UnknownMemberId])
def test_a_fenced_member_loses_its_partitions_and_joins_anew(problem: type[errors.TidelogError]) -> None:
    machine = member()
    joined(machine, 0)
    beat(machine, 5_000)
    machine.answered(ConsumerGroupHeartbeatResponse(error_code=problem.code), 5_000)
    assert machine.change == AssignmentChange(owned=(), lost=(P0,))
    assert machine.due(20_000) is None
    machine.applied()
    request = beat(machine, 20_000)
    assert (request.member_epoch, request.topic_partitions) == (0, [])


def test_a_topic_that_is_not_known_yet_is_looked_up_again() -> None:
    machine = member()
    beat(machine)
    answer(machine, 1, 0)
    machine.due(0)
    machine.looked_up({}, {}, 0)
    assert machine.change is None
    assert machine.due(500) == MetadataLookup(ids=(T,))
    machine.looked_up({"t": 1}, {T: "t"}, 500)
    assert machine.change == AssignmentChange(owned=(P0,), added=(P0,))


def test_leaving_and_staying_away() -> None:
    machine = member()
    joined(machine, 0)
    machine.expired()
    assert beat(machine, 1).member_epoch == -1
    answer(machine, -1, now_ms=1)
    assert machine.change == AssignmentChange(owned=(), lost=(P0,))
    static = member(instance_id="one")
    joined(static, 0)
    leaving = static.leave()
    assert leaving is not None and leaving.request.member_epoch == -2
    assert member().leave() is None
