"""Who may do what to topics: Metadata, ListOffsets, CreateTopics, DeleteTopics, DeleteRecords, CreatePartitions,
OffsetForLeaderEpoch, DescribeProducers, DescribeTopicPartitions.

Produce and Fetch ask the gate in their handlers, where an answer costs nothing when it is remembered."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from itertools import islice
from typing import Any
from uuid import UUID

from tidelog.broker.authorization.guards import (
    CLUSTER,
    TOPIC,
    TOPIC_REFUSED,
    Handler,
    Op,
    answered,
    operations,
    split,
    topic_name,
)
from tidelog.broker.services import Context
from tidelog.errors import TopicAuthorizationFailed, UnknownTopicId
from tidelog.wire.acls import CLUSTER_NAME
from tidelog.wire.messages import create_topics as create
from tidelog.wire.messages import delete_topics as delete
from tidelog.wire.messages.create_partitions import CreatePartitionsTopicResult
from tidelog.wire.messages.delete_records import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from tidelog.wire.messages.describe_producers import PartitionResponse, TopicResponse
from tidelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from tidelog.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from tidelog.wire.messages.metadata import MetadataRequestTopic, MetadataResponseTopic
from tidelog.wire.messages.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderTopicResult

_NO_ID = UUID(int=0)
_IDS_FROM = 12
_DELETE_BY_ID_FROM = 6
_CREATED_CONFIGS_FROM = 5
LOOKED_AT_A_TURN = 500


async def metadata(request: Any, context: Context, handle: Handler) -> Any:
    asks_all = request.topics is None or (context.version == 0 and not request.topics)
    refused: list[MetadataResponseTopic] = []
    if not asks_all:
        request.topics, refused = _describable(request, context)
        if not request.topics:
            request.topics = [] if context.version > 0 else [MetadataRequestTopic(name="")]
    response = await answered(handle, request, context)
    if not asks_all and context.version == 0:
        response.topics = [topic for topic in response.topics if topic.name]
    allowed, _ = split(
        context, Op.DESCRIBE, TOPIC, response.topics, lambda topic: topic.name or None, named=False
    )
    response.topics = allowed + refused
    for topic in allowed:
        if request.include_topic_authorized_operations and context.version >= 8 and topic.name:
            topic.topic_authorized_operations = operations(context, TOPIC, topic.name)
    if 8 <= context.version <= 10 and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def cluster_operations(context: Context) -> int:
    if not context.sees(Op.DESCRIBE, CLUSTER, CLUSTER_NAME):
        return 0
    return operations(context, CLUSTER, CLUSTER_NAME)


def _describable(request: Any, context: Context) -> tuple[list[Any], list[MetadataResponseTopic]]:
    """The rest of the request, and the answers for topics that may not be described, or created."""
    image, left, refused = context.services.image(), [], []
    for topic in request.topics:
        if topic.topic_id != _NO_ID and context.version >= _IDS_FROM:
            topic_image = image.topic_by_id(topic.topic_id)
            if topic_image is not None and not context.allows(Op.DESCRIBE, TOPIC, topic_image.name):
                refused.append(
                    MetadataResponseTopic(error_code=UnknownTopicId.code, name=None, topic_id=topic.topic_id)
                )
                continue
        elif topic.name is not None:
            missing = topic.name not in image.topics
            creates = (
                missing
                and request.allow_auto_topic_creation
                and context.services.config().auto_create_topics_enable
            )
            if not context.allows(Op.DESCRIBE, TOPIC, topic.name) or (
                creates and not may_create(context, topic.name)
            ):
                refused.append(MetadataResponseTopic(error_code=TOPIC_REFUSED, name=topic.name))
                continue
        left.append(topic)
    return left, refused


def may_create(context: Context, name: str) -> bool:
    return context.sees(Op.CREATE, CLUSTER, CLUSTER_NAME) or context.allows(Op.CREATE, TOPIC, name)


async def describe_topic_partitions(request: Any, context: Context, handle: Handler) -> Any:
    image = context.services.image()
    names = {topic.name for topic in request.topics}
    if not names and (request.cursor is None or request.cursor.partition_index >= 0):
        request.topics = await _first_visible(request, context)
        if not request.topics:
            return DescribeTopicPartitionsResponse()
        if request.cursor is not None and request.cursor.topic_name != request.topics[0].name:
            request.cursor = None  # its topic is gone: what follows it comes from the beginning
        names = {topic.name for topic in request.topics}
    may = context.allows if names else context.sees
    hidden = {name for name in names or image.topics if not may(Op.DESCRIBE, TOPIC, name)}
    refused = [
        DescribeTopicPartitionsResponseTopic(error_code=TOPIC_REFUSED, name=name)
        for name in sorted(hidden & names)
    ]
    if names:
        request.topics = [topic for topic in request.topics if topic.name not in hidden]
        if not request.topics:
            return DescribeTopicPartitionsResponse(topics=refused)
    response = await answered(handle, request, context)
    response.topics = [topic for topic in response.topics if topic.name not in hidden]
    for topic in response.topics:
        if topic.error_code == 0:
            topic.topic_authorized_operations = operations(context, TOPIC, topic.name)
    response.topics += refused
    return response


async def _first_visible(request: Any, context: Context) -> list[TopicRequest]:
    """As many topics as one answer may have, and the one that the next answer begins with; with pauses, since there may be
    very many that are hidden."""
    most = max(
        1, min(request.response_partition_limit, context.services.config().max_request_partition_size_limit)
    )
    names = context.services.image().topics.sorted_keys()
    begin = 0 if request.cursor is None else bisect_left(names, request.cursor.topic_name)
    visible: list[TopicRequest] = []
    for number, name in enumerate(islice(names, begin, None), 1):
        if context.sees(Op.DESCRIBE, TOPIC, name):
            visible.append(TopicRequest(name=name))
            if len(visible) > most:
                break
        if number % LOOKED_AT_A_TURN == 0:
            await asyncio.sleep(0)
    return visible


async def list_offsets(request: Any, context: Context, handle: Handler) -> Any:
    request.topics, refused = split(context, Op.DESCRIBE, TOPIC, request.topics, lambda topic: topic.name)
    response = await answered(handle, request, context)
    response.topics += [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(
                    partition_index=partition.partition_index, error_code=TOPIC_REFUSED
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]
    return response


async def offset_for_leader_epoch(request: Any, context: Context, handle: Handler) -> Any:
    if context.sees(Op.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME):
        return await answered(handle, request, context)
    request.topics, refused = split(context, Op.DESCRIBE, TOPIC, request.topics, lambda topic: topic.topic)
    response = await answered(handle, request, context)
    response.topics += [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                EpochEndOffset(partition=partition.partition, error_code=TOPIC_REFUSED)
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]
    return response


async def create_topics(request: Any, context: Context, handle: Handler) -> Any:
    refused: list[Any] = []
    if not context.sees(Op.CREATE, CLUSTER, CLUSTER_NAME):
        request.topics, refused = split(context, Op.CREATE, TOPIC, request.topics, lambda topic: topic.name)
    response = await answered(handle, request, context)
    for topic in response.topics:
        if context.version >= _CREATED_CONFIGS_FROM and not context.sees(
            Op.DESCRIBE_CONFIGS, TOPIC, topic.name
        ):
            topic.num_partitions = topic.replication_factor = -1
            topic.topic_config_error_code, topic.configs = TOPIC_REFUSED, None
    response.topics += [
        create.CreatableTopicResult(
            name=topic.name, error_code=TOPIC_REFUSED, error_message="Authorization failed."
        )
        for topic in refused
    ]
    return response


async def delete_topics(request: Any, context: Context, handle: Handler) -> Any:
    refused: list[delete.DeletableTopicResult] = []
    if context.version < _DELETE_BY_ID_FROM:
        request.topic_names, names = split(context, Op.DELETE, TOPIC, request.topic_names, lambda name: name)
        refused = [_undeletable(name, _NO_ID) for name in names]
    else:
        left = []
        for topic in request.topics:
            by_id = topic.name is None
            name = topic_name(context, topic, by_id=by_id)
            if name is None or context.allows(Op.DELETE, TOPIC, name):
                left.append(topic)
            elif by_id and context.hides_topic(topic.topic_id):
                refused.append(
                    delete.DeletableTopicResult(
                        name=None,
                        topic_id=topic.topic_id,
                        error_code=UnknownTopicId.code,
                        error_message=UnknownTopicId.about,
                    )
                )
            elif by_id and not context.sees(Op.DESCRIBE, TOPIC, name):
                refused.append(_undeletable(None, topic.topic_id))
            else:
                refused.append(_undeletable(name, topic.topic_id))
        request.topics = left
    response = await answered(handle, request, context)
    response.responses += refused
    return response


def _undeletable(name: str | None, topic_id: UUID) -> delete.DeletableTopicResult:
    return delete.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=TOPIC_REFUSED, error_message=TopicAuthorizationFailed.about
    )


async def delete_records(request: Any, context: Context, handle: Handler) -> Any:
    request.topics, refused = split(context, Op.DELETE, TOPIC, request.topics, lambda topic: topic.name)
    response = await answered(handle, request, context)
    response.topics += [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(
                    partition_index=partition.partition_index, low_watermark=-1, error_code=TOPIC_REFUSED
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]
    return response


async def create_partitions(request: Any, context: Context, handle: Handler) -> Any:
    request.topics, refused = split(context, Op.ALTER, TOPIC, request.topics, lambda topic: topic.name)
    response = await answered(handle, request, context)
    response.results += [
        CreatePartitionsTopicResult(
            name=topic.name, error_code=TOPIC_REFUSED, error_message=TopicAuthorizationFailed.about
        )
        for topic in refused
    ]
    return response


async def describe_producers(request: Any, context: Context, handle: Handler) -> Any:
    request.topics, refused = split(context, Op.READ, TOPIC, request.topics, lambda topic: topic.name)
    response = await answered(handle, request, context)
    response.topics += [
        TopicResponse(
            name=topic.name,
            partitions=[
                PartitionResponse(partition_index=index, error_code=TOPIC_REFUSED)
                for index in topic.partition_indexes
            ],
        )
        for topic in refused
    ]
    return response
