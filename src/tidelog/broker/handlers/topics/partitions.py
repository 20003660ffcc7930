"""CreatePartitions (api 37), versions 0-3, and ElectLeaders (api 43), versions 0-2.

A request of ElectLeaders may name who shall lead each partition (a field of our own): only for elections that are
unclean, where an operator has seen what each replica has.

Both answer when the change has taken effect on this broker, or when the request's time-out is over.  New partitions are
charged to the controller mutation quota: above it version 3 of CreatePartitions refuses topics, older ones are throttled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tidelog import errors
from tidelog.broker.handlers.access.controller_mutations import Mutations
from tidelog.broker.handlers.deadline import within
from tidelog.broker.services import Context
from tidelog.metadata.topics.plans import NewPartitions, TopicPlan
from tidelog.types import NodeId, TopicPartition
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

PREFERRED, UNCLEAN = 0, 1
_TYPES_FROM = 1
_STRICT_FROM = 3


async def create_partitions(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    counts = Counter(topic.name for topic in request.topics)
    outcome: dict[str, TopicPlan | errors.TidelogError] = {
        name: errors.InvalidRequest(f"topic {name!r} occurs twice in the request")
        for name in counts
        if counts[name] > 1
    }
    mutations = Mutations(context, _STRICT_FROM)
    wanted = []
    for topic in request.topics:
        if counts[topic.name] == 1:
            try:
                if not request.validate_only:
                    mutations.charge(_added(topic, context))
                wanted.append(_wanted(topic))
            except errors.ThrottlingQuotaExceeded as problem:
                outcome[topic.name] = problem
    made: Sequence[TopicPlan | errors.TidelogError]
    try:
        work = context.services.controller.create_partitions(wanted, request.validate_only)
        made = await within(request.timeout_ms, work)
    except errors.TidelogError as problem:
        made = [problem] * len(wanted)
    outcome.update(zip((topic.name for topic in wanted), made, strict=True))
    results = [_result(name, outcome[name]) for name in counts]
    return CreatePartitionsResponse(throttle_time_ms=mutations.throttle_ms, results=results)


def _added(topic: CreatePartitionsTopic, context: Context) -> int:
    existing = context.services.image().topics.get(topic.name)
    return 0 if existing is None else topic.count - len(existing.partitions)


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignment = (
        None if topic.assignments is None else [assigned.broker_ids for assigned in topic.assignments]
    )
    return NewPartitions(topic.name, topic.count, assignment)


def _result(name: str, outcome: TopicPlan | errors.TidelogError) -> CreatePartitionsTopicResult:
    if isinstance(outcome, errors.TidelogError):
        return CreatePartitionsTopicResult(name=name, error_code=outcome.code, error_message=str(outcome))
    return CreatePartitionsTopicResult(name=name)


async def elect_leaders(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """A request for all partitions is answered only with those whose leader changed, or whose election failed."""
    everything = request.topic_partitions is None
    wanted = _all(context) if request.topic_partitions is None else _named(request.topic_partitions)
    kind = request.election_type if context.version >= _TYPES_FROM else PREFERRED
    refused: errors.TidelogError | None = None
    outcome: Mapping[TopicPartition, errors.TidelogError | None] = {}
    try:
        if kind not in (PREFERRED, UNCLEAN):
            raise errors.InvalidRequest(f"there is no election of type {kind}")
        chosen = _chosen(request.topic_partitions or ())
        if chosen and kind != UNCLEAN:
            raise errors.InvalidRequest("leaders can be chosen in an unclean election only")
        work = context.services.controller.elect_leaders(wanted, kind == UNCLEAN, chosen)
        outcome = await within(request.timeout_ms, work)
    except errors.TidelogError as problem:
        refused = problem
        outcome = {} if everything else dict.fromkeys(wanted, problem)
    rows: dict[str, ReplicaElectionResult] = {}
    for name, failed in outcome.items():
        if everything and isinstance(failed, errors.ElectionNotNeeded):
            continue
        result = PartitionResult(partition_id=name.partition)
        if failed is not None:
            result.error_code, result.error_message = failed.code, str(failed)
        row = rows.setdefault(name.topic, ReplicaElectionResult(topic=name.topic))
        row.partition_result.append(result)
    # Version 0 tells errors by partition only.
    whole = errors.NONE if refused is None or context.version < _TYPES_FROM else refused.code
    return ElectLeadersResponse(
        error_code=whole,
        replica_election_results=list(rows.values()),
    )


def _all(context: Context) -> list[TopicPartition]:
    topics = context.services.image().topics.values()
    return [TopicPartition(topic.name, partition.index) for topic in topics for partition in topic.partitions]


def _named(topics: Sequence[TopicPartitions]) -> list[TopicPartition]:
    return [TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions]


def _chosen(topics: Sequence[TopicPartitions]) -> dict[TopicPartition, NodeId]:
    """The leaders that the request names: for each partition of a topic, or for none."""
    chosen: dict[TopicPartition, NodeId] = {}
    for topic in topics:
        if topic.leaders and len(topic.leaders) != len(topic.partitions):
            raise errors.InvalidRequest(
                f"{len(topic.leaders)} leaders are chosen for {len(topic.partitions)} partitions of {topic.topic!r}"
            )
        for index, leader in zip(topic.partitions, topic.leaders, strict=False):
            chosen[TopicPartition(topic.topic, index)] = NodeId(leader)
    return chosen
