"""A share consumer's requests to the leaders of its partitions.  Records are fetched only when the application polls,
since fetched records are locked; acknowledgements go along with a fetch, or in a request of their own.

One request at a time per broker, in a task; `ShareConsumer` owns the only instance.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping

from tidelog import errors
from tidelog._speed.client.consumed import Record
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import problem_of, raise_all
from tidelog.client.cluster.topology import NO_ID
from tidelog.client.consumer.fetch.completed_fetch import CompletedFetch
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.share.acknowledgements import AcknowledgedOffsets, Acknowledgements, AcquiredOffsets
from tidelog.client.share.session import (
    LAST_EPOCH,
    SharePartitionKey,
    ShareSessionHandler,
    acknowledge_topics,
)
from tidelog.client.transactions.identity import TransactionIdentity
from tidelog.types import TopicPartition
from tidelog.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from tidelog.wire.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse

log = logging.getLogger("tidelog.client")

LOST_SESSION = (
    errors.ShareSessionNotFound,
    errors.InvalidShareSessionEpoch,
    errors.NetworkException,
    errors.RequestTimedOut,
)
CLOSE_MS_MAX = 5_000
ALL_OFFSETS = 2**62


class _Node:
    """One broker: its session, and the request under way."""

    def __init__(self) -> None:
        self.session = ShareSessionHandler()
        self.lock = asyncio.Lock()
        self.fetching: asyncio.Task[None] | None = None
        self.not_before_ms = 0.0


class ShareFetcher:
    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        group_id: str,
        acks: Acknowledgements,
        notify: asyncio.Event,
    ) -> None:
        self.member_id = ""
        self.lock_timeout_ms: int | None = None
        self.problem: errors.TidelogError | None = None
        self.assigned: tuple[TopicPartition, ...] = ()
        self._cluster = cluster
        self._options = options
        self._group_id = group_id
        self._acks = acks
        self._notify = notify
        self._channel = cluster.channel()
        self._nodes: dict[int, _Node] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._records: list[Record] = []

    def take(self, records_max: int) -> list[Record]:
        out, self._records = self._records[:records_max], self._records[records_max:]
        return out

    @property
    def buffered(self) -> list[Record]:
        return self._records

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self.assigned = tuple(partitions)
        for partition in self.assigned:
            self._cluster.track(partition.topic)

    def fetch(self, records_max: int) -> None:
        """Fetches from every broker that leads assigned partitions and has no fetch under way."""
        by_node = self._by_node(self.assigned)
        for node, partitions in by_node.items():
            state = self._nodes.setdefault(node, _Node())
            now_ms = self._cluster.environment.clock.monotonic_ms()
            if (state.fetching is None or state.fetching.done()) and now_ms >= state.not_before_ms:
                state.fetching = asyncio.get_running_loop().create_task(
                    self._fetch(node, state, partitions, records_max), name="share fetch"
                )

    async def acknowledge(self, timeout_ms: int) -> None:
        """Sends the acknowledgements; raises when a broker refuses one."""
        pending = self._acks.pending()
        problems: list[errors.TidelogError] = []
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                for node, partitions in self._by_node(pending).items():
                    state = self._nodes.setdefault(node, _Node())
                    problems += await self._acknowledge(node, state, partitions)
        except TimeoutError:
            problems.append(errors.RequestTimedOut(f"acknowledgements were not taken within {timeout_ms} ms"))
        raise_all("some acknowledgements were not taken", problems)

    async def acknowledge_in(
        self,
        transaction: TransactionIdentity,
        acks: dict[TopicPartition, list[AcknowledgedOffsets]],
        timeout_ms: int,
    ) -> None:
        """Raises unless every broker has taken them as part of the transaction."""
        problems: list[errors.TidelogError] = []
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                by_node = self._by_node(acks)
                for partition in acks.keys() - {name for names in by_node.values() for name in names}:
                    problems.append(errors.LeaderNotAvailable(f"{partition} has no leader now"))
                for node, partitions in by_node.items():
                    state = self._nodes.setdefault(node, _Node())
                    chosen = {partition: acks[partition] for partition in partitions}
                    async with state.lock:
                        problems += await self._acknowledge_in(node, state, chosen, transaction)
        except TimeoutError:
            problems.append(errors.RequestTimedOut(f"acknowledgements were not taken within {timeout_ms} ms"))
        if problems:
            self._acks.release_later(acks)
        raise_all("some acknowledgements did not join the transaction", problems)

    async def _acknowledge_in(
        self,
        node: int,
        state: _Node,
        acks: Mapping[TopicPartition, list[AcknowledgedOffsets]],
        transaction: TransactionIdentity,
    ) -> list[errors.TidelogError]:
        if state.session.epoch == 0:
            return [errors.ShareSessionNotFound("the locks of the records ended with their session")]
        places = {self._place(partition): listed for partition, listed in acks.items()}
        return await self._send_locked(node, state, tuple(acks), places, False, transaction)

    async def renew(self, timeout_ms: int) -> None:
        """Sends the renewals, ahead of all other acknowledgements."""
        problems: list[errors.TidelogError] = []
        async with asyncio.timeout(timeout_ms / 1000):
            for node, partitions in self._by_node(self._acks.pending()).items():
                state = self._nodes.setdefault(node, _Node())
                async with state.lock:
                    problems += await self._acknowledge_locked(node, state, partitions, renewals=True)
        raise_all("some locks were not renewed", problems)

    async def close(self) -> None:
        tasks = [node.fetching for node in self._nodes.values() if node.fetching is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(CLOSE_MS_MAX / 1000):
                for node, state in self._nodes.items():
                    await self._end_session(node, state)
        except TimeoutError:
            log.warning("share sessions were not ended in time: records in hand are delivered again later")
        finally:
            await self._channel.close()

    # Inside

    def _by_node(self, partitions: Collection[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by leader; partitions without a leader are left for later."""
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            node = self._cluster.topology.leader(partition)
            if node is None:
                self._cluster.refresh_soon().add_done_callback(lambda _: self._notify.set())
                continue
            if self._leaders.setdefault(partition, node) != node:
                # Its locks ended with the old leader.
                self._leaders[partition] = node
                self._acks.drop([partition])
            by_node.setdefault(node, []).append(partition)
        return by_node

    def _place(self, partition: TopicPartition) -> SharePartitionKey:
        topic = self._cluster.topology.topics.get(partition.topic)
        return SharePartitionKey(topic.id if topic is not None else NO_ID, partition.partition)

    def _taken(
        self, state: _Node, partitions: Collection[TopicPartition], renewals: bool
    ) -> dict[SharePartitionKey, list[AcknowledgedOffsets]]:
        if state.session.epoch == 0:
            self._acks.drop(partitions)
            return {}
        taken = self._acks.take(partitions, renewals)
        return {self._place(partition): listed for partition, listed in taken.items()}

    async def _fetch(
        self, node: int, state: _Node, partitions: list[TopicPartition], records_max: int
    ) -> None:
        async with state.lock:
            try:
                await self._acknowledge_locked(node, state, partitions, renewals=True)
                acks = self._taken(state, partitions, renewals=False)
                places = {self._place(partition): partition for partition in partitions}
                topics, forgotten = state.session.fetch_topics(list(places), acks)
                connection = await self._channel.get(self._cluster.address(node))
                request = ShareFetchRequest(
                    group_id=self._group_id,
                    member_id=self.member_id,
                    share_session_epoch=state.session.epoch,
                    max_wait_ms=self._options.fetch_max_wait_ms,
                    min_bytes=self._options.fetch_min_bytes,
                    max_bytes=self._options.fetch_max_bytes,
                    max_records=records_max,
                    batch_size=records_max,
                    topics=topics,
                    forgotten_topics_data=forgotten,
                )
                answer = await connection.ask(request, ShareFetchResponse)
                if answer.error_code != errors.NONE:
                    raise problem_of(
                        answer.error_code, f"share group {self._group_id!r}", answer.error_message
                    )
                state.session.answered()
                state.not_before_ms = 0.0
                self.lock_timeout_ms = answer.acquisition_lock_timeout_ms or self.lock_timeout_ms
                for topic in answer.responses:
                    for part in topic.partitions:
                        where = places.get(SharePartitionKey(topic.topic_id, part.partition_index))
                        if where is not None:
                            self._answered(where, part)
            except errors.TidelogError as problem:
                self._failed(state, partitions, problem)
            finally:
                self._notify.set()

    def _answered(self, where: TopicPartition, part: PartitionData) -> None:
        if part.acknowledge_error_code != errors.NONE:
            problem = problem_of(part.acknowledge_error_code, str(where), part.acknowledge_error_message)
            log.warning("acknowledgements were not taken, and the records are delivered again: %s", problem)
        if part.error_code != errors.NONE:
            failed = problem_of(part.error_code, str(where), part.error_message)
            self._cluster.refresh_soon()
            if not failed.retriable:
                self.problem = failed
            return
        if part.acquired_records:
            fetched = CompletedFetch(where, part.records or b"", 0, self._options.check_crcs, None)
            records: list[Record] = []
            while chunk := fetched.next(0, ALL_OFFSETS):
                records += chunk
            spans = [
                AcquiredOffsets(acquired.first_offset, acquired.last_offset, acquired.delivery_count)
                for acquired in part.acquired_records
            ]
            self._records += self._acks.deliver(where, records, spans)

    def _failed(
        self, state: _Node, partitions: Collection[TopicPartition], problem: errors.TidelogError
    ) -> None:
        state.session.failed()
        self._acks.drop(partitions)
        gone = set(partitions)
        self._records = [
            record for record in self._records if TopicPartition(record.topic, record.partition) not in gone
        ]
        if isinstance(problem, LOST_SESSION) or problem.retriable:
            options, clock = self._cluster.options, self._cluster.environment.clock
            state.not_before_ms = clock.monotonic_ms() + options.retry_backoff_ms
            self._cluster.refresh_soon()
        else:
            self.problem = problem

    async def _acknowledge(
        self, node: int, state: _Node, partitions: Collection[TopicPartition]
    ) -> list[errors.TidelogError]:
        async with state.lock:
            problems = await self._acknowledge_locked(node, state, partitions, renewals=True)
            return problems + await self._acknowledge_locked(node, state, partitions, renewals=False)

    async def _acknowledge_locked(
        self, node: int, state: _Node, partitions: Collection[TopicPartition], renewals: bool
    ) -> list[errors.TidelogError]:
        acks = self._taken(state, partitions, renewals)
        return await self._send_locked(node, state, partitions, acks, renewals, None) if acks else []

    async def _send_locked(
        self,
        node: int,
        state: _Node,
        partitions: Collection[TopicPartition],
        acks: Mapping[SharePartitionKey, list[AcknowledgedOffsets]],
        renewals: bool,
        transaction: TransactionIdentity | None,
    ) -> list[errors.TidelogError]:
        names = {self._place(partition): partition for partition in partitions}
        try:
            answer = await self._ask_acknowledge(node, state.session.epoch, acks, renewals, transaction)
        except errors.TidelogError as problem:
            self._failed(state, partitions, problem)
            return [problem]
        state.session.answered()
        return [
            problem_of(
                part.error_code,
                str(names[SharePartitionKey(topic.topic_id, part.partition_index)]),
                part.error_message,
            )
            for topic in answer.responses
            for part in topic.partitions
            if part.error_code != errors.NONE
        ]

    async def _ask_acknowledge(
        self,
        node: int,
        epoch: int,
        acks: Mapping[SharePartitionKey, list[AcknowledgedOffsets]],
        renewals: bool = False,
        transaction: TransactionIdentity | None = None,
    ) -> ShareAcknowledgeResponse:
        connection = await self._channel.get(self._cluster.address(node))
        request = ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            share_session_epoch=epoch,
            is_renew_ack=renewals,
            topics=acknowledge_topics(acks),
        )
        if transaction is not None:
            request.transactional_id, request.producer_id, request.producer_epoch = transaction
        answer = await connection.ask(request, ShareAcknowledgeResponse)
        if answer.error_code != errors.NONE:
            raise problem_of(answer.error_code, f"share group {self._group_id!r}", answer.error_message)
        return answer

    async def _end_session(self, node: int, state: _Node) -> None:
        """Sends the last acknowledgements and ends the session, which releases records that are still locked."""
        if state.session.epoch == 0:
            return
        led = [partition for partition, leader in self._leaders.items() if leader == node]
        acks = self._taken(state, led, renewals=False)
        try:
            await self._ask_acknowledge(node, LAST_EPOCH, acks)
        except errors.TidelogError as problem:
            log.info("a share session was not ended: %s", problem)
