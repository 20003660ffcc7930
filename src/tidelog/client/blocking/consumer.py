"""The consumer, blocking face: the asyncio consumer on the clients' thread.  Rebalance listeners and commit
callbacks run on the caller's thread, inside of its `poll`, so that they may use the consumer."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

from tidelog._speed.client.consumed import Record
from tidelog.client.blocking import loop_thread
from tidelog.client.blocking.reader import BlockingReader, Partitions
from tidelog.client.consumer import consumer
from tidelog.client.consumer.commits import Callback
from tidelog.client.consumer.deserializers import DeserializerOption
from tidelog.client.consumer.metrics import ConsumerMetrics
from tidelog.client.consumer.offset_store import OffsetStore
from tidelog.client.consumer.processing.plan import Order
from tidelog.client.environment import Environment
from tidelog.client.groups.assignors import Assignor
from tidelog.client.groups.metadata import GroupMetadata, OffsetAndMetadata, Offsets
from tidelog.client.groups.rebalance_listener import RebalanceListener
from tidelog.client.security.security import Security
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")


class ConsumerSettings(TypedDict, total=False):
    """The options of `tidelog.aio.Consumer`, which has their defaults."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Assignor | Iterable[str | Assignor]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str | int
    offset_store: OffsetStore | None
    isolation_level: str
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int | None
    check_crcs: bool
    client_rack: str | None
    key_deserializer: DeserializerOption
    value_deserializer: DeserializerOption
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    connect_timeout_ms: int
    metadata_max_age_ms: int
    enable_metrics_push: bool
    security: Security | None
    environment: Environment | None


