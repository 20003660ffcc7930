"""Rights in transactions, and the right to produce with sequence numbers."""

from __future__ import annotations

from typing import Any

from tidelog import errors
from tidelog.broker.authorization.guards import (
    CLUSTER,
    CLUSTER_REFUSED,
    GROUP,
    GROUP_REFUSED,
    TOPIC,
    TOPIC_REFUSED,
    TRANSACTION_REFUSED,
    TRANSACTIONAL_ID,
    Handler,
    Op,
    answered,
    split,
    whole,
)
from tidelog.broker.services import Context
from tidelog.wire.acls import CLUSTER_NAME
from tidelog.wire.messages import add_partitions_to_txn as add
from tidelog.wire.messages import txn_offset_commit as commit
from tidelog.wire.messages import write_txn_markers as markers
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from tidelog.wire.messages.describe_transactions import TransactionState
from tidelog.wire.messages.end_txn import EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse

_BATCHED_FROM = 4


def init_producer_id(request: Any, context: Context, handle: Handler) -> Any:
    code = 0
    if request.transactional_id is not None:
        needed = (Op.WRITE, Op.TWO_PHASE_COMMIT) if request.enable2_pc else (Op.WRITE,)
        if not all(context.allows(op, TRANSACTIONAL_ID, request.transactional_id) for op in needed):
            code = TRANSACTION_REFUSED
    elif not context.sees(Op.IDEMPOTENT_WRITE, CLUSTER, CLUSTER_NAME) and not (
        context.services.gate.allows_on_some(context.session, Op.WRITE, TOPIC)
    ):
        code = CLUSTER_REFUSED
    if code:
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return handle(request, context)


async def add_partitions_to_txn(request: Any, context: Context, handle: Handler) -> Any:
    if context.version >= _BATCHED_FROM:  # brokers ask for producers
        if not context.allows(Op.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME):
            return add.AddPartitionsToTxnResponse(error_code=CLUSTER_REFUSED)
        return await answered(handle, request, context)
    topics = request.v3_and_below_topics
    if not context.allows(Op.WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        codes = dict.fromkeys((topic.name for topic in topics), TRANSACTION_REFUSED)
        return _not_added(topics, codes)
    _, refused = split(context, Op.WRITE, TOPIC, topics, lambda topic: topic.name)
    if refused:
        codes = dict.fromkeys((topic.name for topic in topics), errors.OperationNotAttempted.code)
        codes |= dict.fromkeys((topic.name for topic in refused), TOPIC_REFUSED)
        return _not_added(topics, codes)
    return await answered(handle, request, context)


def _not_added(topics: list[Any], codes: dict[str, int]) -> add.AddPartitionsToTxnResponse:
    return add.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            add.AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    add.AddPartitionsToTxnPartitionResult(index, codes[topic.name])
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def add_offsets_to_txn(request: Any, context: Context, handle: Handler) -> Any:
    if not context.allows(Op.WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=TRANSACTION_REFUSED)
    if not context.allows(Op.READ, GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=GROUP_REFUSED)
    return handle(request, context)


end_txn = whole(
    Op.WRITE,
    TRANSACTIONAL_ID,
    lambda _, problem: EndTxnResponse(error_code=problem.code),
    lambda request: request.transactional_id,
)


async def txn_offset_commit(request: Any, context: Context, handle: Handler) -> Any:
    code = 0
    if not context.allows(Op.WRITE, TRANSACTIONAL_ID, request.transactional_id):
        code = TRANSACTION_REFUSED
    elif not context.allows(Op.READ, GROUP, request.group_id):
        code = GROUP_REFUSED
    if code:
        return commit.TxnOffsetCommitResponse(topics=[_uncommitted(topic, code) for topic in request.topics])
    request.topics, refused = split(context, Op.READ, TOPIC, request.topics, lambda topic: topic.name)
    response = await answered(handle, request, context)
    response.topics += [_uncommitted(topic, TOPIC_REFUSED) for topic in refused]
    return response


def _uncommitted(topic: Any, code: int) -> commit.TxnOffsetCommitResponseTopic:
    parts = [
        commit.TxnOffsetCommitResponsePartition(partition.partition_index, code)
        for partition in topic.partitions
    ]
    return commit.TxnOffsetCommitResponseTopic(topic.name, parts)


def write_txn_markers(request: Any, context: Context, handle: Handler) -> Any:
    """Brokers write markers; operators that end a hanging transaction do, too."""
    if context.sees(Op.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME) or context.allows(
        Op.ALTER, CLUSTER, CLUSTER_NAME
    ):
        return handle(request, context)
    return markers.WriteTxnMarkersResponse(
        markers=[
            markers.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    markers.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            markers.WritableTxnMarkerPartitionResult(index, CLUSTER_REFUSED)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


async def describe_transactions(request: Any, context: Context, handle: Handler) -> Any:
    request.transactional_ids, refused = split(
        context, Op.DESCRIBE, TRANSACTIONAL_ID, request.transactional_ids, lambda name: name
    )
    response = await answered(handle, request, context)
    for state in response.transaction_states:
        state.topics, _ = split(
            context, Op.DESCRIBE, TOPIC, state.topics, lambda topic: topic.topic, named=False
        )
    response.transaction_states += [
        TransactionState(error_code=TRANSACTION_REFUSED, transactional_id=name) for name in refused
    ]
    return response


async def list_transactions(request: Any, context: Context, handle: Handler) -> Any:
    response = await answered(handle, request, context)
    response.transaction_states, _ = split(
        context,
        Op.DESCRIBE,
        TRANSACTIONAL_ID,
        response.transaction_states,
        lambda state: state.transactional_id,
        named=False,
    )
    return response
