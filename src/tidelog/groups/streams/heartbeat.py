"""StreamsGroupHeartbeat: decides how members join, get tasks, follow their target, and leave.

Checks come in Kafka's order, so that a wrong request gets Kafka's error.  Pure: the group, the request and the facts go
in; records and what the answer says come out, or the protocol's error is raised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from tidelog import errors
from tidelog.config import BrokerConfig, GroupConfig
from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.consumer.target_assignment import metadata_hash
from tidelog.groups.streams.assignor import AssignableMember, TaskCounts, assign_tasks
from tidelog.groups.streams.group import (
    StreamsGroup,
    streams_epoch_entry,
    streams_target_entry,
    streams_target_epoch_entry,
)
from tidelog.groups.streams.internal_topics import ConfiguredTopology, StreamsStatus, configure
from tidelog.groups.streams.member import (
    JOINING_EPOCH,
    NO_TOPOLOGY,
    STATIC_LEFT_EPOCH,
    StreamsMember,
    StreamsMemberState,
    UserEndpoint,
    gone_entries,
)
from tidelog.groups.streams.reconciliation import reconciled, taken_tasks
from tidelog.groups.streams.tasks import NOTHING_ASSIGNED, TaskAssignment, tasks_of
from tidelog.groups.streams.topology import StreamsTopology, check_topology, topology_entry, topology_of
from tidelog.metadata.image.image import Image
from tidelog.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

STANDBY_REPLICAS = "num.standby.replicas"


class StreamsFacts(NamedTuple):
    """The facts outside of the group that a decision needs.  `delayed`: the group is new, and waits for more members."""

    image: Image
    config: BrokerConfig
    group_config: GroupConfig
    now_ms: int
    delayed: bool = False

    def partitions(self, topic: str) -> int | None:
        image = self.image.topics.get(topic)
        return None if image is None else len(image.partitions)


class StreamsHeartbeatResult(NamedTuple):
    """`assigned` None: the answer carries no tasks, because they have not changed.  `moved`: the member has other tasks
    than before.  `configured` belongs to the group, and is in no record."""

    entries: list[CoordinatorRecord]
    member: StreamsMember
    assigned: TaskAssignment | None
    moved: bool
    statuses: dict[StreamsStatus, str]
    topology: StreamsTopology
    configured: ConfiguredTopology


# Checks


def check_streams_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raises errors that do not depend on the group."""
    refuse, epoch = errors.InvalidRequest, request.member_epoch
    named = (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.instance_id, "InstanceId"),
        (request.rack_id, "RackId"),
    )
    for value, name in named:
        if value is not None and not value.strip():
            raise refuse(f"{name} can't be empty.")
    if request.instance_id is not None:
        raise refuse("Static membership is not yet supported.")
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise refuse("RebalanceTimeoutMs must be provided in first request.")
        for tasks, name in zip(roles, ("Active", "Standby", "Warmup"), strict=True):
            if tasks is None or tasks:
                raise refuse(f"{name}Tasks must be empty when (re-)joining.")
        if request.topology is None:
            raise refuse("Topology must be non-null when (re-)joining.")
        check_topology(request.topology)
    elif epoch == STATIC_LEFT_EPOCH:
        raise refuse("InstanceId can't be null.")
    elif epoch < STATIC_LEFT_EPOCH:
        raise refuse(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    if any(tasks is not None for tasks in roles) and any(tasks is None for tasks in roles):
        raise refuse("If one task-type is non-null, all must be non-null.")
    if epoch != JOINING_EPOCH and request.topology is not None:
        raise refuse("Topology can only be provided when (re-)joining.")


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> TaskAssignment | None:
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return TaskAssignment(tasks_of(active), tasks_of(standby), tasks_of(warmup))


# A heartbeat


def streams_heartbeat(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, client: tuple[str, str], facts: StreamsFacts
) -> StreamsHeartbeatResult:
    """The heartbeat of a member that joins or stays.  `client` is its client id and host."""
    owned = owned_tasks(request)
    before = _member(group, request, owned, facts)
    member = _as_it_says(before, request, client)
    entries: list[CoordinatorRecord] = []
    changed = member != before or member.id not in group.members
    if changed:
        entries.append(member.metadata_entry(group.id))
    topology = _topology(group, request, entries)
    statuses: dict[StreamsStatus, str] = {}
    if member.topology_epoch < topology.epoch:
        statuses[StreamsStatus.STALE_TOPOLOGY] = (
            f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."
        )
    configured = configured_topology(group, topology, facts)
    if configured.problem is None and owned is not None:
        _check_tasks(owned, configured.tasks)
    epoch, epoch_entries = next_epoch(group, topology, configured, facts, changed)
    entries += epoch_entries
    members = {**group.members, member.id: member}
    assignment_epoch, target, target_entries = _target(group, members, epoch, configured, facts, statuses)
    entries += target_entries
    taken = taken_tasks(member, group.members.values())
    after = reconciled(member, assignment_epoch, target.get(member.id, NOTHING_ASSIGNED), taken, owned)
    if after != member:
        entries.append(after.assignment_entry(group.id))
    if configured.problem is not None:
        statuses[configured.problem.status] = str(configured.problem)
    joins = request.member_epoch == JOINING_EPOCH
    moved = joins or after.assigned != before.assigned
    # A member that comes with an older epoch, or says that it has other tasks, may have missed an answer.
    missed = request.member_epoch != before.epoch or (owned is not None and owned != after.assigned)
    answered = after.assigned if moved or missed else None
    return StreamsHeartbeatResult(entries, after, answered, moved, statuses, topology, configured)


def _member(
    group: StreamsGroup,
    request: StreamsGroupHeartbeatRequest,
    owned: TaskAssignment | None,
    facts: StreamsFacts,
) -> StreamsMember:
    if request.member_epoch == JOINING_EPOCH:
        most = facts.config.group_streams_max_size
        if len(group.members) >= most and request.member_id not in group.members:
            raise errors.GroupMaxSizeReached(
                f"The streams group has reached its maximum capacity of {most} members."
            )
        return group.members.get(request.member_id, StreamsMember(request.member_id))
    member = group.member(request.member_id)
    epoch = request.member_epoch
    missed = epoch == member.previous_epoch and owned is not None and owned.within(member.assigned)
    if epoch > member.epoch or (epoch < member.epoch and not missed):
        size = "greater" if epoch > member.epoch else "smaller"
        raise errors.FencedMemberEpoch(
            f"The streams group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.epoch}). The member must abandon all its partitions and rejoin."
        )
    return member


def _as_it_says(
    before: StreamsMember, request: StreamsGroupHeartbeatRequest, client: tuple[str, str]
) -> StreamsMember:
    """The member with the fields that the request changes."""
    endpoint, tags = request.user_endpoint, request.client_tags
    client_id, client_host = client
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        before,
        rack=before.rack if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=before.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=before.process_id if request.process_id is None else request.process_id,
        endpoint=before.endpoint if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        tags=before.tags if tags is None else tuple(sorted({tag.key: tag.value for tag in tags}.items())),
        client_id=client_id,
        client_host=client_host,
    )


