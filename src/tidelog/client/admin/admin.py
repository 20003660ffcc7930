"""The admin client, asyncio face: topics, settings, offsets, disks, groups, transactions.

A call about several things raises when any of them failed: the one error, or an `ExceptionGroup` of them.
What did not fail is done.  Where several names are taken, one alone may be given as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from tidelog.client.admin import configs, log_dirs, topics
from tidelog.client.admin.configs import ConfigEntry, ConfigResource
from tidelog.client.admin.group_admin import GroupAdmin
from tidelog.client.admin.log_dirs import LogDir
from tidelog.client.admin.partition_admin import PartitionAdmin
from tidelog.client.admin.security_admin import SecurityAdmin
from tidelog.client.admin.topics import CreatedTopic, NewTopic
from tidelog.client.admin.transaction_admin import TransactionAdmin
from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    OffsetAndTimestamp,
    list_offsets,
)
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.cluster.topology import ClusterDescription, Topic
from tidelog.client.environment import Environment
from tidelog.client.errors import ClientClosed
from tidelog.client.security.security import Security
from tidelog.client.topic_names import names_of
from tidelog.types import TopicPartition

_NAMED_TIMES = {
    "earliest": EARLIEST,
    "latest": LATEST,
    "max_timestamp": MAX_TIMESTAMP,
    "earliest_local": EARLIEST_LOCAL,
}


class Admin(GroupAdmin, PartitionAdmin, SecurityAdmin, TransactionAdmin):
    """
    async with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        await admin.create_topics([NewTopic("orders", partitions=3)])
        print(await admin.list_topics())

    Every call ends within `request_timeout_ms`, retries included.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "tidelog",
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        security: Security | None = None,
        environment: Environment | None = None,
    ) -> None:
        connection = ConnectionOptions(
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            security=security,
        )
        self._cluster = Cluster(
            parse_addresses(bootstrap_servers), connection, environment or Environment.system()
        )
        self._timeout_ms = request_timeout_ms
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Connects; raises `Unreachable` when no bootstrap address answers.  `async with` calls this."""
        if self._closed:
            raise ClientClosed("this admin client is closed: make a new one")
        try:
            await self._cluster.open()
        except BaseException:
            await self._cluster.close()
            raise
        self._started = True

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client's connections.

        await admin.close()
        """
        if not self._closed:
            self._closed = True
            await self._cluster.close()

    # Topics

    async def create_topics(
        self, new: NewTopic | Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Creates topics; returns each with the id, partitions and replication factor that it has now.

        await admin.create_topics([NewTopic("orders", partitions=3, configs={"retention.ms": "3600000"})])
        """
        return await topics.create_topics(
            self._running(),
            [new] if isinstance(new, NewTopic) else list(new),
            validate_only=validate_only,
            timeout_ms=self._timeout_ms,
        )

    async def delete_topics(self, names: Iterable[str]) -> None:
        """Deletes topics and their records.

        await admin.delete_topics(["orders"])
        """
        await topics.delete_topics(self._running(), names_of(names), timeout_ms=self._timeout_ms)

    async def list_topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics, sorted by name; `internal` includes internal topics such as `__consumer_offsets`.

        names = [topic.name for topic in await admin.list_topics()]
        """
        topics_by_name = await topics.describe_topics(self._running(), None, timeout_ms=self._timeout_ms)
        return [topic for topic in topics_by_name.values() if internal or not topic.internal]

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Partitions, leaders and replicas of these topics.

        topic = (await admin.describe_topics(["orders"]))["orders"]
        """
        return await topics.describe_topics(self._running(), names_of(names), timeout_ms=self._timeout_ms)

    async def create_partitions(self, totals: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Adds partitions to topics; `totals` has the new number of partitions of each topic.

        await admin.create_partitions({"orders": 6})
        """
        await topics.create_partitions(
            self._running(), totals, validate_only=validate_only, timeout_ms=self._timeout_ms
        )

    # Settings

    async def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        keys: Collection[str] | None = None,
        *,
        documentation: bool = False,
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """The settings of these resources: all settings, or those named in `keys`.

        settings = await admin.describe_configs([ConfigResource("topic", "orders")], ["retention.ms"])
        """
        return await configs.describe_configs(
            self._running(),
            [resources] if isinstance(resources, ConfigResource) else list(resources),
            None if keys is None else names_of(keys),
            documentation=documentation,
            timeout_ms=self._timeout_ms,
        )

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | int | None]], *, validate_only: bool = False
    ) -> None:
        """Changes the settings that are named, and no others; None resets a setting to its default.

        await admin.alter_configs({ConfigResource("topic", "orders"): {"retention.ms": "3600000"}})
        """
        await configs.alter_configs(
            self._running(), changes, validate_only=validate_only, timeout_ms=self._timeout_ms
        )

    # Offsets and records

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by time: `wanted` has for each partition a time in milliseconds, or "earliest", "latest",
        "max_timestamp", "earliest_local".

            ends = await admin.list_offsets({TopicPartition("orders", 0): "latest"})
        """
        times = {partition: _time(when) for partition, when in wanted.items()}
        return await list_offsets(self._running(), times, self._timeout_ms)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records below each offset (-1: all records); returns the new first offset of each partition.

        await admin.delete_records({TopicPartition("orders", 0): 42})
        """
        return await log_dirs.delete_records(self._running(), before, timeout_ms=self._timeout_ms)

    # The cluster

    async def describe_cluster(self) -> ClusterDescription:
        """The brokers, and which of them is the controller.

        nodes = (await admin.describe_cluster()).nodes
        """

        async def ask() -> ClusterDescription:
            topology = await self._running().refresh(())
            return ClusterDescription(topology.cluster_id, topology.controller, topology.nodes)

        return await self._running().retrying("Metadata", ask, self._timeout_ms)

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, topics: Iterable[str] | None = None
    ) -> dict[int, list[LogDir]]:
        """The log directories of these brokers, by broker, with the sizes of these topics' partitions; None stands
        for all.

        folders = (await admin.describe_log_dirs(topics=["orders"]))[1]
        """
        return await log_dirs.describe_log_dirs(
            self._running(),
            None if brokers is None else list(brokers),
            None if topics is None else names_of(topics),
            timeout_ms=self._timeout_ms,
        )

    def _running(self) -> Cluster:
        if self._closed:
            raise ClientClosed("this admin client is closed: make a new one")
        if not self._started:
            raise ClientClosed("this admin client is not started: use `async with`, or await start()")
        return self._cluster


def _time(when: int | str) -> int:
    if isinstance(when, int):
        return when
    if when not in _NAMED_TIMES:
        raise ValueError(f"{when!r} is not a place in a log: use a time or {', '.join(_NAMED_TIMES)}")
    return _NAMED_TIMES[when]
