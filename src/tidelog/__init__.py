"""Tidelog: a message queue that speaks the Kafka protocol; a broker, a client and a command line.

The public names are in `__all__` of this module and of `tidelog.aio`; everything else may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog._speed.consumed import Record
    from tidelog._speed.delivery import Delivery
    from tidelog.client.batch import RecordMetadata
    from tidelog.client.batch_delivery import BatchDelivery
    from tidelog.client.blocking_admin import Admin
    from tidelog.client.blocking_consumer import Consumer
    from tidelog.client.blocking_producer import Producer
    from tidelog.client.blocking_share_consumer import ShareConsumer
    from tidelog.client.configs import ConfigResource
    from tidelog.client.consumer_figures import ConsumerMetrics
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
    from tidelog.client.listener import RebalanceListener
    from tidelog.client.offset_store import OffsetStore
    from tidelog.client.security import Security
    from tidelog.client.topics import NewTopic
    from tidelog.errors import TidelogError
    from tidelog.types import TopicPartition

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "BatchDelivery",
    "BufferExhausted",
    "ClientClosed",
    "CommitFailed",
    "ConfigResource",
    "Consumer",
    "ConsumerMetrics",
    "Delivery",
    "DeliveryTimedOut",
    "GroupMetadata",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetStore",
    "ProcessingFailed",
    "Producer",
    "ProducerMetrics",
    "RebalanceListener",
    "Record",
    "RecordMetadata",
    "Security",
    "ShareConsumer",
    "TidelogError",
    "TopicPartition",
    "TransactionAborted",
    "Unreachable",
    "__version__",
]

# Loaded when first asked for: the command line must not wait for what it does not use.
_HOMES = {
    "Admin": "tidelog.client.blocking_admin",
    "BatchDelivery": "tidelog.client.batch_delivery",
    "BufferExhausted": "tidelog.client.errors",
    "ClientClosed": "tidelog.client.errors",
    "CommitFailed": "tidelog.client.errors",
    "ConfigResource": "tidelog.client.configs",
    "Consumer": "tidelog.client.blocking_consumer",
    "ConsumerMetrics": "tidelog.client.consumer_figures",
    "Delivery": "tidelog._speed.delivery",
    "DeliveryTimedOut": "tidelog.client.errors",
    "GroupMetadata": "tidelog.client.group_metadata",
    "NewTopic": "tidelog.client.topics",
    "OffsetAndMetadata": "tidelog.client.group_metadata",
    "ProcessingFailed": "tidelog.client.errors",
    "OffsetStore": "tidelog.client.offset_store",
    "Producer": "tidelog.client.blocking_producer",
    "ProducerMetrics": "tidelog.client.figures",
    "RebalanceListener": "tidelog.client.listener",
    "Record": "tidelog._speed.consumed",
    "RecordMetadata": "tidelog.client.batch",
    "ShareConsumer": "tidelog.client.blocking_share_consumer",
    "Security": "tidelog.client.security",
    "TidelogError": "tidelog.errors",
    "TopicPartition": "tidelog.types",
    "TransactionAborted": "tidelog.client.errors",
    "Unreachable": "tidelog.client.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
