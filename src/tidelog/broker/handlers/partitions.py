"""CreatePartitions (api 37), versions 0-3, and ElectLeaders (api 43), versions 0-2."""

from __future__ import annotations

from collections import Counter

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.metadata.planning import NewPartitions
from tidelog.types import TopicPartition
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1
_TYPES_FROM = 1


async def create_partitions(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    counts = Counter(topic.name for topic in request.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    wanted = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            problem = errors.InvalidRequest(f"topic {topic.name!r} is asked for twice")
            results[topic.name] = _result(topic.name, problem)
        else:
            assignment = None if topic.assignments is None else [one.broker_ids for one in topic.assignments]
            wanted.append(NewPartitions(topic.name, topic.count, assignment))
    made = await context.services.controller.create_partitions(wanted, request.validate_only)
    for one, outcome in zip(wanted, made, strict=True):
        failed = outcome if isinstance(outcome, errors.TidelogError) else None
        results[one.name] = _result(one.name, failed)
    return CreatePartitionsResponse(results=[results[name] for name in counts])


def _result(name: str, problem: errors.TidelogError | None) -> CreatePartitionsTopicResult:
    if problem is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(name=name, error_code=problem.code, error_message=str(problem))


async def elect_leaders(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """Asked for all partitions, only those are told whose leader changed, or could not."""
    kind = request.election_type if context.version >= _TYPES_FROM else PREFERRED
    if kind not in (PREFERRED, UNCLEAN):
        raise errors.InvalidRequest(f"there is no election of type {kind}")
    everything = request.topic_partitions is None
    if request.topic_partitions is None:
        image = context.services.image()
        wanted = [
            TopicPartition(topic.name, partition.index)
            for topic in image.topics.values()
            for partition in topic.partitions
        ]
    else:
        wanted = [TopicPartition(t.topic, index) for t in request.topic_partitions for index in t.partitions]
    outcome = await context.services.controller.elect_leaders(wanted, kind == UNCLEAN)
    rows: dict[str, ReplicaElectionResult] = {}
    for name, problem in outcome.items():
        if everything and isinstance(problem, errors.ElectionNotNeeded):
            continue
        row = rows.setdefault(name.topic, ReplicaElectionResult(topic=name.topic))
        result = PartitionResult(partition_id=name.partition, error_message=None)
        if problem is not None:
            result.error_code, result.error_message = problem.code, str(problem)
        row.partition_result.append(result)
    return ElectLeadersResponse(replica_election_results=list(rows.values()))
