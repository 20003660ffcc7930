"""The admin client, blocking face: the asyncio one on the clients' thread."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack

from tidelog.client.admin import admin
from tidelog.client.admin.configs import ConfigEntry, ConfigResource
from tidelog.client.admin.log_dirs import LogDir
from tidelog.client.admin.topics import CreatedTopic, NewTopic
from tidelog.client.blocking import loop_thread
from tidelog.client.blocking.group_admin import BlockingGroupAdmin
from tidelog.client.blocking.partition_admin import BlockingPartitionAdmin
from tidelog.client.blocking.security_admin import BlockingSecurityAdmin
from tidelog.client.blocking.transaction_admin import BlockingTransactionAdmin
from tidelog.client.cluster.list_offsets import OffsetAndTimestamp
from tidelog.client.cluster.topology import ClusterDescription, Topic
from tidelog.client.environment import Environment
from tidelog.client.errors import ClientClosed
from tidelog.client.security.security import Security
from tidelog.types import TopicPartition

T = TypeVar("T")


class AdminSettings(TypedDict, total=False):
    """The options of `tidelog.aio.Admin`, which has their defaults."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    connect_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    security: Security | None
    environment: Environment | None


class Admin(BlockingGroupAdmin, BlockingPartitionAdmin, BlockingSecurityAdmin, BlockingTransactionAdmin):
    """Topics, settings, groups; blocking calls, from any number of threads.

        with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
            admin.create_topics([NewTopic("orders", partitions=3)])
            print(admin.list_topics())

    Options, methods and errors are those of `tidelog.aio.Admin`.  The constructor connects, and raises `Unreachable`
    when no bootstrap address answers.
    """

    def __init__(self, **options: Unpack[AdminSettings]) -> None:
        self._closed = True
        core = admin.Admin(**options)
        self._thread = loop_thread.join()
        try:
            self._thread.run(core.start())
        except BaseException:
            loop_thread.leave(self._thread)
            raise
        self._core = core
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client's connections.

        admin.close()
        """
        if not self._closed:
            self._closed = True
            try:
                self._thread.run(self._core.close())
            finally:
                loop_thread.leave(self._thread)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise ClientClosed("this admin client is closed: make a new one")
        return self._thread.run(work)

    def create_topics(
        self, new: NewTopic | Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Creates topics; returns each with the id, partitions and replication factor that it has now.

        admin.create_topics([NewTopic("orders", partitions=3, configs={"retention.ms": "3600000"})])
        """
        return self._run(self._core.create_topics(new, validate_only=validate_only))

    def delete_topics(self, names: Iterable[str]) -> None:
        """Deletes topics and their records.

        admin.delete_topics(["orders"])
        """
        self._run(self._core.delete_topics(names))

    def list_topics(self, *, internal: bool = False) -> list[Topic]:
        """All topics, sorted by name; `internal` includes internal topics such as `__consumer_offsets`.

        names = [topic.name for topic in admin.list_topics()]
        """
        return self._run(self._core.list_topics(internal=internal))

    def describe_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Partitions, leaders and replicas of these topics.

        topic = admin.describe_topics(["orders"])["orders"]
        """
        return self._run(self._core.describe_topics(names))

    def create_partitions(self, totals: Mapping[str, int], *, validate_only: bool = False) -> None:
        """Adds partitions to topics; `totals` has the new number of partitions of each topic.

        admin.create_partitions({"orders": 6})
        """
        self._run(self._core.create_partitions(totals, validate_only=validate_only))

    def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        keys: Collection[str] | None = None,
        *,
        documentation: bool = False,
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """The settings of these resources: all settings, or those named in `keys`.

        settings = admin.describe_configs([ConfigResource("topic", "orders")], ["retention.ms"])
        """
        return self._run(self._core.describe_configs(resources, keys, documentation=documentation))

    def alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | int | None]], *, validate_only: bool = False
    ) -> None:
        """Changes the settings that are named, and no others; None resets a setting to its default.

        admin.alter_configs({ConfigResource("topic", "orders"): {"retention.ms": "3600000"}})
        """
        self._run(self._core.alter_configs(changes, validate_only=validate_only))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by time: `wanted` has for each partition a time in milliseconds, or "earliest", "latest",
        "max_timestamp", "earliest_local".

            ends = admin.list_offsets({TopicPartition("orders", 0): "latest"})
        """
        return self._run(self._core.list_offsets(wanted))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records below each offset (-1: all records); returns the new first offset of each partition.

        admin.delete_records({TopicPartition("orders", 0): 42})
        """
        return self._run(self._core.delete_records(before))

    def describe_cluster(self) -> ClusterDescription:
        """The brokers, and which of them is the controller.

        nodes = admin.describe_cluster().nodes
        """
        return self._run(self._core.describe_cluster())

    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, topics: Iterable[str] | None = None
    ) -> dict[int, list[LogDir]]:
        """The log directories of these brokers, by broker, with the sizes of these topics' partitions; None stands
        for all.

        folders = admin.describe_log_dirs(topics=["orders"])[1]
        """
        return self._run(self._core.describe_log_dirs(brokers, topics))
