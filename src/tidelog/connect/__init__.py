"""Connectors: sources that fill topics and sinks that empty them, run by workers that share the work (`tidelog connect`).

A connector of your own is a class with `Source` or `Sink` below it; `tidelog.connect.testkit` tests one."""

from tidelog.connect.connector import (
    ConnectError,
    Outdated,
    RecordRefused,
    Sink,
    Source,
    SourceBatch,
    Unavailable,
)
from tidelog.connect.records import ConnectRecord, ConnectSchema
from tidelog.connect.settings import ConnectorConfig, connect_settings

__all__ = [
    "ConnectError",
    "ConnectRecord",
    "ConnectSchema",
    "ConnectorConfig",
    "Outdated",
    "RecordRefused",
    "Sink",
    "Source",
    "SourceBatch",
    "Unavailable",
    "connect_settings",
]
