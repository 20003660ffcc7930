"""ACLs, users' passwords, client quotas and delegation tokens: the admin client's part for them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import check, problem_of, raise_all
from tidelog.client.topic_names import names_of
from tidelog.net.scram import (
    HASHES,
    ITERATIONS_DEFAULT,
    MECHANISM_CODES,
    SALT_BYTES,
    salted_password,
)
from tidelog.wire.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    acl_code,
)
from tidelog.wire.client_quotas import DEFAULT_ENTITY, QuotaEntity
from tidelog.wire.message import Message
from tidelog.wire.messages import alter_client_quotas as quotas_altered
from tidelog.wire.messages import alter_user_scram_credentials as scram
from tidelog.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tidelog.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from tidelog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tidelog.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tidelog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tidelog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tidelog.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from tidelog.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

Answer = TypeVar("Answer", bound=Message)

_MECHANISMS = {code: name for name, code in MECHANISM_CODES.items()}
_EXACT, _DEFAULT = 0, 1


@dataclass(frozen=True, slots=True, repr=False)
class DelegationToken:
    """A token that logs in with SCRAM: `token_id` is the user name, the base64 of `hmac` the password.  `owner`,
    `requester` and `renewers` are principals as 'User:alice'."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def __repr__(self) -> str:
        """Without the HMAC, which is a password."""
        return (
            f"DelegationToken(token_id={self.token_id!r}, owner={self.owner!r}, expires_ms={self.expires_ms})"
        )


