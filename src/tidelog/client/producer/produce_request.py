"""Produce requests from batches, and their answers by partition.  Topics go by id where both sides know
ids."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, cast

from tidelog.client.cluster.topology import NO_ID, Topology
from tidelog.client.producer.batch import OutgoingBatch
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

NAMES_VERSION_MAX = 12  # later versions carry topic ids instead of names
# Later versions add the partition to the transaction by themselves.
ADDED_BEFORE_VERSION_MAX = 11


class ProduceTransaction(NamedTuple):
    """`implicit`: the produce request itself adds its partitions to the transaction."""

    transactional_id: str
    implicit: bool


class Produce:
    """A produce request whose batches are sent from where they are."""

    API_KEY: ClassVar[int] = ProduceRequest.API_KEY
    VERSIONS: ClassVar[tuple[int, int]] = ProduceRequest.VERSIONS

    def __init__(self, request: ProduceRequest) -> None:
        self.request = request

    def encode(self, version: int) -> bytes:
        return self.request.encode(version)

    def parts(self, version: int) -> list[bytes | memoryview]:
        """As `encode`, cut before and behind the batches."""
        if version < ProduceRequest.FLEXIBLE_FROM:
            return [self.encode(version)]
        request = self.request
        parts: list[bytes | memoryview] = []
        out = bytearray(_text(request.transactional_id))
        out += _START.pack(request.acks, request.timeout_ms) + _number(len(request.topic_data) + 1)
        for topic in request.topic_data:
            out += _text(topic.name) if version <= NAMES_VERSION_MAX else topic.topic_id.bytes
            out += _number(len(topic.partition_data) + 1)
            for partition in topic.partition_data:
                records = partition.records or b""
                out += _INT32.pack(partition.index) + _number(len(records) + 1)
                parts += (bytes(out), records)
                out = bytearray(1)
            out += b"\0"
        out += b"\0"
        return [*parts, bytes(out)]


_START = struct.Struct(">hi")
_INT32 = struct.Struct(">i")


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    raw = text.encode()
    return _number(len(raw) + 1) + raw


class ProduceCall(NamedTuple):
    """`names`: the topics by the ids they had when asked, whatever has been deleted or made again since."""

    request: Produce
    version: int
    names: dict[uuid.UUID, str]


def build_produce(
    connection: Requester,
    topology: Topology,
    batches: Sequence[OutgoingBatch],
    *,
    acks: int,
    timeout_ms: int,
    transaction: ProduceTransaction | None = None,
) -> ProduceCall:
    by_topic: dict[str, list[OutgoingBatch]] = {}
    for batch in batches:
        by_topic.setdefault(batch.partition.topic, []).append(batch)
    ids = {name: topic.id for name in by_topic if (topic := topology.topics.get(name)) is not None}
    all_have_ids = all(ids.get(name, NO_ID) != NO_ID for name in by_topic)
    most = None if all_have_ids else NAMES_VERSION_MAX
    if transaction is not None and not transaction.implicit:
        most = ADDED_BEFORE_VERSION_MAX
    version = connection.version_of(Produce, most)
    topics = [
        TopicProduceData(
            name=name,
            topic_id=ids.get(name, NO_ID),
            partition_data=[
                PartitionProduceData(index=batch.partition.partition, records=cast(bytes, batch.data))
                for batch in topic_batches
            ],
        )
        for name, topic_batches in by_topic.items()
    ]
    request = ProduceRequest(
        transactional_id=None if transaction is None else transaction.transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=topics,
    )
    return ProduceCall(Produce(request), version, {topic_id: name for name, topic_id in ids.items()})


def read_produce(
    answer: ProduceResponse, names: Mapping[uuid.UUID, str]
) -> dict[TopicPartition, PartitionProduceResponse]:
    responses = {}
    for topic in answer.responses:
        name = topic.name or names.get(topic.topic_id)
        if name is not None:
            for partition in topic.partition_responses:
                responses[TopicPartition(name, partition.index)] = partition
    return responses
