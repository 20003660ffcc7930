"""The admin client's part for transactions: lists, describes, fences, ends and aborts them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import CoordinatorLookup, CoordinatorType
from tidelog.client.cluster.response_errors import check, raise_all
from tidelog.client.topic_names import names_of
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from tidelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

T = TypeVar("T")

DURATION_VERSION_MIN, PATTERN_VERSION_MIN = 1, 2
FENCING_TIMEOUT_MS = 60_000
EXPLICIT_END_VERSION_MAX = 4
NOBODY = -1


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """`state` is Kafka's name for it."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """`started_ms` is -1 where no transaction was ever begun."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """What a partition knows of a producer; `transaction_start` is -1 when none of its transactions is open there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int


class TransactionAdmin:
    _timeout_ms: int

    def _running(self) -> Cluster:
        raise AssertionError("the admin client says whether it runs")

    async def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Transactions that match all filters, sorted by transactional id; `pattern` is a regular expression for the
        whole id.

        hanging = await admin.list_transactions(longer_than_ms=3_600_000)
        """
        cluster = self._running()
        request = ListTransactionsRequest(
            state_filters=names_of(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )
        return await cluster.retrying("ListTransactions", lambda: _list(cluster, request), self._timeout_ms)

    async def describe_transactions(self, ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """The state, producer and partitions of each transaction.

        billing = (await admin.describe_transactions(["billing-1"]))["billing-1"]
        """
        descriptions: dict[str, TransactionDescription] = {}
        problems: list[errors.TidelogError] = []
        for name in dict.fromkeys(names_of(ids)):
            try:
                descriptions[name] = await self._at_coordinator(name, "DescribeTransactions", _describe(name))
            except errors.TidelogError as problem:
                problems.append(problem)
        raise_all("some transactions could not be described", problems)
        return descriptions

    async def describe_producers(self, partition: TopicPartition) -> list[ActiveProducer]:
        """The producers that have written to the partition lately, and their open transactions.

        producers = await admin.describe_producers(TopicPartition("orders", 0))
        """
        cluster = self._running()

        async def ask() -> list[ActiveProducer]:
            return await _producers(await _leader(cluster, partition), partition)

        return await cluster.retrying("DescribeProducers", ask, self._timeout_ms)

    async def fence_producer(self, transactional_id: str) -> None:
        """Fences the producer that has this transactional id now, and aborts its open transaction.

        await admin.fence_producer("billing-1")
        """
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=FENCING_TIMEOUT_MS,
            producer_id=NOBODY,
            producer_epoch=NOBODY,
        )

        async def ask(connection: Requester) -> None:
            answer = await connection.ask(request, InitProducerIdResponse)
            check(answer.error_code, f"the producer of {transactional_id!r}")

        await self._at_coordinator(transactional_id, "InitProducerId", ask)

    async def end_transaction(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Commits or aborts a transaction that `Producer.prepare_transaction` has left open; the call may be
        repeated.

            await admin.end_transaction(prepared, commit=True)

        Raises `InvalidTxnState`, `ProducerFenced`, `InvalidProducerEpoch` or `InvalidProducerIdMapping` when the
        transaction was ended otherwise: by a timeout, or by another producer of the same id."""
        request = EndTxnRequest(
            prepared.transactional_id, prepared.producer_id, prepared.producer_epoch, commit
        )
        most = None if prepared.implicit else EXPLICIT_END_VERSION_MAX

        async def ask(connection: Requester) -> None:
            version = connection.version_of(EndTxnRequest, most)
            answer = await connection.ask(request, EndTxnResponse, version=version)
            check(answer.error_code, f"the transaction of {prepared.transactional_id!r}")

        await self._at_coordinator(prepared.transactional_id, "EndTxn", ask)

    async def abort_transaction(self, partition: TopicPartition, start_offset: int) -> None:
        """Ends a transaction that hangs in a partition because no coordinator knows of it any more.

        await admin.abort_transaction(TopicPartition("orders", 0), start_offset=42)
        """
        cluster = self._running()

        async def ask() -> None:
            connection = await _leader(cluster, partition)
            hanging = [
                producer
                for producer in await _producers(connection, partition)
                if producer.transaction_start == start_offset
            ]
            if not hanging:
                raise errors.InvalidTxnState(
                    f"no transaction that began at offset {start_offset} is open in {partition}"
                )
            await _abort(connection, partition, hanging[0])

        await cluster.retrying("WriteTxnMarkers", ask, self._timeout_ms, (errors.InvalidTxnState,))

    async def _at_coordinator(
        self, transactional_id: str, purpose: str, ask: Callable[[Requester], Awaitable[T]]
    ) -> T:
        """Asks the coordinator of the id; each attempt looks for the current one."""
        cluster = self._running()
        coordinator = CoordinatorLookup(cluster, CoordinatorType.TRANSACTION, transactional_id)

        async def attempt() -> T:
            try:
                return await ask(await coordinator.connection())
            except errors.TidelogError as problem:
                coordinator.failed(problem)
                raise

        return await cluster.retrying(purpose, attempt, self._timeout_ms)


