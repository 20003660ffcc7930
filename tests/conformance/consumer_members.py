"""Members of consumer groups, request by request: what client libraries do, under the test's control."""

from __future__ import annotations

import time
import uuid
from typing import Any

from tests.conformance.raw import Connection
from tests.conformance.topics import describe

NONE = 0
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82
FENCED_MEMBER_EPOCH = 110
UNRELEASED_INSTANCE_ID = 111
UNSUPPORTED_ASSIGNOR = 112
STALE_MEMBER_EPOCH = 113
INVALID_REGULAR_EXPRESSION = 128

SETTLE_SECONDS_MAX = 180

Places = set[tuple[uuid.UUID, int]]


class ConsumerMember:
    """One member on a connection of its own, which follows its assignment at once."""

    def __init__(self, bootstrap: str, group: str, instance: str | None = None, version: int = 1) -> None:
        self.connection = Connection(bootstrap)
        self.group = group
        self.instance = instance
        self.version = version
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: Places = set()
        self.answer: Any = None

    def close(self) -> None:
        self.connection.close()

    def send(self, **fields: Any) -> int:
        """One heartbeat as given; the code.  An answer may be held back, but never that to another request."""
        wanted = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
            "rack_id": None,
            "rebalance_timeout": -1,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": None,
            **fields,
        }
        if self.version == 0:
            wanted.pop("subscribed_topic_regex")
        self.connection.send("consumer_group_heartbeat", self.version, **wanted)
        self.connection.send("api_versions", 0)
        _, self.answer = self.connection.receive("consumer_group_heartbeat", self.version)
        self.connection.receive("api_versions", 0)
        return int(self.answer.error_code)

    def join(self, *topics: str, **fields: Any) -> int:
        self.epoch, self.owned = 0, set()
        code = self.send(
            **{
                "subscribed_topic_names": list(topics),
                "rebalance_timeout": 60_000,
                "topic_partitions": [],
                **fields,
            }
        )
        self.learn(code)
        return code

    def beat(self, **fields: Any) -> int:
        code = self.send(**fields)
        self.learn(code)
        return code

    def learn(self, code: int) -> None:
        if code == NONE:
            self.id, self.epoch = self.answer.member_id, self.answer.member_epoch
            if self.answer.assignment is not None:
                self.owned = {
                    (one.topic_id, partition)
                    for one in self.answer.assignment.topic_partitions
                    for partition in one.partitions
                }

    def acknowledge(self) -> int:
        return self.beat(topic_partitions=self.said())

    def said(self) -> list[dict[str, Any]]:
        topics: dict[uuid.UUID, list[int]] = {}
        for topic, partition in sorted(self.owned):
            topics.setdefault(topic, []).append(partition)
        return [{"topic_id": topic, "partitions": partitions} for topic, partitions in topics.items()]

    def leave(self, epoch: int = -1) -> int:
        return self.send(member_epoch=epoch)

    def describe(self) -> Any:
        return self.connection.call(
            "consumer_group_describe", 1, group_ids=[self.group], include_authorized_operations=False
        ).groups[0]


def settle(*members: ConsumerMember) -> None:
    """Heartbeats of all of them, until the group is stable and each has what the group says it has."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        for member in members:
            assert member.acknowledge() == NONE, member.answer
        told = members[0].describe()
        known = {one.member_id: places(one.assignment) for one in told.members}
        if told.group_state == "Stable" and known == {member.id: member.owned for member in members}:
            return
        assert time.monotonic() < deadline, told
        time.sleep(0.05)


def places(assignment: Any) -> Places:
    return {(one.topic_id, partition) for one in assignment.topic_partitions for partition in one.partitions}


def topic_id(connection: Connection, topic: str) -> uuid.UUID:
    found = describe(connection, topic).topic_id
    assert isinstance(found, uuid.UUID)
    return found
