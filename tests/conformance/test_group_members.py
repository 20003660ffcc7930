"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups: who takes part, in which generation, and what the
others hear of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.members import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
    Member,
    await_coordinator,
    subscription,
)
from tests.conformance.raw import Connection

Members = Callable[..., Member]


@pytest.fixture
def member(bootstrap: str, group: str) -> Iterator[Members]:
    made: list[Member] = []

    def make(**options: Any) -> Member:
        made.append(Member(bootstrap, options.pop("group", group), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def form_pair(member: Members, **options: Any) -> tuple[Member, Member]:
    """A leader and a follower in one stable generation."""
    first, second = member(**options).form(), member(**options)
    second.announce()
    while first.heartbeat() != REBALANCE_IN_PROGRESS:
        pass
    first.send_join()
    first.receive_join()
    second.receive_join()
    assert (first.leads, second.leads) == (True, False)
    second.send_sync()
    assert first.sync({first.id: b"one", second.id: b"two"}).assignment == b"one"
    assert second.receive_sync().assignment == b"two"
    return first, second


@pytest.mark.parametrize("version", range(10))
def test_the_first_member_leads(version: int, member: Members) -> None:
    first = member(version=version)
    answer = first.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (NONE, 1, answer.member_id)
    assert answer.protocol_name == "range"
    assert [(one.member_id, one.metadata) for one in answer.members] == [(answer.member_id, b"data")]
    assert first.sync({first.id: b"all"}).assignment == b"all"
    assert first.heartbeat() == NONE


@pytest.mark.parametrize(("version", "required"), [(3, False), (4, True), (9, True)])
def test_new_clients_join_again_with_the_id_they_get(version: int, required: bool, member: Members) -> None:
    first = member(version=version)
    first.send_join()
    answer = first.receive_join()
    assert (answer.error_code == MEMBER_ID_REQUIRED) == required
    assert answer.member_id.startswith("raw-")


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_sync_tells_the_assignment(version: int, member: Members) -> None:
    first = member()
    first.join()
    named = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    answer = first.connection.call(
        "sync_group",
        version,
        group_id=first.group,
        generation_id=1,
        member_id=first.id,
        assignments=[{"member_id": first.id, "assignment": b"all"}],
        **named,
    )
    assert (answer.error_code, answer.assignment) == (NONE, b"all")


def test_a_second_member_makes_a_new_generation(member: Members) -> None:
    first, second = form_pair(member)
    assert first.generation == second.generation == 2
    assert {one.member_id for one in first.others} == {first.id, second.id}
    assert second.others == []
    assert first.heartbeat() == second.heartbeat() == NONE


def test_a_protocol_that_all_know_is_chosen_by_votes(member: Members) -> None:
    first = member(protocols=(("a", b"1"), ("b", b"2"), ("c", b"3")))
    first.join()
    assert first.sync({first.id: b""}).error_code == NONE
    others = [member(protocols=(("c", b"x"), ("b", b"y"))), member(protocols=(("b", b"y"), ("c", b"z")))]
    for one in others:
        one.announce()
    while first.heartbeat() != REBALANCE_IN_PROGRESS:
        pass
    first.send_join()
    answers = [first.receive_join(), *(one.receive_join() for one in others)]
    # The first likes b better than c: two votes to one.
    assert {answer.protocol_name for answer in answers} == {"b"}
    assert {one.metadata for one in first.others} == {b"2", b"y"}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"protocols": (("other", b""),)}, INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 10}, INVALID_SESSION_TIMEOUT),
        ({"session_ms": 4_000_000}, INVALID_SESSION_TIMEOUT),
    ],
)
def test_who_does_not_fit_is_refused_and_nobody_notices(
    options: dict[str, Any], code: int, member: Members
) -> None:
    first = member().form()
    assert member(**options).join().error_code == code
    assert first.heartbeat() == NONE


def test_a_group_needs_a_name(member: Members) -> None:
    assert member(group="").join().error_code == INVALID_GROUP_ID


@pytest.mark.parametrize("version", [3, 9])
def test_members_that_nobody_knows_are_refused(version: int, member: Members) -> None:
    stranger = member(version=version)
    stranger.id = "stranger"
    assert stranger.join().error_code == UNKNOWN_MEMBER_ID
    first = member().form()
    assert stranger.join().error_code == UNKNOWN_MEMBER_ID
    assert stranger.heartbeat(generation=1) == UNKNOWN_MEMBER_ID
    assert stranger.sync(generation=1).error_code == UNKNOWN_MEMBER_ID
    assert stranger.leave() == UNKNOWN_MEMBER_ID
    assert first.heartbeat() == NONE


