"""ShareGroupHeartbeat: decides how members join, get assignments, and leave.

Pure: the group, the request, the topics and the time go in; records and an answer come out, or the protocol's error is
raised.  Called by `coordinator`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.share.assignor import Assignment, TopicPartition, assign
from tidelog.groups.share.group import ShareGroup, ShareMember, StatePartitions, member_tombstones
from tidelog.wire.messages.share_group_current_member_assignment_record import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from tidelog.wire.messages.share_group_current_member_assignment_record import (
    TopicPartitions as CurrentPartitions,
)
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tidelog.wire.messages.share_group_member_metadata_record import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from tidelog.wire.messages.share_group_metadata_record import ShareGroupMetadataKey, ShareGroupMetadataValue
from tidelog.wire.messages.share_group_state_partition_metadata_record import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from tidelog.wire.messages.share_group_target_assignment_member_record import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
)
from tidelog.wire.messages.share_group_target_assignment_member_record import (
    TopicPartition as TargetPartition,
)
from tidelog.wire.messages.share_group_target_assignment_metadata_record import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)

JOIN, LEAVE = 0, -1
MEMBER_ID_BYTES_MAX = 36  # the text of a UUID
AGAIN_MS_MIN = 100  # librdkafka gives up on an answer after its last heartbeat interval


class TopicFacts(NamedTuple):
    """`whole`: each member reads all of its partitions."""

    id: UUID
    partitions: int
    whole: bool = False


Topics = Mapping[str, TopicFacts]
"""The subscribed topics that exist, by name."""


class ShareGroupLimits(NamedTuple):
    members_max: int
    assignment_interval_ms: int


class ShareHeartbeatResult(NamedTuple):
    """The result of a heartbeat.  `assignment` is None if the member knows it already; `again_ms` is set while the
    member's assignment is not final: another heartbeat after that time gets it."""

    entries: list[CoordinatorRecord]
    epoch: int
    assignment: Assignment | None
    again_ms: int | None


def next_ms(interval_ms: int, again_ms: int | None) -> int:
    """The member's heartbeat interval: shorter if its assignment can be computed earlier than the next heartbeat."""
    return interval_ms if not again_ms else min(interval_ms, max(again_ms, AGAIN_MS_MIN))


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    if not request.group_id.strip():
        raise errors.InvalidRequest("the group id is empty")
    if not request.member_id.strip() or len(request.member_id.encode()) > MEMBER_ID_BYTES_MAX:
        raise errors.InvalidRequest("the member id must be a UUID that the client has created")
    if request.rack_id is not None and not request.rack_id.strip():
        raise errors.InvalidRequest("the rack id is empty: leave it out, or send one")
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        raise errors.InvalidRequest("a joining member must subscribe to topics")
    if request.member_epoch < LEAVE:
        raise errors.InvalidRequest(f"there is no member epoch {request.member_epoch}")


def heartbeat(
    group: ShareGroup | None,
    request: ShareGroupHeartbeatRequest,
    client: tuple[str, str],
    topics: Topics,
    limits: ShareGroupLimits,
    now_ms: int,
    may_assign: bool,
) -> ShareHeartbeatResult:
    """`client` is the member's client id and host.  Without `may_assign`, the assignment does not change, because the
    state of some partitions is still being initialized."""
    if group is None:
        if request.member_epoch != JOIN:
            raise errors.GroupIdNotFound(f"Group {request.group_id} not found.")
        group = ShareGroup(request.group_id)
    member, entries = _joined(group, request, client, limits)
    members = {**group.members, member.id: member}
    epoch = group.epoch
    topics_hash = metadata_hash(topics, members.values())
    pending = may_assign and _pending(group, members.values(), topics)
    changed = member.topics != _topics_of(group, member.id) or member.id not in group.members
    if changed or topics_hash != group.metadata_hash or (pending and epoch == group.assignment_epoch):
        epoch += 1
        entries.append(
            CoordinatorRecord(ShareGroupMetadataKey(group.id), ShareGroupMetadataValue(epoch, topics_hash))
        )
    target: Mapping[str, Assignment] = group.targets
    assignment_epoch = group.assignment_epoch
    again_ms = None
    if epoch > assignment_epoch:
        wait_ms = group.assigned_ms + limits.assignment_interval_ms - now_ms
        if may_assign and (wait_ms <= 0 or assignment_epoch == 0 or wait_ms > limits.assignment_interval_ms):
            target = _target(group, members, topics)
            assignment_epoch = epoch
            entries += _target_entries(group, target, epoch, now_ms)
        elif not may_assign:
            again_ms = 0
        else:
            again_ms = wait_ms
    own = _wanted_of(target.get(member.id, {}), member, topics)
    return _reconciled(group, member, request, entries, own, assignment_epoch, again_ms)


