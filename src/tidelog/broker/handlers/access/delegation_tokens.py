"""CreateDelegationToken (api 38), versions 1-3; RenewDelegationToken (39) and ExpireDelegationToken (40), versions 1-2;
DescribeDelegationToken (41), versions 1-3.

As in Kafka, a principal that is not authenticated, or logged in with a token, gets none."""

from __future__ import annotations

import base64

from tidelog import errors
from tidelog.access import tokens
from tidelog.access.acls import AclOperation, AclResourceType
from tidelog.access.principals import Principal
from tidelog.broker.services import ANONYMOUS, Context
from tidelog.metadata.access_records import TokenRecord
from tidelog.metadata.controller import new_id
from tidelog.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tidelog.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from tidelog.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

NAME_CHARACTERS_MAX = 1_024
_REQUESTER_FROM = 3  # the version of both APIs that tells who asked for the token


async def create_delegation_token(
    request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse:
    requester = Principal.parse(context.principal)
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind if context.version >= _REQUESTER_FROM else "",
        token_requester_principal_name=requester.name if context.version >= _REQUESTER_FROM else "",
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    try:
        token_id, token = await _create(request, str(owner), context)
    except errors.TidelogError as problem:
        response.error_code = problem.code
        return response
    response.issue_timestamp_ms = token.issued_ms
    response.expiry_timestamp_ms = token.expires_ms
    response.max_timestamp_ms = token.max_ms
    response.token_id = token_id
    response.hmac = tokens.token_hmac(context.services.access.token_settings, token_id)
    return response


async def _create(
    request: CreateDelegationTokenRequest, owner: str, context: Context
) -> tuple[str, TokenRecord]:
    _check_allowed(context)
    services, now_ms = context.services, context.services.clock.now_ms()
    if owner != context.principal and not context.allows(
        AclOperation.CREATE_TOKENS, AclResourceType.USER, owner
    ):
        raise errors.DelegationTokenAuthorizationFailed()
    renewers = [
        str(Principal(renewer.principal_type, renewer.principal_name)) for renewer in request.renewers
    ]
    if any(len(name) > NAME_CHARACTERS_MAX for name in (owner, *renewers)):
        raise errors.InvalidRequest(f"a principal has at most {NAME_CHARACTERS_MAX} characters")
    tenant = context.tenant
    if tenant is not None and not all(map(tenant.has_principal, renewers)):
        raise errors.DelegationTokenAuthorizationFailed(
            f"the renewers of a token of tenant {tenant.name!r} are its own users"
        )
    token = tokens.new_token(
        services.access.token_settings,
        context.principal,
        owner,
        renewers,
        request.max_lifetime_ms,
        now_ms,
    )
    # Expired tokens are refused and not shown.  They are dropped where new ones are made, so that they do not pile up.
    if services.access.tokens_to_sweep(now_ms):
        await services.controller.access.drop_expired_tokens(now_ms)
    token_id = base64.urlsafe_b64encode(new_id(services.random).bytes).decode().rstrip("=")
    await services.controller.access.change_token(token_id, lambda before: token)
    return token_id, token


async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: Context
) -> RenewDelegationTokenResponse:
    now_ms, settings = context.services.clock.now_ms(), context.services.access.token_settings

    def renew(before: TokenRecord | None) -> TokenRecord:
        return tokens.renewed(settings, before, context.principal, request.renew_period_ms, now_ms)

    try:
        token = await _change(bytes(request.hmac), renew, context)
    except errors.TidelogError as problem:
        return RenewDelegationTokenResponse(error_code=problem.code, expiry_timestamp_ms=-1)
    assert token is not None
    return RenewDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)


async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    now_ms, settings = context.services.clock.now_ms(), context.services.access.token_settings

    def expire(before: TokenRecord | None) -> TokenRecord | None:
        return tokens.expiring(settings, before, context.principal, request.expiry_time_period_ms, now_ms)

    try:
        token = await _change(bytes(request.hmac), expire, context)
    except errors.TidelogError as problem:
        return ExpireDelegationTokenResponse(error_code=problem.code, expiry_timestamp_ms=-1)
    ended_ms = request.expiry_time_period_ms if token is None else token.expires_ms
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=ended_ms)


async def _change(hmac: bytes, change: tokens.ChangeToken, context: Context) -> TokenRecord | None:
    _check_allowed(context)
    token_id = context.services.access.tokens.id_of(hmac)
    if token_id is None:
        change(None)  # says what is wrong: no such token, or no tokens at all
        raise errors.DelegationTokenNotFound()
    return await context.services.controller.access.change_token(token_id, change)


def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    settings = context.services.access.token_settings
    try:
        _check_allowed(context)
        if settings.secret_key is None:
            raise errors.DelegationTokenAuthDisabled()
    except errors.TidelogError as problem:
        return DescribeDelegationTokenResponse(error_code=problem.code)
    owners = None
    if request.owners is not None:
        owners = {str(Principal(owner.principal_type, owner.principal_name)) for owner in request.owners}
    now_ms = context.services.clock.now_ms()
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token_id, stored.record, tokens.token_hmac(settings, token_id), context.version)
            for token_id, stored in context.services.image().tokens.items()
            if not tokens.expired(stored.record, now_ms) and _shown(token_id, stored.record, owners, context)
        ]
    )


def _shown(token_id: str, token: TokenRecord, owners: set[str] | None, context: Context) -> bool:
    if owners is not None and not any(tokens.may_see(token, owner) for owner in owners):
        return False
    return (
        tokens.may_see(token, context.principal)
        or context.sees(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token_id)
        or context.sees(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner)
    )


def _described(token_id: str, token: TokenRecord, hmac: bytes, version: int) -> DescribedDelegationToken:
    owner = Principal.parse(token.owner)
    requester = Principal.parse(token.requester) if version >= _REQUESTER_FROM else Principal("", "")
    return DescribedDelegationToken(
        owner.kind,
        owner.name,
        requester.kind,
        requester.name,
        token.issued_ms,
        token.expires_ms,
        token.max_ms,
        token_id,
        hmac,
        [DescribedDelegationTokenRenewer(*Principal.parse(renewer)) for renewer in token.renewers],
    )


def _check_allowed(context: Context) -> None:
    if context.principal == ANONYMOUS or context.token_authenticated:
        raise errors.DelegationTokenRequestNotAllowed()
