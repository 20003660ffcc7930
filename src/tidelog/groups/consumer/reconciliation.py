"""How a member moves from what it has to what it should have: it gives partitions back before anybody gets them.

A member keeps its epoch until it has given back all that the target takes away; then it goes to the target's epoch,
with whatever of the target nobody else still has; the rest follows as others give it back.  So no partition is owned
twice.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from uuid import UUID

from tidelog import errors
from tidelog.groups.consumer.assignors import Partitions
from tidelog.groups.consumer.member import NOTHING, ConsumerMember, MemberState, Owned

NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ReconciliationGoal:
    """What a member is to follow.  `subscribed`: the topics it wants now, whatever the target says of others.
    `owned`: what it says it has; None when it did not say."""

    epoch: int
    target: Partitions
    subscribed: Collection[UUID]
    owner: Callable[[UUID, int], str | None]
    owned: Partitions | None
    resubscribed: bool


def reconciled(member: ConsumerMember, goal: ReconciliationGoal) -> ConsumerMember:
    """The member after its heartbeat; itself when there is nothing to do, or it must act first."""
    if member.state is MemberState.STABLE and member.epoch == goal.epoch:
        return _unsubscribed(member, goal) if goal.resubscribed else member
    if member.state is MemberState.UNREVOKED and _still_has(goal.owned, member.revoking):
        return _unsubscribed(member, goal) if goal.resubscribed else member
    if member.state is MemberState.UNKNOWN:
        if goal.owned is None or goal.owned:
            raise errors.FencedMemberEpoch(
                f"what member {member.id} has is not known here: it must give up its partitions and join again"
            )
        return _followed(member, goal.epoch, goal)
    return _followed(member, member.epoch, goal)


def can_follow(member: ConsumerMember, goal: ReconciliationGoal) -> bool:
    """Would its next heartbeat, whatever it says, get it further?"""
    if member.state is MemberState.UNREVOKED or member.is_reconciled(goal.epoch):
        return False
    return member.epoch != goal.epoch or any(owner is None for owner in _missing(member, goal))


def waits_for_others(member: ConsumerMember, goal: ReconciliationGoal) -> bool:
    """Has somebody else something of its target?"""
    return any(owner is not None for owner in _missing(member, goal))


def _missing(member: ConsumerMember, goal: ReconciliationGoal) -> Iterator[str | None]:
    """Who has the partitions of its target that it has not."""
    for topic, partitions in goal.target.items():
        if topic in goal.subscribed:
            for partition in partitions - member.assigned.get(topic, {}).keys():
                yield goal.owner(topic, partition)


def _followed(member: ConsumerMember, epoch: int, goal: ReconciliationGoal) -> ConsumerMember:
    """One step towards the target, at `epoch` until everything that must go is given back."""
    kept: dict[UUID, dict[int, int]] = {}
    leaving: dict[UUID, dict[int, int]] = {}
    coming: dict[UUID, list[int]] = {}
    waits = False
    for topic in {**member.assigned, **goal.target}:
        target = goal.target.get(topic, NONE) if topic in goal.subscribed else NONE
        has = member.assigned.get(topic, {})
        stays = {partition: since for partition, since in has.items() if partition in target}
        goes = {partition: since for partition, since in has.items() if partition not in target}
        revoking = member.revoking.get(topic, {})
        wanted = sorted(target - stays.keys())
        free = [one for one in wanted if one in revoking or goal.owner(topic, one) is None]
        waits = waits or len(free) < len(wanted)
        if stays:
            kept[topic] = stays
        if goes:
            leaving[topic] = goes
        if free:
            coming[topic] = free
    if leaving and _still_has(goal.owned, leaving):
        return _moved(member, epoch, MemberState.UNREVOKED, kept, leaving)
    for topic, partitions in coming.items():
        kept.setdefault(topic, {}).update(dict.fromkeys(partitions, goal.epoch))
    state = MemberState.UNRELEASED if waits else MemberState.STABLE
    return _moved(member, goal.epoch, state, kept, NOTHING)


def _unsubscribed(member: ConsumerMember, goal: ReconciliationGoal) -> ConsumerMember:
    """Of topics that it does not subscribe to any more it has nothing, before there is a new target."""
    if all(topic in goal.subscribed for topic in member.assigned):
        return member
    assigned = {topic: some for topic, some in member.assigned.items() if topic in goal.subscribed}
    leaving = {topic: dict(some) for topic, some in member.revoking.items()}
    for topic, some in member.assigned.items():
        if topic not in goal.subscribed:
            leaving.setdefault(topic, {}).update(some)
    if _still_has(goal.owned, leaving):
        return _moved(member, member.epoch, MemberState.UNREVOKED, assigned, leaving)
    return _moved(member, member.epoch, member.state, assigned, member.revoking)


def _moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Owned, revoking: Owned
) -> ConsumerMember:
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )


def _still_has(owned: Partitions | None, some: Owned) -> bool:
    """A member that does not say what it owns may still have it."""
    if owned is None:
        return True
    return any(not partitions.isdisjoint(some.get(topic, {})) for topic, partitions in owned.items())