def _topology(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, entries: list[CoordinatorRecord]
) -> StreamsTopology:
    """The group's topology: that of its first member.  A member with an older one is told that it is stale."""
    if request.topology is None:
        if group.topology is None:  # its record is lost
            raise errors.FencedMemberEpoch(f"group {group.id} has no topology: its members must rejoin")
        return group.topology
    sent = topology_of(request.topology)
    if group.topology is None:
        entries.append(topology_entry(group.id, sent))
        return sent
    if sent.epoch >= group.topology.epoch and sent != group.topology:
        raise errors.InvalidRequest("Topology updates are not supported yet.")
    return group.topology


def _check_tasks(owned: TaskAssignment, counts: Mapping[str, int]) -> None:
    for tasks in owned:
        for subtopology, partition in sorted(tasks):
            count = counts.get(subtopology)
            if count is None:
                raise errors.InvalidRequest(f"Subtopology {subtopology} does not exist in the topology.")
            if not 0 <= partition < count:
                raise errors.InvalidRequest(
                    f"Task {partition} for subtopology {subtopology} is invalid. Number of tasks for this subtopology: "
                    f"{count}"
                )


# Epochs and targets


def configured_topology(
    group: StreamsGroup, topology: StreamsTopology, facts: StreamsFacts
) -> ConfiguredTopology:
    """The topology with the topics that exist now; what was worked out for the same topics is used again."""
    if group.configured is not None and group.topology == topology and group.seen is facts.image.topics:
        return group.configured
    return configure(topology, facts.partitions)


