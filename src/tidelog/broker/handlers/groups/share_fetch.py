"""ShareFetch (api 78), versions 1-2, and ShareAcknowledge (api 79), versions 1-2.

A session names its partitions once; acknowledgements of earlier records ride on a fetch, and are taken first.  The final
epoch gives back whatever the member still has.  An acknowledgement is answered when it is on disk.  Renewals (from
version 2 on) come alone: a request that has them fetches nothing.  A ShareAcknowledge may name a transaction (Tidelog's own
fields): its acknowledgements then count when the transaction commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from uuid import UUID

from tidelog import errors
from tidelog.broker.leaders import endpoints_of
from tidelog.broker.services import Context
from tidelog.groups.share.fetch import ShareFetch, ShareFetchedRecords, ShareFetchLimits
from tidelog.groups.share.group_state import TransactionMember
from tidelog.groups.share.partition import AcknowledgedRange, check_acknowledgements
from tidelog.groups.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SharePartitionId, ShareSession
from tidelog.wire.messages import share_acknowledge as ack
from tidelog.wire.messages import share_fetch as wire

RECORD_LIMIT = 1  # of share.acquire.mode; 0 is batch_optimized
BATCH_OPTIMIZED = 0

Acknowledged = dict[SharePartitionId, errors.TidelogError | None]


async def share_fetch(request: wire.ShareFetchRequest, context: Context) -> wire.ShareFetchResponse:
    response = wire.ShareFetchResponse()
    shares = context.services.shares
    group = request.group_id or ""
    if request.group_id is not None:
        response.acquisition_lock_timeout_ms = shares.group_config(group).share_record_lock_duration_ms
    try:
        _check_fetch(request)
        session = _session_for_fetch(request, context)
    except errors.TidelogError as problem:
        response.error_code, response.error_message = problem.code, str(problem)
        response.acquisition_lock_timeout_ms = 0
        return response
    acknowledgements = {
        (topic.topic_id, partition.partition_index): _batches(partition.acknowledgement_batches)
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }
    member = request.member_id or ""
    acknowledged = await _acknowledge(context, group, member, acknowledgements, request.is_renew_ack)
    fetched: Mapping[SharePartitionId, ShareFetchedRecords | errors.TidelogError] = {}
    if session is None:
        await shares.end_session((group, member))
    elif not request.is_renew_ack and request.max_records > 0 and request.max_bytes > 0:
        limits = ShareFetchLimits(
            wait_ms=max(request.max_wait_ms, 0),
            bytes_min=max(request.min_bytes, 0),
            bytes_max=min(max(request.max_bytes, 0), shares.config.fetch_max_bytes),
            records_max=request.max_records,
            batch_records_max=request.batch_size,
            strict=request.share_acquire_mode == RECORD_LIMIT,
        )
        if acknowledged:
            limits = limits._replace(wait_ms=0)  # there is something to tell already
        fetched = await ShareFetch(shares, group, member, limits, context.hold).run(session.in_turn())
    named = list(session.parts) if session and request.share_session_epoch == INITIAL_EPOCH else []
    response.responses = _fetch_topics(named, acknowledged, fetched, context)
    response.node_endpoints = [
        wire.NodeEndpoint(*endpoint)
        for endpoint in endpoints_of(_moved(response.responses), context.services, context.listener)
    ]
    return response


def _check_fetch(request: wire.ShareFetchRequest) -> None:
    _check_names(request.group_id, request.member_id)
    if request.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
        raise errors.InvalidRequest(f"there is no acquire mode {request.share_acquire_mode}")
    acknowledges = any(
        partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions
    )
    if request.share_session_epoch == INITIAL_EPOCH and acknowledges:
        raise errors.InvalidRequest("the first fetch of a session has nothing to acknowledge yet")
    if request.is_renew_ack and (
        request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    ):
        raise errors.InvalidRequest("a request that renews fetches nothing: its limits must be 0")


def _check_names(group_id: str | None, member_id: str | None) -> None:
    if not group_id:
        raise errors.InvalidRequest("the group id is missing")
    if not member_id or len(member_id) > MEMBER_ID_CHARS_MAX:
        raise errors.InvalidRequest("the member id is missing, or no UUID")


MEMBER_ID_CHARS_MAX = 36


def _session_for_fetch(request: wire.ShareFetchRequest, context: Context) -> ShareSession | None:
    """The session, brought up to date; None when this request ends it."""
    shares = context.services.shares
    key = (request.group_id or "", request.member_id or "")
    named = [
        (topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    if request.share_session_epoch == FINAL_EPOCH:
        if shares.sessions.get(key) is None:
            raise errors.ShareSessionNotFound(f"member {key[1]} of {key[0]} has no share session (any more)")
        return None
    if request.share_session_epoch == INITIAL_EPOCH:
        return shares.begin_session(key, context.peer, named)
    session = shares.sessions.go_on(key, request.share_session_epoch)
    session.parts.update(dict.fromkeys(named))
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            session.parts.pop((topic.topic_id, index), None)
    return session


async def share_acknowledge(
    request: ack.ShareAcknowledgeRequest, context: Context
) -> ack.ShareAcknowledgeResponse:
    response = ack.ShareAcknowledgeResponse()
    shares = context.services.shares
    group, member = request.group_id or "", request.member_id or ""
    try:
        _check_names(request.group_id, request.member_id)
        if request.share_session_epoch == INITIAL_EPOCH:
            raise errors.InvalidShareSessionEpoch("a session begins with a fetch, not with acknowledgements")
        if request.share_session_epoch != FINAL_EPOCH:
            shares.sessions.go_on((group, member), request.share_session_epoch)
        elif shares.sessions.get((group, member)) is None:
            raise errors.ShareSessionNotFound(f"member {member} of {group} has no share session (any more)")
    except errors.TidelogError as problem:
        response.error_code, response.error_message = problem.code, str(problem)
        return response
    response.acquisition_lock_timeout_ms = shares.group_config(group).share_record_lock_duration_ms
    acknowledgements = {
        (topic.topic_id, partition.partition_index): _batches(partition.acknowledgement_batches)
        for topic in request.topics
        for partition in topic.partitions
    }
    transaction = None
    if request.transactional_id is not None:
        transaction = TransactionMember(request.transactional_id, request.producer_id, request.producer_epoch)
    acknowledged = await _acknowledge(
        context, group, member, acknowledgements, request.is_renew_ack, transaction
    )
    if request.share_session_epoch == FINAL_EPOCH:
        await shares.end_session((group, member))
    response.responses = _acknowledge_topics(acknowledged, context)
    response.node_endpoints = [
        ack.NodeEndpoint(*endpoint)
        for endpoint in endpoints_of(_moved(response.responses), context.services, context.listener)
    ]
    return response


# Acknowledgements


def _batches(
    batches: Iterable[wire.AcknowledgementBatch | ack.AcknowledgementBatch],
) -> list[AcknowledgedRange]:
    return [
        AcknowledgedRange(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches
    ]


async def _acknowledge(
    context: Context,
    group: str,
    member: str,
    wanted: Mapping[SharePartitionId, list[AcknowledgedRange]],
    renewals: bool,
    transaction: TransactionMember | None = None,
) -> Acknowledged:
    """All are decided on before the first wait, so that what follows on this connection finds them done."""
    shares = context.services.shares
    results: Acknowledged = {}
    waits: dict[SharePartitionId, asyncio.Future[None]] = {}
    for part, batches in wanted.items():
        try:
            check_acknowledgements(batches, renewals, transaction is not None)
            led = shares.led(group, part)
            if led is None:
                raise _unknown(part, context)
            done = led.acknowledge(member, batches, transaction)
            results[part] = None
            if done is not None:
                waits[part] = done
        except errors.TidelogError as problem:
            results[part] = problem
    for part, done in waits.items():
        try:
            await asyncio.shield(done)
        except errors.TidelogError as problem:
            results[part] = problem
    return results


def _unknown(part: SharePartitionId, context: Context) -> errors.TidelogError:
    topic_id, index = part
    if context.services.image().topic_by_id(topic_id) is None:
        return errors.UnknownTopicId(f"there is no topic with id {topic_id}")
    return errors.UnknownTopicOrPartition(f"nothing is acquired of {topic_id}-{index}")


# Answers


def _fetch_topics(
    named: Iterable[SharePartitionId],
    acknowledged: Acknowledged,
    fetched: Mapping[SharePartitionId, ShareFetchedRecords | errors.TidelogError],
    context: Context,
) -> list[wire.ShareFetchableTopicResponse]:
    """The first answer of a session names every partition of it, the others those with news.  Records are in the order in
    which they were acquired: where partitions are priorities, the highest one comes first."""
    topics: dict[UUID, wire.ShareFetchableTopicResponse] = {}
    for topic_id, index in dict.fromkeys([*fetched, *acknowledged, *named]):
        answer = wire.PartitionData(partition_index=index, records=b"")
        problem = acknowledged.get((topic_id, index))
        if problem is not None:
            answer.acknowledge_error_code, answer.acknowledge_error_message = problem.code, str(problem)
        result = fetched.get((topic_id, index))
        if isinstance(result, ShareFetchedRecords):
            answer.records = result.records
            _count(topic_id, index, result, context)
            answer.acquired_records = [wire.AcquiredRecords(*acquired) for acquired in result.acquired]
        elif result is not None:
            answer.error_code, answer.error_message = result.code, str(result)
        _tell_leader(answer, topic_id, problem, result, context)
        topic = topics.setdefault(topic_id, wire.ShareFetchableTopicResponse(topic_id))
        topic.partitions.append(answer)
    return list(topics.values())


def _count(topic_id: UUID, index: int, records: ShareFetchedRecords, context: Context) -> None:
    """Records that were acquired are records that go out, each time they do."""
    services = context.services
    partition = services.partitions.held.get((topic_id.bytes, index))
    if partition is None:
        return
    now_ms, size = services.clock.now_ms(), len(records.records)
    for acquired in records.acquired:
        partition.fetched(services.counters.requests, acquired.first, acquired.last + 1, size, now_ms)
        size = 0  # once for all of them


def _acknowledge_topics(
    acknowledged: Acknowledged, context: Context
) -> list[ack.ShareAcknowledgeTopicResponse]:
    topics: dict[UUID, ack.ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), problem in acknowledged.items():
        answer = ack.PartitionData(partition_index=index)
        if problem is not None:
            answer.error_code, answer.error_message = problem.code, str(problem)
        _tell_leader(answer, topic_id, problem, None, context)
        topic = topics.setdefault(topic_id, ack.ShareAcknowledgeTopicResponse(topic_id))
        topic.partitions.append(answer)
    return list(topics.values())


def _tell_leader(
    answer: wire.PartitionData | ack.PartitionData,
    topic_id: UUID,
    problem: errors.TidelogError | None,
    result: object,
    context: Context,
) -> None:
    """A client that asked the wrong broker learns the leader."""
    lost = (errors.NotLeaderOrFollower, errors.FencedLeaderEpoch)
    if isinstance(problem, lost) or isinstance(result, lost):
        leader = context.services.partitions.leader_of(topic_id.bytes, answer.partition_index)
        if leader is not None:
            answer.current_leader.leader_id, answer.current_leader.leader_epoch = leader


def _moved(
    topics: Iterable[wire.ShareFetchableTopicResponse | ack.ShareAcknowledgeTopicResponse],
) -> list[int]:
    codes = (errors.NotLeaderOrFollower.code, errors.FencedLeaderEpoch.code)
    leaders = []
    for topic in topics:
        for partition in topic.partitions:
            code = (
                partition.acknowledge_error_code
                if isinstance(partition, wire.PartitionData)
                else partition.error_code
            )
            if code in codes or partition.error_code in codes:
                leaders.append(partition.current_leader.leader_id)
    return sorted(set(leaders))
