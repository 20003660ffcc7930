from __future__ import annotations

from typing import Any

import pytest

from tidelog import errors
from tidelog.client.groups.assignors import assignors_of
from tidelog.client.groups.classic_membership import ClassicMembership
from tidelog.client.groups.consumer_protocol import pack_assignment, unpack_assignment, unpack_subscription
from tidelog.client.groups.membership import AssignmentChange, CoordinatorRequest, MetadataLookup
from tidelog.types import TopicPartition
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

P0, P1, P2 = (TopicPartition("t", at) for at in range(3))


def member(strategy: str = "range", **options: Any) -> ClassicMembership:
    made = ClassicMembership(
        "g",
        assignors_of(strategy),
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        heartbeat_interval_ms=3_000,
        **options,
    )
    made.subscribed(["t"])
    return made


def due(machine: ClassicMembership, now_ms: float = 0) -> Any:
    step = machine.due(now_ms)
    return step.request if isinstance(step, CoordinatorRequest) else step


def joins(
    machine: ClassicMembership, generation: int = 1, strategy: str = "range", now_ms: float = 0
) -> None:
    assert isinstance(due(machine, now_ms), JoinGroupRequest)
    machine.answered(
        JoinGroupResponse(
            generation_id=generation, protocol_name=strategy, leader="other", member_id="me", members=[]
        ),
        now_ms,
    )


def syncs(machine: ClassicMembership, *partitions: TopicPartition, now_ms: float = 0) -> None:
    assert isinstance(due(machine, now_ms), SyncGroupRequest)
    machine.answered(SyncGroupResponse(assignment=pack_assignment(partitions)), now_ms)


def stable(machine: ClassicMembership, *partitions: TopicPartition, strategy: str = "range") -> None:
    joins(machine, strategy=strategy)
    syncs(machine, *partitions)
    machine.applied()


def beats(machine: ClassicMembership, code: int, now_ms: float) -> None:
    assert isinstance(due(machine, now_ms), HeartbeatRequest)
    machine.answered(HeartbeatResponse(error_code=code), now_ms)


def test_a_member_joins_with_the_id_it_is_given_and_takes_what_it_is_assigned() -> None:
    machine = member()
    assert due(machine).member_id == ""
    machine.answered(JoinGroupResponse(error_code=errors.MemberIdRequired.code, member_id="me"), 0)
    assert due(machine).member_id == "me"
    joins(machine)
    assert not machine.change
    syncs(machine, P0, P1)
    assert machine.change == AssignmentChange(owned=(P0, P1), added=(P0, P1))
    machine.applied()
    assert machine.change is None and machine.in_group
    assert machine.identity == ("g", 1, "me", None)


def test_the_leader_deals_out_partitions_from_fresh_metadata() -> None:
    machine = member()
    subscription = due(machine).protocols[0].metadata
    members = [
        JoinGroupResponseMember("me", None, subscription),
        JoinGroupResponseMember("you", None, subscription),
    ]
    machine.answered(
        JoinGroupResponse(
            generation_id=1, protocol_name="range", leader="me", member_id="me", members=members
        ),
        0,
    )
    assert machine.due(0) == MetadataLookup(topics=("t",))
    machine.looked_up({"t": 3, "other": 5}, {}, 0)
    sync = due(machine)
    assert {
        assignment.member_id: unpack_assignment(assignment.assignment) for assignment in sync.assignments
    } == {
        "me": [P0, P1],
        "you": [P2],
    }


def test_the_leader_rebalances_when_a_topic_grows() -> None:
    machine = member()
    subscription = due(machine).protocols[0].metadata
    machine.answered(
        JoinGroupResponse(
            generation_id=1,
            protocol_name="range",
            leader="me",
            member_id="me",
            members=[JoinGroupResponseMember("me", None, subscription)],
        ),
        0,
    )
    machine.due(0)
    machine.looked_up({"t": 1}, {}, 0)
    syncs(machine, P0)
    machine.applied()
    machine.seen({"t": 1})
    assert machine.change is None
    machine.seen({"t": 2})
    assert machine.change == AssignmentChange(owned=(), revoked=(P0,))


def test_heartbeats_go_out_on_time_while_the_reader_has_not_applied_a_change() -> None:
    machine = member()
    joins(machine)
    syncs(machine, P0)
    assert machine.change is not None
    assert due(machine, 2_999) is None
    assert machine.next_ms() == 3_000
    beats(machine, 0, 3_000)
    assert due(machine, 5_999) is None


