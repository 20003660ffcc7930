"""Consumer groups on virtual time: sessions, revocations, assignment intervals, heartbeats that are held, restarts."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tests.unit.groups.consumer.consumer_node import GROUP, Member, Node, settle
from tidelog import errors
from tidelog.wire.client_quotas import QuotaEntity

pytestmark = pytest.mark.simulated


async def pair(node: Node, partitions: int = 4) -> tuple[Member, Member]:
    await node.topic("t", partitions)
    first, second = node.member(), node.member()
    await first.join("t")
    await second.join("t")
    await settle([first, second])
    assert (first.count, second.count) == (partitions // 2, partitions // 2)
    return first, second


async def calm(member: Member) -> None:
    """Until its heartbeat interval is the group's own again."""
    while member.interval_ms < 5000:
        await member.send()


async def test_a_heartbeat_without_news_is_held_for_less_than_the_told_interval(random: Random) -> None:
    node = await Node().start()
    (first, _) = await pair(node)
    await calm(first)
    before = node.clock.monotonic_ms()
    answer = await first.send()
    assert node.clock.monotonic_ms() - before == 4500
    assert (answer.assignment, answer.heartbeat_interval_ms) == (None, 5000)


async def test_news_end_the_wait_at_once_and_bring_the_member_back_soon(random: Random) -> None:
    node = await Node().start()
    first, second = await pair(node)
    waiting = asyncio.ensure_future(first.send())
    await node.clock.advance_ms(20)
    assert not waiting.done()
    await second.leave()
    answer = await waiting
    assert answer.assignment is not None and first.count == 4
    assert answer.heartbeat_interval_ms == 100


async def test_another_request_of_the_connection_ends_the_wait(random: Random) -> None:
    node = await Node().start()
    first, _ = await pair(node)
    await calm(first)
    waiting = asyncio.ensure_future(first.send())
    await node.clock.advance_ms(1000)
    first.interrupt()
    answer = await waiting
    assert (answer.assignment, answer.heartbeat_interval_ms) == (None, 1250)


async def test_nothing_is_held_where_that_is_switched_off(random: Random) -> None:
    node = await Node(tidelog_group_heartbeat_hold_ms="0").start()
    first, _ = await pair(node)
    before = node.clock.monotonic_ms()
    answer = await first.send()
    assert node.clock.monotonic_ms() == before and answer.heartbeat_interval_ms == 5000


async def test_a_broker_that_stops_answers_what_it_holds(random: Random) -> None:
    node = await Node().start()
    first, _ = await pair(node)
    waiting = asyncio.ensure_future(first.send())
    await node.clock.advance_ms(20)
    node.consumers.drain()
    assert (await waiting).error_code == 0


async def test_an_assignment_waits_for_the_interval_and_for_no_heartbeat(random: Random) -> None:
    node = await Node().start()
    await node.topic("t", 4)
    first, second = node.member(), node.member()
    await first.join("t")
    at = node.group.assignment_ms
    await node.clock.advance_ms(300)
    await second.join("t")
    assert (node.group.state_name, node.group.epoch - node.group.assignment_epoch) == ("Assigning", 1)
    while first.count == 4:
        await first.send()
    assert node.group.assignment_ms == at + 1000
    assert node.clock.now_ms() - node.group.assignment_ms <= 1


async def test_a_group_can_have_intervals_of_its_own(random: Random) -> None:
    node = await Node().start()
    await node.controller.alter_group_configs(
        GROUP, lambda _: {"consumer.assignment.interval.ms": "0", "consumer.session.timeout.ms": "50000"}
    )
    await node.topic("t", 4)
    first, second = node.member(), node.member()
    await first.join("t")
    await second.join("t")
    assert node.group.assignment_epoch == node.group.epoch
    await node.clock.advance_ms(49_999)
    assert len(node.group.members) == 2
    await node.clock.advance_ms(1)
    assert node.group.members == {}


async def test_a_silent_member_is_taken_out_and_the_others_get_what_it_had(random: Random) -> None:
    node = await Node().start()
    first, second = await pair(node)
    for _ in range(60):
        await first.acknowledge()
        await node.clock.advance_ms(first.interval_ms)
    assert set(node.group.members) == {first.id} and first.count == 4
    with pytest.raises(errors.UnknownMemberId):
        await second.send()


