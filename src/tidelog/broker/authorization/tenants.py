"""What a tenant's administrators may do on the cluster, cut to what is the tenant's own: ACLs, users, quotas, log
directories, reassignments, and the list of resources with settings.

For a session of a tenant the gate refuses every right on the cluster, and with it all that these APIs tell and change.
`scoped` lets a request through nevertheless when an ACL gives the right to the session: reduced to the tenant, and with
an answer reduced to the tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog import errors
from tidelog.access.tenants import Tenant
from tidelog.broker.authorization.guards import CLUSTER_REFUSED, Guard, Handler, answered
from tidelog.broker.services import Context
from tidelog.metadata.tenants import topics_of
from tidelog.wire.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    acl_code,
)
from tidelog.wire.client_quotas import CLIENT_ID, TENANT, USER
from tidelog.wire.messages.alter_client_quotas import AlterClientQuotasResponseEntryData
from tidelog.wire.messages.alter_client_quotas import EntityData as QuotaEntityData
from tidelog.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsResult
from tidelog.wire.messages.create_acls import AclCreationResult
from tidelog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsResponse
from tidelog.wire.messages.describe_log_dirs import DescribableLogDirTopic
from tidelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResult
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsTopics

InTenant = Callable[[Any, Context, Handler, Tenant], Any]

_TOPIC_RESOURCE, _GROUP_RESOURCE = 2, 32
_UNKNOWN_BYTES = -1


def scoped(of_cluster: Guard, operation: AclOperation, in_tenant: InTenant) -> Guard:
    """`of_cluster` for sessions of no tenant, and for those whose ACLs do not give them the operation."""

    def guard(request: Any, context: Context, handle: Handler) -> Any:
        tenant = context.tenant
        if tenant is None or not context.services.gate.administers(context.session, operation):
            return of_cluster(request, context, handle)
        return in_tenant(request, context, handle, tenant)

    return guard


# ACLs


async def describe_acls(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    response = await answered(handle, request, context)
    for resource in response.resources:
        resource.acls = [acl for acl in resource.acls if tenant.has_acl(_described(resource, acl))]
    response.resources = [resource for resource in response.resources if resource.acls]
    return response


def _described(resource: Any, acl: Any) -> AclBinding:
    return AclBinding(
        acl_code(AclResourceType, resource.resource_type),
        acl_code(AclPatternType, resource.pattern_type),
        resource.resource_name,
        acl.principal,
        acl.host,
        acl_code(AclOperation, acl.operation),
        acl_code(AclPermission, acl.permission_type),
    )


async def create_acls(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    creations = request.creations
    allowed = [
        tenant.has_acl(
            AclBinding(
                acl_code(AclResourceType, creation.resource_type),
                acl_code(AclPatternType, creation.resource_pattern_type),
                creation.resource_name,
                creation.principal,
                creation.host,
                acl_code(AclOperation, creation.operation),
                acl_code(AclPermission, creation.permission_type),
            )
        )
        for creation in creations
    ]
    request.creations = [creation for creation, passes in zip(creations, allowed, strict=True) if passes]
    response = await answered(handle, request, context)
    results = iter(response.results)
    text = (
        f"An administrator of tenant {tenant.name!r} creates ACLs for its users (User:{tenant.name}/NAME) on topics, groups "
        f"and transactional ids that begin with {tenant.prefix!r}, and no others"
    )
    response.results = [
        next(results) if passes else AclCreationResult(CLUSTER_REFUSED, text) for passes in allowed
    ]
    return response


async def delete_acls(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    """Each filter is replaced by one for each of the tenant's ACLs that it matches."""
    own = [acl for acl in context.services.image().acls.values() if tenant.has_acl(acl)]
    exact: list[DeleteAclsFilter] = []
    origins: list[int] = []
    for at, wanted in enumerate(request.filters):
        codes = (
            wanted.resource_type_filter,
            wanted.pattern_type_filter,
            wanted.operation,
            wanted.permission_type,
        )
        matching = [] if 0 in codes else [acl for acl in own if _filter(wanted).matches(acl)]
        exact += [_exact(acl) for acl in matching]
        origins += [at] * len(matching)
    results = [DeleteAclsFilterResult(error_message=None) for _ in request.filters]
    request.filters = exact
    response = await answered(handle, request, context)
    for at, result in zip(origins, response.filter_results, strict=True):
        results[at].matching_acls += result.matching_acls
        if result.error_code:
            results[at].error_code, results[at].error_message = result.error_code, result.error_message
    return DeleteAclsResponse(throttle_time_ms=response.throttle_time_ms, filter_results=results)


