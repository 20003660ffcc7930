"""CreateTopics (api 19), versions 2-7, and DeleteTopics (api 20), versions 1-6.

Both answer when the change has taken effect on this broker, so the request's time-out is not needed; a topic asked for
twice in one request is refused both times, as Kafka does."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.config.describe import describe_topic
from tidelog.metadata.image import Topic
from tidelog.metadata.planning import NewTopic, Plan, check_total
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
)

_IDS_FROM = 6
_NO_ID = UUID(int=0)


async def create_topics(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    counts = Counter(topic.name for topic in request.topics)
    wanted: dict[str, NewTopic] = {}
    results: dict[str, CreatableTopicResult] = {}
    for topic in request.topics:
        try:
            if counts[topic.name] > 1:
                raise errors.InvalidRequest(f"topic {topic.name!r} is asked for twice")
            wanted[topic.name] = _wanted(topic)
        except errors.TidelogError as problem:
            results[topic.name] = _failed(topic.name, problem)
    controller = context.services.controller
    try:
        check_total(list(wanted.values()), context.services.config())
    except errors.TidelogError as problem:
        results.update({name: _failed(name, problem) for name in wanted})
        wanted.clear()
    made = await controller.create_topics(list(wanted.values()), request.validate_only)
    for name, plan in zip(wanted, made, strict=True):
        results[name] = _created(plan, context) if isinstance(plan, Plan) else _failed(name, plan)
    return CreateTopicsResponse(topics=[results[name] for name in counts])


def _wanted(topic: CreatableTopic) -> NewTopic:
    assignment = {one.partition_index: one.broker_ids for one in topic.assignments}
    if len(assignment) != len(topic.assignments):
        raise errors.InvalidReplicaAssignment(f"topic {topic.name!r}: a partition is assigned twice")
    configs = {one.name: one.value for one in topic.configs}
    if len(configs) != len(topic.configs):
        raise errors.InvalidConfig(f"topic {topic.name!r}: a setting is given twice")
    return NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignment or None, configs)


def _failed(name: str, problem: errors.TidelogError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=problem.code, error_message=str(problem), configs=None)


def _created(plan: Plan, context: Context) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=plan.name,
        topic_id=plan.record.id,
        error_message=None,
        num_partitions=len(plan.record.replicas),
        replication_factor=len(plan.record.replicas[0]),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(plan.configs, context.services.config())
        ],
    )


async def delete_topics(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    wanted: list[str | UUID]
    if context.version >= _IDS_FROM:
        wanted = [topic.topic_id if topic.name is None else topic.name for topic in request.topics]
        for topic in request.topics:
            if topic.name is not None and topic.topic_id != _NO_ID:
                raise errors.InvalidRequest(
                    f"topic {topic.name!r} is given by name and by id: give one of them"
                )
    else:
        wanted = list(request.topic_names)
    if not context.services.config().delete_topic_enable:
        problem = errors.TopicDeletionDisabled("delete.topic.enable is false on this broker")
        return DeleteTopicsResponse(responses=[_deleted(one, problem, context.version) for one in wanted])
    counts = Counter(wanted)
    once = [one for one in counts if counts[one] == 1]
    outcome: dict[str | UUID, Topic | errors.TidelogError] = {
        one: errors.InvalidRequest(f"topic {one} is asked for twice") for one in counts if counts[one] > 1
    }
    outcome.update(zip(once, await context.services.controller.delete_topics(once), strict=True))
    return DeleteTopicsResponse(responses=[_deleted(one, outcome[one], context.version) for one in counts])


def _deleted(wanted: str | UUID, outcome: Topic | errors.TidelogError, version: int) -> DeletableTopicResult:
    if isinstance(outcome, Topic):
        return DeletableTopicResult(name=outcome.name, topic_id=outcome.id)
    return DeletableTopicResult(
        name=wanted if isinstance(wanted, str) else None,
        topic_id=wanted if isinstance(wanted, UUID) else _NO_ID,
        error_code=outcome.code,
        error_message=str(outcome) if version >= 5 else None,
    )
