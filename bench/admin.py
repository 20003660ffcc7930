"""One blocking connection for everything around the load: topics, producer ids, settings."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import UUID

from tidelog import errors
from tidelog.wire.frame import RequestHeader, decode_response_header, encode_request
from tidelog.wire.message import Message
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

CLIENT_ID = "bench"
ANSWER_SECONDS_MAX = 120
TOPIC_RESOURCE = 2
SET = 0
LATEST = -1
RETRIES_MAX = 3_000  # ten milliseconds apart


class Topic(NamedTuple):
    name: str
    id: UUID
    partitions: int


class Identity(NamedTuple):
    """Of an idempotent producer."""

    producer_id: int
    epoch: int


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS_MAX)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)


class Admin:
    """Asks each API in the highest version that both sides know."""

    def __init__(self, port: int) -> None:
        self._connection = connect(port)
        self._versions: dict[int, int] = {ApiVersionsRequest.API_KEY: 0}
        served = self._ask(ApiVersionsRequest(), ApiVersionsResponse)
        self._versions = {api.api_key: api.max_version for api in served.api_keys}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def brokers(self) -> int:
        return len(self._ask(MetadataRequest(topics=[]), MetadataResponse).brokers)

    replication_factor = 1

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> Topic:
        """Returns when every partition has a leader."""
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=self.replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)
        (made,) = self._ask(request, CreateTopicsResponse).topics
        _check(made.error_code, f"create {name}: {made.error_message}")
        for _ in range(RETRIES_MAX):
            if self._led(name, partitions):
                break
            time.sleep(0.01)
        return Topic(name, made.topic_id, partitions)

    def _led(self, name: str, partitions: int) -> bool:
        """Metadata may speak of a leader before the broker knows that it is one, so the leader itself is asked."""
        asked = [ListOffsetsPartition(partition_index=i, timestamp=LATEST) for i in range(partitions)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=asked)])
        answered = self._ask(request, ListOffsetsResponse).topics[0].partitions
        return all(partition.error_code == 0 for partition in answered)

    def delete_topic(self, topic: Topic) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=60_000)
        (done,) = self._ask(request, DeleteTopicsResponse).responses
        _check(done.error_code, f"delete {topic.name}")

    def set_topic_config(self, topic: Topic, key: str, value: str) -> None:
        change = AlterableConfig(name=key, config_operation=SET, value=value)
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=topic.name, configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (done,) = self._ask(request, IncrementalAlterConfigsResponse).responses
        _check(done.error_code, f"set {key} of {topic.name}: {done.error_message}")

    def producer(self) -> Identity:
        for _ in range(RETRIES_MAX):
            made = self._ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
            # A broker that has just started may still be waiting for its block of producer ids.
            if made.error_code == 0 or not errors.by_code(made.error_code).retriable:
                break
            time.sleep(0.01)
        _check(made.error_code, "initialise a producer")
        return Identity(made.producer_id, made.producer_epoch)

    def _ask(self, request: Message, response: type[Any]) -> Any:
        key = request.API_KEY
        version = min(self._versions[key], request.VERSIONS[1])
        header = RequestHeader(key, version, 0, CLIENT_ID)
        self._connection.sendall(encode_request(header, request.encode(version)))
        (size,) = struct.unpack(">i", receive(self._connection, 4))
        frame = receive(self._connection, size)
        _correlation, at = decode_response_header(key, version, frame)
        return response.decode(frame, version, at)


def _check(code: int, what: str) -> None:
    if code:
        raise errors.by_code(code)(f"the broker refused to {what}")
