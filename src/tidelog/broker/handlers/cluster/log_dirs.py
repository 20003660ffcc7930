"""DescribeLogDirs (api 35), versions 1-5, and AlterReplicaLogDirs (api 34), versions 1-2.

A cordoned directory is marked as such from version 5 on, and takes no partition by a move: INVALID_REPLICA_ASSIGNMENT.
An offline directory is answered with KAFKA_STORAGE_ERROR and no partitions.  A move between directories runs in the
background: its copy shows as a future log, with the number of offsets that it still lacks.

If the request asks for it (a field of our own), the answer has the end of each log, whether or not this broker leads: so
an operator can compare the replicas of a partition without a leader.  This opens the logs: name the topics in question.

The handler reads the size of an unopened log from the disk.  Thousands of logs take a while, so other requests run in
between."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.replication.partitions import Partitions
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.types import TopicPartition
from tidelog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from tidelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    EpochStart,
)

PARTITIONS_IN_TURN = 50
EPOCHS_MAX = 32


async def describe_log_dirs(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions
        }
    dirs = context.services.log_dirs
    partitions = context.services.partitions if request.include_log_ends else None
    results = [await _described(where, dirs, wanted, partitions) for where in dirs.dirs]
    return DescribeLogDirsResponse(results=results)


async def _described(
    where: LogDirectory,
    dirs: LogDirs,
    wanted: Collection[TopicPartition] | None,
    partitions: Partitions | None,
) -> DescribeLogDirsResult:
    """`partitions`: to tell how far the logs reach; None: that is not asked for."""
    result = DescribeLogDirsResult(log_dir=where.path, is_cordoned=where.path in dirs.cordoned())
    if where.problem is not None:
        result.error_code = errors.KafkaStorageError.code
        return result
    topics: dict[str, DescribeLogDirsTopic] = {}

    def add(name: TopicPartition, size: int, lag: int, future: bool) -> None:
        topic = topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic))
        row = DescribeLogDirsPartition(
            partition_index=name.partition, partition_size=size, offset_lag=lag, is_future_key=future
        )
        if partitions is not None and not future:
            _tell_reach(row, name, partitions)
        topic.partitions.append(row)

    try:
        held = sorted(where.names if wanted is None else where.names.intersection(wanted))
        for at, name in enumerate(held, 1):
            if name in where.names:  # it may have gone while others had their turn
                add(name, where.size_of(name), 0, False)
            if at % PARTITIONS_IN_TURN == 0:
                await asyncio.sleep(0)
        for name, move in dirs.moves.items():
            if move.target is where and (wanted is None or name in wanted):
                add(name, move.size, max(move.lag, 0), True)
        result.total_bytes, result.usable_bytes = where.volume.disk.free_bytes(where.path)
    except errors.KafkaStorageError as problem:
        return DescribeLogDirsResult(log_dir=where.path, error_code=problem.code)
    result.topics = list(topics.values())
    return result


def _tell_reach(row: DescribeLogDirsPartition, name: TopicPartition, partitions: Partitions) -> None:
    partition = partitions.of_log(name)
    if partition is None:
        return
    log = partition.log
    row.log_end_offset = log.end
    row.high_watermark = partition.state.committed
    row.damaged_ranges = len(log.damaged)
    row.leader_epochs = [EpochStart(epoch, start) for epoch, start in list(log.epochs)[-EPOCHS_MAX:]]


def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: Context
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for where in request.dirs:
        for topic in where.topics:
            row = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                result = AlterReplicaLogDirPartitionResult(partition_index=index)
                try:
                    context.services.partitions.move(TopicPartition(topic.name, index), where.path)
                except errors.TidelogError as problem:
                    result.error_code = problem.code
                row.partitions.append(result)
    return AlterReplicaLogDirsResponse(results=list(results.values()))
