"""What leaders of partitions ask the share coordinator: InitializeShareGroupState (api 83, version 0),
ReadShareGroupState (84, 0), WriteShareGroupState (85, 0-1), DeleteShareGroupState (86, 0) and
ReadShareGroupStateSummary (87, 0-1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.groups.share.group_state import UNKNOWN_START, ShareKey, StateWrite, TransactionMember
from tidelog.groups.share.in_flight import StateBatch
from tidelog.wire.messages import (
    delete_share_group_state as delete,
)
from tidelog.wire.messages import (
    initialize_share_group_state as initialize,
)
from tidelog.wire.messages import (
    read_share_group_state as read,
)
from tidelog.wire.messages import (
    read_share_group_state_summary as summary,
)
from tidelog.wire.messages import (
    write_share_group_state as write,
)

_FINISHED_FROM = 1  # the version that tells how many records behind the start are finished


async def initialize_share_group_state(
    request: initialize.InitializeShareGroupStateRequest, context: Context
) -> initialize.InitializeShareGroupStateResponse:
    shards = context.services.share_shards

    async def answer(key: ShareKey, partition: initialize.PartitionData) -> initialize.PartitionResult:
        _check_topic(key, context)
        await shards.initialize(key, partition.state_epoch, partition.start_offset)
        return initialize.PartitionResult(key.partition)

    results = await _each(request, answer, initialize.PartitionResult, initialize.InitializeStateResult)
    return initialize.InitializeShareGroupStateResponse(results)


async def read_share_group_state(
    request: read.ReadShareGroupStateRequest, context: Context
) -> read.ReadShareGroupStateResponse:
    shards = context.services.share_shards

    async def answer(key: ShareKey, partition: read.PartitionData) -> read.PartitionResult:
        state = await shards.read(key, partition.leader_epoch)
        _check_topic(key, context)
        return read.PartitionResult(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start,
            state_batches=[read.StateBatch(*batch) for batch in state.batches],
            undecided_batches=[read.UndecidedBatch(*batch) for batch in state.undecided],
        )

    results = await _each(request, answer, read.PartitionResult, read.ReadStateResult)
    return read.ReadShareGroupStateResponse(results)


async def write_share_group_state(
    request: write.WriteShareGroupStateRequest, context: Context
) -> write.WriteShareGroupStateResponse:
    shards = context.services.share_shards

    async def answer(key: ShareKey, partition: write.PartitionData) -> write.PartitionResult:
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in partition.state_batches
        ]
        state_write = StateWrite(
            partition.state_epoch,
            partition.leader_epoch,
            partition.start_offset,
            partition.delivery_complete_count,
            batches,
        )
        if request.transactional_id is None:
            await shards.write(key, state_write)
        else:
            transaction = TransactionMember(
                request.transactional_id, request.producer_id, request.producer_epoch
            )
            await shards.join(key, state_write, transaction)
        return write.PartitionResult(key.partition)

    results = await _each(request, answer, write.PartitionResult, write.WriteStateResult)
    return write.WriteShareGroupStateResponse(results)


async def delete_share_group_state(
    request: delete.DeleteShareGroupStateRequest, context: Context
) -> delete.DeleteShareGroupStateResponse:
    shards = context.services.share_shards

    async def answer(key: ShareKey, partition: delete.PartitionData) -> delete.PartitionResult:
        _check_topic(key, context)
        await shards.delete(key)
        return delete.PartitionResult(key.partition)

    results = await _each(request, answer, delete.PartitionResult, delete.DeleteStateResult)
    return delete.DeleteShareGroupStateResponse(results)


async def read_share_group_state_summary(
    request: summary.ReadShareGroupStateSummaryRequest, context: Context
) -> summary.ReadShareGroupStateSummaryResponse:
    shards = context.services.share_shards

    async def answer(key: ShareKey, partition: summary.PartitionData) -> summary.PartitionResult:
        _check_topic(key, context)
        state = await shards.summary(key)
        result = summary.PartitionResult(partition=key.partition, start_offset=UNKNOWN_START)
        if state is not None:
            result.state_epoch, result.leader_epoch = state.state_epoch, state.leader_epoch
            result.start_offset = state.start
            if context.version >= _FINISHED_FROM:
                result.delivery_complete_count = state.finished
        return result

    results = await _each(request, answer, summary.PartitionResult, summary.ReadStateSummaryResult)
    return summary.ReadShareGroupStateSummaryResponse(results)


async def _each(
    request: Any,
    perform: Callable[[ShareKey, Any], Awaitable[Any]],
    failed: type[Any],
    result: type[Any],
) -> list[Any]:
    results: list[Any] = []
    if not request.group_id:
        return results
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            try:
                key = _key(request.group_id, topic.topic_id, partition.partition)
                answers.append(await perform(key, partition))
            except errors.TidelogError as problem:
                answers.append(
                    failed(partition=partition.partition, error_code=problem.code, error_message=str(problem))
                )
        results.append(result(topic.topic_id, answers))
    return results


def _key(group: str, topic_id: UUID, partition: int) -> ShareKey:
    if not topic_id.int:
        raise errors.InvalidRequest("the topic id is missing")
    if partition < 0:
        raise errors.InvalidRequest(f"there is no partition {partition}")
    return ShareKey(group, topic_id, partition)


def _check_topic(key: ShareKey, context: Context) -> None:
    topic = context.services.image().topic_by_id(key.topic_id)
    if topic is None or key.partition >= len(topic.partitions):
        raise errors.UnknownTopicOrPartition(f"there is no partition {key.partition} of topic {key.topic_id}")
