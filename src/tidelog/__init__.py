"""Tidelog: a message queue that speaks the Kafka protocol; a broker, a client and a command line.

The public names are in `__all__` of this module, of `tidelog.aio`, `tidelog.schema` and `tidelog.testing`, and the
errors of `tidelog.errors`; everything else may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog._speed.client.consumed import Record
    from tidelog._speed.client.delivery import Delivery
    from tidelog.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource
    from tidelog.client.admin.groups import GroupDescription, GroupListing, GroupMember
    from tidelog.client.admin.lag import Lag
    from tidelog.client.admin.log_dirs import LogDir
    from tidelog.client.admin.partition_admin import Reassignment
    from tidelog.client.admin.replica_states import PartitionState, ReplicaDoubt, ReplicaLog
    from tidelog.client.admin.security_admin import DelegationToken
    from tidelog.client.admin.share_group_offsets import ShareOffset
    from tidelog.client.admin.topics import CreatedTopic, NewTopic
    from tidelog.client.admin.transaction_admin import (
        ActiveProducer,
        TransactionDescription,
        TransactionListing,
    )
    from tidelog.client.blocking.admin import Admin
    from tidelog.client.blocking.consumer import Consumer
    from tidelog.client.blocking.producer import Producer
    from tidelog.client.blocking.sample import sample
    from tidelog.client.blocking.share_consumer import ShareConsumer
    from tidelog.client.cluster.list_offsets import OffsetAndTimestamp
    from tidelog.client.cluster.topology import ClusterDescription, Node, Partition, Topic
    from tidelog.client.consumer.metrics import ConsumerMetrics
    from tidelog.client.consumer.offset_store import OffsetStore
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
    from tidelog.client.groups.assignors import Assignor, Subscriber
    from tidelog.client.groups.metadata import GroupMetadata, OffsetAndMetadata
    from tidelog.client.groups.rebalance_listener import RebalanceListener
    from tidelog.client.producer.batch import RecordMetadata
    from tidelog.client.producer.batch_delivery import BatchDelivery
    from tidelog.client.producer.metrics import ProducerMetrics
    from tidelog.client.security.security import Security
    from tidelog.client.transactions.prepared import PreparedTransaction
    from tidelog.errors import TidelogError
    from tidelog.net.token_client import ClientCredentials
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
    "ClientCredentials",
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
    "sample",
]

# Loaded when first asked for: the command line must not wait for what it does not use.
_HOMES = {
    "sample": "tidelog.client.blocking.sample",
    "AclBinding": "tidelog.wire.acls",
    "AclFilter": "tidelog.wire.acls",
    "AclOperation": "tidelog.wire.acls",
    "AclPatternType": "tidelog.wire.acls",
    "AclPermission": "tidelog.wire.acls",
    "AclResourceType": "tidelog.wire.acls",
    "DelegationToken": "tidelog.client.admin.security_admin",
    "QuotaEntity": "tidelog.wire.client_quotas",
    "ActiveProducer": "tidelog.client.admin.transaction_admin",
    "Admin": "tidelog.client.blocking.admin",
    "Assignor": "tidelog.client.groups.assignors",
    "BatchDelivery": "tidelog.client.producer.batch_delivery",
    "BufferExhausted": "tidelog.client.errors",
    "ClientClosed": "tidelog.client.errors",
    "ClientCredentials": "tidelog.net.token_client",
    "ClusterDescription": "tidelog.client.cluster.topology",
    "CommitFailed": "tidelog.client.errors",
    "ConfigEntry": "tidelog.client.admin.configs",
    "ConfigResource": "tidelog.client.admin.configs",
    "ConfigSource": "tidelog.client.admin.configs",
    "Consumer": "tidelog.client.blocking.consumer",
    "ConsumerMetrics": "tidelog.client.consumer.metrics",
    "CreatedTopic": "tidelog.client.admin.topics",
    "Delivery": "tidelog._speed.client.delivery",
    "DeliveryTimedOut": "tidelog.client.errors",
    "Environment": "tidelog.client.environment",
    "GroupDescription": "tidelog.client.admin.groups",
    "GroupListing": "tidelog.client.admin.groups",
    "GroupMember": "tidelog.client.admin.groups",
    "GroupMetadata": "tidelog.client.groups.metadata",
    "Lag": "tidelog.client.admin.lag",
    "LogDir": "tidelog.client.admin.log_dirs",
    "NewTopic": "tidelog.client.admin.topics",
    "Node": "tidelog.client.cluster.topology",
    "OffsetAndMetadata": "tidelog.client.groups.metadata",
    "OffsetAndTimestamp": "tidelog.client.cluster.list_offsets",
    "OffsetStore": "tidelog.client.consumer.offset_store",
    "Partition": "tidelog.client.cluster.topology",
    "PartitionState": "tidelog.client.admin.replica_states",
    "PreparedTransaction": "tidelog.client.transactions.prepared",
    "ProcessingFailed": "tidelog.client.errors",
    "Producer": "tidelog.client.blocking.producer",
    "ProducerMetrics": "tidelog.client.producer.metrics",
    "Reassignment": "tidelog.client.admin.partition_admin",
    "RebalanceListener": "tidelog.client.groups.rebalance_listener",
    "Record": "tidelog._speed.client.consumed",
    "RecordMetadata": "tidelog.client.producer.batch",
    "ReplicaDoubt": "tidelog.client.admin.replica_states",
    "ReplicaLog": "tidelog.client.admin.replica_states",
    "Security": "tidelog.client.security.security",
    "ShareConsumer": "tidelog.client.blocking.share_consumer",
    "ShareOffset": "tidelog.client.admin.share_group_offsets",
    "Subscriber": "tidelog.client.groups.assignors",
    "TidelogError": "tidelog.errors",
    "Topic": "tidelog.client.cluster.topology",
    "TopicPartition": "tidelog.types",
    "TransactionAborted": "tidelog.client.errors",
    "TransactionDescription": "tidelog.client.admin.transaction_admin",
    "TransactionListing": "tidelog.client.admin.transaction_admin",
    "Unreachable": "tidelog.client.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
