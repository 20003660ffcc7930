"""What members of a classic group say to each other through the broker, where it is the protocol of consumers.

The broker only passes it on, and looks at it for two things: which topics a group reads, and whether a cooperative
rebalance will be followed by another one.  What cannot be read is passed over.  Pure."""

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
    # Every version begins like version 0, which has the topics.
    try:
        said, _ = ConsumerProtocolSubscription.decode_prefix(subscription, 0, _VERSION.size)
    except (Malformed, errors.TidelogError):
        return None
    return said.topics


def owned(subscription: bytes) -> frozenset[tuple[str, int]]:
    """What a member says it keeps while the group rebalances: nothing, where it gives all up before it joins."""
    if len(subscription) < _VERSION.size:
        return _NOTHING
    try:
        (version,) = _VERSION.unpack_from(subscription)
        known = min(version, ConsumerProtocolSubscription.VERSIONS[1])
        said, _ = ConsumerProtocolSubscription.decode_prefix(subscription, known, _VERSION.size)
    except (Malformed, errors.TidelogError):
        return _NOTHING
    return _places((one.topic, one.partitions) for one in said.owned_partitions)


def assigned(assignment: bytes) -> frozenset[tuple[str, int]]:
    if not assignment:
        return _NOTHING
    try:
        said, _ = ConsumerProtocolAssignment.decode_prefix(assignment, 0, _VERSION.size)
    except (Malformed, errors.TidelogError):
        return _NOTHING
    return _places((one.topic, one.partitions) for one in said.assigned_partitions)


def _places(topics: Iterable[tuple[str, list[int]]]) -> frozenset[tuple[str, int]]:
    return frozenset((topic, partition) for topic, partitions in topics for partition in partitions)


def rejoins(group: ClassicGroup) -> bool:
    """Does a member have to give something up?  It then joins again at once, and all others have to."""
    if group.protocol_type != PROTOCOL_TYPE:
        return False
    return any(
        not owned(member.metadata(group.protocol)) <= assigned(member.assignment)
        for member in group.members.values()
    )
