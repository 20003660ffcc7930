"""One event of a classic group: what it changes in the group, and what the driver then has to do.

Here is the way from state to state that all events share: a rebalance is prepared until every member has joined (or had
its time to), completed when the leader has handed out assignments.  Facts in, effects out, as Kafka's coordinator
decides.  Pure; `join`, `sync` and `coordinator` take turns."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.consumer_protocol import PROTOCOL_TYPE, assigned, owned, rejoins
from tidelog.groups.classic.group import ClassicGroup, ClassicState
from tidelog.groups.classic.member import ClassicMember
from tidelog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tidelog.wire.messages.sync_group import SyncGroupResponse


class RebalanceSettings(NamedTuple):
    initial_delay_ms: int
    size_max: int
    withhold_ms: int
    """How long a new member of a cooperative group may wait for the generation in which it gets something."""


# Effects


class SendResponse(NamedTuple):
    """To a request that waits."""

    waiter: Hashable
    response: JoinGroupResponse | SyncGroupResponse


class SetSession(NamedTuple):
    """The member is taken out unless it is heard of within this time; None: it is not waited for any more."""

    member_id: str
    within_ms: int | None


class SetJoinDeadline(NamedTuple):
    """Joining ends after this time, whoever is there; None: the wait is over."""

    after_ms: int | None


class SetInitialDelay(NamedTuple):
    """The first members are given time for others to come; `remaining_ms` is what may be added to it."""

    after_ms: int
    remaining_ms: int


class SetSyncDeadline(NamedTuple):
    """Members that have not asked for their assignment by then are taken out."""

    after_ms: int | None


class SetWithheldDeadline(NamedTuple):
    """New members whose answer is withheld get it then."""

    after_ms: int | None


class WriteRecord(NamedTuple):
    """The group is so whether this can be written or not: what is not in the log is found out again after a load."""

    entry: CoordinatorRecord


class RebalanceBegan(NamedTuple):
    """Members can be told now that they have to join again."""


Effect = (
    SendResponse
    | SetSession
    | SetJoinDeadline
    | SetInitialDelay
    | SetSyncDeadline
    | SetWithheldDeadline
    | WriteRecord
    | RebalanceBegan
)


class GroupStep:
    def __init__(self, group: ClassicGroup, settings: RebalanceSettings, now_ms: int) -> None:
        self.group = group
        self.settings = settings
        self.now_ms = now_ms
        self.effects: list[Effect] = []

    # Towards a rebalance

    def prepare_or_complete(self) -> None:
        """Somebody joined or left."""
        if self.group.state is ClassicState.PREPARING:
            self.complete_if_all_joined()
        elif self.group.state is not ClassicState.DEAD:
            self.prepare()

    def prepare(self) -> None:
        group = self.group
        if group.state is ClassicState.COMPLETING:
            for member in group.members.values():
                member.assignment = b""
        self.answer_syncs(errors.RebalanceInProgress.code)
        self._no_sync_due()
        self._no_withheld()  # those count as joined
        group.initial = group.state is ClassicState.EMPTY
        group.moved_to(ClassicState.PREPARING, self.now_ms)
        self.effects.append(RebalanceBegan())
        if group.initial:
            delay_ms = self.settings.initial_delay_ms
            self.effects.append(SetInitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0)))
        elif group.all_joined:
            self.complete()
        else:
            self.effects.append(SetJoinDeadline(group.rebalance_timeout_ms))

    def complete_if_all_joined(self) -> None:
        group = self.group
        if group.state is ClassicState.PREPARING and not group.initial and group.all_joined:
            self.complete()

    def initial_over(self, due: SetInitialDelay) -> None:
        """The delay that `due` asked for is over; it is extended while members keep coming."""
        group = self.group
        if group.state is not ClassicState.PREPARING:
            return
        if not group.joined_lately or due.remaining_ms == 0:
            self.complete()
            return
        group.joined_lately = False
        self.effects.append(
            SetInitialDelay(
                min(self.settings.initial_delay_ms, due.remaining_ms),
                max(due.remaining_ms - due.after_ms, 0),
            )
        )

    def complete(self) -> None:
        """Joining is over: the next generation begins with those who are there."""
        group = self.group
        self.effects.append(SetJoinDeadline(None))
        for member in list(group.members.values()):
            if member.joining is None and not member.is_static:
                group.remove(member.id)
                self.effects.append(SetSession(member.id, None))
        if group.state is ClassicState.DEAD:
            return
        if group.members and not self._elect():
            self.effects.append(SetJoinDeadline(group.rebalance_timeout_ms))
            return
        group.generation += 1
        group.joined_lately = False
        group.unsynced.clear()
        group.protocol = group.choose_protocol() if group.members else None
        group.topics = group.subscribed_topics()
        if not group.members:
            group.moved_to(ClassicState.EMPTY, self.now_ms)
            self.effects.append(WriteRecord(group.entry()))
            return
        group.moved_to(ClassicState.COMPLETING, self.now_ms)
        group.withheld = self._to_withhold()
        for member in group.members.values():
            if member.id not in group.withheld:
                self._begin(member)
        self.effects.append(SetSyncDeadline(group.rebalance_timeout_ms))

    def _begin(self, member: ClassicMember) -> None:
        """The member takes part in this generation."""
        self.answer_join(member, joined(self.group, member))
        self.effects.append(SetSession(member.id, member.session_timeout_ms))
        member.new = False
        self.group.unsynced.add(member.id)

    # A member that is new to a cooperative group gets nothing in its first generation: others have to give up something
    # first, and join again for that.  Answered in the first it would learn of the second by a heartbeat, seconds later;
    # so it is answered only when it is known whether there will be a second.

    def _to_withhold(self) -> set[str]:
        group = self.group
        if not self.settings.withhold_ms or group.protocol_type != PROTOCOL_TYPE:
            return set()
        owners = {one.id for one in group.members.values() if owned(one.metadata(group.protocol))}
        if not owners:
            return set()
        fresh = [one for one in group.members.values() if one.new and not one.waited]
        for one in fresh:
            one.waited = True
        return {one.id for one in fresh} - owners - {group.leader}

    def assigned(self) -> None:
        """It is known now what everybody gets."""
        group = self.group
        again = bool(group.withheld) and rejoins(group)
        for member_id in list(group.withheld):
            member = group.members[member_id]
            if not again or assigned(member.assignment):
                self._release(member)
        if group.withheld:
            self.effects.append(SetWithheldDeadline(self.settings.withhold_ms))

    def withheld_over(self) -> None:
        """Whoever has to give something up takes long: there is no point in waiting for that."""
        for member_id in list(self.group.withheld):
            self._release(self.group.members[member_id])

    def _release(self, member: ClassicMember) -> None:
        self.group.withheld.discard(member.id)
        self._begin(member)
        self.effects.append(SetSyncDeadline(self.group.rebalance_timeout_ms))

    def _no_withheld(self) -> None:
        if self.group.withheld:
            self.group.withheld.clear()
            self.effects.append(SetWithheldDeadline(None))

    def _elect(self) -> bool:
        """The leader is one that has joined; false when nobody has."""
        group = self.group
        leader = None if group.leader is None else group.members.get(group.leader)
        if leader is not None and leader.joining is not None:
            return True
        chosen = next((one.id for one in group.members.values() if one.joining is not None), None)
        if chosen is None:
            return False
        group.leader = chosen
        return True

    # Members that go

    def session_over(self, member_id: str) -> None:
        group = self.group
        if member_id in group.promised:
            group.remove(member_id)
            if group.state is ClassicState.PREPARING and group.all_joined:
                self.complete()
            return
        member = group.members.get(member_id)
        if member is None or member.waits or group.state is ClassicState.DEAD:
            return
        self.drop(member)
        if group.state is ClassicState.PREPARING:
            if group.all_joined:
                self.complete()
        else:
            self.prepare_or_complete()

    def sync_over(self, generation: int) -> None:
        group = self.group
        if generation != group.generation or group.state not in (
            ClassicState.COMPLETING,
            ClassicState.STABLE,
        ):
            return
        if not group.unsynced:
            return
        for member_id in list(group.unsynced):
            group.remove(member_id)
            self.effects.append(SetSession(member_id, None))
        self.prepare()

    def drop(self, member: ClassicMember) -> None:
        """A member is no more; requests of it that wait are told."""
        self.answer_join(member, JoinGroupResponse(error_code=errors.UnknownMemberId.code))
        self.answer_sync(member, errors.UnknownMemberId.code)
        self.effects.append(SetSession(member.id, None))
        self.group.remove(member.id)

    # Answers

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        if member.joining is not None:
            self.effects.append(SendResponse(member.joining, response))
            member.joining = None

    def answer_sync(self, member: ClassicMember, error_code: int) -> None:
        if member.syncing is not None:
            response = SyncGroupResponse(error_code=error_code) if error_code else synced(self.group, member)
            self.effects.append(SendResponse(member.syncing, response))
            self.effects.append(SetSession(member.id, member.session_timeout_ms))
            member.syncing = None

    def answer_syncs(self, error_code: int) -> None:
        for member in self.group.members.values():
            self.answer_sync(member, error_code)

    def _no_sync_due(self) -> None:
        self.group.unsynced.clear()
        self.effects.append(SetSyncDeadline(None))


def joined(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """The leader is told who the others are."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.id,
        members=listed(group) if group.leader == member.id else [],
    )


def listed(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(one.id, one.instance_id, one.metadata(group.protocol))
        for one in group.members.values()
    ]


def synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
