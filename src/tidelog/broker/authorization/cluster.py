"""Authorization: settings, brokers, log directories, moves and elections, quotas, users and ACLs of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog import errors
from tidelog.broker.authorization import tenants
from tidelog.broker.authorization.guards import (
    CLUSTER,
    GROUP,
    TOPIC,
    Guard,
    Handler,
    Op,
    answered,
    whole,
)
from tidelog.broker.authorization.tenants import scoped
from tidelog.broker.authorization.topics import cluster_operations
from tidelog.broker.services import Context
from tidelog.wire.acls import CLUSTER_NAME, AclOperation, AclResourceType
from tidelog.wire.messages import alter_configs as legacy
from tidelog.wire.messages import alter_replica_log_dirs as replica_dirs
from tidelog.wire.messages import incremental_alter_configs as incremental
from tidelog.wire.messages.add_raft_voter import AddRaftVoterResponse
from tidelog.wire.messages.alter_client_quotas import (
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)
from tidelog.wire.messages.alter_client_quotas import EntityData as QuotaEntityData
from tidelog.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from tidelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from tidelog.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from tidelog.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from tidelog.wire.messages.describe_acls import DescribeAclsResponse
from tidelog.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from tidelog.wire.messages.describe_configs import DescribeConfigsResult
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsResponse
from tidelog.wire.messages.describe_quorum import DescribeQuorumResponse
from tidelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse
from tidelog.wire.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from tidelog.wire.messages.list_config_resources import ListConfigResourcesResponse
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterResponse
from tidelog.wire.messages.unregister_broker import UnregisterBrokerResponse
from tidelog.wire.messages.update_features import UpdateFeaturesResponse

_TOPIC_RESOURCE, _GROUP_RESOURCE = 2, 32
_ELECTION_ERROR_FROM = 1


def _on_cluster(operation: AclOperation, response: Callable[..., Any]) -> Guard:
    """The answer has one error code and a message for the whole request."""
    return whole(
        operation, CLUSTER, lambda _, problem: response(error_code=problem.code, error_message=str(problem))
    )


def _with_code(operation: AclOperation, response: Callable[..., Any]) -> Guard:
    return whole(operation, CLUSTER, lambda _, problem: response(error_code=problem.code))


describe_acls = scoped(_on_cluster(Op.DESCRIBE, DescribeAclsResponse), Op.DESCRIBE, tenants.describe_acls)
describe_client_quotas = scoped(
    whole(
        Op.DESCRIBE_CONFIGS,
        CLUSTER,
        lambda _, problem: DescribeClientQuotasResponse(
            error_code=problem.code, error_message=str(problem), entries=None
        ),
    ),
    Op.DESCRIBE_CONFIGS,
    tenants.describe_quotas,
)
describe_user_scram_credentials = scoped(
    _on_cluster(Op.DESCRIBE, DescribeUserScramCredentialsResponse), Op.DESCRIBE, tenants.describe_users
)
add_raft_voter = _on_cluster(Op.ALTER, AddRaftVoterResponse)
remove_raft_voter = _on_cluster(Op.ALTER, RemoveRaftVoterResponse)
unregister_broker = _on_cluster(Op.ALTER, UnregisterBrokerResponse)
update_features = _on_cluster(Op.ALTER, UpdateFeaturesResponse)
alter_partition_reassignments = _on_cluster(Op.ALTER, AlterPartitionReassignmentsResponse)
list_partition_reassignments = scoped(
    _on_cluster(Op.DESCRIBE, ListPartitionReassignmentsResponse), Op.DESCRIBE, tenants.list_reassignments
)
describe_log_dirs = scoped(
    _with_code(Op.DESCRIBE, DescribeLogDirsResponse), Op.DESCRIBE, tenants.describe_log_dirs
)
describe_quorum = _with_code(Op.DESCRIBE, DescribeQuorumResponse)
list_config_resources = scoped(
    _with_code(Op.DESCRIBE_CONFIGS, ListConfigResourcesResponse),
    Op.DESCRIBE_CONFIGS,
    tenants.list_config_resources,
)

create_acls = scoped(
    whole(
        Op.ALTER,
        CLUSTER,
        lambda request, problem: CreateAclsResponse(
            results=[AclCreationResult(problem.code, str(problem)) for _ in request.creations]
        ),
    ),
    Op.ALTER,
    tenants.create_acls,
)
delete_acls = scoped(
    whole(
        Op.ALTER,
        CLUSTER,
        lambda request, problem: DeleteAclsResponse(
            filter_results=[DeleteAclsFilterResult(problem.code, str(problem)) for _ in request.filters]
        ),
    ),
    Op.ALTER,
    tenants.delete_acls,
)
alter_user_scram_credentials = scoped(
    whole(
        Op.ALTER,
        CLUSTER,
        lambda request, problem: AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user, problem.code, str(problem))
                for user in dict.fromkeys(change.name for change in [*request.deletions, *request.upsertions])
            ]
        ),
    ),
    Op.ALTER,
    tenants.alter_users,
)
alter_client_quotas = scoped(
    whole(
        Op.ALTER_CONFIGS,
        CLUSTER,
        lambda request, problem: AlterClientQuotasResponse(
            entries=[
                AlterClientQuotasResponseEntryData(
                    problem.code,
                    str(problem),
                    [QuotaEntityData(part.entity_type, part.entity_name) for part in entry.entity],
                )
                for entry in request.entries
            ]
        ),
    ),
    Op.ALTER_CONFIGS,
    tenants.alter_quotas,
)
alter_replica_log_dirs = whole(
    Op.ALTER,
    CLUSTER,
    lambda request, problem: replica_dirs.AlterReplicaLogDirsResponse(
        results=[
            replica_dirs.AlterReplicaLogDirTopicResult(
                topic.name,
                [
                    replica_dirs.AlterReplicaLogDirPartitionResult(index, problem.code)
                    for index in topic.partitions
                ],
            )
            for where in request.dirs
            for topic in where.topics
        ]
    ),
)


def elect_leaders(request: Any, context: Context, handle: Handler) -> Any:
    try:
        context.check_cluster(Op.ALTER)
    except errors.TidelogError as problem:
        return ElectLeadersResponse(
            error_code=problem.code if context.version >= _ELECTION_ERROR_FROM else 0,
            replica_election_results=[
                ReplicaElectionResult(
                    topic.topic,
                    [PartitionResult(index, problem.code, str(problem)) for index in topic.partitions],
                )
                for topic in request.topic_partitions or ()
            ],
        )
    return handle(request, context)


async def describe_cluster(request: Any, context: Context, handle: Handler) -> Any:
    """Everybody may know the brokers."""
    response = await answered(handle, request, context)
    if request.include_cluster_authorized_operations and response.error_code == 0:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


# Settings


def _resource(kind: int, name: str) -> tuple[AclResourceType, str]:
    if kind == _TOPIC_RESOURCE:
        return TOPIC, name
    if kind == _GROUP_RESOURCE:
        return GROUP, name
    return CLUSTER, CLUSTER_NAME


def _refused_resources(
    request: Any, context: Context, operation: AclOperation
) -> list[tuple[Any, errors.TidelogError]]:
    """Takes out of the request the resources whose settings the principal may not see, or change."""
    left, refused = [], []
    for resource in request.resources:
        try:
            context.check(operation, *_resource(resource.resource_type, resource.resource_name))
        except errors.TidelogError as problem:
            refused.append((resource, problem))
        else:
            left.append(resource)
    request.resources = left
    return refused


async def describe_configs(request: Any, context: Context, handle: Handler) -> Any:
    refused = _refused_resources(request, context, Op.DESCRIBE_CONFIGS)
    response = await answered(handle, request, context)
    response.results += [
        DescribeConfigsResult(
            error_code=problem.code,
            error_message=str(problem),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, problem in refused
    ]
    return response


def _altering(response_of_resource: Callable[..., Any]) -> Guard:
    async def guard(request: Any, context: Context, handle: Handler) -> Any:
        refused = _refused_resources(request, context, Op.ALTER_CONFIGS)
        response = await answered(handle, request, context)
        response.responses += [
            response_of_resource(problem.code, str(problem), resource.resource_type, resource.resource_name)
            for resource, problem in refused
        ]
        return response

    return guard


alter_configs = _altering(legacy.AlterConfigsResourceResponse)
incremental_alter_configs = _altering(incremental.AlterConfigsResourceResponse)
