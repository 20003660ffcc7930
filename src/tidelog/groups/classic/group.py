"""A classic group: its members, the protocol that they agreed on, and the state of the current rebalance.

The group's record holds its state of the last completed rebalance (or of when it became empty); everything in between
is in memory only, as in Kafka: after a restart, members continue with the last generation.
Pure.  `rebalance` moves a group from state to state; `coordinator` drives it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.classic.consumer_protocol import PROTOCOL_TYPE, topics_of
from tidelog.groups.classic.member import ClassicMember, Protocols
from tidelog.groups.group import CLASSIC, CheckPartition
from tidelog.wire.messages.group_metadata_record import GroupMetadataKey, GroupMetadataValue

if TYPE_CHECKING:
    from tidelog.groups.consumer.group import ConsumerGroup
    from tidelog.groups.state_machine import GroupStateMachine
    from tidelog.groups.streams.group import StreamsGroup

ReplacingGroup = TypeVar("ReplacingGroup", "ConsumerGroup", "StreamsGroup")

UNKNOWN_TIME = -1


class ClassicState(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroup:
    kind = CLASSIC

    def __init__(
        self, id: str, state: ClassicState = ClassicState.EMPTY, since_ms: int = UNKNOWN_TIME
    ) -> None:
        self.id = id
        self.state = state
        self.since_ms = since_ms
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.topics: set[str] | None = None
        """The topics that the members subscribe to; None if they are unknown."""
        # Of the rebalance under way:
        self.promised: set[str] = (
            set()
        )  # member ids that the coordinator has given out, and that have not joined yet
        self.unsynced: set[str] = set()
        self.joined_lately = False  # a member joined during the initial delay, which is then extended
        self.initial = (
            False  # the initial delay is running; it does not end early when all members have joined
        )
        self.withheld: set[str] = set()  # new members whose JoinGroup answer is withheld for a generation

    def __repr__(self) -> str:
        return f"ClassicGroup({self.id!r}, {self.state}, generation {self.generation}, {len(self.members)} members)"

    # As a Group

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def expires(self) -> bool:
        return True

    @property
    def is_simple(self) -> bool:
        """True if the group never had members, and only holds offsets of consumers that assign their partitions
        themselves."""
        return not self.protocol_type and self.is_empty and not self.promised

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, transactional: bool, version: int
    ) -> CheckPartition | None:
        if self.state is ClassicState.DEAD:
            raise errors.CoordinatorNotAvailable(f"group {self.id} is being deleted")
        if epoch < 0 and self.is_empty:
            return None
        if epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if epoch != self.generation:
                raise errors.IllegalGeneration(
                    f"group {self.id} is in generation {self.generation}, not {epoch}"
                )
        elif not transactional and not self.is_empty:
            raise errors.UnknownMemberId(f"group {self.id} has members: only its members may commit offsets")
        if not transactional and self.state is ClassicState.COMPLETING:
            raise errors.RebalanceInProgress(f"group {self.id} is rebalancing")
        return None

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if self.state is ClassicState.DEAD:
            raise errors.GroupIdNotFound(f"group {self.id} is being deleted")

    def check_offset_delete(self) -> None:
        self.check_fetch(None, -1)
        if not self.is_empty and self.protocol_type != PROTOCOL_TYPE:
            raise errors.NonEmptyGroup(
                f"group {self.id} has members whose subscriptions are unknown: stop them before deleting offsets"
            )

    def check_delete(self) -> None:
        self.check_fetch(None, -1)
        if not self.is_empty:
            raise errors.NonEmptyGroup(f"group {self.id} has members: stop them before deleting the group")

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(self.id), None)]

    def is_subscribed(self, topic: str) -> bool:
        return self.protocol_type == PROTOCOL_TYPE if self.topics is None else topic in self.topics

    def expires_from(self, commit_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_ms
        if self.is_empty:
            return commit_ms if self.since_ms == UNKNOWN_TIME else self.since_ms
        if (
            self.protocol_type == PROTOCOL_TYPE
            and self.topics is not None
            and self.state is ClassicState.STABLE
        ):
            return commit_ms
        return None

    # Members

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            current_id = self.static.get(instance_id)
            if current_id is None:
                raise errors.UnknownMemberId(f"group {self.id} has no member with instance id {instance_id}")
            if current_id != member_id:
                raise errors.FencedInstanceId(
                    f"another member of group {self.id} has taken over instance id {instance_id}"
                )
        if member_id not in self.members:
            raise errors.UnknownMemberId(f"group {self.id} has no member {member_id!r}")

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """True if a new member with these protocols shares one with all other members."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        names = {name for name, _ in protocols}
        return not names.isdisjoint(self.candidates())

    def candidates(self) -> set[str]:
        """The protocols that every member supports."""
        names_by_member = [member.names() for member in self.members.values()]
        return set.intersection(*names_by_member) if names_by_member else set()

    def choose_protocol(self) -> str | None:
        """The protocol that most members prefer, of those that all members support."""
        candidates = self.candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            if choice is not None:
                votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name], default=None)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.static
            self.static[member.instance_id] = member.id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self.promised.discard(member.id)

    def remove(self, member_id: str) -> ClassicMember | None:
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.promised.discard(member_id)
        self.unsynced.discard(member_id)
        self.withheld.discard(member_id)
        return member

    def replace(self, old_id: str, member: ClassicMember) -> None:
        """A static member is back under a new member id, and takes the old id's place.  The order of the members stays,
        because the clients' assignors depend on it."""
        self.members = {
            (member.id if other_id == old_id else other_id): (member if other_id == old_id else other)
            for other_id, other in self.members.items()
        }
        assert member.instance_id is not None
        self.static[member.instance_id] = member.id
        if self.leader == old_id:
            self.leader = member.id

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        return not self.promised and all(member.joining is not None for member in self.members.values())

    def moved_to(self, state: ClassicState, now_ms: int) -> None:
        self.state = state
        self.since_ms = now_ms

    def subscribed_topics(self) -> set[str] | None:
        if self.protocol_type != PROTOCOL_TYPE:
            return None
        if self.members and self.protocol is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = topics_of(member.metadata(self.protocol))
            if subscribed is None:
                return None
            topics.update(subscribed)
        return topics

    # Records

    def entry(
        self, assignments: dict[str, bytes] | None = None, since_ms: int | None = None
    ) -> CoordinatorRecord:
        """The group as its record; `assignments` by member id replace those that the members have."""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.since_ms if since_ms is None else since_ms,
            members=[member.recorded(self.protocol) for member in self.members.values()],
        )
        if assignments is not None:
            for stored in value.members:
                stored.assignment = assignments.get(stored.member_id, b"")
        return CoordinatorRecord(GroupMetadataKey(self.id), value)

    def recorded_as(self, value: GroupMetadataValue) -> None:
        """Takes over what the group's record says.  A member that is here already keeps what no record holds: all the
        protocols that it supports, and its waiting request."""
        live_members = self.members
        self.generation = value.generation
        self.protocol_type = value.protocol_type
        self.protocol = value.protocol
        self.leader = value.leader
        self.since_ms = value.current_state_timestamp
        self.members, self.static = {}, {}
        for stored in value.members:
            member = ClassicMember.of(stored, value.protocol)
            live = live_members.get(member.id)
            if live is not None:
                live.recorded_as(member, value.protocol)
                member = live
            self.members[member.id] = member
            if member.instance_id is not None:
                self.static[member.instance_id] = member.id
        self.state = ClassicState.STABLE if self.members else ClassicState.EMPTY
        self.topics = self.subscribed_topics()


def replay_group(
    machine: GroupStateMachine, key: GroupMetadataKey, value: GroupMetadataValue | None, producer_id: int
) -> None:
    if value is None:
        gone = machine.groups.get(key.group)
        if isinstance(gone, ClassicGroup):
            gone.state = ClassicState.DEAD
            del machine.groups[key.group]
        return
    group = machine.groups.get(key.group)
    if not isinstance(group, ClassicGroup):
        group = machine.groups[key.group] = ClassicGroup(key.group)
    group.recorded_as(value)


def replayed_group(
    machine: GroupStateMachine, group_id: str, value: object, group_type: type[ReplacingGroup]
) -> ReplacingGroup | None:
    """The group that a record of a newer protocol is about.  The record creates the group if there is none, or replaces a
    classic group; a tombstone creates nothing."""
    group = machine.groups.get(group_id)
    if isinstance(group, group_type):
        return group
    if value is None or not (group is None or isinstance(group, ClassicGroup)):
        return None
    created = machine.groups[group_id] = group_type(group_id)
    return created
