"""Who belongs to a tenant by certificate, by the claim of a token, by a delegation token; and ACLs inside of a tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.conformance.conftest import ON_KAFKA, SETTINGS
from tests.conformance.secured import Login, SecuredBroker, login_to, tidelog_security
from tidelog import (
    AclBinding,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    QuotaEntity,
    errors,
)
from tidelog.aio import Admin, NewTopic

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no tenants")

TOPICS = ("acme.orders", "acme.secret", "zeta.orders", "plain")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Tenants acme and zeta, their topics, and one without; everybody may do everything with names that begin with acme.o,
    zeta.o and p, as far as they are of no other tenant."""
    settings = SETTINGS | {"tidelog.oauthbearer.groups.claim.name": "groups"}
    running = SecuredBroker(tmp_path_factory.mktemp("tenants"), settings)
    running.start()
    asyncio.run(_prepare(running))
    yield running
    assert running.alive(), f"the broker died during the tests: {running.log_tail()}"
    running.stop()


async def _prepare(broker: SecuredBroker) -> None:
    async with Admin(bootstrap_servers=broker.at("PLAIN")) as admin:
        for tenant, member in (("acme", "Group:acme-team"), ("zeta", "Group:zeta-team")):
            entity = QuotaEntity(tenant=tenant)
            await admin.alter_client_quotas({entity: {"enabled": 1.0, f"member:{member}": 1.0}})
        await admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS])
        await admin.create_acls(
            AclBinding(
                AclResourceType.TOPIC,
                AclPatternType.PREFIXED,
                prefix,
                "User:*",
                "*",
                AclOperation.ALL,
                AclPermission.ALLOW,
            )
            for prefix in ("acme.o", "zeta.o", "p")
        )


def topics(broker: SecuredBroker, login: Login) -> list[str]:
    async def listed() -> list[str]:
        async with Admin(bootstrap_servers=login.bootstrap, security=tidelog_security(login)) as admin:
            return [topic.name for topic in await admin.list_topics(internal=True)]

    return asyncio.run(listed())


async def change(broker: SecuredBroker, **values: float | None) -> None:
    async with Admin(bootstrap_servers=broker.at("PLAIN")) as admin:
        changes = {f"member:User:{name}": value for name, value in values.items()}
        await admin.alter_client_quotas({QuotaEntity(tenant="acme"): changes})


@pytest.mark.parametrize(
    ("groups", "shown"),
    [
        ([], ["acme.orders", "plain", "zeta.orders"]),
        (["staff"], ["acme.orders", "plain", "zeta.orders"]),
        (["acme-team"], ["acme.orders"]),
        (["staff", "zeta-team"], ["zeta.orders"]),
        (["acme-team", "zeta-team"], []),
    ],
)
def test_a_claim_names_the_tenant(secured: SecuredBroker, groups: list[str], shown: list[str]) -> None:
    login = login_to(secured, "BOTH", "OAUTHBEARER").but(token=secured.token("carl", groups=groups))
    assert topics(secured, login) == shown


def test_a_subject_that_looks_like_a_user_of_a_tenant_is_one(secured: SecuredBroker) -> None:
    login = login_to(secured, "BOTH", "OAUTHBEARER")
    assert topics(secured, login.but(token=secured.token("zeta/carl"))) == ["zeta.orders"]
    assert topics(secured, login.but(token=secured.token("gone/carl"))) == []


def test_a_certificate_is_a_member(secured: SecuredBroker) -> None:
    login = login_to(secured, "MUTUAL")
    assert topics(secured, login) == ["acme.orders", "plain", "zeta.orders"]
    asyncio.run(change(secured, ann=1.0))
    assert topics(secured, login) == ["acme.orders"]
    asyncio.run(change(secured, ann=None))
    assert topics(secured, login) == ["acme.orders", "plain", "zeta.orders"]


def test_a_super_user_ends_at_the_tenant(secured: SecuredBroker) -> None:
    """admin is in super.users."""
    login = login_to(secured, "BOTH", "OAUTHBEARER").but(token=secured.token("admin"))
    assert set(TOPICS) <= set(topics(secured, login))
    asyncio.run(change(secured, admin=1.0))
    assert topics(secured, login) == ["acme.orders", "acme.secret"]
    asyncio.run(change(secured, admin=None))


async def test_a_delegation_token_stays_in_the_tenant(secured: SecuredBroker) -> None:
    owner = login_to(secured, "BOTH", "OAUTHBEARER").but(token=secured.token("zeta/dora"))
    async with Admin(bootstrap_servers=owner.bootstrap, security=tidelog_security(owner)) as admin:
        with pytest.raises(errors.DelegationTokenAuthorizationFailed):
            await admin.create_delegation_token(renewers=["User:acme/eve"])
        token = await admin.create_delegation_token(renewers=["User:zeta/carl"])
    other = owner.but(token=secured.token("acme/eve"))
    async with Admin(bootstrap_servers=other.bootstrap, security=tidelog_security(other)) as admin:
        assert not await admin.describe_delegation_tokens()
    own = owner.but(token=secured.token("zeta/carl"))
    async with Admin(bootstrap_servers=own.bootstrap, security=tidelog_security(own)) as admin:
        assert [each.token_id for each in await admin.describe_delegation_tokens()] == [token.token_id]
