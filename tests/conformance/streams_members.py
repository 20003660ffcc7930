"""Members of streams groups, request by request: what Kafka Streams does, under the test's control."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from tests.conformance.raw import Connection

NONE = 0
UNKNOWN_MEMBER_ID = 25
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
GROUP_MAX_SIZE_REACHED = 81
FENCED_MEMBER_EPOCH = 110
STALE_MEMBER_EPOCH = 113
STREAMS_INVALID_TOPOLOGY = 130

STALE_TOPOLOGY, MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED_TOPICS = 0, 1, 2
MISSING_INTERNAL_TOPICS, SHUTDOWN_APPLICATION, ASSIGNMENT_DELAYED = 3, 4, 5

SETTLE_SECONDS_MAX = 180

Tasks = dict[str, list[int]]


def changelog(name: str) -> dict[str, Any]:
    return topic_info(name, topic_configs=[{"key": "cleanup.policy", "value": "compact"}])


def topic_info(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "partitions": 0, "replication_factor": 0, "topic_configs": [], **fields}


def subtopology(id: str, *sources: str, **fields: Any) -> dict[str, Any]:
    """A part of a topology that reads these topics."""
    return {
        "subtopology_id": id,
        "source_topics": list(sources),
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
        **fields,
    }


def topology(*subtopologies: Mapping[str, Any], epoch: int = 0) -> dict[str, Any]:
    return {"epoch": epoch, "subtopologies": list(subtopologies)}


class StreamsMember:
    """One member on a connection of its own, which follows its assignment at once."""

    def __init__(self, bootstrap: str, group: str, process: str = "") -> None:
        self.connection = Connection(bootstrap)
        self.group = group
        self.id = str(uuid.uuid4())
        self.process = process or str(uuid.uuid4())
        self.epoch = 0
        self.endpoints_epoch = 0
        self.active: Tasks = {}
        self.standby: Tasks = {}
        self.answer: Any = None

    def close(self) -> None:
        self.connection.close()

    def send(self, **fields: Any) -> int:
        """One heartbeat as given; the code.  An answer may be held back, but never that to another request."""
        wanted = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": self.endpoints_epoch,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": -1,
            "topology": None,
            "active_tasks": None,
            "standby_tasks": None,
            "warmup_tasks": None,
            "process_id": None,
            "user_endpoint": None,
            "client_tags": None,
            "task_offsets": None,
            "task_end_offsets": None,
            "shutdown_application": False,
            **fields,
        }
        self.connection.send("streams_group_heartbeat", 0, **wanted)
        self.connection.send("api_versions", 0)
        _, self.answer = self.connection.receive("streams_group_heartbeat", 0)
        self.connection.receive("api_versions", 0)
        return int(self.answer.error_code)

    def join(self, topology: Mapping[str, Any] | None, /, **fields: Any) -> int:
        self.epoch, self.active, self.standby = 0, {}, {}
        return self.learn(
            self.send(
                **{
                    "topology": topology,
                    "rebalance_timeout": 60_000,
                    "process_id": self.process,
                    "active_tasks": [],
                    "standby_tasks": [],
                    "warmup_tasks": [],
                    "client_tags": [],
                    **fields,
                }
            )
        )

    def beat(self, **fields: Any) -> int:
        return self.learn(self.send(**fields))

    def learn(self, code: int) -> int:
        if code == NONE:
            self.epoch = self.answer.member_epoch
            self.endpoints_epoch = self.answer.endpoint_information_epoch
            if self.answer.active_tasks is not None:
                self.active = tasks(self.answer.active_tasks)
                self.standby = tasks(self.answer.standby_tasks)
        return code

    def acknowledge(self, **fields: Any) -> int:
        """A heartbeat that names the tasks that the member has."""
        owned = {"active_tasks": said(self.active), "standby_tasks": said(self.standby), "warmup_tasks": []}
        return self.beat(**owned, **fields)

    def leave(self, **fields: Any) -> int:
        return self.send(member_epoch=-1, **fields)

    def describe(self) -> Any:
        return self.connection.call(
            "streams_group_describe", 0, group_ids=[self.group], include_authorized_operations=False
        ).groups[0]

    @property
    def statuses(self) -> dict[int, str]:
        return {status.status_code: status.status_detail for status in self.answer.status or ()}


def settle(*members: StreamsMember) -> None:
    """Heartbeats of all of them, until the group is stable and each has what the group says it has."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        for member in members:
            assert member.acknowledge() == NONE, member.answer
        told = members[0].describe()
        known = {
            one.member_id: (tasks(one.assignment.active_tasks), tasks(one.assignment.standby_tasks))
            for one in told.members
        }
        if told.group_state == "Stable" and known == {
            member.id: (member.active, member.standby) for member in members
        }:
            return
        assert time.monotonic() < deadline, told
        time.sleep(0.05)


def tasks(told: Iterable[Any]) -> Tasks:
    return {one.subtopology_id: sorted(one.partitions) for one in told if one.partitions}


def said(owned: Tasks) -> list[dict[str, Any]]:
    return [{"subtopology_id": id, "partitions": partitions} for id, partitions in owned.items()]
