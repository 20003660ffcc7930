"""Members of classic groups, request by request: what client libraries do, under the test's control."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance.raw import Connection

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_METADATA_TOO_LARGE = 12
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
MEMBER_ID_REQUIRED = 79
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82
GROUP_SUBSCRIBED_TO_TOPIC = 86

COORDINATOR_SECONDS_MAX = 180


def await_coordinator(connection: Connection, group: str) -> None:
    """Asks until the group has a coordinator, which may have to be made, and to load."""
    deadline = time.monotonic() + COORDINATOR_SECONDS_MAX
    while True:
        found = connection.call("find_coordinator", 4, key_type=0, coordinator_keys=[group])
        code = found.coordinators[0].error_code
        if code == NONE:
            listed = connection.call("describe_groups", 5, groups=[group]).groups[0].error_code
            if listed == NONE:
                return
        assert time.monotonic() < deadline, f"no coordinator for {group}: {code!r}"
        time.sleep(0.05)


def subscription(*topics: str) -> bytes:
    """As consumers tell each other, version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return (0).to_bytes(2, "big") + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Member:
    """One member on a connection of its own."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"data"),),
        session_ms: int = 10_000,
        rebalance_ms: int = 10_000,
        version: int = 5,
        protocol_type: str = "consumer",
    ) -> None:
        self.connection = Connection(bootstrap)
        self.group = group
        self.instance = instance
        self.protocols = protocols
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.version = version
        self.protocol_type = protocol_type
        self.id = ""
        self.generation = -1
        self.leads = False
        self.others: list[Any] = []

    def close(self) -> None:
        self.connection.close()

    # Joining

    def send_join(self) -> None:
        self.connection.send(
            "join_group",
            self.version,
            group_id=self.group,
            session_timeout=self.session_ms,
            rebalance_timeout=self.rebalance_ms,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[{"name": name, "metadata": data} for name, data in self.protocols],
        )

    def receive_join(self) -> Any:
        _, answer = self.connection.receive("join_group", self.version)
        if answer.error_code == NONE:
            self.id, self.generation = answer.member_id, answer.generation_id
            self.leads = answer.leader == answer.member_id
            self.others = list(answer.members)
        elif answer.error_code == MEMBER_ID_REQUIRED:
            self.id = answer.member_id
        return answer

    def join(self) -> Any:
        """Returns when the group has all members, or refuses this one."""
        self.send_join()
        answer = self.receive_join()
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.send_join()
            answer = self.receive_join()
        return answer

    def announce(self) -> None:
        """Asks to join, and does not wait until the others have come."""
        self.send_join()
        if not self.id and self.instance is None and self.version >= 4:
            assert self.receive_join().error_code == MEMBER_ID_REQUIRED
            self.send_join()

    # Taking part

    def send_sync(self, assignments: dict[str, bytes] | None = None, generation: int | None = None) -> None:
        self.connection.send(
            "sync_group",
            3,
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id,
            group_instance_id=self.instance,
            assignments=[{"member_id": one, "assignment": data} for one, data in (assignments or {}).items()],
        )

    def receive_sync(self) -> Any:
        return self.connection.receive("sync_group", 3)[1]

    def sync(self, assignments: dict[str, bytes] | None = None, generation: int | None = None) -> Any:
        self.send_sync(assignments, generation)
        return self.receive_sync()

    def heartbeat(self, generation: int | None = None, member_id: str | None = None) -> int:
        """The answer may be held back for a while, but never behind it that to another request."""
        self.send_heartbeat(generation, member_id)
        self.connection.send("api_versions", 0)
        code = self.receive_heartbeat()
        self.connection.receive("api_versions", 0)
        return code

    def send_heartbeat(self, generation: int | None = None, member_id: str | None = None) -> None:
        self.connection.send(
            "heartbeat",
            3,
            group_id=self.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.id if member_id is None else member_id,
            group_instance_id=self.instance,
        )

    def receive_heartbeat(self) -> int:
        return int(self.connection.receive("heartbeat", 3)[1].error_code)

    def leave(self) -> int:
        return int(self.connection.call("leave_group", 2, group_id=self.group, member_id=self.id).error_code)

    def commit(self, topic: str, offset: int, generation: int | None = None, **changes: Any) -> int:
        metadata = changes.pop("metadata", "")
        partition = changes.pop("partition", 0)
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation if generation is None else generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            **changes,
        }
        return commit(self.connection, topic, offset, partition, metadata, **fields)

    def form(self) -> Member:
        """Alone in its group, with an assignment."""
        assert self.join().error_code == NONE
        assert self.sync({self.id: b"everything"}).error_code == NONE
        return self


def commit(
    connection: Connection,
    topic: str,
    offset: int,
    partition: int = 0,
    metadata: str | None = "",
    version: int = 8,
    **fields: Any,
) -> int:
    """The error code of the partition."""
    wanted = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
    answer = connection.call(
        "offset_commit", version, topics=[{"name": topic, "partitions": [wanted]}], **fields
    )
    return int(answer.topics[0].partitions[0].error_code)


def committed(connection: Connection, group: str, topic: str, partition: int = 0) -> int:
    """-1: none."""
    answer = connection.call(
        "offset_fetch", 5, group_id=group, topics=[{"name": topic, "partition_indexes": [partition]}]
    )
    assert answer.error_code == NONE
    found = answer.topics[0].partitions[0]
    assert found.error_code == NONE
    return int(found.committed_offset)
