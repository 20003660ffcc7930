"""One shard's classic groups without a broker: requests and deadlines in, answers out, records in a list of batches.

What `classic/coordinator` does with a log, timers and futures, done with plain lists, so that Hypothesis can decide what
comes next.  Members are names; whoever waits is in `waiting`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.group import ClassicGroup, ClassicState
from tidelog.groups.classic.join import Joiner, Replacement, join, replaced
from tidelog.groups.classic.rebalance import (
    GroupStep,
    RebalanceSettings,
    SendResponse,
    SetInitialDelay,
    SetJoinDeadline,
    SetSession,
    SetSyncDeadline,
    SetWithheldDeadline,
    WriteRecord,
)
from tidelog.groups.classic.sync import (
    Assignment,
    assigned,
    assignment_settled,
    heartbeat,
    leave,
    sync,
)
from tidelog.groups.offsets.commits import CommitLimits, CommittingMember, OffsetCommit, commit
from tidelog.groups.offsets.committed import NO_TOPIC_ID
from tidelog.groups.record_replay import new_machine
from tidelog.groups.record_types import KINDS
from tidelog.groups.state_machine import GroupStateMachine
from tidelog.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from tidelog.wire.messages.consumer_protocol_assignment import (
    TopicPartition as Assigned,
)
from tidelog.wire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tidelog.wire.messages.consumer_protocol_subscription import (
    TopicPartition as Owned,
)
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "group"
TOPIC = "orders"
Batch = list[tuple[bytes, bytes | None]]


def subscription(owned: set[int]) -> bytes:
    message = ConsumerProtocolSubscription([TOPIC], None, [Owned(TOPIC, sorted(owned))] if owned else [])
    return b"\x00\x01" + message.encode(1)


def assignment(partitions: set[int]) -> bytes:
    message = ConsumerProtocolAssignment([Assigned(TOPIC, sorted(partitions))] if partitions else [])
    return b"\x00\x01" + message.encode(1)


def partitions_of(data: bytes) -> set[int]:
    if not data:
        return set()
    message, _ = ConsumerProtocolAssignment.decode_prefix(data, 1, 2)
    return {partition for topic in message.assigned_partitions for partition in topic.partitions}


@dataclass
class Client:
    """A consumer: what it believes."""

    name: str
    instance: str | None
    cooperative: bool
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    others: list[Any] = field(default_factory=list)
    has: set[int] = field(default_factory=set)
    waits_for: str = ""  # join or sync


@dataclass(frozen=True)
class Deadline:
    name: str
    member_id: str = ""
    due: Any = None


class World:
    def __init__(self, settings: RebalanceSettings) -> None:
        self.settings = settings
        self.machine = new_machine()
        self.log: list[Batch] = []
        self.views: list[object] = [view({}, self.machine)]
        self.groups: dict[str, object] = {}
        self.answers: list[tuple[str, Any]] = []
        self.deadlines: dict[tuple[str, str], Deadline] = {}
        self.now_ms = 1_000_000
        self._ids = 0

    @property
    def group(self) -> ClassicGroup | None:
        group = self.machine.groups.get(GROUP)
        return group if isinstance(group, ClassicGroup) else None

    # The log

    def append(self, entries: list[CoordinatorRecord]) -> None:
        if not entries:
            return
        self.log.append([KINDS.encode(entry) for entry in entries])
        for entry in entries:
            self.machine.replay(entry, -1)
            group = self.machine.groups.get(entry.key.group)
            if type(entry.key).__name__ == "GroupMetadataKey" or entry.key.group not in self.groups:
                self.groups[entry.key.group] = recorded(group)
        self.views.append(view(self.groups, self.machine))

    def restart(self) -> None:
        """The broker dies: what was in memory only is gone."""
        self.machine = loaded(self.log)
        self.answers.clear()
        self.deadlines.clear()
        if self.group is not None:
            for member_id in self.group.members:
                self.deadlines["session", member_id] = Deadline("session", member_id)

    # Requests

    def join(self, client: Client) -> None:
        group = self.group
        if group is None:
            if client.member_id:
                raise errors.UnknownMemberId("no group")
            self.append([ClassicGroup(GROUP, since_ms=self.now_ms).entry()])
            group = self.group
            assert group is not None
        self._ids += 1
        joiner = Joiner(client.name, "/host", 9, f"{client.name}-{self._ids}", client.name)
        metadata = subscription(client.has if client.cooperative else set())
        request = JoinGroupRequest(
            GROUP,
            10_000,
            20_000,
            client.member_id,
            client.instance,
            "consumer",
            [JoinGroupRequestProtocol("cooperative-sticky" if client.cooperative else "range", metadata)],
        )
        group_step = self.step()
        outcome = join(group_step, request, joiner)
        if isinstance(outcome, Replacement):
            leader = group.leader
            self.append([outcome.entry])
            outcome = replaced(group_step, outcome, leader, 9)
        self.perform(group_step)
        client.waits_for = "join"
        if outcome is not None:
            self.answers.append((client.name, outcome))

    def sync(self, client: Client, given: dict[str, set[int]]) -> None:
        group = self.group
        if group is None or group.is_empty:
            raise errors.UnknownMemberId("no group")
        request = SyncGroupRequest(
            GROUP,
            client.generation,
            client.member_id,
            client.instance,
            None,
            None,
            [SyncGroupRequestAssignment(member_id, assignment(has)) for member_id, has in given.items()],
        )
        group_step = self.step()
        outcome = sync(group_step, request, client.name)
        self.perform(group_step)
        client.waits_for = "sync"
        if isinstance(outcome, SyncGroupResponse):
            self.answers.append((client.name, outcome))
        elif isinstance(outcome, Assignment):
            self.append([outcome.entry])
            for step in (
                assigned,
                lambda group_step: assignment_settled(group_step, outcome.generation, errors.NONE),
            ):
                group_step = self.step()
                step(group_step)
                self.perform(group_step)

    def heartbeat(self, client: Client) -> ClassicState:
        if self.group is None:
            raise errors.UnknownMemberId("no group")
        heartbeat(self.group, client.member_id, client.instance, client.generation)
        return self.group.state

    def leave(self, client: Client) -> int:
        if self.group is None:
            return errors.UnknownMemberId.code
        group_step = self.step()
        (answer,) = leave(group_step, [MemberIdentity(client.member_id, client.instance)])
        self.perform(group_step)
        return answer.error_code

    def commit(self, client: Client, partition: int, offset: int) -> None:
        who = CommittingMember(GROUP, client.member_id, client.instance, client.generation, 9)
        offset_commit = OffsetCommit(TOPIC, NO_TOPIC_ID, partition, offset, -1, "")
        entries, codes = commit(self.machine, who, [offset_commit], CommitLimits(self.now_ms, 100))
        assert codes == [errors.NONE]
        self.append(entries)

    # Deadlines

    def pass_deadline(self, deadline: Deadline) -> None:
        self.deadlines.pop((deadline.name, deadline.member_id), None)
        group_step = self.step()
        if deadline.name == "session":
            group_step.session_over(deadline.member_id)
        elif deadline.name == "initial":
            group_step.initial_over(deadline.due)
        elif deadline.name == "join":
            group_step.complete()
        elif deadline.name == "sync":
            group_step.sync_over(deadline.due)
        else:
            group_step.withheld_over()
        self.perform(group_step)

    def step(self) -> GroupStep:
        assert self.group is not None
        self.now_ms += 1
        return GroupStep(self.group, self.settings, self.now_ms)

    def perform(self, group_step: GroupStep) -> None:
        for effect in group_step.effects:
            if isinstance(effect, SendResponse):
                self.answers.append((str(effect.waiter), effect.response))
            elif isinstance(effect, SetSession):
                self._set(Deadline("session", effect.member_id), effect.within_ms)
            elif isinstance(effect, SetInitialDelay):
                self.deadlines.pop(("join", ""), None)
                self._set(Deadline("initial", due=effect), effect.after_ms)
            elif isinstance(effect, SetJoinDeadline):
                self.deadlines.pop(("initial", ""), None)
                self._set(Deadline("join"), effect.after_ms)
            elif isinstance(effect, SetSyncDeadline):
                self._set(Deadline("sync", due=group_step.group.generation), effect.after_ms)
            elif isinstance(effect, SetWithheldDeadline):
                self._set(Deadline("withheld"), effect.after_ms)
            elif isinstance(effect, WriteRecord):
                self.append([effect.entry])

    def _set(self, deadline: Deadline, after_ms: int | None) -> None:
        key = (deadline.name, deadline.member_id)
        if after_ms is None:
            self.deadlines.pop(key, None)
        else:
            self.deadlines[key] = deadline


def loaded(log: list[Batch]) -> GroupStateMachine:
    machine = new_machine()
    for batch in log:
        replay(machine, batch)
    return machine


def replay(machine: GroupStateMachine, batch: Batch) -> None:
    for key, value in batch:
        entry = KINDS.decode(key, value)
        assert entry is not None
        machine.replay(entry, -1)


def recorded(group: Any) -> object:
    """A group as its record has it."""
    if group is None:
        return None
    members = [
        (
            member.id,
            member.instance_id,
            member.session_timeout_ms,
            member.metadata(group.protocol),
            member.assignment,
        )
        for member in group.members.values()
    ]
    return (group.state, group.generation, group.protocol_type, group.protocol, group.leader, members)


def view(groups: dict[str, object], machine: GroupStateMachine) -> object:
    """What the records so far say."""
    known = {name: told for name, told in groups.items() if told is not None}
    return (known, machine.offsets.view())


__all__ = [
    "Client",
    "Deadline",
    "JoinGroupResponse",
    "World",
    "loaded",
    "partitions_of",
    "recorded",
    "replay",
    "view",
]
