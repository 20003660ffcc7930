"""TxnOffsetCommit (api 28), versions 0-5: offsets that count for a group once the producer's transaction is committed.

Up to version 4 the producer has added the group with AddOffsetsToTxn before; from version 5 on the request itself does.
The coordinator of the transaction is asked first, as for every partition that a transaction writes to."""

from __future__ import annotations

from uuid import UUID

from tidelog import errors
from tidelog.broker.handlers.produce.in_transaction import enlist_until_settled
from tidelog.broker.services import Context
from tidelog.coordination.internal_topic import partition_for
from tidelog.coordination.shard import Writer, coordinator_error
from tidelog.groups.offsets.commits import CommittingMember, OffsetCommit
from tidelog.transactions.transaction import ProducerIdAndEpoch
from tidelog.types import TopicPartition
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_ADDS_FROM = 5
_ABORTABLE_FROM = 4
_LOADING_FROM = 2  # before, clients do not know that a coordinator can be loading


async def txn_offset_commit(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    commits: list[OffsetCommit] = []
    rows: list[TxnOffsetCommitResponsePartition] = []
    topics = []
    for topic in request.topics:
        answered = TxnOffsetCommitResponseTopic(name=topic.name)
        topic_image = context.services.image().topics.get(topic.name)
        for requested in topic.partitions:
            row = TxnOffsetCommitResponsePartition(requested.partition_index, 0)
            answered.partitions.append(row)
            if topic_image is None or not 0 <= requested.partition_index < len(topic_image.partitions):
                row.error_code = errors.UnknownTopicOrPartition.code
                continue
            rows.append(row)
            commits.append(
                OffsetCommit(
                    topic.name,
                    topic_image.id if topic_image is not None else UUID(int=0),
                    requested.partition_index,
                    requested.committed_offset,
                    requested.committed_leader_epoch,
                    requested.committed_metadata,
                )
            )
        topics.append(answered)
    if commits:
        try:
            codes = await _commit(request, commits, context)
        except errors.TidelogError as problem:
            codes = [_understood(problem, context.version)] * len(commits)
        for row, code in zip(rows, codes, strict=True):
            row.error_code = code
    return TxnOffsetCommitResponse(topics=topics)


async def _commit(
    request: TxnOffsetCommitRequest, commits: list[OffsetCommit], context: Context
) -> list[int]:
    services = context.services
    if not request.group_id:
        raise errors.InvalidGroupId("the group id is empty")
    services.groups.shard(request.group_id)
    await _enlist(request, context)
    who = CommittingMember(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id, context.version
    )
    writer = Writer(request.producer_id, request.producer_epoch)
    return await services.group_offsets.commit_transactional(who, commits, writer)


async def _enlist(request: TxnOffsetCommitRequest, context: Context) -> None:
    """Returns when the offsets may be written, with nothing in between."""
    services, adds = context.services, context.version >= _ADDS_FROM
    topic = services.groups.topic
    count = topic.count(services.image())
    assert count is not None, "the group's shard is there"
    name = TopicPartition(topic.name, partition_for(request.group_id, count))
    instance = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    await enlist_until_settled(services, request.transactional_id, instance, name, adds)


def _understood(problem: errors.TidelogError, version: int) -> int:
    problem = coordinator_error(problem)
    if isinstance(problem, errors.ProducerFenced):
        return errors.InvalidProducerEpoch.code
    if isinstance(problem, errors.TransactionAbortable) and version < _ABORTABLE_FROM:
        return errors.InvalidTxnState.code
    if isinstance(problem, errors.CoordinatorLoadInProgress) and version < _LOADING_FROM:
        return errors.CoordinatorNotAvailable.code
    return problem.code