def test_eager_gives_up_everything_before_it_joins_again() -> None:
    machine = member()
    stable(machine, P0, P1)
    beats(machine, errors.RebalanceInProgress.code, 3_000)
    assert machine.change == AssignmentChange(owned=(), revoked=(P0, P1))
    assert due(machine, 3_000) is None  # nothing joins before the reader has let go
    machine.applied()
    request = due(machine, 3_001)
    assert isinstance(request, JoinGroupRequest) and request.member_id == "me"
    assert unpack_subscription("me", None, request.protocols[0].metadata).owned == ()


def test_cooperative_keeps_what_it_has_and_joins_once_more_after_giving_up() -> None:
    machine = member("cooperative-sticky")
    stable(machine, P0, P1, strategy="cooperative-sticky")
    beats(machine, errors.RebalanceInProgress.code, 3_000)
    assert machine.change is None
    subscription = unpack_subscription("me", None, due(machine, 3_000).protocols[0].metadata)
    assert (subscription.owned, subscription.generation) == ((P0, P1), 1)
    joins(machine, 2, "cooperative-sticky", 3_000)
    syncs(machine, P0, now_ms=3_000)
    assert machine.change == AssignmentChange(owned=(P0,), revoked=(P1,))
    machine.applied()
    joins(machine, 3, "cooperative-sticky", 3_000)
    syncs(machine, P0, now_ms=3_000)
    machine.applied()
    assert due(machine, 3_001) is None


@pytest.mark.parametrize("problem", [errors.UnknownMemberId, errors.IllegalGeneration])
def test_a_member_that_the_coordinator_has_dropped_loses_its_partitions_and_joins_anew(
    problem: type[errors.TidelogError],
) -> None:
    machine = member()
    stable(machine, P0)
    beats(machine, problem.code, 3_000)
    assert machine.change == AssignmentChange(owned=(), lost=(P0,))
    assert not machine.in_group
    machine.applied()
    assert due(machine, 3_001).member_id == ""


def test_a_reader_that_stays_away_leaves_and_joins_when_it_is_back() -> None:
    machine = member()
    stable(machine, P0)
    machine.expired()
    assert isinstance(due(machine, 1), LeaveGroupRequest)
    machine.answered(LeaveGroupResponse(), 1)
    assert machine.change == AssignmentChange(owned=(), lost=(P0,))
    assert due(machine, 100_000) is None
    machine.applied()
    assert isinstance(due(machine, 100_000), JoinGroupRequest)


def test_a_change_that_was_never_applied_is_no_loss_of_what_it_would_have_added() -> None:
    machine = member()
    joins(machine)
    syncs(machine, P0)
    beats(machine, errors.UnknownMemberId.code, 3_000)
    assert machine.change is None
    assert isinstance(due(machine, 3_000), JoinGroupRequest)


def test_a_sync_that_comes_too_late_joins_again() -> None:
    machine = member()
    joins(machine)
    due(machine)
    machine.answered(SyncGroupResponse(error_code=errors.RebalanceInProgress.code), 0)
    request = due(machine)
    assert isinstance(request, JoinGroupRequest) and request.member_id == "me"


def test_failures_that_pass_are_tried_again_later_and_others_end_the_membership() -> None:
    machine = member()
    due(machine)
    machine.failed(errors.CoordinatorNotAvailable(), 0, 100)
    assert due(machine, 99) is None
    assert isinstance(due(machine, 100), JoinGroupRequest)
    with pytest.raises(errors.FencedInstanceId, match="group 'g'"):
        machine.answered(JoinGroupResponse(error_code=errors.FencedInstanceId.code), 100)
    machine.failed(errors.FencedInstanceId(), 100, 100)
    assert machine.problem is not None and due(machine, 10_000) is None


def test_another_subscription_joins_again() -> None:
    machine = member()
    stable(machine, P0)
    machine.subscribed(["t"])
    assert machine.change is None
    machine.subscribed(["t", "u"])
    machine.applied()
    request = due(machine, 1)
    assert unpack_subscription("me", None, request.protocols[0].metadata).topics == ("t", "u")


def test_dynamic_members_leave_and_static_ones_keep_their_place() -> None:
    machine = member()
    stable(machine, P0)
    leaving = machine.leave()
    assert leaving is not None and leaving.request.members[0].member_id == "me"
    assert due(machine, 10_000) is None
    static = member(instance_id="one")
    stable(static, P0)
    assert static.leave() is None
    assert member().leave() is None


def test_static_leaders_that_return_keep_the_groups_assignment() -> None:
    machine = member(instance_id="one")
    due(machine)
    machine.answered(
        JoinGroupResponse(
            generation_id=4,
            protocol_name="range",
            leader="me",
            member_id="me",
            skip_assignment=True,
            members=[],
        ),
        0,
    )
    assert due(machine).assignments == []
