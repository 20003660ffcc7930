"""Roles are their ACLs: what they allow, how they are found again, and what taking one away leaves."""

from __future__ import annotations

import itertools

import pytest

from tidelog.access.acls import AclBinding, AclOperation, AclResourceType, Authorizer
from tidelog.access.roles import Role, RoleGrant, explaining, held_roles, revocable

ANN = "User:ann"
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
Op = AclOperation


def may(bindings: list[AclBinding], operation: AclOperation, kind: AclResourceType, name: str) -> bool:
    return Authorizer(bindings).allowed(ANN, "10.0.0.1", operation, kind, name)


@pytest.mark.parametrize(
    ("role", "topic", "group"),
    [
        (
            Role.ADMIN,
            "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
            "READ DELETE DESCRIBE",
        ),
        (Role.OPERATOR, "CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS", "DELETE DESCRIBE"),
        (Role.PRODUCER, "WRITE DESCRIBE", ""),
        (Role.CONSUMER, "READ DESCRIBE", "READ DESCRIBE"),
        (Role.VIEWER, "DESCRIBE DESCRIBE_CONFIGS", "DESCRIBE"),
    ],
)
@pytest.mark.parametrize("prefix", ["*", "sales."])
def test_what_a_role_allows(role: Role, topic: str, group: str, prefix: str) -> None:
    acls = RoleGrant(ANN, role, prefix).bindings()
    for kind, allowed in ((TOPIC, topic.split()), (GROUP, group.split())):
        for operation in (
            Op.READ,
            Op.WRITE,
            Op.CREATE,
            Op.DELETE,
            Op.ALTER,
            Op.DESCRIBE,
            Op.DESCRIBE_CONFIGS,
        ):
            if kind is GROUP and operation not in (Op.READ, Op.DELETE, Op.DESCRIBE):
                continue
            assert may(acls, operation, kind, "sales.orders") == (operation.name in allowed), operation
            assert not may(acls, operation, kind, "other") or prefix == "*"
    assert may(acls, Op.DESCRIBE, CLUSTER, "kafka-cluster") == (
        prefix == "*" and role in (Role.ADMIN, Role.OPERATOR, Role.VIEWER)
    )
    assert may(acls, Op.ALTER, CLUSTER, "kafka-cluster") == (prefix == "*" and role is Role.ADMIN)


def test_roles_are_found_by_their_acls() -> None:
    grants = [RoleGrant(ANN, role, prefix) for prefix in ("*", "a.") for role in Role]
    for size in (1, 2):
        for some in itertools.combinations(grants, size):
            acls = [acl for grant in some for acl in grant.bindings()]
            assert set(held_roles(acls)) == set(some)
            assert held_roles(acls[1:]) == held_roles(acls[1:][::-1])
    assert held_roles(RoleGrant(ANN, Role.CONSUMER).bindings()[1:]) == []


def test_taking_a_role_away_leaves_the_others() -> None:
    mine, theirs = RoleGrant(ANN, Role.CONSUMER), RoleGrant("User:bob", Role.CONSUMER)
    both = [*mine.bindings(), *theirs.bindings(), *RoleGrant(ANN, Role.VIEWER).bindings()]
    assert revocable(mine, both) == mine.bindings()
    assert revocable(mine, theirs.bindings()) == []
    assert explaining(mine.bindings()[0], both) == [mine]
