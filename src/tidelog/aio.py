"""The client for asyncio: `from tidelog.aio import Producer, Consumer, Admin`."""

from tidelog._speed.consumed import Record
from tidelog._speed.delivery import Delivery
from tidelog.client.admin import Admin
from tidelog.client.admin_security import DelegationToken
from tidelog.client.assignors import Assignor, Subscriber
from tidelog.client.batch import RecordMetadata
from tidelog.client.batch_delivery import BatchDelivery
from tidelog.client.configs import ConfigEntry, ConfigResource, ConfigSource
from tidelog.client.consumer import Consumer
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
from tidelog.client.producer import Producer
from tidelog.client.replica_states import PartitionState, ReplicaDoubt, ReplicaLog
from tidelog.client.security import Security
from tidelog.client.share_consumer import ShareConsumer
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
]
