"""Subscriptions and assignments of classic consumers, as bytes that begin with a version (ConsumerProtocol).

Brokers pass these bytes on unread, except when a group migrates between the classic and the consumer protocol.  Pure."""

from __future__ import annotations

from struct import Struct
from typing import TypeVar
from uuid import UUID

from tidelog.groups.consumer.assignors import Partitions
from tidelog.metadata.image.image import Image
from tidelog.wire.message import Message
from tidelog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.wire.primitives import Malformed

_VERSION = Struct(">h")

M = TypeVar("M", bound=Message)


def read_version(data: bytes) -> int:
    """Raises Malformed if there is no version."""
    if len(data) < _VERSION.size:
        raise Malformed("the version of the consumer protocol is missing")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise Malformed(f"there is no version {version} of the consumer protocol")
    return int(version)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    return _read(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def write_assignment(partitions: Partitions, image: Image, version: int) -> bytes:
    named = []
    for topic_id, some in partitions.items():
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            named.append(TopicPartition(topic=topic.name, partitions=sorted(some)))
    version = min(version, ConsumerProtocolAssignment.VERSIONS[1])
    return _VERSION.pack(version) + ConsumerProtocolAssignment(assigned_partitions=named).encode(version)


def identified(
    message: ConsumerProtocolAssignment | ConsumerProtocolSubscription, image: Image
) -> Partitions:
    """The partitions in `message` whose topics exist, by topic id."""
    named = (
        message.assigned_partitions
        if isinstance(message, ConsumerProtocolAssignment)
        else message.owned_partitions
    )
    partitions: dict[UUID, frozenset[int]] = {}
    for topic_partitions in named:
        topic = image.topics.get(topic_partitions.topic)
        if topic is not None and topic_partitions.partitions:
            partitions[topic.id] = frozenset(topic_partitions.partitions) | partitions.get(
                topic.id, frozenset()
            )
    return partitions


def _read(kind: type[M], data: bytes) -> M:
    """A version newer than the newest supported one begins like that one."""
    version = min(read_version(data), kind.VERSIONS[1])
    message, _ = kind.decode_prefix(data, version, _VERSION.size)
    return message
