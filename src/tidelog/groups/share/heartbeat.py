"""What a heartbeat of a share group's member changes: who is in, who reads what.

Pure: the group, the request, the topics and the time in; entries and an answer out, or the protocol's error.  Called by
`coordinator`."""

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
AGAIN_MS_MIN = 100  # librdkafka gives up on an answer after the interval it was last told


class TopicFacts(NamedTuple):
    id: UUID
    partitions: int


Topics = Mapping[str, TopicFacts]
"""Those topics that there are, of the ones that members subscribe to."""


class ShareGroupLimits(NamedTuple):
    members_max: int
    assignment_interval_ms: int


class ShareHeartbeatResult(NamedTuple):
    """What comes of a heartbeat.  `assignment` is None when the member knows it; `again_ms` is there when the member's
    assignment is not settled yet: another heartbeat after that time settles it."""

    entries: list[CoordinatorRecord]
    epoch: int
    assignment: Assignment | None
    again_ms: int | None


def next_ms(interval_ms: int, again_ms: int | None) -> int:
    """The interval to tell: a member that has to come again comes when its assignment can be made."""
    return interval_ms if not again_ms else min(interval_ms, max(again_ms, AGAIN_MS_MIN))


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    if not request.group_id.strip():
        raise errors.InvalidRequest("the group id is empty")
    if not request.member_id.strip() or len(request.member_id.encode()) > MEMBER_ID_BYTES_MAX:
        raise errors.InvalidRequest("the member id must be a UUID that the member made up")
    if request.rack_id is not None and not request.rack_id.strip():
        raise errors.InvalidRequest("the rack id is there, but empty")
    if request.member_epoch == JOIN and not request.subscribed_topic_names:
        raise errors.InvalidRequest("whoever joins says which topics it subscribes to")
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
    """`client` is its id and its host.  Without `may_assign` the assignment stays as it is: the state of some
    partitions is still being made."""
    if group is None:
        if request.member_epoch != JOIN:
            raise errors.GroupIdNotFound(f"there is no share group {request.group_id}")
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
    known = group.members.get(request.member_id)
    if request.member_epoch == JOIN:
        if known is None and len(group.members) >= limits.members_max:
            raise errors.GroupMaxSizeReached(
                f"share group {group.id} has {len(group.members)} members already"
            )
        member = known or ShareMember(request.member_id)
    else:
        if known is None:
            raise errors.UnknownMemberId(f"{request.member_id} is not a member of share group {group.id}")
        _check_epoch(known, request.member_epoch)
        member = known
    client_id, client_host = client
    fresh = member._replace(
        rack=request.rack_id if request.rack_id is not None else member.rack,
        topics=member.topics
        if request.subscribed_topic_names is None
        else frozenset(request.subscribed_topic_names),
        client_id=client_id,
        client_host=client_host,
    )
    if fresh == known:
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
    known = group.members.get(member_id)
    return frozenset() if known is None else known.topics


def _pending(group: ShareGroup, members: Iterable[ShareMember], topics: Topics) -> bool:
    """Is there a partition whose state is there, but that nobody reads?"""
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
    return assign(wanted, partitions, current)


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
    """A topic that it does not subscribe to any more it does not get, before there is a new target."""
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
    """The member goes to its part of the target at once: nobody has to give up anything first."""
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
    # Whoever comes with an older epoch, or says everything again, may not have heard the last answer.
    tell = (
        request.member_epoch != fresh.epoch
        or request.subscribed_topic_names is not None
        or fresh.assigned != member.assigned
    )
    return ShareHeartbeatResult(entries, fresh.epoch, own if tell else None, again_ms)


def leave(group: ShareGroup, member_id: str, topics: Topics) -> list[CoordinatorRecord]:
    """The member is gone: it said so, or was silent for too long."""
    if member_id not in group.members:
        raise errors.UnknownMemberId(f"{member_id} is not a member of share group {group.id}")
    rest = [member for member in group.members.values() if member.id != member_id]
    value = ShareGroupMetadataValue(group.epoch + 1, metadata_hash(topics, rest))
    return [
        *member_tombstones(group.id, member_id),
        CoordinatorRecord(ShareGroupMetadataKey(group.id), value),
    ]


# Which partitions state is kept for


def missing(group: ShareGroup | None, names: Iterable[str], topics: Topics) -> dict[UUID, StatePartitions]:
    """Partitions of these topics whose state is not there yet."""
    found = {}
    for name in names:
        facts = topics.get(name)
        if facts is None:
            continue
        kept = None if group is None else group.initialized.get(facts.id)
        lacking = frozenset(range(facts.partitions)) - (frozenset() if kept is None else kept.partitions)
        if lacking:
            found[facts.id] = StatePartitions(name, lacking)
    return found


def initializing(group: ShareGroup, what: Mapping[UUID, StatePartitions]) -> list[CoordinatorRecord]:
    entry = kept_entry(group, _merged(group.initializing, what), group.initialized, group.deleting)
    return [] if _merged(group.initializing, what) == group.initializing else [entry]


def initialized(group: ShareGroup, what: Mapping[UUID, StatePartitions]) -> list[CoordinatorRecord]:
    deleting = {topic: name for topic, name in group.deleting.items() if topic not in what}
    entry = kept_entry(group, _without(group.initializing, what), _merged(group.initialized, what), deleting)
    return [entry]


def deleting(group: ShareGroup, topics: Mapping[UUID, str]) -> list[CoordinatorRecord]:
    """Their state is about to go."""
    rest = [
        {topic: kept for topic, kept in known.items() if topic not in topics}
        for known in (group.initializing, group.initialized)
    ]
    return [kept_entry(group, rest[0], rest[1], {**group.deleting, **topics})]


def deleted(group: ShareGroup, topics: Iterable[UUID]) -> list[CoordinatorRecord]:
    gone = frozenset(topics)
    known = (group.initializing, group.initialized, group.deleting)
    if not any(topic in gone for part in known for topic in part):
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
    return [TopicPartitionsInfo(topic, one.name, sorted(one.partitions)) for topic, one in kept.items()]


def _merged(
    known: Mapping[UUID, StatePartitions], more: Mapping[UUID, StatePartitions]
) -> dict[UUID, StatePartitions]:
    result = dict(known)
    for topic, kept in more.items():
        before = result.get(topic, StatePartitions(kept.name, frozenset()))
        result[topic] = StatePartitions(kept.name, before.partitions | kept.partitions)
    return result


def _without(
    known: Mapping[UUID, StatePartitions], less: Mapping[UUID, StatePartitions]
) -> dict[UUID, StatePartitions]:
    result = {}
    for topic, kept in known.items():
        rest = kept.partitions - (less[topic].partitions if topic in less else frozenset())
        if rest:
            result[topic] = StatePartitions(kept.name, rest)
    return result


def metadata_hash(topics: Topics, members: Iterable[ShareMember]) -> int:
    """Changes when a topic that somebody subscribes to comes, goes or grows; 0 when there is none."""
    names = sorted(frozenset().union(*(member.topics for member in members)) & topics.keys())
    if not names:
        return 0
    text = "\0".join(f"{name}\0{topics[name].id}\0{topics[name].partitions}" for name in names)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), signed=True)


def _flat(assignment: Assignment) -> frozenset[TopicPartition]:
    return frozenset((topic, index) for topic, indexes in assignment.items() for index in indexes)
