"""Tidelog: a message queue that speaks the Kafka protocol; a broker, a client and a command line.

The public names are in `__all__` of this module, of `tidelog.aio`, `tidelog.schema` and `tidelog.testing`, and the
errors of `tidelog.errors`; everything else may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog._speed.consumed import Record
    from tidelog._speed.delivery import Delivery
    from tidelog.client.admin_security import DelegationToken
    from tidelog.client.assignors import Assignor, Subscriber
    from tidelog.client.batch import RecordMetadata
    from tidelog.client.batch_delivery import BatchDelivery
    from tidelog.client.blocking_admin import Admin
    from tidelog.client.blocking_consumer import Consumer
    from tidelog.client.blocking_producer import Producer
    from tidelog.client.blocking_share_consumer import ShareConsumer
    from tidelog.client.configs import ConfigEntry, ConfigResource, ConfigSource
    from tidelog.client.consumer_figures import ConsumerMetrics
    from tidelog.client.disks import LogDir
    from tidelog.client.environment import Environment
    from tidelog.client.errors import (
        BufferExhausted,
        ClientClosed,
        CommitFailed,
        DeliveryTimedOut,
        ProcessingFailed,
        TransactionAborted,
        Unreachable,
    )
    from tidelog.client.figures import ProducerMetrics
    from tidelog.client.group_metadata import GroupMetadata, OffsetAndMetadata
    from tidelog.client.groups import GroupDescription, GroupListing, GroupMember
    from tidelog.client.lag import Lag
    from tidelog.client.listener import RebalanceListener
    from tidelog.client.offset_store import OffsetStore
    from tidelog.client.offsets import OffsetAndTimestamp
    from tidelog.client.partition_admin import Reassignment
    from tidelog.client.prepared import PreparedTransaction
    from tidelog.client.replica_states import PartitionState, ReplicaDoubt, ReplicaLog
    from tidelog.client.security import Security
    from tidelog.client.share_offsets import ShareOffset
    from tidelog.client.topics import CreatedTopic, NewTopic
    from tidelog.client.topology import ClusterDescription, Node, Partition, Topic
    from tidelog.client.transaction_admin import ActiveProducer, TransactionDescription, TransactionListing
    from tidelog.errors import TidelogError
    from tidelog.types import TopicPartition
    from tidelog.wire.acls import (
        AclBinding,
        AclFilter,
        AclOperation,
        AclPatternType,
        AclPermission,
        AclResourceType,
    )
    from tidelog.wire.client_quotas import QuotaEntity

__version__ = "0.1.0"

__all__ = [
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermission",
    "AclResourceType",
    "ActiveProducer",
    "Admin",
    "Assignor",
    "BatchDelivery",
    "BufferExhausted",
    "ClientClosed",
    "ClusterDescription",
    "CommitFailed",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "Consumer",
    "ConsumerMetrics",
    "CreatedTopic",
    "DelegationToken",
    "Delivery",
    "DeliveryTimedOut",
    "Environment",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMetadata",
    "Lag",
    "LogDir",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetStore",
    "Partition",
    "PartitionState",
    "PreparedTransaction",
    "ProcessingFailed",
    "Producer",
    "ProducerMetrics",
    "QuotaEntity",
    "Reassignment",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "ReplicaDoubt",
    "ReplicaLog",
    "Security",
    "ShareConsumer",
    "ShareOffset",
    "Subscriber",
    "TidelogError",
    "Topic",
    "TopicPartition",
    "TransactionAborted",
    "TransactionDescription",
    "TransactionListing",
    "Unreachable",
    "__version__",
]

# Loaded when first asked for: the command line must not wait for what it does not use.
_HOMES = {
    "AclBinding": "tidelog.wire.acls",
    "AclFilter": "tidelog.wire.acls",
    "AclOperation": "tidelog.wire.acls",
    "AclPatternType": "tidelog.wire.acls",
    "AclPermission": "tidelog.wire.acls",
    "AclResourceType": "tidelog.wire.acls",
    "ActiveProducer": "tidelog.client.transaction_admin",
    "Admin": "tidelog.client.blocking_admin",
    "Assignor": "tidelog.client.assignors",
    "BatchDelivery": "tidelog.client.batch_delivery",
    "BufferExhausted": "tidelog.client.errors",
    "ClientClosed": "tidelog.client.errors",
    "ClusterDescription": "tidelog.client.topology",
    "CommitFailed": "tidelog.client.errors",
    "ConfigEntry": "tidelog.client.configs",
    "ConfigResource": "tidelog.client.configs",
    "ConfigSource": "tidelog.client.configs",
    "Consumer": "tidelog.client.blocking_consumer",
    "ConsumerMetrics": "tidelog.client.consumer_figures",
    "CreatedTopic": "tidelog.client.topics",
    "DelegationToken": "tidelog.client.admin_security",
    "Delivery": "tidelog._speed.delivery",
    "DeliveryTimedOut": "tidelog.client.errors",
    "Environment": "tidelog.client.environment",
    "GroupDescription": "tidelog.client.groups",
    "GroupListing": "tidelog.client.groups",
    "GroupMember": "tidelog.client.groups",
    "GroupMetadata": "tidelog.client.group_metadata",
    "Lag": "tidelog.client.lag",
    "LogDir": "tidelog.client.disks",
    "NewTopic": "tidelog.client.topics",
    "Node": "tidelog.client.topology",
    "OffsetAndMetadata": "tidelog.client.group_metadata",
    "OffsetAndTimestamp": "tidelog.client.offsets",
    "OffsetStore": "tidelog.client.offset_store",
    "Partition": "tidelog.client.topology",
    "PartitionState": "tidelog.client.replica_states",
    "PreparedTransaction": "tidelog.client.prepared",
    "ProcessingFailed": "tidelog.client.errors",
    "Producer": "tidelog.client.blocking_producer",
    "ProducerMetrics": "tidelog.client.figures",
    "QuotaEntity": "tidelog.wire.client_quotas",
    "Reassignment": "tidelog.client.partition_admin",
    "RebalanceListener": "tidelog.client.listener",
    "Record": "tidelog._speed.consumed",
    "RecordMetadata": "tidelog.client.batch",
    "ReplicaDoubt": "tidelog.client.replica_states",
    "ReplicaLog": "tidelog.client.replica_states",
    "Security": "tidelog.client.security",
    "ShareConsumer": "tidelog.client.blocking_share_consumer",
    "ShareOffset": "tidelog.client.share_offsets",
    "Subscriber": "tidelog.client.assignors",
    "TidelogError": "tidelog.errors",
    "Topic": "tidelog.client.topology",
    "TopicPartition": "tidelog.types",
    "TransactionAborted": "tidelog.client.errors",
    "TransactionDescription": "tidelog.client.transaction_admin",
    "TransactionListing": "tidelog.client.transaction_admin",
    "Unreachable": "tidelog.client.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
