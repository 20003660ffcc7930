"""CreateTopics (api 19), versions 2-7, and DeleteTopics (api 20), versions 1-6.

Both answer when the change has taken effect on this broker, or when the request's time-out is over.  A topic that
stands twice in one request is refused.  Partitions made and deleted are charged to the controller mutation quota: above it
newer versions (CreateTopics 6, DeleteTopics 5) refuse topics, and older ones are throttled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import UUID

from tidelog import errors
from tidelog.broker.handlers.access.controller_mutations import Mutations
from tidelog.broker.handlers.deadline import within
from tidelog.broker.services import Context
from tidelog.config.describe import describe_topic
from tidelog.metadata.image.image import TopicImage
from tidelog.metadata.topics.plans import TopicPlan, TopicSpec
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_DISABLED_FROM = 3
_IDS_FROM = 6
_NO_ID = UUID(int=0)
_STRICT_CREATION_FROM, _STRICT_DELETION_FROM = 6, 5

Refused = errors.TidelogError


async def create_topics(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    counts = Counter(topic.name for topic in request.topics)
    wanted: dict[str, TopicSpec] = {}
    outcome: dict[str, TopicPlan | Refused] = {}
    mutations = Mutations(context, _STRICT_CREATION_FROM)
    for topic in request.topics:
        try:
            if counts[topic.name] > 1:
                raise errors.InvalidRequest(f"topic {topic.name!r} occurs twice in the request")
            spec = _wanted(topic)
            if not request.validate_only and topic.name not in context.services.image().topics:
                mutations.charge(_partitions(topic, context))
            wanted[topic.name] = spec
        except Refused as problem:
            outcome[topic.name] = problem
    made: Sequence[TopicPlan | Refused]
    try:
        work = context.services.controller.create_topics(list(wanted.values()), request.validate_only)
        made = await within(request.timeout_ms, work)
    except Refused as problem:
        made = [problem] * len(wanted)
    outcome.update(zip(wanted, made, strict=True))
    results = [_created(name, outcome[name], context) for name in counts]
    return CreateTopicsResponse(throttle_time_ms=mutations.throttle_ms, topics=results)


def _partitions(topic: CreatableTopic, context: Context) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return topic.num_partitions if topic.num_partitions > 0 else context.services.config().num_partitions


def _wanted(topic: CreatableTopic) -> TopicSpec:
    assignment = {assigned.partition_index: assigned.broker_ids for assigned in topic.assignments}
    if len(assignment) != len(topic.assignments):
        raise errors.InvalidReplicaAssignment(f"topic {topic.name!r}: a partition is assigned twice")
    # Of a setting that is given twice the last value counts, as in Kafka.
    configs = {config.name: config.value for config in topic.configs}
    return TopicSpec(topic.name, topic.num_partitions, topic.replication_factor, assignment or None, configs)


def _created(name: str, outcome: TopicPlan | Refused, context: Context) -> CreatableTopicResult:
    if isinstance(outcome, Refused):
        return CreatableTopicResult(name=name, error_code=outcome.code, error_message=str(outcome))
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.record.id,
        error_message=None,
        num_partitions=len(outcome.record.replicas),
        replication_factor=len(outcome.record.replicas[0]),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(outcome.configs, context.services.config())
        ],
    )


async def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    requested = request.topics
    if context.version < _IDS_FROM:
        requested = [DeleteTopicState(name=name) for name in request.topic_names]
    wanted, results = _sorted_out(requested, context)
    mutations = Mutations(context, _STRICT_DELETION_FROM)
    wanted = list(_affordable(wanted, results, mutations, context))
    outcome: Sequence[TopicImage | Refused]
    try:
        _check_enabled(context)
        outcome = await within(request.timeout_ms, context.services.controller.delete_topics(wanted))
    except Refused as problem:
        outcome = [problem] * len(wanted)
    for name_or_id, done in zip(wanted, outcome, strict=True):
        name, topic_id = (name_or_id, _NO_ID) if isinstance(name_or_id, str) else (None, name_or_id)
        if isinstance(done, TopicImage):
            results.append(DeletableTopicResult(name=done.name, topic_id=done.id))
        else:
            results.append(_refused(name, topic_id, done))
    return DeleteTopicsResponse(throttle_time_ms=mutations.throttle_ms, responses=results)


def _affordable(
    wanted: Sequence[str | UUID],
    results: list[DeletableTopicResult],
    mutations: Mutations,
    context: Context,
) -> Iterator[str | UUID]:
    """What the quota leaves of `wanted`; answers for the others are added to `results`."""
    image = context.services.image()
    for name_or_id in wanted:
        topic = image.topics.get(name_or_id) if isinstance(name_or_id, str) else image.topic_by_id(name_or_id)
        try:
            if topic is not None and context.services.config().delete_topic_enable:
                mutations.charge(len(topic.partitions))
        except Refused as problem:
            name, topic_id = (name_or_id, _NO_ID) if isinstance(name_or_id, str) else (None, name_or_id)
            results.append(_refused(name, topic_id, problem))
        else:
            yield name_or_id


def _sorted_out(
    requested: Sequence[DeleteTopicState], context: Context
) -> tuple[list[str | UUID], list[DeletableTopicResult]]:
    """(what can be deleted, the answers for what cannot)"""
    names = Counter(topic.name for topic in requested if topic.name is not None)
    ids = Counter(topic.topic_id for topic in requested if topic.topic_id != _NO_ID)
    image = context.services.image()
    wanted: dict[str | UUID, None] = {}
    refused: dict[tuple[str | None, UUID], str] = {}
    for topic in requested:
        name, topic_id = topic.name, topic.topic_id
        topic_image = image.topic_by_id(topic_id) if name is None else image.topics.get(name)
        if name is None and topic_id == _NO_ID:
            refused[name, topic_id] = "neither a name nor an id is given"
        elif name is not None and topic_id != _NO_ID:
            refused[name, topic_id] = f"topic {name!r} is given by name and by id: give one of them"
        elif (name is not None and names[name] > 1) or ids[topic_id] > 1:
            refused[name, topic_id] = (
                f"topic {topic_id if name is None else name} occurs twice in the request"
            )
        elif topic_image is not None and (
            topic_image.id in ids if name is not None else topic_image.name in names
        ):
            refused[topic_image.name, topic_image.id] = (
                f"topic {topic_image.name} is asked for by name and by id"
            )
        else:
            wanted[topic_id if name is None else name] = None
    results = [_refused(*key, errors.InvalidRequest(why)) for key, why in refused.items()]
    return list(wanted), results


def _check_enabled(context: Context) -> None:
    if not context.services.config().delete_topic_enable:
        why = "delete.topic.enable is false on this broker"
        if context.version < _DISABLED_FROM:
            raise errors.InvalidRequest(why)
        raise errors.TopicDeletionDisabled(why)


def _refused(name: str | None, topic_id: UUID, problem: Refused) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=problem.code, error_message=str(problem)
    )
