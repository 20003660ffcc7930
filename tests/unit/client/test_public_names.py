"""What users may rely on.  A name that leaves these lists breaks somebody's code."""

from __future__ import annotations

import tidelog
import tidelog.aio


def test_the_package_offers_these_names() -> None:
    assert tidelog.__all__ == [
        "BufferExhausted",
        "ClientClosed",
        "Delivery",
        "DeliveryTimedOut",
        "GroupMetadata",
        "OffsetAndMetadata",
        "Producer",
        "RecordMetadata",
        "TidelogError",
        "TopicPartition",
        "TransactionAborted",
        "Unreachable",
        "__version__",
    ]
    assert all(getattr(tidelog, name) is not None for name in tidelog.__all__)


def test_the_asyncio_client_offers_these_names() -> None:
    assert tidelog.aio.__all__ == [
        "Admin",
        "BufferExhausted",
        "ClientClosed",
        "ClusterDescription",
        "CommitFailed",
        "ConfigEntry",
        "ConfigResource",
        "ConfigSource",
        "Consumer",
        "CreatedTopic",
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
        "Partition",
        "Producer",
        "RebalanceListener",
        "Record",
        "RecordMetadata",
        "ShareOffset",
        "Topic",
        "TopicPartition",
        "TransactionAborted",
        "Unreachable",
    ]
    assert all(hasattr(tidelog.aio, name) for name in tidelog.aio.__all__)


def test_what_only_clients_raise_is_a_tidelog_error() -> None:
    for name in ("BufferExhausted", "ClientClosed", "DeliveryTimedOut", "Unreachable"):
        assert issubclass(getattr(tidelog.aio, name), tidelog.TidelogError)
