"""Membership in a classic group: JoinGroup, the assignment if this member leads, SyncGroup, Heartbeat.  Pure.

With eager assignors the member revokes all partitions before it joins again.  With cooperative ones it keeps its
partitions, learns which to revoke, revokes them, and joins once more.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from tidelog import errors
from tidelog.client.cluster.response_errors import problem_of
from tidelog.client.groups.assignors import Assignor, Subscriber, is_cooperative
from tidelog.client.groups.consumer_protocol import (
    pack_assignment,
    pack_subscription,
    unpack_assignment,
    unpack_subscription,
)
from tidelog.client.groups.membership import AssignmentChange, CoordinatorRequest, MetadataLookup, ordered
from tidelog.client.groups.metadata import GroupMetadata
from tidelog.types import TopicPartition
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
FORGOTTEN = (errors.UnknownMemberId.code, errors.IllegalGeneration.code)


class ClassicPhase(Enum):
    IDLE = auto()  # no subscription
    GIVING_UP = auto()  # the reader must let go of partitions before the next join
    JOINING = auto()
    ASSIGNING = auto()  # we lead, and need metadata to deal out partitions
    SYNCING = auto()
    STABLE = auto()
    DONE = auto()


class ClassicMembership:
    def __init__(
        self,
        group_id: str,
        assignors: Sequence[Assignor],
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        heartbeat_interval_ms: int,
        instance_id: str | None = None,
        rack: str | None = None,
    ) -> None:
        self.change: AssignmentChange | None = None
        self.problem: errors.TidelogError | None = None
        self.rebalances = 0
        self.phase = ClassicPhase.IDLE
        self._group_id = group_id
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = is_cooperative(assignors)
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._beat_every_ms = heartbeat_interval_ms
        self._instance_id = instance_id
        self._rack = rack
        self._member_id = ""
        self._generation = NO_GENERATION
        self._protocol = ""
        self._leads = False
        self._members: list[Subscriber] = []
        self._seen: dict[str, int] | None = None  # what the leader's last assignment was made from
        self._assignments: list[SyncGroupRequestAssignment] = []
        self._topics: tuple[str, ...] = ()
        self._owned: tuple[TopicPartition, ...] = ()
        self._sticky: tuple[tuple[TopicPartition, ...], int] = ((), NO_GENERATION)
        self._again = False
        self._leaving: CoordinatorRequest | None = None
        self._in_flight: CoordinatorRequest | MetadataLookup | None = None
        self._beat_ms = 0.0
        self._not_before_ms = 0.0

    @property
    def in_group(self) -> bool:
        return self._generation != NO_GENERATION

    @property
    def identity(self) -> GroupMetadata:
        return GroupMetadata(self._group_id, self._generation, self._member_id, self._instance_id)

    # What is wanted

    def subscribed(self, topics: Collection[str], pattern: str | None = None) -> None:
        wanted = tuple(sorted(topics))
        if wanted != self._topics or self.phase is ClassicPhase.IDLE:
            self._topics = wanted
            self._rejoin()

    def seen(self, partitions: Mapping[str, int]) -> None:
        if self._leads and self._seen is not None and self.phase is ClassicPhase.STABLE:
            now = {topic: partitions.get(topic, 0) for topic in self._seen}
            if now != self._seen:
                self._seen = now
                self._rejoin()

    def _rejoin(self) -> None:
        if self.phase in (ClassicPhase.IDLE, ClassicPhase.STABLE):
            if self.change is not None:
                self._again = True  # First the reader must have what the last rebalance gave it.
            elif self._owned and not self._cooperative:
                self.phase = ClassicPhase.GIVING_UP
                self.change = AssignmentChange(owned=(), revoked=self._owned)
            else:
                self.phase = ClassicPhase.JOINING
        elif self.phase is not ClassicPhase.JOINING or self._in_flight is not None:
            self._again = True

    def expired(self) -> None:
        if self.in_group and self.phase is not ClassicPhase.DONE:
            if self._instance_id is None:
                self._leaving = self._leave_request()
            self._forget()

    def applied(self) -> None:
        change, self.change = self.change, None
        if change is None:
            return
        self._owned = change.owned
        if self.phase is ClassicPhase.GIVING_UP:
            self.phase = ClassicPhase.JOINING
            self._again = False
        elif self._again or (self._cooperative and change.revoked):
            self._again = False
            self._rejoin()

    def leave(self) -> CoordinatorRequest | None:
        request = self._leaving
        if request is None and self._member_id and self._instance_id is None:
            request = self._leave_request()
        self.phase = ClassicPhase.DONE
        self._generation = NO_GENERATION
        return request

    def _leave_request(self) -> CoordinatorRequest:
        member = MemberIdentity(self._member_id, self._instance_id, "the consumer leaves")
        return CoordinatorRequest(
            LeaveGroupRequest(group_id=self._group_id, members=[member]), LeaveGroupResponse
        )

    def _forget(self) -> None:
        """The coordinator does not know this member any more, or must not."""
        self._member_id, self._generation = "", NO_GENERATION
        self._again = False
        lost = self._owned
        if self.change is not None and self.phase is not ClassicPhase.GIVING_UP:
            # Partitions that the last rebalance added were never taken; partitions that it revoked are lost now, too.
            self.change = None
        if lost:
            self.phase = ClassicPhase.GIVING_UP
            self.change = AssignmentChange(owned=(), lost=lost)
        else:
            self.phase = ClassicPhase.JOINING

    # What to do next

    def due(self, now_ms: float) -> CoordinatorRequest | MetadataLookup | None:
        self._in_flight = self._due(now_ms)
        return self._in_flight

    def _due(self, now_ms: float) -> CoordinatorRequest | MetadataLookup | None:
        if self._leaving is not None:
            return self._leaving
        if self.problem is not None or now_ms < self._not_before_ms:
            return None
        match self.phase:
            case ClassicPhase.JOINING:
                return self._join()
            case ClassicPhase.ASSIGNING:
                wanted = {topic for member in self._members for topic in member.topics}
                return MetadataLookup(topics=tuple(sorted(wanted)))
            case ClassicPhase.SYNCING:
                return self._sync()
            case ClassicPhase.STABLE | ClassicPhase.GIVING_UP if self.in_group and now_ms >= self._beat_ms:
                request = HeartbeatRequest(
                    self._group_id, self._generation, self._member_id, self._instance_id
                )
                return CoordinatorRequest(request, HeartbeatResponse)
        return None

    def next_ms(self) -> float | None:
        if self.problem is not None or self.phase in (ClassicPhase.IDLE, ClassicPhase.DONE):
            return None
        if self.phase in (ClassicPhase.STABLE, ClassicPhase.GIVING_UP):
            return max(self._beat_ms, self._not_before_ms) if self.in_group else None
        return self._not_before_ms

    def _join(self) -> CoordinatorRequest:
        protocols = []
        owned = self._owned if self._cooperative else ()
        for assignor in self._assignors.values():
            sticky_owned, generation = self._sticky
            data = assignor.user_data(sticky_owned, generation)
            subscription = pack_subscription(self._topics, data, owned, generation, self._rack)
            protocols.append(JoinGroupRequestProtocol(assignor.name, subscription))
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )
        return CoordinatorRequest(request, JoinGroupResponse, self._rebalance_timeout_ms)

    def _sync(self) -> CoordinatorRequest:
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol,
            assignments=self._assignments,
        )
        return CoordinatorRequest(request, SyncGroupResponse, self._rebalance_timeout_ms)

    # What came of it

    def answered(self, answer: Any, now_ms: float) -> None:
        request, self._in_flight = self._in_flight, None
        if isinstance(answer, LeaveGroupResponse):
            self._leaving = None
        elif isinstance(answer, JoinGroupResponse):
            self._joined(answer, now_ms)
        elif isinstance(answer, SyncGroupResponse):
            self._synced(answer, now_ms)
        elif isinstance(request, CoordinatorRequest) and request.request.member_id == self._member_id:
            self._heartbeat_answered(answer.error_code, now_ms)

    def failed(self, problem: errors.TidelogError, now_ms: float, wait_ms: float) -> None:
        self._in_flight = None
        if self._leaving is not None:
            self._leaving = None  # The session will end without it.
        elif problem.retriable:
            self._not_before_ms = now_ms + wait_ms
        else:
            self.problem = problem

    def _refused(self, code: int) -> None:
        if code in FORGOTTEN:
            self._forget()
        elif code == errors.RebalanceInProgress.code:
            self.phase = ClassicPhase.JOINING
        else:
            raise problem_of(code, f"group {self._group_id!r}")

    def _joined(self, answer: JoinGroupResponse, now_ms: float) -> None:
        if answer.error_code == errors.MemberIdRequired.code:
            self._member_id = answer.member_id
            return
        if answer.error_code != errors.NONE:
            self._refused(answer.error_code)
            return
        self._member_id, self._generation = answer.member_id, answer.generation_id
        self._protocol = answer.protocol_name or ""
        if self._protocol not in self._assignors:
            raise errors.InconsistentGroupProtocol(
                f"group {self._group_id!r} chose {self._protocol!r}, which this consumer has not offered"
            )
        self._leads = answer.leader == answer.member_id
        self._seen = None
        self._assignments = []
        self._beat_ms = now_ms + self._beat_every_ms
        self.phase = ClassicPhase.SYNCING
        if self._leads:
            self._members = [
                unpack_subscription(member.member_id, member.group_instance_id, member.metadata)
                for member in answer.members
            ]
            # A static leader that returns keeps the assignment that the group has.
            if not answer.skip_assignment:
                self.phase = ClassicPhase.ASSIGNING

    def looked_up(self, partitions: Mapping[str, int], names: Mapping[uuid.UUID, str], now_ms: float) -> None:
        self._in_flight = None
        if self.phase is not ClassicPhase.ASSIGNING:
            return
        wanted = sorted({topic for member in self._members for topic in member.topics})
        self._seen = {topic: partitions.get(topic, 0) for topic in wanted}
        partition_counts = {topic: count for topic, count in self._seen.items() if count}
        assignment = self._assignors[self._protocol].assign(partition_counts, self._members)
        self._assignments = [
            SyncGroupRequestAssignment(member, pack_assignment(assigned))
            for member, assigned in assignment.items()
        ]
        self.phase = ClassicPhase.SYNCING

    def _synced(self, answer: SyncGroupResponse, now_ms: float) -> None:
        self._assignments, self._members = [], []
        if answer.error_code != errors.NONE:
            self._refused(answer.error_code)
            return
        assigned = ordered(unpack_assignment(answer.assignment))
        self._sticky = (assigned, self._generation)
        self.rebalances += 1
        self.phase = ClassicPhase.STABLE
        self._beat_ms = now_ms + self._beat_every_ms
        before = set(self._owned)
        self.change = AssignmentChange(
            owned=assigned,
            revoked=ordered(before - set(assigned)),
            added=ordered(set(assigned) - before),
        )

    def _heartbeat_answered(self, code: int, now_ms: float) -> None:
        self._beat_ms = now_ms + self._beat_every_ms
        if code == errors.NONE:
            return
        if code == errors.RebalanceInProgress.code:
            if self.phase is ClassicPhase.STABLE:
                self._rejoin()
            return
        self._refused(code)
