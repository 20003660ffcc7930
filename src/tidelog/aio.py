"""The client for asyncio: `from tidelog.aio import Producer, Consumer, Admin`."""

from tidelog._speed.client.consumed import Record
from tidelog._speed.client.delivery import Delivery
from tidelog.client.admin.admin import Admin
from tidelog.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource
from tidelog.client.admin.groups import GroupDescription, GroupListing, GroupMember
from tidelog.client.admin.lag import Lag
from tidelog.client.admin.log_dirs import LogDir
from tidelog.client.admin.partition_admin import Reassignment
from tidelog.client.admin.replica_states import PartitionState, ReplicaDoubt, ReplicaLog
from tidelog.client.admin.security_admin import DelegationToken
from tidelog.client.admin.share_group_offsets import ShareOffset
from tidelog.client.admin.topics import CreatedTopic, NewTopic
from tidelog.client.admin.transaction_admin import ActiveProducer, TransactionDescription, TransactionListing
from tidelog.client.cluster.list_offsets import OffsetAndTimestamp
from tidelog.client.cluster.topology import ClusterDescription, Node, Partition, Topic
from tidelog.client.consumer.consumer import Consumer
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
from tidelog.client.producer.producer import Producer
from tidelog.client.security.security import Security
from tidelog.client.share.consumer import ShareConsumer
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
]
