"""One member of a streams group: what it said about itself, and its current tasks.

Immutable: a change makes a new member.  Two records hold it, as in Kafka: one for what it said, one for its tasks.
Pure; `StreamsGroup` owns it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from tidelog.coordination.records import CoordinatorRecord
from tidelog.groups.streams.tasks import (
    NOTHING_ASSIGNED,
    TaskAssignment,
    TaskId,
    Tasks,
    by_subtopology,
    tasks_of,
)
from tidelog.wire.messages.streams_group_current_member_assignment_record import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from tidelog.wire.messages.streams_group_member_metadata_record import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from tidelog.wire.messages.streams_group_target_assignment_member_record import (
    StreamsGroupTargetAssignmentMemberKey,
)

JOINING_EPOCH = 0
LEFT_EPOCH = -1
STATIC_LEFT_EPOCH = -2
NO_TOPOLOGY = -1

NO_EPOCHS: Mapping[TaskId, int] = {}


class StreamsMemberState(IntEnum):
    """The numbers are those of the records."""

    STABLE = 1
    UNREVOKED = 2  # the member must give tasks back, and has not confirmed that yet
    UNRELEASED = 3  # the member waits for tasks of its epoch that other processes still have
    UNKNOWN = 127  # written by a newer broker


class UserEndpoint(NamedTuple):
    """Where the application answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    id: str
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY
    process_id: str = ""
    """Members of one process share the folder of its stores: a task is there in one role at a time."""
    endpoint: UserEndpoint | None = None
    tags: tuple[tuple[str, str], ...] = ()
    epoch: int = JOINING_EPOCH
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: TaskAssignment = NOTHING_ASSIGNED
    revoking: TaskAssignment = NOTHING_ASSIGNED
    since: Mapping[TaskId, int] = field(default_factory=lambda: NO_EPOCHS)
    """The epoch at which the member got each of its active tasks, those that it gives back among them."""

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """True if the member has exactly what it was assigned at this epoch."""
        return self.state is StreamsMemberState.STABLE and self.epoch == assignment_epoch

    # Records

    def metadata_entry(self, group: str) -> CoordinatorRecord:
        return CoordinatorRecord(
            StreamsGroupMemberMetadataKey(group, self.id),
            StreamsGroupMemberMetadataValue(
                instance_id=self.instance_id,
                rack_id=self.rack,
                client_id=self.client_id,
                client_host=self.client_host,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                topology_epoch=self.topology_epoch,
                process_id=self.process_id,
                user_endpoint=None if self.endpoint is None else Endpoint(*self.endpoint),
                client_tags=[KeyValue(key, value) for key, value in self.tags],
            ),
        )

    def assignment_entry(self, group: str) -> CoordinatorRecord:
        return CoordinatorRecord(
            StreamsGroupCurrentMemberAssignmentKey(group, self.id),
            StreamsGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=self.state,
                active_tasks=_stored(self.assigned.active, self.since),
                standby_tasks=_stored(self.assigned.standby),
                warmup_tasks=_stored(self.assigned.warmup),
                active_tasks_pending_revocation=_stored(self.revoking.active, self.since),
                standby_tasks_pending_revocation=_stored(self.revoking.standby),
                warmup_tasks_pending_revocation=_stored(self.revoking.warmup),
            ),
        )


def description_of(value: StreamsGroupMemberMetadataValue) -> dict[str, object]:
    """The fields of a StreamsMember that StreamsGroupMemberMetadata holds."""
    endpoint = value.user_endpoint
    return {
        "instance_id": value.instance_id,
        "rack": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "topology_epoch": value.topology_epoch,
        "process_id": value.process_id,
        "endpoint": None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        "tags": tuple((tag.key, tag.value) for tag in value.client_tags),
    }


def current_tasks_of(value: StreamsGroupCurrentMemberAssignmentValue) -> dict[str, object]:
    """The fields of a StreamsMember that StreamsGroupCurrentMemberAssignment holds."""
    is_known = value.state in StreamsMemberState.__members__.values()
    since = dict(_epochs((*value.active_tasks, *value.active_tasks_pending_revocation), value.member_epoch))
    return {
        "epoch": value.member_epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": StreamsMemberState(value.state) if is_known else StreamsMemberState.UNKNOWN,
        "assigned": TaskAssignment(
            tasks_of(value.active_tasks), tasks_of(value.standby_tasks), tasks_of(value.warmup_tasks)
        ),
        "revoking": TaskAssignment(
            tasks_of(value.active_tasks_pending_revocation),
            tasks_of(value.standby_tasks_pending_revocation),
            tasks_of(value.warmup_tasks_pending_revocation),
        ),
        "since": since,
    }


def gone_entries(group: str, member: str) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group, member), None),
        CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group, member), None),
        CoordinatorRecord(StreamsGroupMemberMetadataKey(group, member), None),
    ]


def _stored(tasks: Tasks, since: Mapping[TaskId, int] | None = None) -> list[TaskIds]:
    return [
        TaskIds(
            subtopology,
            partitions,
            None if since is None else [since[subtopology, partition] for partition in partitions],
        )
        for subtopology, partitions in by_subtopology(tasks)
    ]


def _epochs(stored: Iterable[TaskIds], member_epoch: int) -> Iterable[tuple[TaskId, int]]:
    """Brokers before Kafka 4.3 wrote no epoch for each task."""
    for ids in stored:
        epochs = ids.assignment_epochs
        if epochs is None or len(epochs) != len(ids.partitions):
            epochs = [max(member_epoch, 0)] * len(ids.partitions)
        for partition, epoch in zip(ids.partitions, epochs, strict=True):
            yield (ids.subtopology_id, partition), epoch
