"""Creates, deletes, describes and enlarges topics.  `Admin` is the face of this."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tidelog import errors
from tidelog.client.admin.configs import setting_text
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import problem_of, raise_all
from tidelog.client.cluster.topology import Topic
from tidelog.wire.acls import AclOperation
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

BY_BROKER = -1
STATES_SINCE = 6  # DeleteTopics names topics in another field from this version on


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 leaves the number to the broker; `assignments` (partition -> broker ids) decides both itself."""

    name: str
    partitions: int = BY_BROKER
    replication_factor: int = BY_BROKER
    configs: Mapping[str, str | int] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """-1 where a broker does not say."""

    name: str
    id: uuid.UUID
    partitions: int
    replication_factor: int


async def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], *, validate_only: bool, timeout_ms: int
) -> dict[str, CreatedTopic]:
    for new in topics:
        if not isinstance(new, NewTopic):
            raise TypeError(f"create_topics takes NewTopic(...), not {new!r}")
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics], timeout_ms=timeout_ms, validate_only=validate_only
    )

    async def ask() -> CreateTopicsResponse:
        answer = await (await cluster.controller()).ask(request, CreateTopicsResponse, timeout_ms=timeout_ms)
        await _check_controller(cluster, [result.error_code for result in answer.topics])
        return answer

    answer = await cluster.retrying("CreateTopics", ask, timeout_ms)
    made, problems = {}, []
    for result in answer.topics:
        if result.error_code == errors.NONE:
            made[result.name] = CreatedTopic(
                result.name, result.topic_id, result.num_partitions, result.replication_factor
            )
        else:
            problems.append(_topic_problem(result.error_code, result.name, result.error_message))
    raise_all("some topics were not created", problems)
    return made


async def delete_topics(cluster: Cluster, names: Sequence[str], *, timeout_ms: int) -> None:
    async def ask() -> DeleteTopicsResponse:
        connection = await cluster.controller()
        version = connection.version_of(DeleteTopicsRequest)
        request = DeleteTopicsRequest(timeout_ms=timeout_ms)
        if version >= STATES_SINCE:
            request.topics = [DeleteTopicState(name=name) for name in names]
        else:
            request.topic_names = list(names)
        answer = await connection.ask(request, DeleteTopicsResponse, version=version, timeout_ms=timeout_ms)
        await _check_controller(cluster, [result.error_code for result in answer.responses])
        return answer

    answer = await cluster.retrying("DeleteTopics", ask, timeout_ms)
    problems = [
        _topic_problem(result.error_code, result.name or str(result.topic_id), result.error_message)
        for result in answer.responses
        if result.error_code != errors.NONE
    ]
    raise_all("some topics were not deleted", problems)


async def create_partitions(
    cluster: Cluster, totals: Mapping[str, int], *, validate_only: bool, timeout_ms: int
) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name, count, assignments=None) for name, count in totals.items()],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )

    async def ask() -> CreatePartitionsResponse:
        connection = await cluster.controller()
        answer = await connection.ask(request, CreatePartitionsResponse, timeout_ms=timeout_ms)
        await _check_controller(cluster, [result.error_code for result in answer.results])
        return answer

    answer = await cluster.retrying("CreatePartitions", ask, timeout_ms)
    problems = [
        _topic_problem(result.error_code, result.name, result.error_message)
        for result in answer.results
        if result.error_code != errors.NONE
    ]
    raise_all("some topics did not get more partitions", problems)


async def describe_topics(
    cluster: Cluster, names: Collection[str] | None, *, timeout_ms: int
) -> dict[str, Topic]:
    """Describes these topics, or all with None; raises for topics that do not exist."""

    async def ask() -> dict[str, Topic]:
        topology = await cluster.refresh(names)
        wanted = sorted(topology.topics) if names is None else list(dict.fromkeys(names))
        described = {name: topology.topics[name] for name in wanted if name in topology.topics}
        problems = []
        for name in wanted:
            topic = described.get(name)
            if topic is None or topic.error:
                code = topic.error if topic is not None else errors.UnknownTopicOrPartition.code
                problems.append(_topic_problem(code, name, None))
        raise_all("some topics could not be described", problems)
        return described

    return await cluster.retrying("Metadata", ask, timeout_ms, (errors.UnknownTopicOrPartition,))


async def topic_operations(cluster: Cluster, name: str) -> frozenset[AclOperation]:
    """What the user of this client may do with the topic; nothing with a topic that the user does not see."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    answer = await (await cluster.any()).ask(request, MetadataResponse)
    bits = sum(
        topic.topic_authorized_operations for topic in answer.topics if topic.error_code == errors.NONE
    )
    return frozenset(operation for operation in AclOperation if bits > 0 and bits >> operation & 1)


def _creatable(topic: NewTopic) -> CreatableTopic:
    assigned = bool(topic.assignments)
    return CreatableTopic(
        name=topic.name,
        num_partitions=BY_BROKER if assigned else topic.partitions,
        replication_factor=BY_BROKER if assigned else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(index, list(brokers)) for index, brokers in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name, setting_text(name, value)) for name, value in topic.configs.items()
        ],
    )


def _topic_problem(code: int, name: str, message: str | None) -> errors.TidelogError:
    if code == errors.UnknownTopicOrPartition.code:
        return errors.UnknownTopicOrPartition(f"there is no topic {name!r}: check the name, or create it")
    if code == errors.TopicAlreadyExists.code:
        return errors.TopicAlreadyExists(f"Topic {name!r} already exists.")
    subject = f"topic {name!r}"
    beginnings = tuple(text.lower() for text in (f"{subject} ", f"the {subject} ", f"the topic {name} "))
    if message is not None and message.lower().startswith(beginnings):
        return errors.by_code(code)(message)  # the broker's text names the topic already
    return problem_of(code, subject, message)


async def _check_controller(cluster: Cluster, codes: Sequence[int]) -> None:
    """A broker that is not the controller has done nothing: raises `NotController`, so that the request goes to the
    controller."""
    if errors.NotController.code in codes:
        await cluster.refresh(())
        raise errors.NotController()
