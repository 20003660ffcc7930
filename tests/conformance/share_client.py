"""A share consumer of the smallest kind: one blocking connection, one request at a time, every field in the test's hand."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from importlib import import_module
from typing import Any

from tidelog.wire.apis import APIS
from tidelog.wire.frame import RequestHeader, decode_response_header, encode_request
from tidelog.wire.messages import incremental_alter_configs as configs
from tidelog.wire.messages import share_acknowledge as ack
from tidelog.wire.messages import share_fetch as fetch
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GAP = 0
GROUP = 32  # the type of a group in requests about settings
JOIN, LEAVE = 0, -1
FINAL = -1
RESPONSE_SECONDS_MAX = 180
EVERY_S = 0.1

# What the broker allows groups to set, and small topics for one broker.
SHARE_SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "auto.create.topics.enable": "true",
}


class Asking:
    """One connection that asks with Tidelog's own messages."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=RESPONSE_SECONDS_MAX)
        self._correlation_id = 0

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, request: Any, version: int | None = None) -> Any:
        api = APIS[request.API_KEY]
        version = api.stable_max if version is None else version
        self.send(request, version)
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        correlation_id, at = decode_response_header(request.API_KEY, version, frame)
        assert correlation_id == self._correlation_id
        response = getattr(import_module(f"tidelog.wire.messages.{api.module}"), f"{api.name}Response")
        return response.decode(frame, version, at)

    def send(self, request: Any, version: int) -> None:
        self._correlation_id += 1
        header = RequestHeader(request.API_KEY, version, self._correlation_id, "share-test")
        self.socket.sendall(encode_request(header, request.encode(version)))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


def set_group(bootstrap: str, group: str, **settings: str) -> None:
    """Settings of a group: `share_auto_offset_reset="earliest"`."""
    changes = [configs.AlterableConfig(name.replace("_", "."), 0, value) for name, value in settings.items()]
    with Asking(bootstrap) as asking:
        request = configs.IncrementalAlterConfigsRequest(
            [configs.AlterConfigsResource(GROUP, group, changes)]
        )
        (answer,) = asking.ask(request).responses
        assert answer.error_code == 0, answer


class ShareMember(Asking):
    """A member of a share group; `epoch` is the member's, `session` the share session's next one."""

    def __init__(self, bootstrap: str, group: str, member: str | None = None) -> None:
        super().__init__(bootstrap)
        self.group = group
        self.member = member or str(uuid.uuid4())
        self.epoch = 0
        self.session = 0
        self.assigned: dict[uuid.UUID, list[int]] = {}

    def beat(self, topics: list[str] | None = None, **fields: Any) -> Any:
        asked = {"group_id": self.group, "member_id": self.member, "member_epoch": self.epoch, **fields}
        answer = self.ask(ShareGroupHeartbeatRequest(subscribed_topic_names=topics, **asked))
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
        return answer

    def join(self, *topics: str, partitions: int = 1) -> list[tuple[uuid.UUID, int]]:
        """Comes back when that many partitions are assigned: Kafka makes their state in the background."""
        self.ask(
            FindCoordinatorRequest(coordinator_keys=[self.group])
        )  # makes the topic of groups, the first time
        self.beat(list(topics))
        deadline = time.monotonic() + RESPONSE_SECONDS_MAX
        while sum(map(len, self.assigned.values())) < partitions:
            assert time.monotonic() < deadline, f"assigned: {self.assigned}"
            time.sleep(EVERY_S)
            if self.beat(list(topics) if not self.epoch else None).error_code:
                self.epoch = 0
        return [(topic, index) for topic, indexes in self.assigned.items() for index in indexes]

    def fetch(
        self,
        parts: list[tuple[uuid.UUID, int]] = (),  # type: ignore[assignment]
        acks: dict[tuple[uuid.UUID, int], list[tuple[int, int, list[int]]]] | None = None,
        version: int = 2,
        **fields: Any,
    ) -> Any:
        batches = {
            part: [fetch.AcknowledgementBatch(*one) for one in ranges]
            for part, ranges in (acks or {}).items()
        }
        asked = {
            "group_id": self.group,
            "member_id": self.member,
            "share_session_epoch": self.session,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [
                fetch.FetchTopic(topic, [fetch.FetchPartition(index, batches.get((topic, index), []))])
                for topic, index in dict.fromkeys([*parts, *batches])
            ],
            **fields,
        }
        answer = self.ask(fetch.ShareFetchRequest(**asked), version)
        if answer.error_code == 0:
            self.session = asked["share_session_epoch"] + 1
        return answer

    def send_fetch(self, max_wait_ms: int) -> None:
        """Asks, and does not wait for the answer."""
        asked = fetch.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.session,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_records=500,
            batch_size=500,
        )
        self.send(asked, 2)

    def acknowledge(
        self,
        acks: dict[tuple[uuid.UUID, int], list[tuple[int, int, list[int]]]],
        version: int = 2,
        **fields: Any,
    ) -> Any:
        asked = {
            "group_id": self.group,
            "member_id": self.member,
            "share_session_epoch": self.session,
            "topics": [
                ack.AcknowledgeTopic(
                    topic,
                    [ack.AcknowledgePartition(index, [ack.AcknowledgementBatch(*one) for one in ranges])],
                )
                for (topic, index), ranges in acks.items()
            ],
            **fields,
        }
        answer = self.ask(ack.ShareAcknowledgeRequest(**asked), version)
        if answer.error_code == 0:
            self.session = asked["share_session_epoch"] + 1
        return answer


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    """(first, last, delivery count) of everything that a fetch gave."""
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        for one in part.acquired_records
    ]


def acknowledge_codes(answer: Any) -> list[int]:
    return [
        part.acknowledge_error_code if hasattr(part, "acknowledge_error_code") else part.error_code
        for topic in answer.responses
        for part in topic.partitions
    ]