def _filter(wanted: Any) -> AclFilter:
    return AclFilter(
        acl_code(AclResourceType, wanted.resource_type_filter),
        acl_code(AclPatternType, wanted.pattern_type_filter),
        wanted.resource_name_filter,
        wanted.principal_filter,
        wanted.host_filter,
        acl_code(AclOperation, wanted.operation),
        acl_code(AclPermission, wanted.permission_type),
    )


def _exact(acl: AclBinding) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.name,
        pattern_type_filter=acl.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


# Users and quotas


async def describe_users(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    named = bool(request.users)
    response = await answered(handle, request, context)
    shown = []
    for result in response.results:
        if tenant.has_user(result.user):
            shown.append(result)
        elif named:
            text = f"Attempt to describe a user credential that does not exist: {result.user}"
            shown.append(DescribeUserScramCredentialsResult(result.user, errors.ResourceNotFound.code, text))
    response.results = shown
    return response


async def alter_users(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    names = dict.fromkeys(change.name for change in [*request.deletions, *request.upsertions])
    refused = [name for name in names if not tenant.has_user(name)]
    request.deletions = [change for change in request.deletions if tenant.has_user(change.name)]
    request.upsertions = [change for change in request.upsertions if tenant.has_user(change.name)]
    response = await answered(handle, request, context)
    text = f"The users of tenant {tenant.name!r} have names that begin with '{tenant.name}/'"
    response.results += [AlterUserScramCredentialsResult(name, CLUSTER_REFUSED, text) for name in refused]
    return response


def _sees_entity(tenant: Tenant, entity: Any) -> bool:
    parts = {part.entity_type: part.entity_name for part in entity}
    return parts == {TENANT: tenant.name} or _has_entity(tenant, entity)


def _has_entity(tenant: Tenant, entity: Any) -> bool:
    """A user of the tenant, with or without a client id."""
    parts = {part.entity_type: part.entity_name for part in entity}
    return parts.keys() <= {USER, CLIENT_ID} and tenant.has_user(parts.get(USER) or "")


async def describe_quotas(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    response = await answered(handle, request, context)
    if response.entries is not None:
        response.entries = [entry for entry in response.entries if _sees_entity(tenant, entry.entity)]
    return response


async def alter_quotas(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    refused = [entry for entry in request.entries if not _has_entity(tenant, entry.entity)]
    request.entries = [entry for entry in request.entries if _has_entity(tenant, entry.entity)]
    response = await answered(handle, request, context)
    text = f"An administrator of tenant {tenant.name!r} sets quotas of its users ({tenant.name}/NAME), and no others"
    response.entries += [
        AlterClientQuotasResponseEntryData(
            CLUSTER_REFUSED,
            text,
            [QuotaEntityData(part.entity_type, part.entity_name) for part in entry.entity],
        )
        for entry in refused
    ]
    return response


# Partitions and settings


async def describe_log_dirs(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    """Sizes of the tenant's partitions; how large the disks are is not told."""
    image = context.services.image()
    if request.topics is None:
        request.topics = [
            DescribableLogDirTopic(name, list(range(len(image.topics[name].partitions))))
            for name in topics_of(image, tenant.name)
        ]
    request.topics = [topic for topic in request.topics if tenant.owns(topic.topic)]
    response = await answered(handle, request, context)
    for where in response.results:
        where.total_bytes = where.usable_bytes = _UNKNOWN_BYTES
    return response


async def list_reassignments(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    if request.topics is None:
        image = context.services.image()
        request.topics = [
            ListPartitionReassignmentsTopics(name, list(range(len(image.topics[name].partitions))))
            for name in topics_of(image, tenant.name)
        ]
    request.topics = [topic for topic in request.topics if tenant.owns(topic.name)]
    return await answered(handle, request, context)


async def list_config_resources(request: Any, context: Context, handle: Handler, tenant: Tenant) -> Any:
    response = await answered(handle, request, context)
    response.config_resources = [
        resource
        for resource in response.config_resources
        if resource.resource_type in (_TOPIC_RESOURCE, _GROUP_RESOURCE)
        and tenant.owns(resource.resource_name)
    ]
    return response
