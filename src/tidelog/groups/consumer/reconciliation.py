"""Reconciliation: how a member moves from its current to its target assignment.

A member keeps its epoch until it has revoked every partition that is not in its target.  Then it moves to the target's
epoch, and gets those of its target partitions that no other member owns; it gets the rest as others revoke them.  So no
partition ever has two owners.  Pure."""

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
    """The target of a member.  `subscribed`: the topics of its present subscription; target partitions of other topics
    do not count.  `owned`: the partitions that the member reports as its own; None if the request does not say."""

    epoch: int
    target: Partitions
    subscribed: Collection[UUID]
    owner: Callable[[UUID, int], str | None]
    owned: Partitions | None
    resubscribed: bool


def reconciled(member: ConsumerMember, goal: ReconciliationGoal) -> ConsumerMember:
    """The member after its heartbeat; unchanged if there is nothing to do, or if the member must revoke first."""
    if member.state is MemberState.STABLE and member.epoch == goal.epoch:
        return _unsubscribed(member, goal) if goal.resubscribed else member
    if member.state is MemberState.UNREVOKED and _still_has(goal.owned, member.revoking):
        return _unsubscribed(member, goal) if goal.resubscribed else member
    if member.state is MemberState.UNKNOWN:
        if goal.owned is None or goal.owned:
            raise errors.FencedMemberEpoch(
                f"member {member.id} has a state that this broker does not know: it must revoke its partitions and rejoin"
            )
        return _followed(member, goal.epoch, goal)
    return _followed(member, member.epoch, goal)


def can_follow(member: ConsumerMember, goal: ReconciliationGoal) -> bool:
    """True if the member's next heartbeat advances it, whatever the heartbeat says."""
    if member.state is MemberState.UNREVOKED or member.is_reconciled(goal.epoch):
        return False
    return member.epoch != goal.epoch or any(owner is None for owner in _missing(member, goal))


def waits_for_others(member: ConsumerMember, goal: ReconciliationGoal) -> bool:
    """True if another member still owns a partition of this member's target."""
    return any(owner is not None for owner in _missing(member, goal))


def _missing(member: ConsumerMember, goal: ReconciliationGoal) -> Iterator[str | None]:
    """The owner (or None) of each target partition that the member does not own."""
    for topic, partitions in goal.target.items():
        if topic in goal.subscribed:
            for partition in partitions - member.assigned.get(topic, {}).keys():
                yield goal.owner(topic, partition)


def _followed(member: ConsumerMember, epoch: int, goal: ReconciliationGoal) -> ConsumerMember:
    """One step towards the target; the member stays at `epoch` until it has revoked everything that it must."""
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
        free = [
            partition for partition in wanted if partition in revoking or goal.owner(topic, partition) is None
        ]
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
    """Revokes topics that the member no longer subscribes to, before there is a new target."""
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
    """True if the member still owns some of these partitions, or does not report what it owns."""
    if owned is None:
        return True
    return any(not partitions.isdisjoint(some.get(topic, {})) for topic, partitions in owned.items())
