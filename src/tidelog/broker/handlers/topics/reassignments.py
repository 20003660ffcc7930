"""AlterPartitionReassignments (api 45), versions 0-1, and ListPartitionReassignments (api 46), version 0.

A move that has begun continues by itself; the list shows the moves under way.  Throttles are settings of topics and
brokers, as in Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog import errors
from tidelog.broker.handlers.deadline import within
from tidelog.broker.services import Context
from tidelog.metadata.image.image import TopicImage
from tidelog.types import TopicPartition
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

_FACTOR_FROM = 1


async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    wanted: dict[TopicPartition, Sequence[int] | None] = {
        TopicPartition(topic.name, part.partition_index): part.replicas
        for topic in request.topics
        for part in topic.partitions
    }
    may_change = context.version < _FACTOR_FROM or request.allow_replication_factor_change
    outcome: Mapping[TopicPartition, errors.TidelogError | None]
    try:
        work = context.services.controller.move_partitions(wanted, same_number=not may_change)
        outcome = await within(request.timeout_ms, work)
    except errors.TidelogError as problem:
        outcome = dict.fromkeys(wanted, problem)
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change
    )
    for topic in request.topics:
        row = ReassignableTopicResponse(name=topic.name)
        for part in topic.partitions:
            failed = outcome[TopicPartition(topic.name, part.partition_index)]
            answer = ReassignablePartitionResponse(partition_index=part.partition_index)
            if failed is not None:
                answer.error_code, answer.error_message = failed.code, str(failed)
            row.partitions.append(answer)
        response.responses.append(row)
    return response


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    image = context.services.image()
    response = ListPartitionReassignmentsResponse()
    if request.topics is None:
        requested = [(topic, range(len(topic.partitions))) for topic in image.topics.values()]
    else:
        named = [(image.topics.get(topic.name), topic.partition_indexes) for topic in request.topics]
        requested = [(topic, indexes) for topic, indexes in named if topic is not None]  # type: ignore[misc]
    for topic, indexes in requested:
        moving = _moving(topic, indexes)
        if moving:
            response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=moving))
    return response


def _moving(topic: TopicImage, indexes: Sequence[int]) -> list[OngoingPartitionReassignment]:
    partitions = (topic.partitions[index] for index in indexes if 0 <= index < len(topic.partitions))
    return [
        OngoingPartitionReassignment(
            partition_index=partition.index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding),
            removing_replicas=list(partition.removing),
        )
        for partition in partitions
        if partition.adding or partition.removing
    ]
