"""What users may rely on.  A name that leaves these lists breaks somebody's code."""

from __future__ import annotations

import importlib
import inspect

import pytest

import tidelog
import tidelog.aio


def test_the_package_offers_these_names() -> None:
    assert tidelog.__all__ == [
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
    assert all(getattr(tidelog, name) is not None for name in tidelog.__all__)


def test_the_asyncio_client_offers_the_same_names() -> None:
    assert tidelog.aio.__all__ == [name for name in tidelog.__all__ if name not in ("__version__", "sample")]
    assert all(hasattr(tidelog.aio, name) for name in tidelog.aio.__all__)


def test_what_only_clients_raise_is_a_tidelog_error() -> None:
    for name in ("BufferExhausted", "ClientClosed", "CommitFailed", "DeliveryTimedOut", "Unreachable"):
        assert issubclass(getattr(tidelog.aio, name), tidelog.TidelogError)


@pytest.mark.parametrize("name", ["Admin", "Consumer", "ShareConsumer"])
def test_both_faces_have_the_same_methods_with_the_same_arguments(name: str) -> None:
    blocking, asynchronous = getattr(tidelog, name), getattr(tidelog.aio, name)
    wanted = {
        method: list(inspect.signature(getattr(asynchronous, method)).parameters)
        for method in dir(asynchronous)
        if not method.startswith("_") and method != "start" and callable(getattr(asynchronous, method))
    }
    there = {
        method: list(inspect.signature(getattr(blocking, method)).parameters)
        for method in dir(blocking)
        if not method.startswith("_") and callable(getattr(blocking, method))
    }
    assert there == wanted


@pytest.mark.parametrize("name", ["Admin", "Consumer", "ShareConsumer"])
def test_both_faces_have_the_same_options(name: str) -> None:
    home = {"ShareConsumer": "share_consumer"}.get(name, name.lower())
    module = importlib.import_module(f"tidelog.client.blocking.{home}")
    settings = getattr(module, f"{name}Settings").__annotations__
    options = inspect.signature(getattr(tidelog.aio, name).__init__).parameters
    assert set(settings) == set(options) - {"self", "topics"} - (
        {"group_id", "auto_offset_reset"} if name == "ShareConsumer" else set()
    )