def _joined(
    group: ShareGroup, request: ShareGroupHeartbeatRequest, client: tuple[str, str], limits: ShareGroupLimits
) -> tuple[ShareMember, list[CoordinatorRecord]]:
    before = group.members.get(request.member_id)
    if request.member_epoch == JOIN:
        if before is None and len(group.members) >= limits.members_max:
            raise errors.GroupMaxSizeReached(
                f"share group {group.id} has {len(group.members)} members already"
            )
        member = before or ShareMember(request.member_id)
    else:
        if before is None:
            raise errors.UnknownMemberId(f"{request.member_id} is not a member of share group {group.id}")
        _check_epoch(before, request.member_epoch)
        member = before
    client_id, client_host = client
    fresh = member._replace(
        rack=request.rack_id if request.rack_id is not None else member.rack,
        topics=member.topics
        if request.subscribed_topic_names is None
        else frozenset(request.subscribed_topic_names),
        client_id=client_id,
        client_host=client_host,
    )
    if fresh == before:
        return fresh, []
    value = ShareGroupMemberMetadataValue(
        rack_id=fresh.rack,
        client_id=fresh.client_id,
        client_host=fresh.client_host,
        subscribed_topic_names=sorted(fresh.topics),
    )
    return fresh, [CoordinatorRecord(ShareGroupMemberMetadataKey(group.id, fresh.id), value)]


def _check_epoch(member: ShareMember, epoch: int) -> None:
    if epoch > member.epoch or (epoch < member.epoch and epoch != member.previous_epoch):
        raise errors.FencedMemberEpoch(f"{member.id} is at epoch {member.epoch}, not {epoch}: join again")


def _topics_of(group: ShareGroup, member_id: str) -> frozenset[str]:
    member = group.members.get(member_id)
    return frozenset() if member is None else member.topics


def _pending(group: ShareGroup, members: Iterable[ShareMember], topics: Topics) -> bool:
    """True if a partition has initialized state, but no member reads it."""
    read = {
        (topic, index)
        for target in group.targets.values()
        for topic, indexes in target.items()
        for index in indexes
    }
    names = frozenset().union(*(member.topics for member in members))
    return any(
        (facts.id, index) not in read
        for name, facts in topics.items()
        if name in names and facts.id in group.initialized
        for index in group.initialized[facts.id].partitions
        if index < facts.partitions
    )


def _target(group: ShareGroup, members: Mapping[str, ShareMember], topics: Topics) -> dict[str, Assignment]:
    partitions = {
        facts.id: frozenset(i for i in group.initialized[facts.id].partitions if i < facts.partitions)
        for facts in topics.values()
        if facts.id in group.initialized
    }
    wanted = {
        member.id: frozenset(topics[name].id for name in member.topics if name in topics)
        for member in members.values()
    }
    current = {member: _flat(target) for member, target in group.targets.items()}
    whole = frozenset(facts.id for facts in topics.values() if facts.whole)
    return assign(wanted, partitions, current, whole)


def _target_entries(
    group: ShareGroup, target: Mapping[str, Assignment], epoch: int, now_ms: int
) -> list[CoordinatorRecord]:
    entries = [
        CoordinatorRecord(
            ShareGroupTargetAssignmentMemberKey(group.id, member),
            ShareGroupTargetAssignmentMemberValue(
                [TargetPartition(topic, indexes) for topic, indexes in assignment.items()]
            ),
        )
        for member, assignment in target.items()
        if assignment != group.targets.get(member)
    ]
    value = ShareGroupTargetAssignmentMetadataValue(epoch, now_ms)
    return [*entries, CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(group.id), value)]


def _wanted_of(target: Assignment, member: ShareMember, topics: Topics) -> Assignment:
    """The member's target without topics that it no longer subscribes to."""
    wanted = {topics[name].id for name in member.topics if name in topics}
    return {topic: indexes for topic, indexes in target.items() if topic in wanted}


def _reconciled(
    group: ShareGroup,
    member: ShareMember,
    request: ShareGroupHeartbeatRequest,
    entries: list[CoordinatorRecord],
    own: Assignment,
    assignment_epoch: int,
    again_ms: int | None,
) -> ShareHeartbeatResult:
    """The member moves to its target at once: in a share group no other member has to revoke partitions first."""
    fresh = member
    if member.epoch != assignment_epoch or member.assigned != _flat(own):
        fresh = member._replace(epoch=assignment_epoch, previous_epoch=member.epoch, assigned=_flat(own))
    if fresh != group.members.get(member.id) and (fresh is not member or member.id not in group.members):
        value = ShareGroupCurrentMemberAssignmentValue(
            member_epoch=fresh.epoch,
            previous_member_epoch=fresh.previous_epoch,
            assigned_partitions=[CurrentPartitions(topic, indexes) for topic, indexes in own.items()],
        )
        entries.append(CoordinatorRecord(ShareGroupCurrentMemberAssignmentKey(group.id, member.id), value))
    # A member with an older epoch, or with a full request, may have missed the last answer.
    tell = (
        request.member_epoch != fresh.epoch
        or request.subscribed_topic_names is not None
        or fresh.assigned != member.assigned
    )
    return ShareHeartbeatResult(entries, fresh.epoch, own if tell else None, again_ms)