async def _list(cluster: Cluster, request: ListTransactionsRequest) -> list[TransactionListing]:
    await cluster.refresh(())
    listings: dict[str, TransactionListing] = {}
    for node in sorted(cluster.topology.nodes):
        connection = await cluster.node(node)
        version = connection.version_of(ListTransactionsRequest)
        for filtered, least in (
            (request.duration_filter >= 0, DURATION_VERSION_MIN),
            (request.transactional_id_pattern is not None, PATTERN_VERSION_MIN),
        ):
            if filtered and version < least:
                raise errors.UnsupportedVersion(f"broker {node} is too old for this filter")
        answer = await connection.ask(request, ListTransactionsResponse, version=version)
        check(answer.error_code, f"the transactions of broker {node}")
        if answer.unknown_state_filters:
            raise errors.InvalidRequest(f"there are no states {', '.join(answer.unknown_state_filters)}")
        for transaction in answer.transaction_states:
            listings[transaction.transactional_id] = TransactionListing(
                transaction.transactional_id, transaction.producer_id, transaction.transaction_state
            )
    return [listings[name] for name in sorted(listings)]


def _describe(name: str) -> Callable[[Requester], Awaitable[TransactionDescription]]:
    async def ask(connection: Requester) -> TransactionDescription:
        request = DescribeTransactionsRequest(transactional_ids=[name])
        answer = await connection.ask(request, DescribeTransactionsResponse)
        for transaction in answer.transaction_states:
            check(transaction.error_code, f"transactional id {name!r}")
            return TransactionDescription(
                name,
                transaction.transaction_state,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.transaction_timeout_ms,
                transaction.transaction_start_time_ms,
                tuple(
                    TopicPartition(topic.topic, index)
                    for topic in transaction.topics
                    for index in sorted(topic.partitions)
                ),
            )
        raise errors.TransactionalIdNotFound(f"transactional id {name!r}: the broker's answer is empty")

    return ask


async def _leader(cluster: Cluster, partition: TopicPartition) -> Requester:
    (node,) = await cluster.leaders([partition])
    return await cluster.node(node)


async def _producers(connection: Requester, partition: TopicPartition) -> list[ActiveProducer]:
    request = DescribeProducersRequest(topics=[TopicRequest(partition.topic, [partition.partition])])
    answer = await connection.ask(request, DescribeProducersResponse)
    producers = []
    for topic in answer.topics:
        for part in topic.partitions:
            check(part.error_code, f"the producers of {partition}", part.error_message)
            producers += [
                ActiveProducer(
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.last_sequence,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    producer.current_txn_start_offset,
                )
                for producer in part.active_producers
            ]
    return producers


async def _abort(connection: Requester, partition: TopicPartition, hanging: ActiveProducer) -> None:
    marker = WritableTxnMarker(
        producer_id=hanging.producer_id,
        producer_epoch=hanging.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(partition.topic, [partition.partition])],
        coordinator_epoch=max(hanging.coordinator_epoch, 0),
    )
    answer = await connection.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
    for written in answer.markers:
        for topic in written.topics:
            for part in topic.partitions:
                check(part.error_code, f"the transaction in {partition}")
