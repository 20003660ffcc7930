"""What classic consumers put into their groups' bytes: subscriptions and assignments, each after its version.

Brokers pass these bytes on unread, except where a group moves between the classic and the consumer protocol.  Pure."""

from __future__ import annotations

from struct import Struct
from typing import TypeVar
from uuid import UUID

from tidelog.groups.consumer.assignors import Partitions
from tidelog.metadata.image import Image
from tidelog.wire.message import Message
from tidelog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.wire.primitives import Malformed

_VERSION = Struct(">h")

M = TypeVar("M", bound=Message)


def read_version(data: bytes) -> int:
    """Malformed when there is none."""
    if len(data) < _VERSION.size:
        raise Malformed("there is no version of the consumer protocol")
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


def identified(said: ConsumerProtocolAssignment | ConsumerProtocolSubscription, image: Image) -> Partitions:
    """The partitions it names, of topics that exist."""
    named = (
        said.assigned_partitions if isinstance(said, ConsumerProtocolAssignment) else said.owned_partitions
    )
    found: dict[UUID, frozenset[int]] = {}
    for one in named:
        topic = image.topics.get(one.topic)
        if topic is not None and one.partitions:
            found[topic.id] = frozenset(one.partitions) | found.get(topic.id, frozenset())
    return found


def _read(kind: type[M], data: bytes) -> M:
    """A newer version than is known here begins like the newest known one."""
    version = min(read_version(data), kind.VERSIONS[1])
    message, _ = kind.decode_prefix(data, version, _VERSION.size)
    return message
