"""The rebalance of a classic group: one event changes the group, and lists the effects that the driver performs.

A `GroupStep` holds the transitions that all events share: the group prepares a rebalance until every member has joined
or the rebalance timeout has passed, and completes it when the leader has sent the assignments.  Facts in, effects out,
as in Kafka's group coordinator.  Pure; `join`, `sync` and `coordinator` create the steps."""

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
    """How long the JoinGroup answer of a new member of a cooperative group may be withheld, until the generation in which
    the member gets partitions."""


# Effects


class SendResponse(NamedTuple):
    """Answer a JoinGroup or SyncGroup request that waits."""

    waiter: Hashable
    response: JoinGroupResponse | SyncGroupResponse


class SetSession(NamedTuple):
    """Remove the member unless it sends a request within this time; None cancels the session timer."""

    member_id: str
    within_ms: int | None


class SetJoinDeadline(NamedTuple):
    """The join phase ends after this time with the members that have joined; None cancels the timer."""

    after_ms: int | None


class SetInitialDelay(NamedTuple):
    """`group.initial.rebalance.delay.ms`: the first members wait for others.  The delay may be extended by up to
    `remaining_ms`."""

    after_ms: int
    remaining_ms: int


class SetSyncDeadline(NamedTuple):
    """Members that have not sent SyncGroup by then are removed; None cancels the timer."""

    after_ms: int | None


class SetWithheldDeadline(NamedTuple):
    """New members whose JoinGroup answer is withheld get it after this time; None cancels the timer."""

    after_ms: int | None


class WriteRecord(NamedTuple):
    """Write the group's record.  The group's state holds even if the write fails: after a load, members repeat whatever
    the log does not have."""

    entry: CoordinatorRecord


class RebalanceBegan(NamedTuple):
    """Answer the held heartbeats: members must join again."""


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
        """A member joined or left."""
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
        self._no_withheld()  # members whose answer is withheld count as joined
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
        """The initial delay of `due` has passed; it is extended while new members keep joining."""
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
        """The join phase is over: the next generation begins with the members that have joined."""
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
        """Answers the member's JoinGroup: it takes part in this generation."""
        self.answer_join(member, joined(self.group, member))
        self.effects.append(SetSession(member.id, member.session_timeout_ms))
        member.new = False
        self.group.unsynced.add(member.id)

    # A new member of a cooperative group gets no partitions in its first generation: other members have to revoke some
    # first, and then join again.  If the new member's JoinGroup were answered in the first generation, it would learn of
    # the second one by a heartbeat, seconds later.  So the answer is withheld until it is clear whether a second
    # generation follows.

    def _to_withhold(self) -> set[str]:
        group = self.group
        if not self.settings.withhold_ms or group.protocol_type != PROTOCOL_TYPE:
            return set()
        owners = {member.id for member in group.members.values() if owned(member.metadata(group.protocol))}
        if not owners:
            return set()
        fresh = [member for member in group.members.values() if member.new and not member.waited]
        for member in fresh:
            member.waited = True
        return {member.id for member in fresh} - owners - {group.leader}

    def assigned(self) -> None:
        """The leader's assignments are in the group."""
        group = self.group
        again = bool(group.withheld) and rejoins(group)
        for member_id in list(group.withheld):
            member = group.members[member_id]
            if not again or assigned(member.assignment):
                self._release(member)
        if group.withheld:
            self.effects.append(SetWithheldDeadline(self.settings.withhold_ms))

    def withheld_over(self) -> None:
        """Members take too long to revoke partitions: the withheld answers are sent now."""
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
        """Makes sure that the leader is a member that has joined; false when no member has joined."""
        group = self.group
        leader = None if group.leader is None else group.members.get(group.leader)
        if leader is not None and leader.joining is not None:
            return True
        chosen = next((member.id for member in group.members.values() if member.joining is not None), None)
        if chosen is None:
            return False
        group.leader = chosen
        return True

    # Members that leave

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
        """Removes the member; its waiting requests are answered with UNKNOWN_MEMBER_ID."""
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
    """The JoinGroup answer; only the leader's lists the members."""
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
        JoinGroupResponseMember(member.id, member.instance_id, member.metadata(group.protocol))
        for member in group.members.values()
    ]


def synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
