"""Metadata (api 3), versions 0-13, and DescribeTopicPartitions (api 75), version 0.

Topics that do not exist are created when the client allows it and `auto.create.topics.enable` is set; unlike Kafka's,
the answer then has the topic already."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from uuid import UUID

from tidelog import errors
from tidelog.broker.handlers.access.controller_mutations import Mutations
from tidelog.broker.services import Context
from tidelog.metadata.elections.elections import awaited
from tidelog.metadata.image.image import Image, PartitionImage, TopicImage
from tidelog.metadata.topics.names import INTERNAL, check_topic_name
from tidelog.metadata.topics.plans import TopicSpec
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ReplicaInDoubt,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_IDS_FROM = 12
_NO_ID = UUID(int=0)
NO_LEADER = -1
# All that an ACL could allow, as bits: what a client may do where there are no ACLs.
_TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
_NEVER_STRICT = 1 << 15  # a client that looks for a topic is throttled, not refused
_CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


async def metadata(request: MetadataRequest, context: Context) -> MetadataResponse:
    services = context.services
    mutations = Mutations(context, _NEVER_STRICT)
    try:
        topics = await _topics(request, context, mutations)
    except errors.InvalidRequest as problem:
        return _refused(request, problem)
    if context.version >= 8 and request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name:  # also one that is not there, but not an id that stands for none
                topic.topic_authorized_operations = _TOPIC_OPERATIONS
    image = services.image()
    response = MetadataResponse(
        throttle_time_ms=mutations.throttle_ms,
        brokers=_brokers(image, context.listener),
        cluster_id=image.cluster_id,
        controller_id=NO_LEADER if image.controller is None else image.controller,
        topics=topics,
    )
    if 8 <= context.version <= 10 and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _CLUSTER_OPERATIONS
    return response


def _refused(request: MetadataRequest, problem: errors.InvalidRequest) -> MetadataResponse:
    """There is no field for an error of the whole request, so each of its topics carries it."""
    topics = [
        MetadataResponseTopic(error_code=problem.code, name=requested.name or "", topic_id=requested.topic_id)
        for requested in request.topics or ()
    ]
    return MetadataResponse(controller_id=NO_LEADER, topics=topics)


async def _topics(
    request: MetadataRequest, context: Context, mutations: Mutations
) -> list[MetadataResponseTopic]:
    image = context.services.image()
    if request.topics is None or (context.version == 0 and not request.topics):
        return [_described(topic, image, context.listener) for topic in image.topics.values()]
    if context.version < _IDS_FROM and any(
        topic.name is None or topic.topic_id != _NO_ID for topic in request.topics
    ):
        raise errors.InvalidRequest(f"topic ids are not served in version {context.version} of Metadata")
    answers: dict[UUID | str, MetadataResponseTopic] = {}
    missing: dict[str, None] = {}
    for requested in request.topics:
        if requested.topic_id != _NO_ID:
            answers[requested.topic_id] = _by_id(requested.topic_id, image, context.listener)
        elif requested.name is None:
            raise errors.InvalidRequest("a topic in the request has neither name nor id")
        elif (topic := image.topics.get(requested.name)) is not None:
            answers[requested.name] = _described(topic, image, context.listener)
        else:
            missing[requested.name] = None
    allowed = request.allow_auto_topic_creation and context.services.config().auto_create_topics_enable
    async for name, answer in _missing(missing, allowed, context, mutations):
        answers[name] = answer
    return list(answers.values())


def _by_id(topic_id: UUID, image: Image, listener: str) -> MetadataResponseTopic:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=errors.UnknownTopicId.code, name=None, topic_id=topic_id)
    return _described(topic, image, listener)


async def _missing(
    names: Iterable[str], create: bool, context: Context, mutations: Mutations
) -> AsyncIterator[tuple[str, MetadataResponseTopic]]:
    """Answers for topics that are not there, after trying to create them where that is wanted."""
    services = context.services
    for name in names:
        problem: errors.TidelogError = errors.UnknownTopicOrPartition()
        try:
            check_topic_name(name)
            if create:
                (made,) = await services.controller.create_topics([TopicSpec(name)])
                if isinstance(made, errors.TidelogError) and not isinstance(made, errors.TopicAlreadyExists):
                    raise made
                if not isinstance(made, errors.TidelogError):
                    _auto_created(name, context, mutations)
                topic = services.image().topics.get(name)
                if topic is not None:
                    yield name, _described(topic, services.image(), context.listener)
                    continue
        except errors.TidelogError as refusal:
            problem = refusal
        yield name, MetadataResponseTopic(error_code=problem.code, name=name, is_internal=name in INTERNAL)


def _auto_created(name: str, context: Context, mutations: Mutations) -> None:
    partitions = context.services.config().num_partitions
    mutations.charge(partitions)
    change = {"auto_created": True, "partitions": partitions}
    context.services.gate.audit.changed(context.session, "Metadata", "TOPIC", name, change, None)


def _brokers(image: Image, listener: str) -> list[MetadataResponseBroker]:
    brokers = []
    for broker in image.reachable_brokers:
        endpoint = broker.endpoint(listener)
        if endpoint is not None:
            brokers.append(
                MetadataResponseBroker(
                    node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
    return brokers


def _described(topic: TopicImage, image: Image, listener: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL,
        partitions=[
            MetadataResponsePartition(
                error_code=_leader_error(partition, image, listener),
                partition_index=partition.index,
                leader_id=NO_LEADER if partition.leader is None else partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.in_sync),
                offline_replicas=_offline(partition, image),
            )
            for partition in topic.partitions
        ],
    )


def _leader_error(partition: PartitionImage, image: Image, listener: str) -> int:
    broker = None if partition.leader is None else image.brokers.get(partition.leader)
    if broker is None:
        return errors.LeaderNotAvailable.code
    return 0 if broker.endpoint(listener) is not None else errors.ListenerNotFound.code


def _offline(partition: PartitionImage, image: Image) -> list[int]:
    return [node for node in partition.replicas if node not in image.brokers or image.brokers[node].fenced]


def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    """Pages through partitions: topics in the order of their names, from the cursor on, up to the limit."""
    image = context.services.image()
    limit = min(request.response_partition_limit, context.services.config().max_request_partition_size_limit)
    limit = max(limit, 1)
    cursor = request.cursor
    names: Sequence[str] = sorted({topic.name for topic in request.topics})
    if not request.topics:
        names = image.topics.sorted_keys()
    response = DescribeTopicPartitionsResponse()
    if cursor is not None and (
        cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)
    ):
        code = errors.InvalidRequest.code
        response.topics = [DescribeTopicPartitionsResponseTopic(error_code=code, name=name) for name in names]
        return response
    begin = 0 if cursor is None else bisect_left(names, cursor.topic_name)
    for name in islice(names, begin, None):
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if limit == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        topic = image.topics.get(name)
        if topic is None:
            # A topic of the cursor that was deleted meanwhile is passed over, an asked-for one is told.
            if request.topics:
                response.topics.append(_unknown(name))
            continue
        page = list(_page(topic, image, first, limit))
        if request.include_doubts:
            _tell_doubts(page, topic, image)
        limit -= len(page)
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.id,
                is_internal=name in INTERNAL,
                partitions=page,
                topic_authorized_operations=_TOPIC_OPERATIONS,
            )
        )
        if first + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(page))
            break
    return response


def _tell_doubts(
    page: Iterable[DescribeTopicPartitionsResponsePartition], topic: TopicImage, image: Image
) -> None:
    """Fields of our own: why replicas are in doubt, and which brokers a partition without a leader waits for."""
    live = frozenset(broker.node_id for broker in image.live_brokers)
    for row in page:
        partition = topic.partitions[row.partition_index]
        row.doubts = [
            ReplicaInDoubt(tail.node, tail.epoch, tail.end, tail.cause) for tail in partition.doubts
        ]
        row.awaited_nodes = list(awaited(partition, live))


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    problem: type[errors.TidelogError] = errors.UnknownTopicOrPartition
    try:
        check_topic_name(name)
    except errors.TidelogError as refusal:
        problem = type(refusal)
    return DescribeTopicPartitionsResponseTopic(error_code=problem.code, name=name)


def _page(
    topic: TopicImage, image: Image, first: int, limit: int
) -> Iterator[DescribeTopicPartitionsResponsePartition]:
    for partition in topic.partitions[first : first + limit]:
        yield DescribeTopicPartitionsResponsePartition(
            error_code=0 if partition.leader in image.brokers else errors.LeaderNotAvailable.code,
            partition_index=partition.index,
            leader_id=NO_LEADER if partition.leader is None else partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.in_sync),
            eligible_leader_replicas=list(partition.eligible),
            last_known_elr=sorted(partition.doubted),
            offline_replicas=_offline(partition, image),
        )