class Consumer(BlockingReader):
    """Reads topics; blocking calls, for one thread at a time.

        with Consumer("orders", group_id="billing", bootstrap_servers="127.0.0.1:9092") as consumer:
            for record in consumer:
                print(record.offset, record.value)

    Options, methods and errors are those of `tidelog.aio.Consumer`.  Heartbeats and fetches go on in the
    background while records are processed.  The constructor connects, and raises `Unreachable` when no bootstrap
    address answers.
    """

    def __init__(self, *topics: str, **options: Unpack[ConsumerSettings]) -> None:
        super().__init__()
        core = consumer.Consumer(*topics, **options)
        core._runtime.call = self._call_here
        self._thread = loop_thread.join()
        try:
            self._thread.run(core.start())
        except BaseException:
            loop_thread.leave(self._thread)
            raise
        self._core: consumer.Consumer = core
        self._stores = options.get("offset_store") is not None
        self._listens = self._stores
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._core.__aexit__(kind, problem, trace))

    def close(self, timeout: float | None = None) -> None:
        """Commits the offsets of all records that were handed out (with `enable_auto_commit`), leaves the group,
        closes connections.

            consumer.close(timeout=5)

        After `timeout` seconds the consumer gives up on the commit and the group, closes its connections, and raises
        `RequestTimedOut`."""
        self._end(self._core.close(timeout))

    def _end(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
            return
        processing = self._core._runtime.processing
        if processing is not None and processing.runs_here():
            work.close()
            raise RuntimeError(
                "close() in a function that process() calls would wait for itself: close in another thread, or "
                "raise SystemExit"
            )
        self._closed = True
        try:
            self._thread.run(work)
        finally:
            loop_thread.leave(self._thread)

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

        The partitions come with the next `poll`s; the plain methods of `listener` run inside of them."""
        self._do(lambda: self._core.subscribe(topics, pattern, listener))
        self._listens = listener is not None or self._stores

    def unsubscribe(self) -> None:
        """Gives up all partitions: leaves the group, or drops the partitions that were assigned by hand.

        consumer.unsubscribe()
        """
        self._run(self._core.unsubscribe())

    def subscription(self) -> set[str]:
        """The topics that were subscribed to by name.

        print(consumer.subscription())
        """
        return self._do(self._core.subscription)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, without the other members of the group; partitions that were assigned
        before keep their position.

            consumer.assign([TopicPartition("orders", 0)])
        """
        self._do(lambda: self._core.assign(partitions))

    # Offsets of the group

    def commit(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commits these offsets (of the next record to read), or the positions behind all records that were handed
        out.

            consumer.commit({TopicPartition("orders", 0): 43})

        Raises `CommitFailed` when the group has removed this consumer, `RebalanceInProgress` when it
        must poll first."""
        self._run(self._core.commit(offsets, timeout_ms))

    def commit_async(self, offsets: Offsets | None = None, callback: Callback | None = None) -> None:
        """Like `commit`, in the background; `callback` gets the offsets, and the error or None, inside of a
        later `poll` or `commit`.

            consumer.commit_async(callback=lambda offsets, problem: print(problem or offsets))
        """
        later = callback

        def queued(committed: Mapping[TopicPartition, OffsetAndMetadata], problem: Any) -> None:
            if later is not None:
                self._calls.put(lambda: later(committed, problem))

        self._do(lambda: self._core.commit_async(offsets, None if callback is None else queued))

    def committed(self, *partitions: Partitions) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets of these partitions, or of all that are assigned.

        kept = consumer.committed()[TopicPartition("orders", 0)]
        """
        return self._run(self._core.committed(*partitions))

    def group_metadata(self) -> GroupMetadata:
        """This consumer's identity in its group, for `send_offsets_to_transaction` of a producer.

        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        """
        return self._do(self._core.group_metadata)

    # Records

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Record]:
        """Returns fetched records; waits up to `timeout_ms` when there are none.  Takes part in the group's
        rebalances: call it again within `max_poll_interval_ms`.

            for record in consumer.poll(timeout_ms=1000):
                print(record.value)
        """
        if not self._closed and self._calls.empty():
            records = self._core._poller.take_here(max_records)
            if records:
                return records
        return self._run(self._core.poll(timeout_ms, max_records))

    def poll_arrow(self, timeout_ms: int = 0) -> pyarrow.RecordBatch:
        """Like `poll`, with all fetched records in one Arrow record batch: columns key, value, topic, partition,
        offset, timestamp, headers.

            batch = consumer.poll_arrow(1000)
            print(batch.num_rows)
        """
        return self._run(self._core.poll_arrow(timeout_ms))

    def __iter__(self) -> Iterator[Record]:
        runtime = self._core._runtime
        iterator = self._do(self._core.__aiter__)
        while True:
            # Straight from the records in hand, until the consumer has a rebalance or a commit to attend to.
            while iterator.at < len(iterator.records) and not runtime.attention:
                iterator.at += 1
                yield iterator.records[iterator.at - 1]
            yield self._run(iterator.__anext__())

    def metrics(self) -> ConsumerMetrics:
        """What this client has done so far, as plain values; `.prometheus()` of the result is text for a scraper.

        print(consumer.metrics().records_lag_max)
        """
        return self._do(self._core.metrics)

    def process(
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
        """Calls `work` with every record, up to `workers` at a time, in threads; records with the same key one
        after the other, in order (`order`: "key", "partition" or "none").

            consumer.process(charge, workers=32, dead_letter_topic="orders-failed")

        A record whose `work` raises is tried again up to `retries` times, with growing waits; after that it is
        written to `dead_letter_topic` with the error in its headers, or without such a topic
        `ProcessingFailed` is raised.  Offsets are committed only as far as everything below them is done.

        Runs until it is interrupted, until `close` is called in another thread (`ClientClosed`), or until no record
        came for `idle_timeout_ms`.  After an interrupt, work that is running ends first, and is committed; a second
        interrupt does not wait for it."""
        try:
            self._run(
                self._core.process(
                    work,
                    workers=workers,
                    order=order,
                    retries=retries,
                    retry_backoff_ms=retry_backoff_ms,
                    retry_backoff_max_ms=retry_backoff_max_ms,
                    dead_letter_topic=dead_letter_topic,
                    commit_interval_ms=commit_interval_ms,
                    idle_timeout_ms=idle_timeout_ms,
                )
            )
        except Exception:
            raise
        except BaseException:
            # Its end is under way.
            self._thread.run(self._core._runtime.stop_processing())
            raise
