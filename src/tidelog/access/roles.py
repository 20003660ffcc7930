"""Roles: bundles of ACLs on everything whose name begins with a prefix.  Pure.

A role is nothing but its ACLs, so `acls list` shows them, Kafka's tools read them, and a role is held when all of its
ACLs are there.  Taking a role away leaves the ACLs that another role of the same principal needs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from tidelog.wire.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

_Op, _Type = AclOperation, AclResourceType


class Role(StrEnum):
    ADMIN = "admin"
    """Everything."""
    OPERATOR = "operator"
    """Creates, changes and deletes topics and deletes groups; reads and writes no records."""
    PRODUCER = "producer"
    """Writes, with transactions."""
    CONSUMER = "consumer"
    """Reads, in groups."""
    VIEWER = "viewer"
    """Sees names, settings and offsets; no records."""


# No role's ACLs are a part of another's: so which roles a principal holds can be read from the ACLs.  Where an
# operation implies DESCRIBE, DESCRIBE is not listed.
_RIGHTS: dict[Role, dict[AclResourceType, tuple[AclOperation, ...]]] = {
    Role.ADMIN: {
        _Type.TOPIC: (_Op.ALL,),
        _Type.GROUP: (_Op.ALL,),
        _Type.TRANSACTIONAL_ID: (_Op.ALL,),
    },
    Role.OPERATOR: {
        _Type.TOPIC: (_Op.CREATE, _Op.DELETE, _Op.ALTER, _Op.ALTER_CONFIGS),
        _Type.GROUP: (_Op.DELETE,),
    },
    Role.PRODUCER: {_Type.TOPIC: (_Op.WRITE,), _Type.TRANSACTIONAL_ID: (_Op.WRITE,)},
    Role.CONSUMER: {_Type.TOPIC: (_Op.READ,), _Type.GROUP: (_Op.READ,)},
    Role.VIEWER: {
        _Type.TOPIC: (_Op.DESCRIBE, _Op.DESCRIBE_CONFIGS),
        _Type.GROUP: (_Op.DESCRIBE,),
        _Type.TRANSACTIONAL_ID: (_Op.DESCRIBE,),
    },
}
# Besides, for who has the role on everything.  An operator gets no ALTER here: with it he could write himself ACLs.
_CLUSTER_RIGHTS: dict[Role, tuple[AclOperation, ...]] = {
    Role.ADMIN: (_Op.ALL,),
    Role.OPERATOR: (_Op.ALTER_CONFIGS, _Op.DESCRIBE),
    Role.VIEWER: (_Op.DESCRIBE, _Op.DESCRIBE_CONFIGS),
}


class RoleGrant(NamedTuple):
    """`prefix` WILDCARD: on everything."""

    principal: str
    role: Role
    prefix: str = WILDCARD

    def bindings(self) -> list[AclBinding]:
        """The ACLs that the role stands for."""
        everything = self.prefix == WILDCARD
        pattern = AclPatternType.LITERAL if everything else AclPatternType.PREFIXED
        bindings = [
            self._binding(kind, pattern, self.prefix, operation)
            for kind, operations in _RIGHTS[self.role].items()
            for operation in operations
        ]
        if everything:
            bindings += [
                self._binding(_Type.CLUSTER, AclPatternType.LITERAL, CLUSTER_NAME, operation)
                for operation in _CLUSTER_RIGHTS.get(self.role, ())
            ]
        return bindings

    def _binding(
        self, kind: AclResourceType, pattern: AclPatternType, name: str, operation: AclOperation
    ) -> AclBinding:
        return AclBinding(kind, pattern, name, self.principal, WILDCARD, operation, AclPermission.ALLOW)


def held_roles(bindings: Iterable[AclBinding]) -> list[RoleGrant]:
    """Every role of which all ACLs are there, by principal, prefix and role."""
    there = frozenset(bindings)
    places = {
        (binding.principal, binding.name)
        for binding in there
        if binding.resource_type is _Type.TOPIC
        and binding.permission is AclPermission.ALLOW
        and (binding.pattern_type is AclPatternType.PREFIXED) != (binding.name == WILDCARD)
    }
    grants = (RoleGrant(principal, role, prefix) for principal, prefix in sorted(places) for role in Role)
    return [grant for grant in grants if there.issuperset(grant.bindings())]


def revocable(grant: RoleGrant, bindings: Iterable[AclBinding]) -> list[AclBinding]:
    """The ACLs to delete when a role is taken away: those that are there and that no other held role needs."""
    there = frozenset(bindings)
    needed = {binding for other in held_roles(there) if other != grant for binding in other.bindings()}
    return [binding for binding in grant.bindings() if binding in there and binding not in needed]


def explaining(rule: AclBinding, bindings: Iterable[AclBinding]) -> list[RoleGrant]:
    """The held roles that an ACL belongs to."""
    return [grant for grant in held_roles(bindings) if rule in grant.bindings()]
