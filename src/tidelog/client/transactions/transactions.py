"""The transactional producer's requests to coordinators; `TransactionState` (pure) decides which are allowed.

Both protocols: where the cluster's `transaction.version` is 2, produce requests and offset commits add
themselves to the transaction and every end of one brings a new epoch; before that, partitions and groups are
added by requests of their own.  `Producer` owns the only instance, `Sender` asks it what may leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import CoordinatorLookup, CoordinatorType
from tidelog.client.cluster.response_errors import check
from tidelog.client.groups.metadata import GroupMetadata, OffsetAndMetadata
from tidelog.client.producer.produce_request import ProduceTransaction
from tidelog.client.producer.producer_id import ProducerId
from tidelog.client.transactions.identity import TransactionIdentity
from tidelog.client.transactions.prepared import PreparedTransaction
from tidelog.client.transactions.state import TransactionPhase, TransactionState
from tidelog.net.requester import Request, Requester, Response
from tidelog.types import TopicPartition
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

R = TypeVar("R", bound=Response)

FEATURE = "transaction.version"
IMPLICIT_FROM = 2
# The newest versions that leave adding to requests of their own; later ones of the first are brokers' only.
ADD_PARTITIONS_VERSION_MAX = 3
INIT_VERSION_MAX = 5
EXPLICIT_END_VERSION_MAX = 4
EXPLICIT_OFFSETS_VERSION_MAX = 4


class ProducerTransactions:
    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int, max_block_ms: int) -> None:
        self.id = transactional_id
        self.state = TransactionState()
        self.identity = ProducerId(-1, -1)
        self.produce_transaction = ProduceTransaction(transactional_id, implicit=False)
        self._cluster = cluster
        self._coordinator = CoordinatorLookup(cluster, CoordinatorType.TRANSACTION, transactional_id)
        self._timeout_ms = timeout_ms
        self._max_block_ms = max_block_ms
        self._added: set[TopicPartition] = set()
        self._wanted: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None

    @property
    def problem(self) -> errors.TidelogError | None:
        """Why nothing more may be sent in this transaction."""
        return (
            self.state.problem
            if self.state.phase in (TransactionPhase.BROKEN, TransactionPhase.DEAD)
            else None
        )

    async def start(self) -> None:
        """Fences the producer that used the id before, ends the transaction that it left open, and gets a producer id
        and epoch."""
        await self._identify(ProducerId(-1, -1))

    async def close(self) -> None:
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.gather(self._adding, return_exceptions=True)

    async def begin(self) -> None:
        if self.state.handed_over:
            await self._identify(ProducerId(-1, -1))
            self.state.handed_over = False
        self.state.begun()
        try:
            connection = await self._cluster.retrying(
                f"the coordinator of {self.id!r}", self._coordinator.connection, self._max_block_ms
            )
        except BaseException:
            self.state.ended()
            raise
        implicit = connection.features.get(FEATURE, 0) >= IMPLICIT_FROM
        self.produce_transaction = ProduceTransaction(self.id, implicit)
        self._added.clear()
        self._wanted.clear()

    # Asked by the sender

    def admits(self, partition: TopicPartition) -> bool:
        """The partition is part of the transaction, or becomes so by producing to it."""
        if self.problem is not None:
            return False
        if self.produce_transaction.implicit:
            self.state.started = True
            return True
        return partition in self._added

    def add(self, partition: TopicPartition) -> asyncio.Task[None]:
        """The request under way, or a new one; the task never fails: see `problem`."""
        if partition not in self._added:
            self._wanted.add(partition)
        if self._adding is None or self._adding.done():
            self._adding = asyncio.get_running_loop().create_task(self._add_wanted(), name="transaction")
        return self._adding

    def failed(self, problem: errors.TidelogError) -> None:
        """A batch could not be written."""
        self.state.failed(problem)

    async def _add_wanted(self) -> None:
        await asyncio.sleep(0)  # those that become ready in the same turn share the request
        while self._wanted and self.problem is None:
            adding = set(self._wanted)
            by_topic: dict[str, list[int]] = {}
            for topic, partition in sorted(adding):
                by_topic.setdefault(topic, []).append(partition)
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=self.identity.id,
                v3_and_below_producer_epoch=self.identity.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(*item) for item in by_topic.items()],
            )
            self.state.started = True
            try:
                await self._ask(
                    self._coordinator,
                    request,
                    AddPartitionsToTxnResponse,
                    _check_added,
                    ADD_PARTITIONS_VERSION_MAX,
                )
            except errors.TidelogError as problem:
                self.state.failed(problem, by_coordinator=True)
            else:
                self._added |= adding
            self._wanted -= adding

    # The end

    async def end(self, commit: bool) -> None:
        """Called when all batches are settled."""
        if commit:
            self.state.check_commit()
        if self.state.started:
            implicit = self.produce_transaction.implicit
            request = EndTxnRequest(self.id, self.identity.id, self.identity.epoch, commit)
            most = None if implicit else EXPLICIT_END_VERSION_MAX
            answer = await self._ask_coordinator(request, EndTxnResponse, most)
            if implicit and answer.producer_id >= 0:
                self.identity = ProducerId(answer.producer_id, answer.producer_epoch)
                self.state.count_lost = False
        if self.state.count_lost:
            await self._identify(self.identity)
        self.state.ended()

    def prepare(self) -> PreparedTransaction | None:
        """Called when all batches are settled: returns what another process needs to end the transaction, or None
        when the transaction is empty."""
        self.state.in_transaction()
        started, implicit = self.state.started, self.produce_transaction.implicit
        self.state.prepared()
        return PreparedTransaction(self.id, *self.identity, implicit) if started else None

    async def send_offsets(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        self.state.in_transaction()
        if not offsets:
            return  # a poll that gave nothing: a transaction that the coordinator never heard of has nothing to commit
        self.state.started = True
        if not self.produce_transaction.implicit:
            add = AddOffsetsToTxnRequest(self.id, self.identity.id, self.identity.epoch, group.group_id)
            await self._ask_coordinator(add, AddOffsetsToTxnResponse, None)
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), (offset, metadata, epoch) in offsets.items():
            partition_offset = TxnOffsetCommitRequestPartition(partition, offset, epoch, metadata)
            by_topic.setdefault(topic, []).append(partition_offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group.group_id,
            producer_id=self.identity.id,
            producer_epoch=self.identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(*item) for item in by_topic.items()],
        )
        most = None if self.produce_transaction.implicit else EXPLICIT_OFFSETS_VERSION_MAX
        coordinator = CoordinatorLookup(self._cluster, CoordinatorType.GROUP, group.group_id)
        try:
            await self._ask(coordinator, request, TxnOffsetCommitResponse, _check_offsets, most)
        except errors.TidelogError as problem:
            self.state.failed(problem, by_coordinator=True)
            raise

    async def join(self, send: Callable[[TransactionIdentity], Awaitable[None]]) -> None:
        """`send` makes acknowledgements of a share group part of the transaction."""
        self.state.in_transaction()
        if not self.produce_transaction.implicit:
            raise errors.UnsupportedVersion(
                "acknowledgements cannot join a transaction here: the brokers do not serve transaction.version 2"
            )
        self.state.started = True
        try:
            await send(TransactionIdentity(self.id, *self.identity))
        except BaseException as problem:
            first = problem
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            if not isinstance(first, errors.TidelogError):
                first = errors.InvalidRecordState(f"acknowledgements were not taken: {first}")
            self.state.failed(first)
            raise

    # Asking

    async def _identify(self, before: ProducerId) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=before.id,
            producer_epoch=before.epoch,
        )
        answer = await self._ask_coordinator(request, InitProducerIdResponse, INIT_VERSION_MAX)
        self.identity = ProducerId(answer.producer_id, answer.producer_epoch)
        self.state.count_lost = False

    async def _ask_coordinator(self, request: Request, response: type[R], most: int | None) -> R:
        """The transaction coordinator's answer; an error that is not retriable also changes the state."""
        subject = f"transactional id {self.id!r}"
        try:
            return await self._ask(
                self._coordinator,
                request,
                response,
                lambda answer: check(answer.error_code, subject),  # type: ignore[attr-defined]
                most,
            )
        except errors.TidelogError as problem:
            if not problem.retriable:
                self.state.failed(problem, by_coordinator=True)
            raise

    async def _ask(
        self,
        coordinator: CoordinatorLookup,
        request: Request,
        response: type[R],
        check_answer: Callable[[R], None],
        most: int | None,
    ) -> R:
        async def attempt() -> R:
            try:
                connection: Requester = await coordinator.connection()
                version = connection.version_of(type(request), most)
                answer = await connection.ask(request, response, version=version)
                check_answer(answer)
                return answer
            except errors.TidelogError as problem:
                coordinator.failed(problem)
                raise

        purpose = f"{type(request).__name__.removesuffix('Request')} of {self.id!r}"
        return await self._cluster.retrying(purpose, attempt, self._max_block_ms)


def _check_added(answer: AddPartitionsToTxnResponse) -> None:
    problems = {}
    for topic in answer.results_by_topic_v3_and_below:
        for result in topic.results_by_partition:
            if result.partition_error_code:
                problems[result.partition_error_code] = (
                    f"{topic.name}-{result.partition_index} in the transaction"
                )
    # The others were not attempted because of the one that has a reason of its own.
    for code, subject in sorted(
        problems.items(), key=lambda item: item[0] == errors.OperationNotAttempted.code
    ):
        check(code, subject)


def _check_offsets(answer: TxnOffsetCommitResponse) -> None:
    for topic in answer.topics:
        for partition in topic.partitions:
            check(
                partition.error_code,
                f"the offset of {topic.name}-{partition.partition_index} in the transaction",
            )