def leave(group: ShareGroup, member_id: str, topics: Topics) -> list[CoordinatorRecord]:
    """Records that remove a member: it left, or its session expired."""
    if member_id not in group.members:
        raise errors.UnknownMemberId(f"{member_id} is not a member of share group {group.id}")
    rest = [member for member in group.members.values() if member.id != member_id]
    value = ShareGroupMetadataValue(group.epoch + 1, metadata_hash(topics, rest))
    return [
        *member_tombstones(group.id, member_id),
        CoordinatorRecord(ShareGroupMetadataKey(group.id), value),
    ]


# Partitions with state


def missing(group: ShareGroup | None, names: Iterable[str], topics: Topics) -> dict[UUID, StatePartitions]:
    """Partitions of these topics whose state is not initialized yet."""
    lacking_by_topic = {}
    for name in names:
        facts = topics.get(name)
        if facts is None:
            continue
        kept = None if group is None else group.initialized.get(facts.id)
        lacking = frozenset(range(facts.partitions)) - (frozenset() if kept is None else kept.partitions)
        if lacking:
            lacking_by_topic[facts.id] = StatePartitions(name, lacking)
    return lacking_by_topic


def initializing(group: ShareGroup, partitions: Mapping[UUID, StatePartitions]) -> list[CoordinatorRecord]:
    entry = kept_entry(group, _merged(group.initializing, partitions), group.initialized, group.deleting)
    return [] if _merged(group.initializing, partitions) == group.initializing else [entry]


def initialized(group: ShareGroup, partitions: Mapping[UUID, StatePartitions]) -> list[CoordinatorRecord]:
    deleting = {topic: name for topic, name in group.deleting.items() if topic not in partitions}
    entry = kept_entry(
        group, _without(group.initializing, partitions), _merged(group.initialized, partitions), deleting
    )
    return [entry]


def deleting(group: ShareGroup, topics: Mapping[UUID, str]) -> list[CoordinatorRecord]:
    """Marks these topics as being deleted, before their state is deleted."""
    rest = [
        {topic: kept for topic, kept in kept_by_topic.items() if topic not in topics}
        for kept_by_topic in (group.initializing, group.initialized)
    ]
    return [kept_entry(group, rest[0], rest[1], {**group.deleting, **topics})]


def deleted(group: ShareGroup, topics: Iterable[UUID]) -> list[CoordinatorRecord]:
    gone = frozenset(topics)
    all_kept = (group.initializing, group.initialized, group.deleting)
    if not any(topic in gone for part in all_kept for topic in part):
        return []
    return [
        kept_entry(
            group,
            {topic: kept for topic, kept in group.initializing.items() if topic not in gone},
            {topic: kept for topic, kept in group.initialized.items() if topic not in gone},
            {topic: name for topic, name in group.deleting.items() if topic not in gone},
        )
    ]


def kept_entry(
    group: ShareGroup,
    initializing: Mapping[UUID, StatePartitions],
    initialized: Mapping[UUID, StatePartitions],
    deleting: Mapping[UUID, str],
) -> CoordinatorRecord:
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(initializing),
        initialized_topics=_infos(initialized),
        deleting_topics=[TopicInfo(topic, name) for topic, name in deleting.items()],
    )
    return CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group.id), value)


def _infos(kept: Mapping[UUID, StatePartitions]) -> list[TopicPartitionsInfo]:
    return [TopicPartitionsInfo(topic, state.name, sorted(state.partitions)) for topic, state in kept.items()]


def _merged(
    kept_by_topic: Mapping[UUID, StatePartitions], more: Mapping[UUID, StatePartitions]
) -> dict[UUID, StatePartitions]:
    result = dict(kept_by_topic)
    for topic, kept in more.items():
        before = result.get(topic, StatePartitions(kept.name, frozenset()))
        result[topic] = StatePartitions(kept.name, before.partitions | kept.partitions)
    return result


def _without(
    kept_by_topic: Mapping[UUID, StatePartitions], less: Mapping[UUID, StatePartitions]
) -> dict[UUID, StatePartitions]:
    result = {}
    for topic, kept in kept_by_topic.items():
        rest = kept.partitions - (less[topic].partitions if topic in less else frozenset())
        if rest:
            result[topic] = StatePartitions(kept.name, rest)
    return result


def metadata_hash(topics: Topics, members: Iterable[ShareMember]) -> int:
    """Changes when a subscribed topic is created, deleted or gets partitions; 0 if there is none."""
    names = sorted(frozenset().union(*(member.topics for member in members)) & topics.keys())
    if not names:
        return 0
    text = "\0".join(f"{name}\0{topics[name].id}\0{topics[name].partitions}" for name in names)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), signed=True)


def _flat(assignment: Assignment) -> frozenset[TopicPartition]:
    return frozenset((topic, index) for topic, indexes in assignment.items() for index in indexes)
