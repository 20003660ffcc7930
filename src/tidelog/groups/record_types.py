"""The record types of `__consumer_offsets`: classic, consumer, share and streams groups, and committed
offsets.

The versions are those that Kafka 4.3 writes; all older versions are read.  Types that are not listed are ignored
when the topic is loaded.  Pure."""

from __future__ import annotations

from tidelog.coordination.records import RecordType, RecordTypes
from tidelog.wire.messages.consumer_group_current_member_assignment_record import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from tidelog.wire.messages.consumer_group_member_metadata_record import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from tidelog.wire.messages.consumer_group_metadata_record import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from tidelog.wire.messages.consumer_group_partition_metadata_record import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from tidelog.wire.messages.consumer_group_regular_expression_record import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from tidelog.wire.messages.consumer_group_target_assignment_member_record import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from tidelog.wire.messages.consumer_group_target_assignment_metadata_record import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tidelog.wire.messages.group_metadata_record import GroupMetadataKey, GroupMetadataValue
from tidelog.wire.messages.legacy_offset_commit_record import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from tidelog.wire.messages.offset_commit_record import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.share_group_current_member_assignment_record import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
)
from tidelog.wire.messages.share_group_member_metadata_record import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from tidelog.wire.messages.share_group_metadata_record import ShareGroupMetadataKey, ShareGroupMetadataValue
from tidelog.wire.messages.share_group_state_partition_metadata_record import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from tidelog.wire.messages.share_group_target_assignment_member_record import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
)
from tidelog.wire.messages.share_group_target_assignment_metadata_record import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from tidelog.wire.messages.streams_group_current_member_assignment_record import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from tidelog.wire.messages.streams_group_member_metadata_record import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from tidelog.wire.messages.streams_group_metadata_record import (
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from tidelog.wire.messages.streams_group_target_assignment_member_record import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
)
from tidelog.wire.messages.streams_group_target_assignment_metadata_record import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from tidelog.wire.messages.streams_group_topology_record import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

_OFFSET_VERSION = 4
_OFFSET_VERSION_WITH_EXPIRY = 1  # the only version that carries a time of expiry of its own
_GROUP_VERSION = 3


def _offset_version(value: OffsetCommitValue) -> int:
    return _OFFSET_VERSION if value.expire_timestamp == -1 else _OFFSET_VERSION_WITH_EXPIRY


KINDS = RecordTypes(
    RecordType(LegacyOffsetCommitKey, LegacyOffsetCommitValue, 0),
    RecordType(OffsetCommitKey, OffsetCommitValue, _offset_version),
    RecordType(GroupMetadataKey, GroupMetadataValue, _GROUP_VERSION),
    RecordType(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0),
    RecordType(ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0),
    RecordType(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0),
    RecordType(ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0),
    RecordType(ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0),
    RecordType(ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0),
    RecordType(ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0),
    RecordType(ShareGroupMetadataKey, ShareGroupMetadataValue, 0),
    RecordType(ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, 0),
    RecordType(ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue, 0),
    RecordType(ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue, 0),
    RecordType(ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue, 0),
    RecordType(ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue, 0),
    RecordType(StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue, 0),
    RecordType(StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue, 0),
    RecordType(StreamsGroupMetadataKey, StreamsGroupMetadataValue, 0),
    RecordType(StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue, 0),
    RecordType(StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue, 0),
    RecordType(StreamsGroupTopologyKey, StreamsGroupTopologyValue, 0),
)
