"""The embedded consumer protocol of classic groups: subscriptions and assignments that members exchange via the broker.

The broker passes these bytes on.  It reads them for two things only: which topics a group subscribes to, and whether a
cooperative rebalance will be followed by another one.  Bytes that cannot be decoded are ignored.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING

from tidelog import errors
from tidelog.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from tidelog.wire.primitives import Malformed

if TYPE_CHECKING:
    from tidelog.groups.classic.group import ClassicGroup

PROTOCOL_TYPE = "consumer"

_VERSION = Struct(">h")
_NOTHING: frozenset[tuple[str, int]] = frozenset()


def topics_of(subscription: bytes) -> list[str] | None:
    # Every version begins like version 0, which holds the topics.
    try:
        message, _ = ConsumerProtocolSubscription.decode_prefix(subscription, 0, _VERSION.size)
    except (Malformed, errors.TidelogError):
        return None
    return message.topics


def owned(subscription: bytes) -> frozenset[tuple[str, int]]:
    """The partitions that a member keeps during the rebalance; empty with the eager protocol, which revokes all first."""
    if len(subscription) < _VERSION.size:
        return _NOTHING
    try:
        (version,) = _VERSION.unpack_from(subscription)
        version_read = min(version, ConsumerProtocolSubscription.VERSIONS[1])
        message, _ = ConsumerProtocolSubscription.decode_prefix(subscription, version_read, _VERSION.size)
    except (Malformed, errors.TidelogError):
        return _NOTHING
    return _places((topic.topic, topic.partitions) for topic in message.owned_partitions)


def assigned(assignment: bytes) -> frozenset[tuple[str, int]]:
    if not assignment:
        return _NOTHING
    try:
        message, _ = ConsumerProtocolAssignment.decode_prefix(assignment, 0, _VERSION.size)
    except (Malformed, errors.TidelogError):
        return _NOTHING
    return _places((topic.topic, topic.partitions) for topic in message.assigned_partitions)


def _places(topics: Iterable[tuple[str, list[int]]]) -> frozenset[tuple[str, int]]:
    return frozenset((topic, partition) for topic, partitions in topics for partition in partitions)


def rejoins(group: ClassicGroup) -> bool:
    """True if some member has to revoke partitions: it then joins again at once, which makes all members rejoin."""
    if group.protocol_type != PROTOCOL_TYPE:
        return False
    return any(
        not owned(member.metadata(group.protocol)) <= assigned(member.assignment)
        for member in group.members.values()
    )
