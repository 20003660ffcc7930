"""OffsetCommit (api 8), versions 2-10, OffsetFetch (api 9), versions 1-10, and OffsetDelete (api 47), version 0.

Topics and partitions that are not there are refused one by one; what is wrong with the group or its member is the
answer for all others."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.groups.offsets.commits import FetchedOffset, OffsetCommit, OffsetCommitter
from tidelog.groups.offsets.committed import NO_TOPIC_ID
from tidelog.metadata.image import Image, TopicImage
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_IDS_FROM = 10
_GROUPS_FROM = 8
_GROUP_ERROR_FROM = 2

_NO_TOPIC = errors.UnknownTopicOrPartition.code
_NO_ID = errors.UnknownTopicId.code


# OffsetCommit


def offset_commit(
    request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    response = OffsetCommitResponse()
    commits, answers = _commits(request, response, context)
    if not commits:
        return response
    who = OffsetCommitter(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.version,
    )
    try:
        codes, wait = context.services.group_offsets.commit(who, commits, request.retention_time_ms)
    except errors.TidelogError as problem:
        codes, wait = [problem.code] * len(commits), None
    if wait is not None:
        return _committed(response, answers, codes, wait)
    for answer, code in zip(answers, codes, strict=True):
        answer.error_code = code
    return response


async def _committed(
    response: OffsetCommitResponse,
    answers: Sequence[OffsetCommitResponsePartition],
    codes: Sequence[int],
    wait: Awaitable[None],
) -> OffsetCommitResponse:
    try:
        await wait
    except errors.TidelogError as problem:
        codes = [problem.code] * len(codes)
    for answer, code in zip(answers, codes, strict=True):
        answer.error_code = code
    return response


def _commits(
    request: OffsetCommitRequest, response: OffsetCommitResponse, context: Context
) -> tuple[list[OffsetCommit], list[OffsetCommitResponsePartition]]:
    """What can be committed, and the answers to it, which stand in `response` already."""
    image, by_id = context.services.image(), context.version >= _IDS_FROM
    commits, answers = [], []
    for requested in request.topics:
        topic = image.topic_by_id(requested.topic_id) if by_id else image.topics.get(requested.name)
        name = requested.name if topic is None else topic.name
        answered = OffsetCommitResponseTopic(name, requested.topic_id)
        response.topics.append(answered)
        for partition in requested.partitions:
            index = partition.partition_index
            answer = OffsetCommitResponsePartition(index)
            answered.partitions.append(answer)
            if topic is None or not 0 <= index < len(topic.partitions):
                answer.error_code = _NO_ID if by_id and topic is None else _NO_TOPIC
                continue
            commits.append(
                OffsetCommit(
                    name,
                    topic.id,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
            )
            answers.append(answer)
    return commits, answers


# Fetch


async def offset_fetch(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    if context.version >= _GROUPS_FROM:
        return OffsetFetchResponse(
            groups=[await _fetch(group, request.require_stable, context) for group in request.groups]
        )
    topics = request.topics
    requested = OffsetFetchRequestGroup(
        request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )
    group = await _fetch(requested, request.require_stable, context)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.metadata,
                        partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
        error_code=group.error_code,
    )


async def _fetch(
    requested: OffsetFetchRequestGroup, stable: bool, context: Context
) -> OffsetFetchResponseGroup:
    try:
        if requested.topics is None:
            topics = await _fetch_all(requested, stable, context)
        else:
            topics = await _fetch_some(requested, requested.topics, stable, context)
    except errors.TidelogError as problem:
        if context.version >= _GROUP_ERROR_FROM:
            return OffsetFetchResponseGroup(requested.group_id, error_code=problem.code)
        topics = [
            OffsetFetchResponseTopics(
                topic.name,
                partitions=[
                    _told(index, FetchedOffset(None, problem.code)) for index in topic.partition_indexes
                ],
            )
            for topic in requested.topics or ()
        ]
    return OffsetFetchResponseGroup(requested.group_id, topics)


async def _fetch_some(
    group: OffsetFetchRequestGroup, topics: Sequence[OffsetFetchRequestTopics], stable: bool, context: Context
) -> list[OffsetFetchResponseTopics]:
    image, by_id = context.services.image(), context.version >= _IDS_FROM
    places: list[tuple[str, int]] = []
    existing: list[OffsetFetchResponseTopics] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for topic in topics:
        name = _name(image, topic) if by_id else topic.name
        if name is None:
            partitions = [_told(index, FetchedOffset(None, _NO_ID)) for index in topic.partition_indexes]
            unknown.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
            continue
        existing.append(OffsetFetchResponseTopics(name, topic.topic_id))
        places += [(name, index) for index in topic.partition_indexes]
    fetched = await context.services.group_offsets.fetch(
        group.group_id, group.member_id, group.member_epoch, places, stable
    )
    offsets = iter(zip(places, fetched, strict=True))
    counts = [
        len(topic.partition_indexes) for topic in topics if not by_id or _name(image, topic) is not None
    ]
    for answered, count in zip(existing, counts, strict=True):
        for _ in range(count):
            (_, index), offset = next(offsets)
            answered.partitions.append(_told(index, offset))
    return existing + unknown


def _name(image: Image, requested: OffsetFetchRequestTopics) -> str | None:
    if requested.topic_id == NO_TOPIC_ID:
        return requested.name or None
    topic = image.topic_by_id(requested.topic_id)
    return None if topic is None else topic.name


async def _fetch_all(
    group: OffsetFetchRequestGroup, stable: bool, context: Context
) -> list[OffsetFetchResponseTopics]:
    fetched = await context.services.group_offsets.fetch_all(
        group.group_id, group.member_id, group.member_epoch, stable
    )
    image = context.services.image()
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for (name, index), offset in fetched.items():
        topic = image.topics.get(name)
        if context.version >= _IDS_FROM and topic is None:
            continue  # it has no id that could be told
        answered = topics.get(name)
        if answered is None:
            answered = topics[name] = OffsetFetchResponseTopics(
                name, NO_TOPIC_ID if topic is None else topic.id
            )
        answered.partitions.append(_told(index, offset))
    return list(topics.values())


def _told(index: int, fetched: FetchedOffset) -> OffsetFetchResponsePartitions:
    committed = fetched.committed
    if committed is None:
        return OffsetFetchResponsePartitions(index, -1, -1, "", fetched.error_code)
    return OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata)


# Delete


async def offset_delete(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    image = context.services.image()
    response = OffsetDeleteResponse()
    places, answers = [], []
    for topic in request.topics:
        topic_image: TopicImage | None = image.topics.get(topic.name)
        answered = OffsetDeleteResponseTopic(topic.name)
        response.topics.append(answered)
        for partition in topic.partitions:
            answer = OffsetDeleteResponsePartition(partition.partition_index)
            answered.partitions.append(answer)
            if topic_image is None or not 0 <= partition.partition_index < len(topic_image.partitions):
                answer.error_code = _NO_TOPIC
                continue
            places.append((topic.name, partition.partition_index))
            answers.append(answer)
    try:
        codes = await context.services.group_offsets.delete(request.group_id, places)
    except errors.TidelogError as problem:
        return OffsetDeleteResponse(error_code=problem.code)
    for answer, code in zip(answers, codes, strict=True):
        answer.error_code = code
    return response