def next_epoch(
    group: StreamsGroup,
    topology: StreamsTopology,
    configured: ConfiguredTopology,
    facts: StreamsFacts,
    changed: bool,
) -> tuple[int, list[CoordinatorRecord]]:
    """The group's epoch: a new one if `changed`, or if the topics or the settings of its target changed."""
    hashed = group.metadata_hash
    if group.configured is not configured:
        hashed = metadata_hash(topology.required_topics, facts.image)
    validated = NO_TOPOLOGY if configured.problem is not None else topology.epoch
    configs = _assignment_configs(facts)
    now = (hashed, validated, configs)
    if not changed and now == (group.metadata_hash, group.validated_epoch, group.last_configs):
        return group.epoch, []
    epoch = group.epoch + 1
    return epoch, [streams_epoch_entry(group.id, epoch, hashed, validated, configs)]


def _assignment_configs(facts: StreamsFacts) -> dict[str, str]:
    return {STANDBY_REPLICAS: str(facts.group_config.streams_num_standby_replicas)}


def assignment_wait_ms(group: StreamsGroup, facts: StreamsFacts) -> int:
    """The time until the assignment interval allows the next target; 0 if it is due."""
    interval_ms = facts.group_config.streams_assignment_interval_ms
    if not group.assignment_ms or not interval_ms:
        return 0
    return min(max(group.assignment_ms + interval_ms - facts.now_ms, 0), interval_ms)


def _target(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    epoch: int,
    configured: ConfiguredTopology,
    facts: StreamsFacts,
    statuses: dict[StreamsStatus, str],
) -> tuple[int, Mapping[str, TaskAssignment], list[CoordinatorRecord]]:
    """(the epoch of the target, the target, the records that change it)"""
    why = None
    if facts.delayed:
        why = "initial rebalance delay"
    elif group.assignment_epoch >= epoch:
        return group.assignment_epoch, group.targets, []
    elif assignment_wait_ms(group, facts):
        why = "assignment interval"
    if why is not None:
        statuses[StreamsStatus.ASSIGNMENT_DELAYED] = f"Assignment delayed due to the configured {why}."
        return group.assignment_epoch, group.targets, []
    target = new_target(group, members, configured, facts)
    return epoch, target, target_entries(group, target, epoch, facts.now_ms)


def new_target(
    group: StreamsGroup,
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    facts: StreamsFacts,
) -> dict[str, TaskAssignment]:
    """Nobody runs a task while the topics are missing or wrong."""
    if configured.problem is not None:
        return dict.fromkeys(members, NOTHING_ASSIGNED)
    return assign_tasks(
        {id: AssignableMember(member.process_id, group.target(id)) for id, member in members.items()},
        TaskCounts(configured.tasks, configured.stateful),
        facts.group_config.streams_num_standby_replicas,
    )


def target_entries(
    group: StreamsGroup, target: Mapping[str, TaskAssignment], epoch: int, now_ms: int
) -> list[CoordinatorRecord]:
    return [
        *(
            streams_target_entry(group.id, member, tasks)
            for member, tasks in target.items()
            if group.targets.get(member) != tasks
        ),
        streams_target_epoch_entry(group.id, epoch, now_ms),
    ]


# Without a heartbeat


def refreshed(
    group: StreamsGroup, facts: StreamsFacts
) -> tuple[list[CoordinatorRecord], ConfiguredTopology | None]:
    """What changed topics, settings or members make due: a new epoch, a new target.  (records, configured topology)"""
    if group.topology is None or not group.members:
        return [], None
    configured = configured_topology(group, group.topology, facts)
    epoch, entries = next_epoch(group, group.topology, configured, facts, changed=False)
    _, _, more = _target(group, group.members, epoch, configured, facts, {})
    return [*entries, *more], configured


def can_follow(group: StreamsGroup, member: StreamsMember) -> bool:
    """True if the member's next heartbeat advances it, whatever the heartbeat says."""
    if member.is_reconciled(group.assignment_epoch) or member.state is StreamsMemberState.UNKNOWN:
        return False
    taken = taken_tasks(member, group.members.values())
    return reconciled(member, group.assignment_epoch, group.target(member.id), taken, None) != member


def left(group: StreamsGroup, member_id: str) -> list[CoordinatorRecord]:
    """The records that remove a member: it left, or its session ended."""
    return [
        *gone_entries(group.id, member_id),
        streams_epoch_entry(
            group.id, group.epoch + 1, group.metadata_hash, group.validated_epoch, group.last_configs
        ),
    ]
