"""ACLs, users, quotas and delegation tokens through the wire; errors and their words as Apache Kafka 4.3 gives them."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from tests.unit.broker.admin import Admin, versions
from tidelog import errors
from tidelog.metadata.access_records import CredentialName
from tidelog.net.scram import ScramCredential
from tidelog.wire.messages import alter_client_quotas as alter_quotas
from tidelog.wire.messages import describe_client_quotas as quotas
from tidelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from tidelog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidelog.wire.messages.describe_acls import DescribeAclsRequest
from tidelog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from tidelog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tidelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from tidelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

pytestmark = pytest.mark.simulated

ON = {"authorizer.class.name": "tidelog", "super.users": "User:root"}
TOKENS = {**ON, "delegation.token.secret.key": "key"}
ACL: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:ann",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def creation(**changes: Any) -> AclCreation:
    return AclCreation(**{**ACL, **changes})


def create(*creations: AclCreation) -> CreateAclsRequest:
    return CreateAclsRequest(list(creations))


async def test_acls_are_made_shown_and_deleted(random: Random) -> None:
    admin = await Admin.start(random, ON)
    for version in versions(30):
        made = await admin.ask(create(creation(), creation(principal="User:bob"), creation()), version)
        assert [(one.error_code, one.error_message) for one in made.results] == [(0, "")] * 3
        shown = await admin.ask(DescribeAclsRequest(**ANY), version)
        (resource,) = shown.resources
        assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (2, "orders", 3)
        assert {(one.principal, one.host, one.operation, one.permission_type) for one in resource.acls} == {
            ("User:ann", "*", 3, 3),
            ("User:bob", "*", 3, 3),
        }
        only = await admin.ask(DescribeAclsRequest(**{**ANY, "principal_filter": "User:bob"}), version)
        assert [len(one.acls) for one in only.resources] == [1]
        gone = await admin.ask(
            DeleteAclsRequest(
                [DeleteAclsFilter(**ANY), DeleteAclsFilter(**{**ANY, "resource_name_filter": "x"})]
            ),
            version,
        )
        assert [(one.error_code, len(one.matching_acls)) for one in gone.filter_results] == [
            (0, 2),
            (0, 0),
        ]
        assert not (await admin.ask(DescribeAclsRequest(**ANY), version)).resources


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"resource_type": 4, "resource_name": "x"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission_type": 0}, "Invalid permissionType UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"principal": "ann"}, "Could not parse principal from `ann`"),
        ({"resource_name": "x" * 5000}, "longer than"),
    ],
)
async def test_acls_that_are_none(random: Random, change: dict[str, Any], said: str) -> None:
    admin = await Admin.start(random, ON)
    bad, good = (await admin.ask(create(creation(**change), creation()))).results
    assert bad.error_code == errors.InvalidRequest.code
    assert said in bad.error_message and good.error_code == 0
    assert len(admin.node.controller.image.acls) == 1


async def test_filters_of_newer_clients(random: Random) -> None:
    admin = await Admin.start(random, ON)
    await admin.ask(create(creation()))
    shown = await admin.ask(DescribeAclsRequest(**{**ANY, "operation": 99}))
    assert shown.error_code == 0 and not shown.resources
    refused = await admin.ask(DescribeAclsRequest(**{**ANY, "operation": 0}))
    assert refused.error_code == errors.InvalidRequest.code
    filters = [DeleteAclsFilter(**{**ANY, name: 99}) for name in ("pattern_type_filter", "operation")]
    answer = await admin.ask(DeleteAclsRequest(filters))
    assert [(one.error_code, one.error_message) for one in answer.filter_results] == [
        (errors.InvalidRequest.code, "Unknown patternFilter."),
        (errors.InvalidRequest.code, "Unknown entryFilter."),
    ]
    assert len(admin.node.controller.image.acls) == 1


async def test_without_an_authorizer_there_are_no_acls(random: Random) -> None:
    admin = await Admin.start(random)
    answers = [
        await admin.ask(DescribeAclsRequest(**ANY)),
        *(await admin.ask(create(creation()))).results,
        *(await admin.ask(DeleteAclsRequest([DeleteAclsFilter(**ANY)]))).filter_results,
    ]
    assert [one.error_code for one in answers] == [errors.SecurityDisabled.code] * 3


# Users

SALTED = b"x" * 32


def put(
    name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt", salted: bytes = SALTED
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name, mechanism, iterations, salt, salted)


async def test_users_are_made_shown_and_deleted(random: Random) -> None:
    admin = await Admin.start(random)
    answer = await admin.ask(AlterUserScramCredentialsRequest([], [put("ann"), put("bob", 2, 8192)]))
    assert [(one.user, one.error_code, one.error_message) for one in answer.results] == [
        ("ann", 0, None),
        ("bob", 0, None),
    ]
    stored = admin.node.controller.image.users("SCRAM-SHA-256")["ann"]
    assert stored == ScramCredential.of_salted("SCRAM-SHA-256", SALTED, b"salt", 4096)
    await admin.ask(AlterUserScramCredentialsRequest([], [put("ann", 2)]))
    shown = await admin.ask(DescribeUserScramCredentialsRequest(None))
    assert {
        one.user: [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in shown.results
    } == {"ann": [(1, 4096), (2, 4096)], "bob": [(2, 8192)]}
    named = [UserName(name) for name in ("ann", "eve", "bob", "bob")]
    shown = await admin.ask(DescribeUserScramCredentialsRequest(named))
    assert [(one.user, one.error_code) for one in shown.results] == [
        ("ann", 0),
        ("eve", errors.ResourceNotFound.code),
        ("bob", errors.DuplicateResource.code),
    ]
    gone = await admin.ask(AlterUserScramCredentialsRequest([ScramCredentialDeletion("bob", 2)], []))
    assert [(one.user, one.error_code) for one in gone.results] == [("bob", 0)]
    assert not admin.node.controller.image.users("SCRAM-SHA-512").get("bob")


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (put("ann", iterations=4095), errors.UnacceptableCredential, "Too few iterations"),
        (put("ann", iterations=16385), errors.UnacceptableCredential, "Too many iterations"),
        (put(""), errors.UnacceptableCredential, "Username must not be empty"),
        (put("a" * 2000), errors.UnacceptableCredential, "at most 1024"),
        (put("a\0"), errors.UnacceptableCredential, "NUL"),
        (put("ann", 3), errors.UnsupportedSaslMechanism, "Unknown SCRAM mechanism"),
        (put("ann", salted=b""), errors.UnacceptableCredential, "salted password"),
        (ScramCredentialDeletion("ann", 1), errors.ResourceNotFound, "credential that does not exist"),
        (ScramCredentialDeletion("", 1), errors.UnacceptableCredential, "Username must not be empty"),
        (ScramCredentialDeletion("ann", 9), errors.UnsupportedSaslMechanism, "Unknown SCRAM mechanism"),
        (put("zed"), errors.DuplicateResource, "altered twice in the same request"),
    ],
)
async def test_changes_of_users_that_are_refused(
    random: Random, change: Any, error: type[errors.TidelogError], said: str
) -> None:
    admin = await Admin.start(random)
    twice = change.name == "zed"
    deletions = [change] if isinstance(change, ScramCredentialDeletion) else []
    upsertions = [put("zoe"), *([] if deletions else [change]), *([change] if twice else [])]
    answer = await admin.ask(AlterUserScramCredentialsRequest(deletions, upsertions))
    outcome = {one.user: (one.error_code, one.error_message) for one in answer.results}
    assert outcome.pop("zoe") == (0, None)
    ((code, text),) = outcome.values()
    assert code == error.code and said in text
    assert list(admin.node.controller.image.users("SCRAM-SHA-256")) == ["zoe"]


# Quotas

Entity = dict[str, str | None]


def entry(entity: Entity, **values: float | None) -> alter_quotas.AlterClientQuotasRequestEntryData:
    return alter_quotas.AlterClientQuotasRequestEntryData(
        [alter_quotas.EntityData(kind, name) for kind, name in entity.items()],
        [alter_quotas.OpData(key, value or 0.0, value is None) for key, value in values.items()],
    )


def part(kind: str, match_type: int, match: str | None = None) -> quotas.ComponentData:
    return quotas.ComponentData(kind, match_type, match)


async def shown(
    admin: Admin, *parts: quotas.ComponentData, strict: bool = False, version: int = 1
) -> list[Any]:
    answer = await admin.ask(quotas.DescribeClientQuotasRequest(list(parts), strict), version)
    assert answer.error_code == 0
    return [
        (
            {one.entity_type: one.entity_name for one in entry.entity},
            {one.key: one.value for one in entry.values},
        )
        for entry in answer.entries
    ]


async def test_quotas_are_set_shown_and_taken_away(random: Random) -> None:
    admin = await Admin.start(random)
    wanted: list[Entity] = [
        {"user": "ann"},
        {"user": "ann", "client-id": None},
        {"user": None},
        {"client-id": "a b"},
    ]
    for version in versions(49):
        entries = [entry(one, producer_byte_rate=1000.0, request_percentage=0.5) for one in wanted]
        answer = await admin.ask(alter_quotas.AlterClientQuotasRequest(entries), version)
        assert [(one.error_code, one.error_message) for one in answer.entries] == [(0, None)] * 4
        values = {"producer_byte_rate": 1000.0, "request_percentage": 0.5}
        assert await shown(admin, version=version) == [(one, values) for one in wanted]
        assert [one for one, _ in await shown(admin, part("user", 0, "ann"))] == wanted[:2]
        assert [one for one, _ in await shown(admin, part("user", 0, "ann"), strict=True)] == wanted[:1]
        assert [one for one, _ in await shown(admin, part("user", 1))] == wanted[2:3]
        assert [one for one, _ in await shown(admin, part("user", 2), part("client-id", 2))] == wanted[1:2]
        assert await shown(admin, strict=True) == await shown(admin, part("user", 0, "")) == []
        entries = [entry(one, producer_byte_rate=None, request_percentage=None, bogus=None) for one in wanted]
        await admin.ask(alter_quotas.AlterClientQuotasRequest(entries), version)
        assert await shown(admin) == []


async def test_changes_of_quotas_that_are_only_tried(random: Random) -> None:
    admin = await Admin.start(random)
    one = entry({"ip": "10.0.0.1"}, connection_creation_rate=5.0)
    answer = await admin.ask(alter_quotas.AlterClientQuotasRequest([one], True))
    assert [one.error_code for one in answer.entries] == [0] and await shown(admin) == []


@pytest.mark.parametrize(
    ("entity", "values", "said"),
    [
        ({}, {"producer_byte_rate": 1.0}, "Invalid empty client quota entity"),
        ({"planet": "x"}, {"producer_byte_rate": 1.0}, "Unhandled client quota entity type: planet"),
        ({"user": ""}, {"producer_byte_rate": 1.0}, "Empty user not supported"),
        (
            {"ip": "10.0.0.1", "user": "a"},
            {"connection_creation_rate": 1.0},
            "Invalid quota entity combination",
        ),
        ({"ip": "localhost"}, {"connection_creation_rate": 1.0}, "localhost is not a valid IP"),
        ({"user": "a"}, {"bogus": 1.0}, "Invalid configuration key bogus"),
        ({"user": "a"}, {"producer_byte_rate": 0.0}, "Quota producer_byte_rate must be greater than 0"),
        ({"user": "a"}, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        ({"user": "a"}, {"producer_byte_rate": math.nan}, "must be a number"),
        ({"user": "a"}, {"producer_byte_rate": 1.0, "bogus": 2.0}, "Invalid configuration key bogus"),
    ],
)
async def test_quotas_that_are_none(
    random: Random, entity: Entity, values: dict[str, float], said: str
) -> None:
    admin = await Admin.start(random)
    entries = [entry(entity, **values), entry({"user": "zoe"}, producer_byte_rate=1.0)]
    bad, good = (await admin.ask(alter_quotas.AlterClientQuotasRequest(entries))).entries
    assert bad.error_code == errors.InvalidRequest.code and said in bad.error_message
    assert good.error_code == 0 and len(await shown(admin)) == 1


async def test_an_entity_that_is_changed_twice_is_not_changed(random: Random) -> None:
    admin = await Admin.start(random)
    twice = [entry({"user": "a"}, producer_byte_rate=1.0), entry({"user": "a"}, consumer_byte_rate=1.0)]
    (answer,) = (await admin.ask(alter_quotas.AlterClientQuotasRequest(twice))).entries
    assert "Ignoring duplicate entity" in answer.error_message and await shown(admin) == []


@pytest.mark.parametrize(
    ("parts", "error", "said"),
    [
        ([part("user", 0)], errors.InvalidRequest, "MATCH_TYPE_EXACT, but set match string to null."),
        ([part("user", 1, "x")], errors.InvalidRequest, "MATCH_TYPE_DEFAULT, but also specified"),
        ([part("user", 2, "x")], errors.InvalidRequest, "MATCH_TYPE_SPECIFIED, but also specified"),
        ([part("user", 3)], errors.InvalidRequest, "Unknown match type 3"),
        ([part("planet", 2)], errors.UnsupportedVersion, "Unsupported entity type planet"),
        ([part("", 2)], errors.InvalidRequest, "Invalid empty entity type."),
        ([part("user", 2)] * 2, errors.InvalidRequest, "cannot appear more than once"),
        ([part("user", 2), part("ip", 2)], errors.InvalidRequest, "should not be used with user or clientId"),
    ],
)
async def test_filters_of_quotas_that_are_none(
    random: Random, parts: list[quotas.ComponentData], error: type[errors.TidelogError], said: str
) -> None:
    admin = await Admin.start(random)
    answer = await admin.ask(quotas.DescribeClientQuotasRequest(parts))
    assert answer.error_code == error.code and said in answer.error_message and answer.entries is None


# Delegation tokens


async def token(admin: Admin, principal: str = "User:ann", version: int = 3, **wanted: Any) -> Any:
    request = CreateDelegationTokenRequest(**{"max_lifetime_ms": -1, **wanted})
    return await admin.ask(request, version, principal)


async def tokens(admin: Admin, principal: str, owners: list[str] | None = None) -> list[str]:
    named = None if owners is None else [DescribeDelegationTokenOwner("User", name) for name in owners]
    answer = await admin.ask(DescribeDelegationTokenRequest(named), principal=principal)
    assert answer.error_code == 0
    return [one.token_id for one in answer.tokens]


async def test_tokens_are_made_shown_renewed_and_ended(random: Random) -> None:
    admin = await Admin.start(random, TOKENS)
    for version in versions(38):
        made = await token(admin, version=version, renewers=[CreatableRenewers("User", "bob")])
        assert made.error_code == 0 and (made.principal_type, made.principal_name) == ("User", "ann")
        assert len(made.token_id) == 22 and len(made.hmac) == 64
        assert made.max_timestamp_ms - made.issue_timestamp_ms == 604_800_000
        assert made.expiry_timestamp_ms - made.issue_timestamp_ms == 86_400_000
        for who in ("User:ann", "User:bob"):
            assert await tokens(admin, who) == [made.token_id]
        assert await tokens(admin, "User:eve") == await tokens(admin, "User:ann", ["zoe"]) == []
        assert await tokens(admin, "User:ann", ["ann"]) == [made.token_id]
        assert await tokens(admin, "User:root") == [made.token_id]
        for v in versions(39):
            renewed = await admin.ask(RenewDelegationTokenRequest(made.hmac, 1000), v, "User:bob")
            assert renewed.error_code == 0
            assert renewed.expiry_timestamp_ms - made.issue_timestamp_ms < 86_400_000
        ended = await admin.ask(ExpireDelegationTokenRequest(made.hmac, -1), principal="User:bob")
        assert (ended.error_code, ended.expiry_timestamp_ms) == (0, -1)
        assert await tokens(admin, "User:ann") == []

        for v in versions(41):
            await admin.ask(DescribeDelegationTokenRequest(None), v, "User:ann")


async def test_who_gets_no_token(random: Random) -> None:
    off, on = await Admin.start(random, ON), await Admin.start(random, TOKENS)
    assert (await token(off)).error_code == errors.DelegationTokenAuthDisabled.code
    assert (await token(on, "User:ANONYMOUS")).error_code == errors.DelegationTokenRequestNotAllowed.code
    group = [CreatableRenewers("Group", "x")]
    assert (await token(on, renewers=group)).error_code == errors.InvalidPrincipalType.code
    other = {"owner_principal_type": "User", "owner_principal_name": "zoe"}
    assert (await token(on, **other)).error_code == errors.DelegationTokenAuthorizationFailed.code
    made = await token(on, "User:root", **other)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (
        0,
        "zoe",
        "root",
    )
    await on.ask(create(creation(resource_type=7, resource_name="User:zoe", operation=13)))
    assert (await token(on, **other)).error_code == 0
    described = await off.ask(DescribeDelegationTokenRequest(None), principal="User:ann")
    assert described.error_code == errors.DelegationTokenAuthDisabled.code
    described = await on.ask(DescribeDelegationTokenRequest(None))
    assert described.error_code == errors.DelegationTokenRequestNotAllowed.code


async def test_who_may_not_change_a_token(random: Random) -> None:
    admin = await Admin.start(random, TOKENS)
    made = await token(admin)
    for hmac, who, error in (
        (made.hmac, "User:eve", errors.DelegationTokenOwnerMismatch),
        (b"nothing", "User:ann", errors.DelegationTokenNotFound),
        (b"", "User:ann", errors.DelegationTokenNotFound),
        (made.hmac, "User:ANONYMOUS", errors.DelegationTokenRequestNotAllowed),
    ):
        for request in (RenewDelegationTokenRequest(hmac, -1), ExpireDelegationTokenRequest(hmac, -1)):
            answer = await admin.ask(request, principal=who)
            assert (answer.error_code, answer.expiry_timestamp_ms) == (error.code, -1)
    assert await tokens(admin, "User:ann") == [made.token_id]


async def test_what_is_made_of_the_image_is_kept_until_it_changes(random: Random) -> None:
    admin = await Admin.start(random, TOKENS)
    access = admin._services.access
    before = (access.authorizer, access.quotas, access.tokens, access.credentials("SCRAM-SHA-256"))
    await admin.ask(create(creation()))
    assert access.authorizer is not before[0] and access.authorizer is not None
    assert access.authorizer.allowed("User:ann", "10.0.0.1", 3, 2, "orders")
    assert access.authorizer is access.authorizer
    assert (access.quotas, access.tokens, access.credentials("SCRAM-SHA-256")) == before[1:]
    credential = ScramCredential(b"salt", 4096, b"stored", b"server")
    await admin.node.controller.access.alter_credentials({CredentialName("SCRAM-SHA-256", "ann"): credential})
    assert access.credentials("SCRAM-SHA-256").find("ann") == (credential, True)
    assert (access.quotas, access.tokens) == before[1:3]