class SecurityAdmin:
    _timeout_ms: int

    def _running(self) -> Cluster:
        raise AssertionError("the admin client says whether it runs")

    # ACLs

    async def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        """All ACLs, or those that the filter lets through.

        rules = await admin.describe_acls(AclFilter(principal="User:alice"))
        """
        answer = await self._ask(DescribeAclsRequest(*_filter(wanted or AclFilter())), DescribeAclsResponse)
        check(answer.error_code, "the ACLs could not be described", answer.error_message)
        return sorted(
            AclBinding(
                acl_code(AclResourceType, resource.resource_type),
                acl_code(AclPatternType, resource.pattern_type),
                resource.resource_name,
                acl.principal,
                acl.host,
                acl_code(AclOperation, acl.operation),
                acl_code(AclPermission, acl.permission_type),
            )
            for resource in answer.resources
            for acl in resource.acls
        )

    async def create_acls(self, bindings: AclBinding | Iterable[AclBinding]) -> None:
        """An ACL that is there already is no error.

        await admin.create_acls(
            AclBinding(
                AclResourceType.TOPIC,
                AclPatternType.LITERAL,
                "orders",
                "User:alice",
                "*",
                AclOperation.READ,
                AclPermission.ALLOW,
            )
        )
        """
        wanted = [bindings] if isinstance(bindings, AclBinding) else list(bindings)
        creations = [
            AclCreation(kind, name, pattern, principal, host, operation, permission)
            for kind, pattern, name, principal, host, operation, permission in wanted
        ]
        answer = await self._ask(CreateAclsRequest(creations), CreateAclsResponse)
        outcomes = zip(wanted, answer.results, strict=True)
        raise_all(
            "some ACLs could not be created",
            [
                problem_of(outcome.error_code, str(binding), outcome.error_message)
                for binding, outcome in outcomes
                if outcome.error_code
            ],
        )

    async def delete_acls(self, filters: AclFilter | Iterable[AclFilter]) -> list[AclBinding]:
        """Deletes what any of the filters lets through, and returns it.

        gone = await admin.delete_acls(AclFilter(principal="User:alice"))
        """
        wanted = [filters] if isinstance(filters, AclFilter) else list(filters)
        request = DeleteAclsRequest([DeleteAclsFilter(*_filter(acl_filter)) for acl_filter in wanted])
        answer = await self._ask(request, DeleteAclsResponse)
        problems = [
            problem_of(result.error_code, "a filter of ACLs", result.error_message)
            for result in answer.filter_results
            if result.error_code
        ]
        raise_all("some ACLs could not be deleted", problems)
        return sorted(
            {
                AclBinding(
                    acl_code(AclResourceType, acl.resource_type),
                    acl_code(AclPatternType, acl.pattern_type),
                    acl.resource_name,
                    acl.principal,
                    acl.host,
                    acl_code(AclOperation, acl.operation),
                    acl_code(AclPermission, acl.permission_type),
                )
                for result in answer.filter_results
                for acl in result.matching_acls
            }
        )

    # Users

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[str, int]]:
        """The SCRAM mechanisms of all users, or of these users, each with the iterations of its password.

        mechanisms = (await admin.describe_user_scram_credentials(["alice"]))["alice"]
        """
        named = None if users is None else [UserName(name) for name in names_of(users)]
        request = DescribeUserScramCredentialsRequest(named)
        answer = await self._ask(request, DescribeUserScramCredentialsResponse)
        check(answer.error_code, "the users could not be described", answer.error_message)
        problems = [
            problem_of(result.error_code, f"user {result.user!r}", result.error_message)
            for result in answer.results
            if result.error_code
        ]
        raise_all("some users could not be described", problems)
        return {
            result.user: {
                _MECHANISMS.get(info.mechanism, f"mechanism {info.mechanism}"): info.iterations
                for info in result.credential_infos
            }
            for result in sorted(answer.results, key=lambda result: result.user)
        }

    async def alter_user_scram_credentials(
        self,
        passwords: Mapping[str, str | None],
        *,
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = ITERATIONS_DEFAULT,
    ) -> None:
        """Sets the password of each user for one mechanism; None takes it away.  Only its salted form is sent.

        await admin.alter_user_scram_credentials({"alice": "correct horse battery staple"})
        """
        if mechanism not in MECHANISM_CODES:
            raise errors.UnsupportedSaslMechanism(
                f"{mechanism!r} has no passwords that can be set: use {' or '.join(MECHANISM_CODES)}"
            )
        if not 1 <= iterations < 1 << 31:
            raise ValueError(f"iterations must be a positive number, not {iterations}")
        code = MECHANISM_CODES[mechanism]
        request = scram.AlterUserScramCredentialsRequest()
        for name, password in passwords.items():
            if password is None:
                request.deletions.append(scram.ScramCredentialDeletion(name, code))
                continue
            salt = secrets.token_bytes(SALT_BYTES)
            # Thousands of rounds of hashing: not on the loop.
            salted = await asyncio.to_thread(salted_password, HASHES[mechanism], password, salt, iterations)
            request.upsertions.append(scram.ScramCredentialUpsertion(name, code, iterations, salt, salted))
        answer = await self._ask(request, scram.AlterUserScramCredentialsResponse)
        problems = [
            problem_of(result.error_code, f"user {result.user!r}", result.error_message)
            for result in answer.results
            if result.error_code
        ]
        raise_all("some users could not be changed", problems)

    # Quotas

    async def describe_client_quotas(
        self, entity: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """All quotas, or those of entities with the parts that `entity` has; `strict`: with no others.

        quotas = await admin.describe_client_quotas(QuotaEntity(user="alice"))
        """
        parts = {} if entity is None else entity.parts()
        components = [
            ComponentData(kind, _DEFAULT, None)
            if name == DEFAULT_ENTITY
            else ComponentData(kind, _EXACT, name)
            for kind, name in parts.items()
        ]
        request = DescribeClientQuotasRequest(components, strict and entity is not None)
        answer = await self._ask(request, DescribeClientQuotasResponse)
        check(answer.error_code, "the quotas could not be described", answer.error_message)
        quotas: dict[QuotaEntity, dict[str, float]] = {}
        for entry in answer.entries or ():
            names = {part.entity_type: part.entity_name or DEFAULT_ENTITY for part in entry.entity}
            quotas[QuotaEntity.of(names)] = {value.key: value.value for value in entry.values}
        return dict(sorted(quotas.items(), key=lambda pair: str(pair[0])))

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Sets what is named and leaves the rest; None takes a quota away.

        await admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1_048_576}})
        """
        entries = [
            quotas_altered.AlterClientQuotasRequestEntryData(
                [quotas_altered.EntityData(kind, name or None) for kind, name in entity.parts().items()],
                [
                    quotas_altered.OpData(key, 0.0 if value is None else float(value), value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in changes.items()
        ]
        request = quotas_altered.AlterClientQuotasRequest(entries, validate_only)
        answer = await self._ask(request, quotas_altered.AlterClientQuotasResponse)
        problems = []
        for entry in answer.entries:
            if entry.error_code:
                names = {part.entity_type: part.entity_name or DEFAULT_ENTITY for part in entry.entity}
                subject = f"the quotas of {QuotaEntity.of(names)}"
                problems.append(problem_of(entry.error_code, subject, entry.error_message))
        raise_all("some quotas could not be changed", problems)

    # Delegation tokens

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """For the user that is logged in, or for `owner`, if that is allowed.

        token = await admin.create_delegation_token(renewers=["User:scheduler"])
        """
        kind, _, name = (owner or "").partition(":")
        request = CreateDelegationTokenRequest(
            kind or None,
            name or None,
            [CreatableRenewers(*_principal(renewer)) for renewer in names_of(renewers)],
            max_lifetime_ms,
        )
        answer = await self._ask(request, CreateDelegationTokenResponse)
        check(answer.error_code, "a delegation token could not be created")
        return DelegationToken(
            answer.token_id,
            bytes(answer.hmac),
            f"{answer.principal_type}:{answer.principal_name}",
            f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
            tuple(names_of(renewers)),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
        )

    async def renew_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Until when the token is valid now.

        expires_ms = await admin.renew_delegation_token(token.hmac)
        """
        answer = await self._ask(RenewDelegationTokenRequest(hmac, period_ms), RenewDelegationTokenResponse)
        check(answer.error_code, "the delegation token could not be renewed")
        return answer.expiry_timestamp_ms

    async def expire_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Ends the token after `period_ms`, or at once; returns when.

        await admin.expire_delegation_token(token.hmac)
        """
        answer = await self._ask(ExpireDelegationTokenRequest(hmac, period_ms), ExpireDelegationTokenResponse)
        check(answer.error_code, "the delegation token could not be ended")
        return answer.expiry_timestamp_ms

    async def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The delegation tokens that the user may see, or only those of these owners.

        tokens = await admin.describe_delegation_tokens(["User:alice"])
        """
        named = None
        if owners is not None:
            named = [DescribeDelegationTokenOwner(*_principal(owner)) for owner in names_of(owners)]
        answer = await self._ask(DescribeDelegationTokenRequest(named), DescribeDelegationTokenResponse)
        check(answer.error_code, "the delegation tokens could not be described")
        return [
            DelegationToken(
                token.token_id,
                bytes(token.hmac),
                f"{token.principal_type}:{token.principal_name}",
                f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
                tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers),
                token.issue_timestamp,
                token.expiry_timestamp,
                token.max_timestamp,
            )
            for token in answer.tokens
        ]

    async def _ask(self, request: Message, kind: type[Answer]) -> Answer:
        cluster = self._running()

        async def ask() -> Answer:
            return await (await cluster.any()).ask(request, kind, timeout_ms=self._timeout_ms)

        return await cluster.retrying(type(request).__name__.removesuffix("Request"), ask, self._timeout_ms)


def _filter(acl_filter: AclFilter) -> tuple[int, str | None, int, str | None, str | None, int, int]:
    kind, pattern, name, principal, host, operation, permission = acl_filter
    return kind, name, pattern, principal, host, operation, permission


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a principal: write it as User:{text}")
    return kind, name
