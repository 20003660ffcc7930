"""DescribeAcls (api 29), CreateAcls (30), DeleteAcls (31), versions 1-3.

Without `authorizer.class.name` there are no ACLs, and all three answer SECURITY_DISABLED.  A code that Kafka ends the
connection for (0), or answers UNKNOWN_SERVER_ERROR (ANY in a new ACL), is INVALID_REQUEST here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tidelog import errors
from tidelog.access.principals import Principal
from tidelog.broker.services import Context
from tidelog.wire.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    acl_code,
)
from tidelog.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidelog.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_DISABLED = errors.SecurityDisabled.code
CHANGES_A_REQUEST_MAX = 10_000
COMPARISONS_A_TURN = 5_000
CHANGES_A_TURN = 500
NAME_CHARACTERS_MAX = 4_096
_TOO_MANY = f"at most {CHANGES_A_REQUEST_MAX} changes can be made at once: send several requests"


async def describe_acls(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    if not context.services.config().authorizes:
        return DescribeAclsResponse(
            error_code=_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    if 0 in _codes(request):
        return DescribeAclsResponse(
            error_code=errors.InvalidRequest.code, error_message="DescribeAcls has a filter with code 0"
        )
    by_pattern: dict[tuple[AclResourceType, AclPatternType, str], list[AclDescription]] = {}
    for binding in (await _matching([_filter(request)], context))[0]:
        kind, pattern, name, principal, host, operation, permission = binding
        description = AclDescription(principal, host, operation, permission)
        by_pattern.setdefault((kind, pattern, name), []).append(description)
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(kind, name, pattern, acls)
            for (kind, pattern, name), acls in sorted(by_pattern.items(), key=lambda item: item[0])
        ]
    )


async def create_acls(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    if not context.services.config().authorizes:
        refused = AclCreationResult(_DISABLED, "No Authorizer is configured.")
        return CreateAclsResponse(results=[refused for _ in request.creations])
    results = [AclCreationResult() for _ in request.creations]
    wanted: dict[int, AclBinding] = {}
    for at, creation in enumerate(request.creations):
        if at % CHANGES_A_TURN == 0:
            await asyncio.sleep(0)
        try:
            if at >= CHANGES_A_REQUEST_MAX:
                raise errors.PolicyViolation(_TOO_MANY)
            wanted[at] = _binding(creation)
        except errors.TidelogError as problem:
            results[at] = AclCreationResult(problem.code, str(problem))
    try:
        await context.services.controller.access.create_acls(wanted.values())
    except errors.TidelogError as problem:
        for at in wanted:
            results[at] = AclCreationResult(problem.code, str(problem))
    return CreateAclsResponse(results=results)


def _binding(creation: AclCreation) -> AclBinding:
    """Errors in Kafka's words and order."""
    name = creation.resource_name
    kind = acl_code(AclResourceType, creation.resource_type)
    pattern = acl_code(AclPatternType, creation.resource_pattern_type)
    operation = acl_code(AclOperation, creation.operation)
    permission = acl_code(AclPermission, creation.permission_type)
    if kind is AclResourceType.CLUSTER and name != CLUSTER_NAME:
        raise errors.InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise errors.InvalidRequest("Invalid empty resource name")
    if max(len(name), len(creation.principal), len(creation.host)) > NAME_CHARACTERS_MAX:
        raise errors.InvalidRequest(f"A name in an ACL is longer than {NAME_CHARACTERS_MAX} characters")
    if kind in (AclResourceType.UNKNOWN, AclResourceType.ANY):
        raise errors.InvalidRequest(f"Invalid resourceType {kind.name}")
    if pattern not in (AclPatternType.LITERAL, AclPatternType.PREFIXED):
        raise errors.InvalidRequest(f"Invalid patternType {pattern.name}")
    if operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise errors.InvalidRequest(f"Invalid operation {operation.name}")
    if permission not in (AclPermission.DENY, AclPermission.ALLOW):
        raise errors.InvalidRequest(f"Invalid permissionType {permission.name}")
    Principal.parse(creation.principal)
    return AclBinding(kind, pattern, name, creation.principal, creation.host, operation, permission)


async def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    if not context.services.config().authorizes:
        refused = DeleteAclsFilterResult(_DISABLED, "No Authorizer is configured.")
        return DeleteAclsResponse(filter_results=[refused for _ in request.filters])
    results = [DeleteAclsFilterResult(error_message=None) for _ in request.filters]
    wanted: dict[int, AclFilter] = {}
    for at, requested in enumerate(request.filters):
        try:
            if at >= CHANGES_A_REQUEST_MAX:
                raise errors.PolicyViolation(_TOO_MANY)
            wanted[at] = _checked(requested)
        except errors.TidelogError as problem:
            results[at] = DeleteAclsFilterResult(problem.code, str(problem))
    matching = dict(zip(wanted, await _matching(list(wanted.values()), context), strict=True))
    try:
        await context.services.controller.access.delete_acls(
            binding for some in matching.values() for binding in some
        )
    except errors.TidelogError as problem:
        for at in wanted:
            results[at] = DeleteAclsFilterResult(problem.code, str(problem))
    else:
        for at, some in matching.items():
            results[at].matching_acls = [_deleted(binding) for binding in some]
    return DeleteAclsResponse(filter_results=results)


def _checked(requested: DeleteAclsFilter) -> AclFilter:
    wanted = _filter(requested)
    if AclResourceType.UNKNOWN in (wanted.resource_type, wanted.pattern_type):
        raise errors.InvalidRequest("Unknown patternFilter.")
    if wanted.unknown:
        raise errors.InvalidRequest("Unknown entryFilter.")
    return wanted


def _deleted(binding: AclBinding) -> DeleteAclsMatchingAcl:
    kind, pattern, name, principal, host, operation, permission = binding
    return DeleteAclsMatchingAcl(
        errors.NONE, None, kind, name, pattern, principal, host, operation, permission
    )


async def _matching(filters: Iterable[AclFilter], context: Context) -> list[list[AclBinding]]:
    """What each filter finds; others have their turn meanwhile."""
    acls = list(context.services.image().acls.values())
    matching = []
    compared = 0
    for wanted in filters:
        some: list[AclBinding] = []
        for at in range(0, len(acls), COMPARISONS_A_TURN):
            part = acls[at : at + COMPARISONS_A_TURN]
            some += [binding for binding in part if wanted.matches(binding)]
            compared += len(part)
            if compared >= COMPARISONS_A_TURN:
                compared = 0
                await asyncio.sleep(0)
        matching.append(some)
    return matching


def _codes(request: DescribeAclsRequest | DeleteAclsFilter) -> tuple[int, int, int, int]:
    return (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )


def _filter(request: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    kind, pattern, operation, permission = _codes(request)
    return AclFilter(
        acl_code(AclResourceType, kind),
        acl_code(AclPatternType, pattern),
        request.resource_name_filter,
        request.principal_filter,
        request.host_filter,
        acl_code(AclOperation, operation),
        acl_code(AclPermission, permission),
    )
