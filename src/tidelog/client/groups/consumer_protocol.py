"""What members of a classic group tell each other, in the form all of Kafka's clients read.  Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tidelog import errors
from tidelog.client.groups.assignors import Subscriber
from tidelog.types import TopicPartition
from tidelog.wire.messages import consumer_protocol_assignment, consumer_protocol_subscription
from tidelog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_VERSION = struct.Struct(">h")
VERSION = 3
OWNED_VERSION_MIN = 1


def pack_subscription(
    topics: Iterable[str],
    user_data: bytes | None,
    owned: Iterable[TopicPartition],
    generation: int,
    rack: str | None,
) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        user_data=user_data,
        owned_partitions=[
            consumer_protocol_subscription.TopicPartition(topic, indexes)
            for topic, indexes in by_topic(owned).items()
        ],
        generation_id=generation,
        rack_id=rack,
    )
    return _VERSION.pack(VERSION) + message.encode(VERSION)


def unpack_subscription(member_id: str, instance_id: str | None, data: bytes) -> Subscriber:
    version = _version(data, f"member {member_id}")
    message, _ = ConsumerProtocolSubscription.decode_prefix(data, version, _VERSION.size)
    owned = message.owned_partitions if version >= OWNED_VERSION_MIN else []
    return Subscriber(
        member_id=member_id,
        topics=tuple(message.topics),
        owned=tuple(TopicPartition(topic.topic, index) for topic in owned for index in topic.partitions),
        generation=message.generation_id,
        user_data=message.user_data,
        instance_id=instance_id,
        rack=message.rack_id,
    )


def pack_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            consumer_protocol_assignment.TopicPartition(topic, indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    )
    return _VERSION.pack(VERSION) + message.encode(VERSION)


def unpack_assignment(data: bytes) -> list[TopicPartition]:
    if not data:
        return []
    version = _version(data, "the group's leader")
    message, _ = ConsumerProtocolAssignment.decode_prefix(data, version, _VERSION.size)
    return [
        TopicPartition(topic.topic, index)
        for topic in message.assigned_partitions
        for index in topic.partitions
    ]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def _version(data: bytes, member_id: str) -> int:
    if len(data) < _VERSION.size:
        raise errors.InconsistentGroupProtocol(
            f"{member_id} has sent no consumer protocol: is it another kind of group?"
        )
    (version,) = _VERSION.unpack_from(data)
    # A newer version only adds to the end of what we know.
    return max(0, min(int(version), VERSION))
