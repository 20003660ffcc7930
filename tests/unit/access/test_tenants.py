"""Who belongs to which tenant, and what lies within it."""

from __future__ import annotations

import pytest

from tidelog.access.tenants import Tenant, Tenants
from tidelog.metadata.tenants import ENABLED
from tidelog.wire.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)
from tidelog.wire.client_quotas import QuotaEntity

Type, Op = AclResourceType, AclOperation
TENANTS = Tenants(
    {
        QuotaEntity(user="bob"): {"producer_byte_rate": 1.0},
        QuotaEntity(tenant="acme"): {ENABLED: 1.0, "member:User:bob": 1.0, "member:Group:acme-team": 1.0},
        QuotaEntity(tenant="acmeX"): {ENABLED: 1.0},
        QuotaEntity(tenant="zeta"): {ENABLED: 1.0, "member:Group:zeta-team": 1.0},
    }
)
ACME = TENANTS.of("User:acme/alice")
assert ACME is not None


@pytest.mark.parametrize(
    ("principal", "groups", "tenant"),
    [
        ("User:acme/alice", (), "acme"),
        ("User:acme/alice/x", (), "acme"),
        ("User:acmeX/alice", (), "acmeX"),
        ("User:bob", (), "acme"),
        ("User:carl", ("Group:acme-team",), "acme"),
        ("User:carl", (), None),
        ("User:acme", (), None),
        ("User:acme.alice", (), None),
        ("User:ANONYMOUS", (), None),
        ("User:CN=alice,O=acme/x", (), None),
        ("User:/alice", (), None),
        ("Broker:this cluster", (), None),
        ("Group:acme/alice", (), None),
    ],
)
def test_the_tenant_of_a_principal(principal: str, groups: tuple[str, ...], tenant: str | None) -> None:
    found = TENANTS.of(principal, groups)
    assert (found and found.name) == tenant
    assert found is None or found.exists


@pytest.mark.parametrize(
    ("principal", "groups"),
    [
        ("User:gone/alice", ()),
        ("User:acme/alice", ("Group:zeta-team",)),
        ("User:carl", ("Group:acme-team", "Group:zeta-team")),
    ],
)
def test_who_names_no_tenant_or_two_has_nothing(principal: str, groups: tuple[str, ...]) -> None:
    found = TENANTS.of(principal, groups)
    assert found is not None and not found.exists
    for kind in Type:
        for name in ("acme.orders", "gone.orders", "zeta.orders", "orders", CLUSTER_NAME, principal):
            assert not any(found.holds(operation, kind, name) for operation in Op)


@pytest.mark.parametrize("kind", [Type.TOPIC, Type.GROUP, Type.TRANSACTIONAL_ID])
def test_names_within_a_tenant_begin_with_its_name_and_a_dot(kind: AclResourceType) -> None:
    for name in ("acme.orders", "acme.", "acme.zeta.x"):
        assert all(ACME.holds(operation, kind, name) for operation in Op)
    for name in (
        "acme",
        "acmeX.orders",
        "acme-x",
        "acme_orders",
        "ACME.orders",
        "orders",
        "*",
        "",
        "zeta.acme.orders",
    ):
        assert not any(ACME.holds(operation, kind, name) for operation in Op)


def test_of_the_cluster_a_tenant_has_the_right_to_number_records() -> None:
    assert [operation for operation in Op if ACME.holds(operation, Type.CLUSTER, CLUSTER_NAME)] == [
        Op.IDEMPOTENT_WRITE
    ]
    assert not any(ACME.holds(operation, Type.DELEGATION_TOKEN, "acme.token") for operation in Op)


def test_users_within_a_tenant() -> None:
    assert ACME.holds(Op.CREATE_TOKENS, Type.USER, "User:acme/carl")
    assert ACME.holds(Op.CREATE_TOKENS, Type.USER, "User:bob")
    for name in ("User:acmeX/alice", "User:zeta/alice", "User:root", "acme/alice"):
        assert not ACME.holds(Op.CREATE_TOKENS, Type.USER, name)


def acl(kind: AclResourceType, pattern: AclPatternType, name: str, principal: str) -> AclBinding:
    return AclBinding(kind, pattern, name, principal, "*", Op.READ, AclPermission.ALLOW)


def test_acls_of_a_tenant_speak_of_its_own_names_and_its_own_users() -> None:
    literal, prefixed = AclPatternType.LITERAL, AclPatternType.PREFIXED
    assert ACME.has_acl(acl(Type.TOPIC, literal, "acme.orders", "User:acme/alice"))
    assert ACME.has_acl(acl(Type.GROUP, prefixed, "acme.", "User:bob"))
    assert ACME.has_acl(acl(Type.TOPIC, prefixed, "acme.", "Group:acme-team"))
    for kind, pattern, name, principal in [
        (Type.TOPIC, prefixed, "acme", "User:acme/alice"),
        (Type.TOPIC, prefixed, "a", "User:acme/alice"),
        (Type.TOPIC, literal, "*", "User:acme/alice"),
        (Type.TOPIC, literal, "zeta.orders", "User:acme/alice"),
        (Type.TOPIC, literal, "acme.orders", "User:*"),
        (Type.TOPIC, literal, "acme.orders", "User:zeta/alice"),
        (Type.CLUSTER, literal, CLUSTER_NAME, "User:acme/alice"),
        (Type.USER, literal, "User:acme/alice", "User:acme/alice"),
    ]:
        assert not ACME.has_acl(acl(kind, pattern, name, principal))


def test_tenants_are_named() -> None:
    assert sorted(tenant.name for tenant in TENANTS) == ["acme", "acmeX", "zeta"]
    assert TENANTS.named("acme") == Tenant("acme", frozenset(("User:bob", "Group:acme-team")))