def test_old_and_future_generations_are_refused(member: Members) -> None:
    first, second = form_pair(member)
    for generation in (1, 3, -1):
        assert second.heartbeat(generation) == ILLEGAL_GENERATION
        assert second.sync(generation=generation).error_code == ILLEGAL_GENERATION
    assert second.sync().assignment == b"two"
    assert first.heartbeat() == NONE


def test_assignments_for_strangers_are_passed_over(member: Members) -> None:
    first = member()
    first.join()
    assert first.sync({"stranger": b"yours"}).assignment == b""
    assert first.heartbeat() == NONE


def test_a_follower_assigns_nothing(member: Members) -> None:
    _, second = form_pair(member)
    assert second.sync({second.id: b"mine"}).assignment == b"two"


def test_one_that_leaves_makes_the_others_join_again(member: Members) -> None:
    first, second = form_pair(member)
    assert second.leave() == NONE
    assert second.heartbeat() == UNKNOWN_MEMBER_ID
    assert first.heartbeat() == REBALANCE_IN_PROGRESS
    first.send_join()
    assert first.receive_join().generation_id == 3
    assert [one.member_id for one in first.others] == [first.id]


def test_several_leave_with_one_request(member: Members, connection: Connection, group: str) -> None:
    first, second = form_pair(member)
    leaving = [{"member_id": first.id}, {"member_id": "stranger"}, {"member_id": second.id}]
    for version in (3, 4, 5):
        answer = connection.call("leave_group", version, group_id=group, members=leaving)
        codes = [one.error_code for one in answer.members]
        again = UNKNOWN_MEMBER_ID if version > 3 else NONE
        assert (answer.error_code, codes) == (NONE, [again, UNKNOWN_MEMBER_ID, again])


def test_a_silent_member_is_taken_out(member: Members) -> None:
    first, second = form_pair(member, session_ms=600, rebalance_ms=600)
    codes = [first.heartbeat()]
    while codes[-1] == NONE:
        codes.append(first.heartbeat())
    assert codes[-1] == REBALANCE_IN_PROGRESS
    assert first.join().error_code == NONE
    assert [one.member_id for one in first.others] == [first.id]
    assert second.heartbeat() == UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_come_back_in_time_is_taken_out(member: Members) -> None:
    first, second = form_pair(member, session_ms=10_000, rebalance_ms=500)
    third = member(session_ms=10_000, rebalance_ms=500)
    third.announce()
    while first.heartbeat() != REBALANCE_IN_PROGRESS:
        pass
    first.send_join()
    assert first.receive_join().generation_id == third.receive_join().generation_id == 3
    assert {one.member_id for one in first.others} == {first.id, third.id}
    assert second.heartbeat() == UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_ask_for_its_assignment_is_taken_out(member: Members) -> None:
    first, second = form_pair(member)
    assert first.leave() == NONE
    second.rebalance_ms = 500  # alone by now: a busy machine may take longer to form a pair
    assert second.join().error_code == NONE
    code = second.heartbeat()
    while code == NONE:
        code = second.heartbeat()
    assert code == UNKNOWN_MEMBER_ID


def test_a_rebalance_ends_the_wait_for_assignments(member: Members) -> None:
    first, second = form_pair(member)
    assert first.leave() == NONE
    while second.heartbeat() != REBALANCE_IN_PROGRESS:
        pass
    assert second.join().error_code == NONE
    third = member()
    third.announce()
    code = second.heartbeat()
    while code == NONE:
        code = second.heartbeat()
    assert code == REBALANCE_IN_PROGRESS
    assert second.sync({second.id: b"all"}).error_code == REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", [5, 6, 9])
def test_a_lost_answer_is_told_again(version: int, member: Members) -> None:
    first, second = form_pair(member, version=version)
    answer = second.join()
    assert (answer.error_code, answer.generation_id, answer.leader) == (NONE, 2, first.id)
    assert first.heartbeat() == NONE


def test_a_leader_that_joins_again_wants_a_rebalance(member: Members) -> None:
    first, second = form_pair(member)
    first.send_join()
    while second.heartbeat() != REBALANCE_IN_PROGRESS:
        pass
    assert second.join().generation_id == first.receive_join().generation_id == 3


def test_a_follower_with_a_new_subscription_wants_a_rebalance(member: Members) -> None:
    first, second = form_pair(member)
    second.protocols = (("range", subscription("orders")),)
    second.send_join()
    while first.heartbeat() != REBALANCE_IN_PROGRESS:
        pass
    first.join()
    assert second.receive_join().generation_id == 3
    assert {one.metadata for one in first.others} == {b"data", subscription("orders")}


