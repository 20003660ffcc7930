"""The consumer, asyncio face: reads topics, alone or as a member of a group, from any offset or time.

Every method is a call of one of the consumer's parts, which share a `ConsumerRuntime`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tidelog import errors
from tidelog._speed.client.consumed import Record
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.consumer.assigned_partitions import AssignedPartitions
from tidelog.client.consumer.commits import Callback
from tidelog.client.consumer.config import ConsumerConfig
from tidelog.client.consumer.deserializers import DeserializerOption, Deserializers
from tidelog.client.consumer.group_commits import GroupCommits
from tidelog.client.consumer.metrics import ConsumerMetrics
from tidelog.client.consumer.offset_store import OffsetStore
from tidelog.client.consumer.options import ConsumerOptions, read_committed_of, reset_of
from tidelog.client.consumer.poller import Poller
from tidelog.client.consumer.processing.plan import Order
from tidelog.client.consumer.processing.processing import ProcessOptions
from tidelog.client.consumer.processing.processor import Processor
from tidelog.client.consumer.reader import PartitionReader
from tidelog.client.consumer.record_iterator import RecordIterator
from tidelog.client.consumer.runtime import ConsumerRuntime
from tidelog.client.consumer.subscription import Subscription
from tidelog.client.environment import Environment
from tidelog.client.groups.assignors import Assignor, assignors_of
from tidelog.client.groups.metadata import GroupMetadata, OffsetAndMetadata, Offsets
from tidelog.client.groups.options import GroupOptions
from tidelog.client.groups.rebalance_listener import RebalanceListener
from tidelog.client.security.security import Security
from tidelog.client.telemetry.reporter import TelemetryReporter
from tidelog.client.telemetry.standard_metrics import consumer_metrics
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow

# A group moves from the first strategy to the second one, which needs no pause, once all its members offer both.
ASSIGNED_BY = ("range", "cooperative-sticky")


class Consumer(PartitionReader):
    """Reads topics.

        async with Consumer("orders", group_id="billing", bootstrap_servers="127.0.0.1:9092") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    With a `group_id` the partitions of the topics are shared among the consumers of the group, and offsets
    are committed to it; without one, this consumer reads all of them.  Records are fetched in the background,
    ahead of `poll`, and heartbeats do not depend on it.

    A partition begins at its committed offset.  A partition without a committed offset, or whose position is no
    longer in the log, begins where `auto_offset_reset` says: "earliest", "latest", a time in milliseconds, or
    "none" to raise `OffsetOutOfRange`.  Failures that may pass are retried; when they last longer than
    `request_timeout_ms`, `poll` raises the error, and the next `poll` tries again.

    With `enable_auto_commit`, each `poll` marks the records that the previous `poll` returned as processed.  Their
    offsets are committed every `auto_commit_interval_ms`, before partitions go to other members, and at `close`.
    Leaving the `async with` block with an exception does not commit the records of the last `poll`, so they are
    read again.

    With an `offset_store`, offsets are loaded from that store, `commit` saves them there, and there is no automatic
    commit.

    `key_deserializer` and `value_deserializer` turn bytes into objects: see `tidelog.schema`, or give a function of
    your own.  A record that they refuse raises `SerializationError`, until you seek past it.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "tidelog",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        group_protocol: str = "classic",
        group_remote_assignor: str | None = None,
        partition_assignment_strategy: str | Assignor | Iterable[str | Assignor] = ASSIGNED_BY,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        auto_offset_reset: str | int = "latest",
        offset_store: OffsetStore | None = None,
        isolation_level: str = "read_uncommitted",
        max_poll_records: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        max_partition_fetch_bytes: int | None = None,
        check_crcs: bool = True,
        client_rack: str | None = None,
        key_deserializer: DeserializerOption = None,
        value_deserializer: DeserializerOption = None,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        connect_timeout_ms: int = 10_000,
        metadata_max_age_ms: int = 300_000,
        enable_metrics_push: bool = True,
        security: Security | None = None,
        environment: Environment | None = None,
    ) -> None:
        fetch = ConsumerOptions(
            auto_offset_reset=reset_of(auto_offset_reset),
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            max_poll_records=max_poll_records,
            check_crcs=check_crcs,
            read_committed=read_committed_of(isolation_level),
            client_rack="" if client_rack is None else client_rack,
        )
        group = GroupOptions(
            group_id,
            group_instance_id,
            group_protocol,
            group_remote_assignor,
            assignors_of(partition_assignment_strategy),
            session_timeout_ms,
            heartbeat_interval_ms,
            max_poll_interval_ms,
            enable_auto_commit,
            auto_commit_interval_ms,
        )
        waits = request_timeout_ms, connect_timeout_ms, retry_backoff_ms, retry_backoff_max_ms
        connection = ConnectionOptions(client_id, *waits, metadata_max_age_ms, security, enable_metrics_push)
        deserializers = Deserializers(key_deserializer, value_deserializer)
        environment = environment or Environment.system()
        config = ConsumerConfig(
            bootstrap_servers, connection, fetch, group, offset_store, deserializers, environment
        )
        self._assemble(config, topics)

    def _assemble(self, config: ConsumerConfig, topics: tuple[str, ...]) -> None:
        self._runtime = ConsumerRuntime(config)
        self._subscription = Subscription(self._runtime, topics)
        self._partitions = AssignedPartitions(self._runtime)
        self._commits = GroupCommits(self._runtime)
        self._poller = Poller(self._runtime)
        self._processor = Processor(
            self._runtime, self._subscription, self._partitions, self._commits, self._poller
        )

    # Opening and closing

    async def start(self) -> None:
        """Connects; raises `Unreachable` when no bootstrap address answers.  `async with` calls this."""
        if self._runtime.started or self._runtime.closed:
            self._runtime.fetcher()
            return
        await self._runtime.start()
        self._poller.begin()
        self._subscription.begin()
        runtime = self._runtime
        runtime.telemetry = TelemetryReporter(
            runtime.cluster, "consumer", lambda: consumer_metrics(self.metrics()), runtime.telemetry_labels
        )
        runtime.telemetry.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runtime.close(in_hand_done=kind is None)

    async def close(self, timeout: float | None = None) -> None:
        """Commits the offsets of all records that were handed out (with `enable_auto_commit`), leaves the group, closes
        connections.

            await consumer.close(timeout=5)

        With a broker that is gone this takes up to `request_timeout_ms` for the commit and a few seconds for
        the group.  After `timeout` seconds the consumer gives up on both, closes its connections, and raises
        `RequestTimedOut`."""
        try:
            async with asyncio.timeout(timeout):
                await self._runtime.close(in_hand_done=True)
        except TimeoutError:
            raise errors.RequestTimedOut(
                f"offsets were not committed, or the group was not left, within {timeout} s: records that were handed "
                "out may be read again"
            ) from None

    # Which partitions

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribes to these topics, or to all topics whose whole name matches `pattern`, in place of what was
        subscribed before.

            consumer.subscribe(pattern="orders-.*", listener=MyListener())

        The partitions come with the next `poll`s; `listener` is called when partitions come and go."""
        self._subscription.subscribe(topics, pattern, listener)

    async def unsubscribe(self) -> None:
        """Gives up all partitions: leaves the group, or drops the partitions that were assigned by hand.

        await consumer.unsubscribe()
        """
        await self._subscription.unsubscribe()

    def subscription(self) -> set[str]:
        """The topics that were subscribed to by name.

        print(consumer.subscription())
        """
        return set(self._subscription.topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, without the other members of the group; partitions that were assigned
        before keep their position.

            consumer.assign([TopicPartition("orders", 0)])
        """
        self._subscription.assign(partitions)

    # Records

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Record]:
        """Returns fetched records; waits up to `timeout_ms` when there are none.  Takes part in the group's rebalances:
        call it again within `max_poll_interval_ms`.

            for record in await consumer.poll(timeout_ms=1000):
                print(record.value)
        """
        return await self._poller.poll(timeout_ms, max_records)

    async def poll_arrow(self, timeout_ms: int = 0) -> pyarrow.RecordBatch:
        """Like `poll`, with all fetched records in one Arrow record batch: columns key, value, topic, partition,
        offset, timestamp, headers.  The batch is empty when nothing came within `timeout_ms`.

            batch = await consumer.poll_arrow(1000)
            print(batch.num_rows, batch.column("value"))

        Needs pyarrow: `pip install 'tidelog[arrow]'`."""
        return await self._poller.poll_arrow(timeout_ms)

    def __aiter__(self) -> RecordIterator:
        return self._poller.iterate()

    async def process(
        self,
        work: Callable[[Record], Any],
        *,
        workers: int = 8,
        order: Order = "key",
        retries: int = 3,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 10_000,
        dead_letter_topic: str | None = None,
        commit_interval_ms: int = 1_000,
        idle_timeout_ms: int | None = None,
    ) -> None:
        """Calls `work` with every record, up to `workers` at a time; records with the same key one after the
        other, in order (`order`: "key", "partition" or "none").

            async def charge(record): ...

            await consumer.process(charge, workers=32, dead_letter_topic="orders-failed")

        `work` may be `async`, or plain: plain functions run in threads.  A record whose `work` raises is tried again up
        to `retries` times, with growing waits; after that it is written to `dead_letter_topic` with the error
        in its headers, or without such a topic `ProcessingFailed` is raised.  Offsets are committed only as
        far as everything below them is done, so a crash repeats records and loses none.

        Runs until it is cancelled, until `close` is called (`ClientClosed`), or until no record came for
        `idle_timeout_ms`.  Before it returns, work that runs in threads ends, and is committed; cancelled once more,
        it does not wait for the threads."""
        options = ProcessOptions(
            workers,
            order,
            retries,
            retry_backoff_ms,
            retry_backoff_max_ms,
            dead_letter_topic,
            commit_interval_ms,
            idle_timeout_ms,
        )
        await self._processor.process(work, options)

    def metrics(self) -> ConsumerMetrics:
        """What this client has done so far, as plain values; `.prometheus()` of the result is text for a scraper.

        print(consumer.metrics().records_lag_max)
        """
        return self._poller.metrics(self._partitions.lag())

    # Commits

    async def commit(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commits these offsets (of the next record to read), or the positions after all returned records.

            await consumer.commit({TopicPartition("orders", 0): 43})

        Raises `CommitFailed` when the group has removed this consumer, `RebalanceInProgress` when it
        must poll first."""
        await self._commits.commit(offsets, timeout_ms)

    def commit_async(
        self, offsets: Offsets | None = None, callback: Callback | None = None
    ) -> asyncio.Task[None]:
        """Like `commit`, in the background; `callback` gets the offsets, and the error or None.

        consumer.commit_async(callback=lambda offsets, problem: print(problem or offsets))
        """
        return self._commits.commit_async(offsets, callback)

    async def committed(
        self, *partitions: TopicPartition | Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets of these partitions, or of all that are assigned.

        kept = (await consumer.committed())[TopicPartition("orders", 0)]
        """
        return await self._commits.committed(partitions)

    def group_metadata(self) -> GroupMetadata:
        """This consumer's identity in its group, for `send_offsets_to_transaction` of a producer.

        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        """
        return self._runtime.group_metadata()
