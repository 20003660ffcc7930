"""ListOffsets (api 2), versions 1-11, and OffsetForLeaderEpoch (api 23), versions 2-4.

Offsets by time: a timestamp, or one of the special ones below.  What is not local is looked for in remote storage."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from functools import partial
from typing import TypeVar

from tidelog import errors
from tidelog.broker.services import PARTITIONS_A_TURN, Context
from tidelog.replication.partition import HostedPartition
from tidelog.storage.leader_epochs import UNDEFINED_EPOCH
from tidelog.storage.offset_lookup import look_up
from tidelog.storage.tiers.object_store import StoreProblem
from tidelog.storage.tiers.remote_lookup import find_in_remote
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

T = TypeVar("T")
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
# The version of ListOffsets that each special timestamp came with.
_SPECIAL_FROM = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_EPOCHS_FROM = 4
READ_COMMITTED = 1
NOT_FOUND = (-1, -1, -1)


_NOT_AVAILABLE_FROM = 5


async def list_offsets(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    counts = Counter(
        (topic.name, requested.partition_index) for topic in request.topics for requested in topic.partitions
    )
    response = ListOffsetsResponse()
    for topic in request.topics:
        answered = ListOffsetsTopicResponse(name=topic.name)
        for number, requested in enumerate(topic.partitions, 1):
            if number % PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)
            answer = ListOffsetsPartitionResponse(partition_index=requested.partition_index)
            try:
                if counts[topic.name, requested.partition_index] > 1:
                    raise errors.InvalidRequest(
                        f"{topic.name}-{requested.partition_index} occurs twice in the request"
                    )
                partition = context.services.partitions.led_here(topic.name, requested.partition_index)
                partition.check_epoch(requested.current_leader_epoch)
                answer.offset, answer.timestamp, epoch = await _find(
                    partition,
                    requested,
                    request.isolation_level == READ_COMMITTED,
                    context.version,
                    context.services.config().remote_list_offsets_request_timeout_ms,
                )
                if context.version >= _EPOCHS_FROM:
                    answer.leader_epoch = epoch
            except errors.TidelogError as problem:
                answer.error_code = problem.code
            answered.partitions.append(answer)
        response.topics.append(answered)
    return response


async def _find(
    partition: HostedPartition,
    requested: ListOffsetsPartition,
    read_committed: bool,
    version: int,
    remote_ms_max: int,
) -> tuple[int, int, int]:
    """(offset, timestamp, leader epoch)."""
    log = partition.log
    timestamp = requested.timestamp
    end = partition.readable_end(read_committed)
    if timestamp not in (EARLIEST, EARLIEST_LOCAL) and not partition.state.knows_committed:
        # A new leader has heard of less than was committed: an end below what clients have read would be a lie.
        if version < _NOT_AVAILABLE_FROM:
            raise errors.LeaderNotAvailable(f"{partition.name} has a new leader: try again")
        raise errors.OffsetNotAvailable(f"{partition.name} has a new leader: try again")
    if timestamp == LATEST:
        return end, -1, log.epochs.latest
    if version < _SPECIAL_FROM.get(timestamp, 0) or timestamp < EARLIEST_PENDING_UPLOAD:
        raise errors.UnsupportedVersion(f"timestamp {timestamp} has no meaning in version {version}")
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.start if timestamp == EARLIEST else log.local_start
        return start, -1, log.epochs.of(start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return await _find_boundary(partition, timestamp, remote_ms_max)
    if log.cold is not None and log.start < log.local_start:
        remote = await _in_time(
            find_in_remote(log, timestamp, timestamp == MAX_TIMESTAMP), remote_ms_max, partition
        )
        if remote is not None:
            return remote
    search = log.max_timestamp if timestamp == MAX_TIMESTAMP else partial(log.offset_for_time, timestamp)
    timed_offset = await look_up(search)
    # What is not committed yet does not exist for a client.
    if timed_offset is None or timed_offset[0] >= end:
        return NOT_FOUND
    return timed_offset


async def _find_boundary(
    partition: HostedPartition, timestamp: int, remote_ms_max: int
) -> tuple[int, int, int]:
    """The last offset that is in remote storage, or the first one that is not; not there without remote storage."""
    log, cold = partition.log, partition.log.cold
    if cold is None:
        return NOT_FOUND
    if cold.manifest is None:
        await _in_time(cold.load(), remote_ms_max, partition)
    end = cold.end
    if timestamp == EARLIEST_PENDING_UPLOAD:
        first = log.local_start if end is None else max(end, log.start)
        return first, -1, log.epochs.of(first)
    return NOT_FOUND if end is None or end <= log.start else (end - 1, -1, log.epochs.of(end - 1))


async def _in_time(search: Awaitable[T], ms_max: int, partition: HostedPartition) -> T:
    try:
        async with asyncio.timeout(ms_max / 1000):
            return await search
    except (TimeoutError, StoreProblem) as problem:
        raise errors.RequestTimedOut(f"{partition.name}: remote storage does not answer: {problem}") from None


def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answered = OffsetForLeaderTopicResult(topic=topic.topic)
        for requested in topic.partitions:
            answered.partitions.append(_end_of_epoch(topic.topic, requested, context))
        response.topics.append(answered)
    return response


def _end_of_epoch(topic: str, requested: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    answer = EpochEndOffset(partition=requested.partition)
    try:
        partition = context.services.partitions.led_here(topic, requested.partition)
        partition.check_epoch(requested.current_leader_epoch)
    except errors.TidelogError as problem:
        answer.error_code = problem.code
        return answer
    if requested.leader_epoch == UNDEFINED_EPOCH:
        return answer
    answer.leader_epoch, answer.end_offset = partition.log.epochs.end_of(
        requested.leader_epoch, partition.state.committed
    )
    return answer
