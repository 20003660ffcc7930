"""The share consumer, asyncio face: a queue on topics.  Any number of consumers of a group read the same
partitions; each record goes to one of them, and again to another until it is acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Self

from tidelog import errors
from tidelog._speed.client.consumed import Record
from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.connections import Connections
from tidelog.client.cluster.coordinator import CoordinatorLookup, CoordinatorType
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.consumer.deserializers import DeserializerOption, Deserializers, SchemaUnavailable
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.environment import Environment
from tidelog.client.errors import ClientClosed
from tidelog.client.groups.membership_task import MembershipTask
from tidelog.client.groups.rebalancer import new_member_id
from tidelog.client.security.security import Security
from tidelog.client.share.acknowledgements import Acknowledgements, How
from tidelog.client.share.fetcher import ShareFetcher
from tidelog.client.share.membership import ShareMembership
from tidelog.client.telemetry.reporter import TelemetryReporter
from tidelog.client.topic_names import check_topic, names_of
from tidelog.client.transactions.identity import TransactionIdentity
from tidelog.types import TopicPartition

log = logging.getLogger("tidelog.client")

MODES = ("implicit", "explicit")
ITERATION_WAIT_MS = 60_000


class ShareConsumer:
    """Reads topics as a queue.

        async with ShareConsumer("jobs", group_id="workers", bootstrap_servers="127.0.0.1:9092") as consumer:
            async for record in consumer:
                await do(record)

    Each record is delivered to one consumer of the group, which holds a lock on it for some time
    (`share.record.lock.duration.ms` of the group).  With `acknowledgement_mode="implicit"` the records of a poll are
    accepted by the next poll, by `commit` and by `close`, unless `acknowledge` said otherwise.  With "explicit",
    `acknowledge` must be called for each record before the next poll.  A record that a deserializer refuses is
    rejected.  Leaving the `async with` block with an exception releases the records in hand.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str,
        bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
        client_id: str = "tidelog",
        acknowledgement_mode: str = "implicit",
        max_poll_records: int = 500,
        max_poll_interval_ms: int = 300_000,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
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
        auto_offset_reset: None = None,
    ) -> None:
        _check_start(auto_offset_reset, group_id)
        if acknowledgement_mode not in MODES:
            raise ValueError(
                f"acknowledgement_mode cannot be {acknowledgement_mode!r}: use {' or '.join(MODES)}"
            )
        for topic in topics:
            check_topic(topic)
        if not group_id:
            raise ValueError("group_id cannot be empty: a share consumer belongs to a group")
        self._options = ConsumerOptions(
            auto_offset_reset=None,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=fetch_max_bytes,
            max_poll_records=max_poll_records,
            check_crcs=check_crcs,
            client_rack="" if client_rack is None else client_rack,
        )
        waits = request_timeout_ms, connect_timeout_ms, retry_backoff_ms, retry_backoff_max_ms
        connection = ConnectionOptions(client_id, *waits, metadata_max_age_ms, security, enable_metrics_push)
        self._environment = environment or Environment.system()
        self._cluster = Cluster(parse_addresses(bootstrap_servers), connection, self._environment)
        self._deserializers = Deserializers(key_deserializer, value_deserializer)
        self._group_id = group_id
        self._explicit = acknowledgement_mode == "explicit"
        self._max_poll_interval_ms = max_poll_interval_ms
        self._topics: tuple[str, ...] = topics
        self._acks = Acknowledgements()
        self._event = asyncio.Event()
        self._fetcher: ShareFetcher | None = None
        self._task: MembershipTask | None = None
        self._channel: Connections | None = None
        self._telemetry: TelemetryReporter | None = None
        self._renewing: set[asyncio.Task[None]] = set()
        self._in_hand: list[Record] = []
        self._at = 0
        self._polls = 0
        self._closed = False

    # Opening and closing

    async def start(self) -> None:
        """Connects; raises `Unreachable` when no bootstrap address answers.  `async with` calls this."""
        if self._fetcher is not None or self._closed:
            self._running()
            return
        try:
            await self._cluster.open()
        except BaseException:
            await self._cluster.close()
            raise
        self._fetcher = ShareFetcher(self._cluster, self._options, self._group_id, self._acks, self._event)
        self._telemetry = TelemetryReporter(
            self._cluster, "consumer.share", tuple, lambda: {"group_id": self._group_id}
        )
        self._telemetry.start()
        if self._topics:
            self._join()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(in_hand="accept" if kind is None else "release")

    async def close(self, timeout: float | None = None) -> None:
        """Sends acknowledgements, releases records that were not handed out, leaves the group.

            await consumer.close(timeout=5)

        After `timeout` seconds the consumer gives up on that, closes its connections, and raises `RequestTimedOut`:
        records in hand are delivered again when their locks expire."""
        try:
            async with asyncio.timeout(timeout):
                await self._close(in_hand="accept")
        except TimeoutError:
            raise errors.RequestTimedOut(
                f"acknowledgements were not sent, or the group was not left, within {timeout} s: records in hand "
                "may be delivered again"
            ) from None

    async def _close(self, in_hand: How) -> None:
        if self._closed:
            return
        self._closed = True
        for task in self._renewing:
            task.cancel()
        await asyncio.gather(*self._renewing, return_exceptions=True)
        try:
            if self._fetcher is not None:
                # In a loop, all records before the last one are processed, and the last one, too, unless the loop was
                # left by an exception.
                done = self._at if in_hand == "accept" else max(0, self._at - 1)
                self._give_back([*self._in_hand[done:], *self._fetcher.buffered])
                if not self._explicit:
                    self._acknowledge_held(self._in_hand[:done], "accept")
                self._acks.acknowledge_all("release" if self._explicit else in_hand)
                await self._fetcher.close()
        finally:
            try:
                if self._telemetry is not None:
                    await self._telemetry.close(last_push=in_hand == "accept")
                if self._task is not None:
                    await self._task.close()
            finally:
                if self._channel is not None:
                    await self._channel.close()
                await self._cluster.close()

    def _give_back(self, records: Iterable[Record]) -> None:
        self._acknowledge_held(records, "release")

    def _acknowledge_held(self, records: Iterable[Record], how: How) -> None:
        """Acknowledges those of the records that are still in hand."""
        for record in records:
            where = TopicPartition(record.topic, record.partition)
            if self._acks.holds(where, record.offset):
                self._acks.acknowledge(where, record.offset, how)

    # Which topics

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Subscribes to these topics, in place of the topics that were subscribed to before.

        consumer.subscribe(["jobs"])
        """
        names = tuple(dict.fromkeys(names_of(topics)))
        if not names:
            raise ValueError("name at least one topic")
        for topic in names:
            check_topic(topic)
        self._topics = names
        if self._fetcher is not None:
            self._running()
            self._join()

    def subscription(self) -> set[str]:
        """The topics that were subscribed to.

        print(consumer.subscription())
        """
        return set(self._topics)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer reads now; other consumers of the group may read the same partitions.

        print(sorted(consumer.assignment()))
        """
        return set(self._running().assigned)

    def _join(self) -> None:
        if self._task is None:
            self._channel = self._cluster.channel()
            member_id = new_member_id(self._environment.random)
            membership = ShareMembership(self._group_id, member_id, self._options.client_rack or None)
            assert self._fetcher is not None
            self._fetcher.member_id = member_id
            self._task = MembershipTask(
                self._cluster,
                CoordinatorLookup(self._cluster, CoordinatorType.GROUP, self._group_id, self._channel),
                membership,
                poll_interval_ms_max=self._max_poll_interval_ms,
                notify=self._event.set,
                progress=lambda: (self._polls, self._at),
            )
        self._task.subscribe(self._topics, None)

    # Records

    async def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[Record]:
        """Acquires records for this consumer alone, at most `max_poll_records`; waits up to `timeout_ms` for them.

            for record in await consumer.poll(timeout_ms=1000):
                consumer.acknowledge(record)

        `record.delivery_count` says how often a record has been delivered, this time included."""
        fetcher = self._running()
        records_max = self._options.max_poll_records if max_records is None else max_records
        rest = self._in_hand[self._at : self._at + records_max]
        if rest:
            self._at += len(rest)
            return rest
        self._in_hand, self._at = [], 0
        self._settle()
        clock = self._environment.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        self._polls += 1
        if self._task is not None:
            self._task.poll_began()
        try:
            while True:
                self._attend()
                records = await self._taken(records_max)
                left_ms = deadline_ms - clock.monotonic_ms()
                if records or left_ms <= 0:
                    if records or timeout_ms > 0:
                        return records
                    # A caller that only ever polls with 0 must still get ahead.
                    fetcher.fetch(records_max)
                    await asyncio.sleep(0)
                    return await self._taken(records_max)
                fetcher.fetch(records_max)
                await self._wait(left_ms)
        finally:
            if self._task is not None:
                self._task.poll_ended()

    async def _taken(self, records_max: int) -> list[Record]:
        """A record that the deserializer refuses is rejected: it would be refused the next time, too."""
        fetcher = self._running()
        records = fetcher.take(records_max)
        if not self._deserializers.active:
            return records
        good: list[Record] = []
        while records:
            count, problem = await self._deserializers.convert(records)
            good += records[:count]
            if isinstance(problem, SchemaUnavailable):
                # The record may be sound: it waits here, for as long as its lock lasts.
                fetcher.buffered[:0] = records[count:]
                if not good:
                    raise problem
                return good
            if problem is not None:
                log.warning("rejected, and never delivered again: %s", problem)
                self._acknowledge_held(records[count : count + 1], "reject")
            records = records[count + 1 :]
        return good

    def acknowledge(self, record: Record, how: How = "accept") -> None:
        """Says what became of a record: "accept", it is processed; "release", deliver it again; "reject", never
        deliver it again; "renew", processing takes longer, extend its lock.  An acknowledgement is sent along with
        the next `poll`, `commit` or `close`, a renewal at once.

            consumer.acknowledge(record, "release")
        """
        self._running()
        self._acks.acknowledge(TopicPartition(record.topic, record.partition), record.offset, how)
        if how == "renew":
            task = asyncio.get_running_loop().create_task(self._renew(), name="renew")
            self._renewing.add(task)
            task.add_done_callback(self._renewing.discard)

    async def commit(self, timeout_ms: int | None = None) -> None:
        """Sends the acknowledgements now; raises when a broker refuses one (`InvalidRecordState`: the lock had
        expired, and another consumer may have the record).

            await consumer.commit()
        """
        fetcher = self._running()
        if not self._explicit:
            self._accept_handed_out()
        options = self._cluster.options
        await fetcher.acknowledge(options.request_timeout_ms if timeout_ms is None else timeout_ms)

    async def _acknowledge_in_transaction(
        self, transaction: TransactionIdentity, records: Iterable[Record], how: How
    ) -> None:
        """Called by `Producer.send_acknowledgements_to_transaction`."""
        fetcher = self._running()
        if not self._explicit:
            raise ValueError(
                'acknowledgements can join a transaction only with acknowledgement_mode="explicit": otherwise the '
                "next poll would accept records whose transaction was aborted"
            )
        acks = self._acks.take_records(records, how)
        await fetcher.acknowledge_in(transaction, acks, self._cluster.options.request_timeout_ms)

    @property
    def lock_timeout_ms(self) -> int | None:
        """How long a delivered record is locked for this consumer; None before the first fetch.

        print(consumer.lock_timeout_ms)
        """
        return self._running().lock_timeout_ms

    async def __aiter__(self) -> AsyncIterator[Record]:
        while True:
            if self._at >= len(self._in_hand):
                await self._fill()
            while self._at < len(self._in_hand):
                self._at += 1
                yield self._in_hand[self._at - 1]

    # Inside

    async def _fill(self) -> None:
        self._in_hand, self._at = await self.poll(ITERATION_WAIT_MS), 0

    def _running(self) -> ShareFetcher:
        if self._closed:
            raise ClientClosed("this share consumer is closed: make a new one")
        if self._fetcher is None:
            raise ClientClosed("this share consumer is not started: use `async with`, or await start()")
        return self._fetcher

    def _settle(self) -> None:
        """The caller has come back for more."""
        assert self._fetcher is not None
        in_hand = self._acks.held - len(self._fetcher.buffered)
        if self._explicit and in_hand > 0:
            raise errors.InvalidRecordState(
                f"{in_hand} records of the last poll are not acknowledged: with acknowledgement_mode='explicit', "
                "acknowledge each of them first"
            )
        if not self._explicit:
            self._accept_handed_out()

    def _accept_handed_out(self) -> None:
        """Accepts all records but those that the application has not seen yet."""
        assert self._fetcher is not None
        unseen = {
            (record.topic, record.partition, record.offset)
            for record in (*self._in_hand[self._at :], *self._fetcher.buffered)
        }
        self._acks.acknowledge_all("accept", unseen)

    def _attend(self) -> None:
        if self._task is None:
            return
        membership = self._task.membership
        if membership.problem is not None:
            raise membership.problem
        fetcher = self._running()
        if fetcher.problem is not None:
            problem, fetcher.problem = fetcher.problem, None
            raise problem
        if membership.change is not None:
            fetcher.assign(membership.change.owned)
            membership.applied()
            self._task.wake()

    async def _wait(self, timeout_ms: float) -> None:
        try:
            # A failed request is retried after a while, without an event: look now and then.
            async with asyncio.timeout(min(timeout_ms, self._cluster.options.retry_backoff_ms) / 1000):
                await self._event.wait()
        except TimeoutError:
            pass
        self._event.clear()

    async def _renew(self) -> None:
        try:
            await self._running().renew(self._cluster.options.request_timeout_ms)
        except* errors.TidelogError as problems:
            log.warning("locks were not renewed: %s", problems.exceptions)


def _check_start(auto_offset_reset: object, group_id: str) -> None:
    """`Consumer` has this option, so people try it here; but a share group's start is a setting of the group."""
    if auto_offset_reset is not None:
        raise TypeError(
            "auto_offset_reset is not an option of a share consumer: where a new group starts is a setting of the "
            f"group: tidelog configs set group {group_id} share.auto.offset.reset={auto_offset_reset}"
        )
