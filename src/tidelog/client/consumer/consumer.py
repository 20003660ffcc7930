"""The consumer, asyncio face: reads topics, alone or as a member of a group, from any offset or time."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tidelog import errors
from tidelog._speed.consumed import Record
from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import CoordinatorLookup, CoordinatorType
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.consumer.commits import Commits, OffsetCommitter
from tidelog.client.consumer.committing_reader import CommittingReader
from tidelog.client.consumer.deserializers import DeserializerOption, Deserializers
from tidelog.client.consumer.fetch.arrow_loading import is_loaded, load
from tidelog.client.consumer.fetch.fetcher import Fetcher
from tidelog.client.consumer.metrics import ConsumerCounters, ConsumerMetrics
from tidelog.client.consumer.offset_store import OffsetStore, StoredOffsets, call_here
from tidelog.client.consumer.options import ConsumerOptions, read_committed_of, reset_of
from tidelog.client.consumer.processing.dead_letters import LETTER_BYTES_MAX
from tidelog.client.consumer.processing.plan import Order
from tidelog.client.consumer.processing.processing import Processing, ProcessListener, ProcessOptions
from tidelog.client.consumer.record_iterator import RecordIterator
from tidelog.client.environment import Environment
from tidelog.client.errors import ClientClosed
from tidelog.client.groups.assignors import Assignor, assignors_of
from tidelog.client.groups.membership import Membership
from tidelog.client.groups.offsets import CoordinatorOffsets
from tidelog.client.groups.options import GroupOptions
from tidelog.client.groups.rebalance_listener import RebalanceListener
from tidelog.client.groups.rebalancer import Rebalancer, new_machine
from tidelog.client.producer.producer import Producer
from tidelog.client.security.security import Security
from tidelog.client.topic_names import check_dead_letters, check_topic, names_of
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow

# The second one is for groups on their way from the first to it.
ASSIGNED_BY = ("range", "cooperative-sticky")


class Consumer(CommittingReader):
    """Reads topics.

        async with Consumer("orders", group_id="billing", bootstrap_servers="127.0.0.1:9092") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    With a `group_id` the partitions of the topics are shared among the consumers of the group, and offsets
    are committed to it; without one, this consumer reads all of them.  Records are fetched in the background,
    ahead of `poll`, and heartbeats do not depend on it.

    A partition begins at its committed offset.  One that has none, or whose position is not in the log any
    more, goes to where `auto_offset_reset` says: "earliest", "latest", a time in milliseconds, or "none" to
    raise `OffsetOutOfRange`.  Failures that may pass are retried; when they last longer than
    `request_timeout_ms`, `poll` raises the error, and the next `poll` tries again.

    With `enable_auto_commit`, what was handed out is committed every `auto_commit_interval_ms` once you have
    come back for more, when partitions go to others, and at `close`.  Leaving the `async with` block with an
    exception does not commit what was in hand, so it is read again.

    With an `offset_store`, offsets are loaded from there, and `commit` saves them there; nothing is committed by
    itself.

    `key_deserializer` and `value_deserializer` make something else of the bytes (see `tidelog.schema`, or a
    function of your own); a record that they refuse raises `SerializationError`, until you seek past it.
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
        security: Security | None = None,
        environment: Environment | None = None,
    ) -> None:
        options = ConsumerOptions(
            reset_of(auto_offset_reset),
            fetch_min_bytes,
            fetch_max_wait_ms,
            fetch_max_bytes,
            max_partition_fetch_bytes,
            max_poll_records,
            check_crcs,
            read_committed_of(isolation_level),
            "" if client_rack is None else client_rack,
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
        connection = ConnectionOptions(
            client_id, *waits, metadata_max_age_ms=metadata_max_age_ms, security=security
        )
        self._environment = environment or Environment.system()
        cluster = Cluster(parse_addresses(bootstrap_servers), connection, self._environment)
        super().__init__(cluster, options, group)
        self._bootstrap_servers = bootstrap_servers
        self._store = offset_store
        self._deserializers = Deserializers(key_deserializer, value_deserializer)
        self._subscribe_first(topics)

    def _subscribe_first(self, topics: tuple[str, ...]) -> None:
        self._topics: tuple[str, ...] = topics
        self._pattern: re.Pattern[str] | None = None
        self._listener: RebalanceListener | None = None
        self._call = call_here
        self._attention = False
        self._polls = 0
        self._processing: Processing | None = None
        if topics:
            self._check_subscription(topics, None)

    # Opening and closing

    async def start(self) -> None:
        """Connects; raises `Unreachable` when no bootstrap address answers.  `async with` does it for you."""
        if self._fetcher is not None or self._closed:
            self._running()
            return
        try:
            await self._cluster.open()
        except BaseException:
            await self._cluster.close()
            raise
        group_id = self._group.group_id
        if self._store is not None:
            self._offsets = StoredOffsets(self._store, lambda method, what: self._call(method, what))
        elif group_id is not None:
            coordinator = CoordinatorLookup(self._cluster, CoordinatorType.GROUP, group_id)
            self._offsets = CoordinatorOffsets(
                self._cluster,
                coordinator,
                group_id,
                self._committer,
                require_stable=self._options.read_committed,
            )
        self._loop_time = asyncio.get_running_loop().time
        self._figures = ConsumerCounters(self._loop_time())
        self._fetcher = Fetcher(self._cluster, self._options, self._offsets)
        if self._offsets is not None:
            self._commits = self._new_commits(self._offsets, self._fetcher)
        if self._topics or self._pattern is not None:
            self._join()

    def _new_commits(self, committer: OffsetCommitter, fetcher: Fetcher) -> Commits:
        # With a store of its own the application says when: its results and offsets belong together.
        auto = self._group.enable_auto_commit and self._store is None
        interval_ms = self._group.auto_commit_interval_ms if auto else None
        return Commits(committer, fetcher, auto_interval_ms=interval_ms, due=self._attend_soon)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(in_hand_done=kind is None)

    async def close(self, timeout: float | None = None) -> None:
        """Commits what was handed out (with `enable_auto_commit`), leaves the group, closes connections.

            await consumer.close(timeout=5)

        With a broker that is gone this takes up to `request_timeout_ms` for the commit and a few seconds for
        the group.  After `timeout` seconds it gives up on both, closes all the same, and raises
        `RequestTimedOut`."""
        try:
            async with asyncio.timeout(timeout):
                await self._close(in_hand_done=True)
        except TimeoutError:
            raise errors.RequestTimedOut(
                f"offsets were not committed, or the group was not left, within {timeout} s: what was handed out "
                "may be read again"
            ) from None

    async def _close(self, in_hand_done: bool) -> None:
        if self._closed:
            return
        try:
            await self._stop_processing()
            if self._commits is not None:
                if self._iteration is not None:
                    self._iteration.settle(in_hand_done)
                    in_hand_done = False
                await self._commits.auto_now(None, all_handed_out=in_hand_done)
        finally:
            self._closed = True
            try:
                if self._part is not None:
                    await self._part.close()
            finally:
                await self._close_connections()

    async def _stop_processing(self) -> None:
        if self._processing is not None:
            await self._processing.stop(ClientClosed("this consumer was closed while it was processing"))

    async def _close_connections(self) -> None:
        if self._commits is not None:
            await self._commits.close()
        if self._fetcher is not None:
            await self._fetcher.close()
        await self._cluster.close()

    # Which partitions

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """These topics, or all whose whole name matches `pattern`, in place of what was subscribed before.

            consumer.subscribe(pattern="orders-.*", listener=MyListener())

        The partitions come with the next `poll`s; `listener` hears when they come and go."""
        names = tuple(dict.fromkeys(names_of(topics)))
        compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
        self._check_subscription(names, compiled)
        if self._fetcher is not None and self._part is None and self._fetcher.assigned:
            raise ValueError("partitions are assigned by hand: unsubscribe before subscribing to topics")
        self._topics, self._pattern, self._listener = names, compiled, listener
        if self._fetcher is not None:
            self._running()
            self._join()

    async def unsubscribe(self) -> None:
        """Gives everything back: leaves the group, or drops what was assigned by hand.

        await consumer.unsubscribe()
        """
        fetcher = self._running()
        if self._commits is not None:
            await self._commits.auto_now(None, all_handed_out=True)
        owned = tuple(fetcher.assigned)
        if self._part is not None:
            if owned and self._listener is not None:
                await self._call(self._listener.on_partitions_revoked, owned)
            await self._part.close()
            self._part = None
        fetcher.assign(())
        if self._commits is not None:
            self._commits.dropped(owned)
        self._topics, self._pattern, self._listener = (), None, None

    def subscription(self) -> set[str]:
        """The topics that were asked for by name.

        print(consumer.subscription())
        """
        return set(self._topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these from now on, without the others of the group; those assigned already keep their
        position.

            consumer.assign([TopicPartition("orders", 0)])
        """
        fetcher = self._running()
        if self._part is not None:
            raise ValueError("partitions come from a subscription: unsubscribe before assigning any by hand")
        wanted = list(dict.fromkeys(TopicPartition(*one) for one in partitions))
        for one in wanted:
            self._cluster.track(one.topic)
        if self._commits is not None:
            self._commits.dropped([one for one in fetcher.assigned if one not in set(wanted)])
        fetcher.assign(wanted)
        self._moved()

    def _check_subscription(self, topics: Collection[str], pattern: re.Pattern[str] | None) -> None:
        if bool(topics) == (pattern is not None):
            raise ValueError("subscribe to topics or to a pattern: name one of the two")
        for one in topics:
            check_topic(one)

    def _new_producer(self) -> Producer:
        options = self._cluster.options
        return Producer(
            bootstrap_servers=self._bootstrap_servers,
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            connect_timeout_ms=options.connect_timeout_ms,
            retry_backoff_ms=options.retry_backoff_ms,
            retry_backoff_max_ms=options.retry_backoff_max_ms,
            security=options.security,
            environment=self._environment,
            max_request_size=LETTER_BYTES_MAX,
            buffer_memory=LETTER_BYTES_MAX,
        )

    def _join(self) -> None:
        if self._part is None:
            assert self._fetcher is not None
            self._part = Rebalancer(
                self._cluster,
                self._fetcher,
                self._commits,
                self._machine(),
                self._group,
                notify=self._attend_soon,
                progress=lambda: (self._polls, self._iteration.at if self._iteration is not None else 0),
                tell=lambda method, partitions: self._call(method, partitions),
            )
        self._part.subscribe(self._topics, self._pattern, self._listener)

    def _machine(self) -> Membership:
        rack = self._options.client_rack or None
        return new_machine(self._group, self._cluster.options, rack, self._environment.random)

    # Records

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Record]:
        """What has been fetched; waits up to `timeout_ms` when that is nothing.  Takes part in the group's
        rebalances: call it again within `max_poll_interval_ms`.

            for record in await consumer.poll(timeout_ms=1000):
                print(record.value)
        """
        fetcher = self._running()
        records_max = self._options.records_of_poll(max_records)
        self._polls += 1
        self._figures.polled(self._loop_time())
        fetcher.settle()
        if self._attention:
            await self._attend()
        if self._iteration is not None and (rest := self._iteration.take(records_max)):
            return rest
        records = fetcher.take(records_max)
        if not records:
            records = await self._wait(timeout_ms, lambda: self._running().take(records_max))
        if self._deserializers.active:
            records = await self._deserialized(records)
        self._figures.handed_out(self._loop_time(), len(records))
        return records

    def _take_here(self, max_records: int | None) -> list[Record]:
        """For the blocking face, in its thread: what is buffered, when there is nothing else to do first.  Most
        polls end here, without a word to the loop's thread."""
        fetcher, hand = self._fetcher, self._iteration
        if fetcher is None or self._attention or self._deserializers.active:
            return []
        if hand is not None and hand.at < len(hand.records):
            return []
        records = fetcher.take_here(self._options.records_of_poll(max_records))
        if records:
            self._polls += 1
            now_s = self._loop_time()
            self._figures.polled(now_s)
            self._figures.handed_out(now_s, len(records))
        return records

    async def _deserialized(self, records: list[Record]) -> list[Record]:
        count, problem = await self._deserializers.convert(records)
        if problem is None:
            return records
        # What was good goes out first; the next call meets the bad record again.
        self._running().put_back(records[count:])
        if not count:
            raise problem
        return records[:count]

    async def poll_arrow(self, timeout_ms: int = 0) -> pyarrow.RecordBatch:
        """Like `poll`, with everything that was fetched in one Arrow record batch: columns key, value, topic,
        partition, offset, timestamp, headers.  It is empty when nothing came within `timeout_ms`.

            batch = await consumer.poll_arrow(1000)
            print(batch.num_rows, batch.column("value"))

        Needs pyarrow: `pip install 'tidelog[arrow]'`."""
        if self._deserializers.active:
            raise ValueError(
                "poll_arrow gives bytes as they are: use a consumer without deserializers for it"
            )
        if not is_loaded():
            await asyncio.to_thread(load)
        from tidelog.client.consumer.fetch.arrow import empty, take_columns

        fetcher = self._running()
        self._polls += 1
        fetcher.settle()
        if self._iteration is not None:
            self._iteration.put_back()
        take = functools.partial(take_columns, fetcher, check_crc=self._options.check_crcs)
        self._figures.polled(self._loop_time())
        found = await self._wait(timeout_ms, take)
        batch = found[0] if found else empty()
        self._figures.handed_out(self._loop_time(), batch.num_rows)
        return batch

    def metrics(self) -> ConsumerMetrics:
        """What it has done so far, as plain values; `.prometheus()` of it is text for a scraper.

        print(consumer.metrics().records_lag_max)
        """
        fetcher, part, commits = self._running(), self._part, self._commits
        rate, busy, busy_ms = self._figures.rates(self._loop_time())
        lag = self.lag()
        made, failed = (commits.committed, commits.failed) if commits is not None else (0, 0)
        rebalances = part.rebalances if part is not None else 0
        return ConsumerMetrics(
            records_consumed_total=self._figures.records,
            bytes_fetched_total=fetcher.bytes,
            fetches_total=fetcher.fetches,
            polls_total=self._figures.polls,
            rebalances_total=rebalances,
            commits_total=made,
            commits_failed_total=failed,
            record_consume_rate=rate,
            fetch_latency_avg_ms=fetcher.fetch_ms / fetcher.fetches if fetcher.fetches else 0.0,
            rebalance_latency_avg_ms=part.rebalance_ms / rebalances if part and rebalances else 0.0,
            processing_time_ratio=busy,
            processing_time_avg_ms=busy_ms,
            commit_success_ratio=made / (made + failed) if made + failed else 1.0,
            partitions_assigned=len(fetcher.assigned),
            records_lag_max=max(lag.values(), default=0),
            lag=lag,
        )

    async def _wait(self, timeout_ms: int, take: Callable[[], list[Any]]) -> list[Any]:
        fetcher, part, clock = self._running(), self._part, self._environment.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        if part is not None:
            part.poll_began()
        try:
            if timeout_ms <= 0:
                # Let what has arrived be read: a caller that only ever polls with 0 must still get ahead.
                await asyncio.sleep(0)
            while True:
                if self._attention:
                    await self._attend()
                records = take()
                left_ms = deadline_ms - clock.monotonic_ms()
                if records or left_ms <= 0:
                    return records
                await fetcher.arrival(left_ms)
        finally:
            if part is not None:
                part.poll_ended()

    def __aiter__(self) -> RecordIterator:
        self._running()
        if self._iteration is None:
            self._iteration = RecordIterator(self)
        return self._iteration

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

        `work` may be `async`, or plain: then it runs in threads.  A record whose `work` raises is tried again up
        to `retries` times, with growing waits; after that it is written to `dead_letter_topic` with the error
        in its headers, or without such a topic `ProcessingFailed` is raised.  Offsets are committed only as
        far as everything below them is done, so a crash repeats records and loses none.

        Runs until it is cancelled, until `close` is called (`ClientClosed`), or until nothing came for
        `idle_timeout_ms`.  Before it returns, what runs in threads ends, and is committed; cancelled once more,
        it does not wait for them."""
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
        self._running()
        if self._processing is not None:
            raise ValueError("this consumer is processing already")
        if dead_letter_topic is not None:
            read = {one.topic for one in self.assignment()}
            check_dead_letters(dead_letter_topic, self._topics, self._pattern, read)
        deserializers = self._deserializers
        processing = Processing(self, work, options, deserializers, lambda: self._new_producer())
        # Bytes are polled: what they stand for is found record by record, so that one may fail alone.
        self._deserializers = Deserializers(None, None)
        if self._iteration is not None:
            self._iteration.put_back()
        self._processing = processing
        if self._commits is not None:
            self._commits.paused = True
        if self._part is not None:
            self._part.listener = ProcessListener(processing, self._listener, lambda *a: self._call(*a))
        try:
            await processing.run()
        finally:
            self._processing = None
            self._deserializers = deserializers
            if self._commits is not None:
                self._commits.paused = False
            if self._part is not None:
                self._part.listener = self._listener

    # Between two polls

    async def _keep_alive(self) -> None:
        """A poll for whoever has enough records."""
        self._polls += 1
        if self._attention:
            await self._attend()

    def _attend_soon(self) -> None:
        self._attention = True
        if self._fetcher is not None:
            self._fetcher.notify()

    def _moved(self) -> None:
        self._running().wake()
        if self._iteration is not None:
            self._attention = True  # What it has in hand may be from before the seek.

    async def _attend(self) -> None:
        """Gives up and takes partitions as the group says, and commits what is due."""
        self._attention = False
        if self._commits is not None:
            self._commits.auto()
        if self._part is not None:
            await self._part.attend()
            if self._part.problem is not None:
                self._attention = True
                raise self._part.problem
