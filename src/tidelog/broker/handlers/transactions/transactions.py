"""AddPartitionsToTxn (api 24), versions 0-5; AddOffsetsToTxn (api 25), versions 0-4; EndTxn (api 26), versions 0-5;
WriteTxnMarkers (api 27), versions 1-2; DescribeTransactions (api 65), version 0; ListTransactions (api 66), versions 0-2.

From version 5 of EndTxn on, every end gives the producer a new epoch in its answer.  Versions 4 and up of
AddPartitionsToTxn are for brokers that verify transactions for producers; without access rules, any client may send them.
Two-phase commit is not served."""

from __future__ import annotations

from typing import Any

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.coordination.internal_topic import partition_for
from tidelog.metadata.topics.names import INTERNAL
from tidelog.replication.partition import Ending
from tidelog.transactions.state_machine import by_topic
from tidelog.transactions.transaction import BY_TITLE, EPOCH_BUMPS_FROM, ProducerIdAndEpoch, Transaction
from tidelog.types import TopicPartition
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tidelog.wire.messages.list_transactions import (
    TransactionState as ListedTransaction,
)
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_BATCHED_FROM = 4
_FENCED_FROM = 2  # before, clients know only INVALID_PRODUCER_EPOCH
_BUMPS_FROM = 5
MARKER_MS_MAX = 30_000

Codes = dict[TopicPartition, int]


# Adding


async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: Context
) -> AddPartitionsToTxnResponse:
    if context.version >= _BATCHED_FROM:
        results = []
        for transaction in request.transactions:
            codes = await _add(transaction, context)
            results.append(AddPartitionsToTxnResult(transaction.transactional_id, _by_topic(codes)))
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_by_topic(await _add(transaction, context))
    )


async def _add(transaction: AddPartitionsToTxnTransaction, context: Context) -> Codes:
    names = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    codes = _refusals(names, context)
    if codes:
        return {name: codes.get(name, errors.OperationNotAttempted.code) for name in names}
    instance = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    transactions = context.services.transactions
    if transaction.verify_only:
        for name in names:
            try:
                await transactions.verify(transaction.transactional_id, instance, name)
            except errors.TidelogError as problem:
                codes[name] = problem.code
        return {name: codes.get(name, 0) for name in names}
    version = EPOCH_BUMPS_FROM if context.version >= _BATCHED_FROM else 0
    code = 0
    try:
        await transactions.add_partitions(transaction.transactional_id, instance, frozenset(names), version)
    except errors.TidelogError as problem:
        code = _understood(problem, context.version, _FENCED_FROM)
    return dict.fromkeys(names, code)


def _refusals(names: list[TopicPartition], context: Context) -> Codes:
    """Partitions that cannot be part of a transaction: then none of the request is added."""
    image = context.services.image()
    refused: Codes = {}
    for name in names:
        if context.version < _BATCHED_FROM and name.topic in INTERNAL:
            refused[name] = errors.TopicAuthorizationFailed.code
        elif image.partition(*name) is None:
            refused[name] = errors.UnknownTopicOrPartition.code
    return refused


def _by_topic(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, index), code in codes.items():
        row = topics.setdefault(topic, AddPartitionsToTxnTopicResult(name=topic))
        row.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, code))
    return list(topics.values())


async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse:
    """The group's partition of the offsets topic becomes part of the transaction."""
    services = context.services
    instance = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        count = await services.groups.topic.ensure()
        name = TopicPartition(services.groups.topic.name, partition_for(request.group_id, count))
        await services.transactions.add_partitions(request.transactional_id, instance, frozenset((name,)), 0)
    except errors.TidelogError as problem:
        return AddOffsetsToTxnResponse(error_code=_understood(problem, context.version, _FENCED_FROM))
    return AddOffsetsToTxnResponse()


# Ending


async def end_txn(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    version = EPOCH_BUMPS_FROM if context.version >= _BUMPS_FROM else 0
    instance = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        then = await context.services.transactions.end(
            request.transactional_id, instance, request.committed, version
        )
    except errors.TidelogError as problem:
        return EndTxnResponse(error_code=_understood(problem, context.version, _FENCED_FROM))
    if version < EPOCH_BUMPS_FROM:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=then.producer_id, producer_epoch=then.epoch)


async def write_txn_markers(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(marker.producer_id, await _write(marker, context))
            for marker in request.markers
        ]
    )


async def _write(marker: WritableTxnMarker, context: Context) -> list[WritableTxnMarkerTopicResult]:
    ending = Ending(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    answers, waits = [], []
    for topic in marker.topics:
        answer = WritableTxnMarkerTopicResult(name=topic.name)
        for index in topic.partition_indexes:
            row = WritableTxnMarkerPartitionResult(index, 0)
            try:
                wait = context.services.markers.append_here(TopicPartition(topic.name, index), ending)
            except errors.TidelogError as problem:
                row.error_code = problem.code
            else:
                if wait is not None:
                    waits.append((row, wait))
            answer.partitions.append(row)
        answers.append(answer)
    for row, wait in waits:
        try:
            await wait(MARKER_MS_MAX)
        except errors.TidelogError as problem:
            row.error_code = problem.code
    return answers


def _understood(problem: errors.TidelogError, version: int, fenced_from: int) -> int:
    if version < fenced_from and isinstance(problem, errors.ProducerFenced):
        return errors.InvalidProducerEpoch.code
    return problem.code


# Telling


async def describe_transactions(
    request: DescribeTransactionsRequest, context: Context
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[await _described(name, context) for name in request.transactional_ids]
    )


async def _described(transactional_id: str, context: Context) -> TransactionState:
    try:
        transaction = await context.services.transactions.described(transactional_id)
    except errors.TidelogError as problem:
        return TransactionState(error_code=problem.code, transactional_id=transactional_id)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[TopicData(topic, indexes) for topic, indexes in by_topic(transaction.partitions).items()],
    )


def list_transactions(request: ListTransactionsRequest, context: Context) -> ListTransactionsResponse:
    unknown = [name for name in request.state_filters if name not in BY_TITLE]
    try:
        pattern = _pattern(request.transactional_id_pattern)
        listed = [
            ListedTransaction(transaction.id, transaction.producer_id, transaction.state.title)
            for transaction in context.services.transactions.all()
            if _wanted(transaction, request, context.services.clock.now_ms())
            and (pattern is None or pattern.fullmatch(transaction.id))
        ]
    except errors.TidelogError as problem:
        return ListTransactionsResponse(error_code=problem.code)
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)


def _wanted(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.title not in request.state_filters:
        return False
    return request.duration_filter < 0 or now_ms - transaction.started_ms > request.duration_filter


def _pattern(text: str | None) -> Any:
    if not text:
        return None
    import re2  # no expression keeps it busy for long, and hardly anybody asks this way

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error:
        raise errors.InvalidRegularExpression(f"{text!r} is not a regular expression") from None
