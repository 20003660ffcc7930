"""What users may rely on.  A name that leaves these lists breaks somebody's code."""

from __future__ import annotations

import tidelog
import tidelog.aio


def test_the_package_offers_these_names() -> None:
    assert sorted(tidelog.__all__) == ["TidelogError", "TopicPartition", "__version__"]
    assert all(getattr(tidelog, name) is not None for name in tidelog.__all__)


def test_the_asyncio_client_offers_these_names() -> None:
    assert tidelog.aio.__all__ == [
        "Admin",
        "BufferExhausted",
        "ClientClosed",
        "ClusterDescription",
        "ConfigEntry",
        "ConfigResource",
        "ConfigSource",
        "Consumer",
        "CreatedTopic",
        "DeliveryTimedOut",
        "Environment",
        "LogDir",
        "NewTopic",
        "Node",
        "OffsetAndTimestamp",
        "Partition",
        "Producer",
        "Record",
        "RecordMetadata",
        "Topic",
        "TopicPartition",
        "Unreachable",
    ]
    assert all(hasattr(tidelog.aio, name) for name in tidelog.aio.__all__)


def test_what_only_clients_raise_is_a_tidelog_error() -> None:
    for name in ("BufferExhausted", "ClientClosed", "DeliveryTimedOut", "Unreachable"):
        assert issubclass(getattr(tidelog.aio, name), tidelog.TidelogError)
