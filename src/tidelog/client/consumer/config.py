"""The options of one consumer, checked, in one value: `Consumer.__init__` makes it and hands it to the parts.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.consumer.deserializers import Deserializers
from tidelog.client.consumer.offset_store import OffsetStore
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.environment import Environment
from tidelog.client.groups.options import GroupOptions


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """`offset_store`: the application's own store of offsets, in place of the group's coordinator."""

    bootstrap_servers: str | Sequence[str]
    connection: ConnectionOptions
    fetch: ConsumerOptions
    group: GroupOptions
    offset_store: OffsetStore | None
    deserializers: Deserializers
    environment: Environment