def test_sync_checks_the_protocol(member: Members) -> None:
    first = member().form()
    fields = {"group_id": first.group, "generation_id": 1, "member_id": first.id, "assignments": []}
    for kind, protocol in (("connect", "range"), ("consumer", "other"), (None, "range"), ("consumer", None)):
        answer = first.connection.call("sync_group", 5, protocol_type=kind, protocol_name=protocol, **fields)
        assert answer.error_code == INCONSISTENT_GROUP_PROTOCOL


# Static members


def test_a_static_member_comes_back_without_a_rebalance(member: Members) -> None:
    first, second = form_pair_of_static(member)
    again = member(instance="b")
    answer = again.join()
    assert (answer.error_code, answer.generation_id) == (NONE, 2)
    assert again.id != second.id
    assert again.sync().assignment == b"two"
    assert first.heartbeat() == again.heartbeat() == NONE


def test_the_one_that_was_replaced_is_fenced(member: Members, topic: Any) -> None:
    _, second = form_pair_of_static(member)
    assert member(instance="b").join().error_code == NONE
    assert second.heartbeat() == FENCED_INSTANCE_ID
    assert second.sync().error_code == FENCED_INSTANCE_ID
    assert second.join().error_code == FENCED_INSTANCE_ID
    assert second.commit(topic(), 5) == FENCED_INSTANCE_ID


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_leader_that_comes_back_does_not_assign(version: int, member: Members) -> None:
    first, second = form_pair_of_static(member)
    again = member(instance="a", version=version)
    answer = again.join()
    assert (answer.error_code, answer.generation_id) == (NONE, 2)
    if version >= 9:
        assert (answer.leader, answer.skip_assignment) == (again.id, True)
        assert {one.member_id for one in answer.members} == {again.id, second.id}
    else:
        # The id it had before: so it does not take itself for the leader.
        assert (answer.leader, list(answer.members)) == (first.id, [])
    assert again.sync().assignment == b"one"
    assert second.heartbeat() == NONE


def test_static_members_leave_by_their_name(member: Members, connection: Connection, group: str) -> None:
    first, _ = form_pair_of_static(member)
    leaving = [{"member_id": "", "group_instance_id": "b"}, {"member_id": "", "group_instance_id": "nobody"}]
    answer = connection.call("leave_group", 4, group_id=group, members=leaving)
    assert [one.error_code for one in answer.members] == [NONE, UNKNOWN_MEMBER_ID]
    assert first.heartbeat() == REBALANCE_IN_PROGRESS


def test_a_static_member_that_is_silent_for_a_while_is_kept(member: Members) -> None:
    """A restart within the session costs nobody anything."""
    first, second = form_pair_of_static(member)
    second.close()
    for _ in range(5):
        assert first.heartbeat() == NONE


def form_pair_of_static(member: Members) -> tuple[Member, Member]:
    first, second = member(instance="a").form(), member(instance="b")
    second.announce()
    while first.heartbeat() != REBALANCE_IN_PROGRESS:
        pass
    first.send_join()
    first.receive_join()
    second.receive_join()
    second.send_sync()
    first.sync({first.id: b"one", second.id: b"two"})
    assert second.receive_sync().assignment == b"two"
    return first, second


# Settings


def test_a_group_has_no_more_members_than_it_may(own_broker: Any) -> None:
    running = own_broker({"group.max.size": "1"})
    with Connection(running.bootstrap) as connection:
        await_coordinator(connection, "small")
    first, second = Member(running.bootstrap, "small").form(), Member(running.bootstrap, "small")
    assert second.join().error_code == GROUP_MAX_SIZE_REACHED
    assert first.heartbeat() == NONE


def test_a_new_group_waits_for_more_members(own_broker: Any) -> None:
    running = own_broker({"group.initial.rebalance.delay.ms": "700"})
    with Connection(running.bootstrap) as connection:
        await_coordinator(connection, "patient")
    first, second = Member(running.bootstrap, "patient"), Member(running.bootstrap, "patient")
    first.announce()
    second.announce()
    assert first.receive_join().generation_id == second.receive_join().generation_id == 1
    assert len(first.others) + len(second.others) == 2


def test_a_client_that_asks_for_one_thing_at_a_time_is_not_held_up_for_long(member: Members) -> None:
    only = member(session_ms=7_500).form()
    only.connection.call("metadata", 9, topics=[])  # the first of its kind takes the test a while

    def beat() -> float:
        begun_s = time.monotonic()
        only.send_heartbeat()
        assert only.receive_heartbeat() == NONE
        return time.monotonic() - begun_s

    # A broker may take its time to answer until something else is asked, and has to see that nothing is.
    for _ in range(6):
        if beat() < 1:
            return
        only.connection.call("metadata", 9, topics=[])
        time.sleep(0.3)  # as an interval: a heartbeat at once would tell of another kind of client
    raise AssertionError("heartbeats hold up what comes after them")
