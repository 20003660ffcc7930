"""What tools ask about security, of a broker that has no authorizer, no users and no quotas: as Kafka answers then.

DescribeAcls (api 29), CreateAcls (30), DeleteAcls (31), versions 1-3; DescribeClientQuotas (48), versions 0-1;
DescribeUserScramCredentials (50), version 0."""

from __future__ import annotations

from collections import Counter

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from tidelog.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from tidelog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tidelog.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tidelog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_DISABLED, _NO_AUTHORIZER = errors.SecurityDisabled.code, "No Authorizer is configured on the broker"
_QUOTAS_OF = ("user", "client-id", "ip")


def describe_acls(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=_DISABLED, error_message=_NO_AUTHORIZER)


def create_acls(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(_DISABLED, _NO_AUTHORIZER) for _ in request.creations]
    )


def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(_DISABLED, _NO_AUTHORIZER) for _ in request.filters]
    )


def describe_client_quotas(
    request: DescribeClientQuotasRequest, context: Context
) -> DescribeClientQuotasResponse:
    kinds = [one.entity_type for one in request.components]
    for kind in kinds:
        if kind not in _QUOTAS_OF:
            return DescribeClientQuotasResponse(
                error_code=errors.UnsupportedVersion.code,
                error_message=f"there are no quotas of {kind!r}: there are {', '.join(_QUOTAS_OF)}",
                entries=None,
            )
    if len(set(kinds)) < len(kinds):
        return DescribeClientQuotasResponse(
            error_code=errors.InvalidRequest.code, error_message="an entity type is named twice", entries=None
        )
    return DescribeClientQuotasResponse(error_message=None, entries=[])


def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    results = []
    for name, times in Counter(one.name for one in request.users or ()).items():
        problem: errors.TidelogError = errors.ResourceNotFound(f"there is no user {name!r}")
        if times > 1:
            problem = errors.DuplicateResource(f"user {name!r} is named twice")
        results.append(DescribeUserScramCredentialsResult(name, problem.code, str(problem)))
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)