async def test_a_static_member_that_stepped_out_is_waited_for_until_its_session_ends(random: Random) -> None:
    node = await Node().start()
    topic = await node.topic("t", 2)
    first, other = node.member("a"), node.member("b")
    await first.join("t")
    await other.join("t")
    await settle([first, other])
    had = first.owned
    await first.leave(-2)
    await node.clock.advance_ms(30_000)
    await settle([other])
    again = node.member("a")
    await again.join("t")
    assert again.owned == had and set(had) == {topic}
    await again.leave(-2)
    for _ in range(60):
        await other.acknowledge()
        await node.clock.advance_ms(other.interval_ms)
    assert other.count == 2


async def test_a_member_that_keeps_what_it_must_give_back_is_taken_out(random: Random) -> None:
    node = await Node().start()
    await node.topic("t", 4)
    first, second = node.member(), node.member()
    await first.join("t")
    await node.clock.advance_ms(1500)
    await second.join("t")
    await first.send()  # told what to give back
    assert first.count == 2
    for _ in range(9):
        await node.clock.advance_ms(1000)
        await first.send()  # it is there, and does not say that it did
    assert first.id in node.group.members
    await node.clock.advance_ms(1000)
    assert set(node.group.members) == {second.id}


async def test_topics_that_come_grow_and_go_lead_to_a_new_assignment_without_a_heartbeat(
    random: Random,
) -> None:
    node = await Node().start()
    first = node.member()
    await first.join("t", subscribed_topic_regex="u.*")
    epoch = node.group.epoch
    await node.topic("t", 1)
    await node.clock.advance_ms(2000)
    assert node.group.epoch == epoch + 1
    await node.grow("t", 3)
    await node.topic("u-1", 2)
    await node.topic("other", 2)
    await node.clock.advance_ms(3000)
    await first.acknowledge()
    assert first.count == 5
    await node.controller.delete_topics(["u-1"])
    await node.clock.advance_ms(3000)
    await settle([first])
    assert first.count == 3


async def test_everything_goes_on_after_a_crash(random: Random) -> None:
    node = await Node().start()
    first, second = await pair(node)
    view = node.group.view()
    await node.crash()
    await node.start()
    assert node.group.view() == view
    waiting = asyncio.ensure_future(first.send())
    await node.clock.advance_ms(10)
    first.interrupt()
    assert (await waiting).assignment is None
    for _ in range(60):  # the other one is not heard of any more
        await first.acknowledge()
        await node.clock.advance_ms(first.interval_ms)
    assert set(node.group.members) == {first.id} and second.id not in node.group.targets


async def test_a_deleted_group_leaves_nothing_behind(random: Random) -> None:
    node = await Node().start()
    first, second = await pair(node)
    await first.leave()
    await second.leave()
    shard = node.groups.shard(GROUP)
    await shard.committed(shard.append(node.group.tombstones()), 1000)
    assert shard.machine.groups == {}
    await node.crash()
    await node.start()
    assert node.groups.shard(GROUP).machine.groups == {}
    with pytest.raises(errors.GroupIdNotFound):
        await first.send()


async def test_a_group_of_a_tenant_is_assigned_topics_of_the_tenant_only(random: Random) -> None:
    """Also when a member names others: those of classic members stand in bytes that no guard reads."""
    node = await Node().start()
    await node.controller.access.alter_quotas(QuotaEntity(tenant="acme"), {"enabled": 1.0})
    own = await node.topic("acme.t", 2)
    for name in ("t", "acmeX.t", "zeta.t"):
        await node.topic(name, 2)
    for subscription in (
        {"subscribed_topic_names": ["t", "acme.t", "acmeX.t", "zeta.t"]},
        {"subscribed_topic_names": [], "subscribed_topic_regex": ".*t"},
    ):
        member = node.member()
        group = f"acme.g-{len(subscription)}"
        joining: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], **subscription}
        await member.send(group_id=group, **joining)
        await node.clock.advance_ms(2000)
        if not member.owned:
            sent = asyncio.ensure_future(member.send(group_id=group, topic_partitions=[]))
            await asyncio.sleep(0.01)
            member.interrupt()
            await sent
        assert member.owned == {own: [0, 1]}
    plain = node.member()
    await plain.join(subscribed_topic_regex="[a-z]+[.]t")
    await settle([plain])
    assert plain.count == 4, "of acme and zeta"
