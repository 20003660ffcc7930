"""Which tenant a principal belongs to, and what lies within the tenant.  Pure.

The gate asks here before it asks for ACLs: what is outside of a session's tenant does not exist for the session,
whatever the ACLs or `super.users` say.  A `Tenants` is immutable, as an `Authorizer`: the broker makes a new one when
quotas have changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidelog.metadata.tenants import CONNECTIONS_MAX, MEMBER, USER_SEPARATOR, is_tenant_name, prefix_of
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclResourceType
from tidelog.wire.client_quotas import QuotaEntity

_Type = AclResourceType
_NAMED = frozenset((_Type.TOPIC, _Type.GROUP, _Type.TRANSACTIONAL_ID))
_USER = "User:"


@dataclass(frozen=True, slots=True)
class Tenant:
    """`exists` False: a principal names a tenant that is not there, or several.  Nothing is within it."""

    name: str
    members: frozenset[str] = frozenset()
    exists: bool = True
    connections_max: int | None = None
    """To one broker."""

    @property
    def prefix(self) -> str:
        return prefix_of(self.name)

    def holds(self, operation: int, kind: int, name: str) -> bool:
        """Whether the resource is within the tenant.  Of the cluster itself a tenant has no more than the right to number
        its records."""
        if not self.exists:
            return False
        if kind in _NAMED:
            return self.owns(name)
        if kind == _Type.CLUSTER:
            return operation == AclOperation.IDEMPOTENT_WRITE
        return kind == _Type.USER and self.has_principal(name)

    def owns(self, name: str) -> bool:
        """True if the name of a topic, group or transactional id belongs to the tenant."""
        return self.exists and name.startswith(self.prefix)

    def has_user(self, user: str) -> bool:
        return self.exists and user.startswith(self.name + USER_SEPARATOR)

    def has_principal(self, principal: str) -> bool:
        """As User:acme/alice, or a member."""
        return (principal.startswith(_USER) and self.has_user(principal[len(_USER) :])) or (
            self.exists and principal in self.members
        )

    def has_acl(self, binding: AclBinding) -> bool:
        """Whether the tenant's own administrators see and delete the ACL, and may create one like it."""
        return (
            binding.resource_type in _NAMED
            and binding.pattern_type in (AclPatternType.LITERAL, AclPatternType.PREFIXED)
            and self.owns(binding.name)
            and self.has_principal(binding.principal)
        )


class Tenants:
    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._by_name: dict[str, Tenant] = {}
        self._by_member: dict[str, str] = {}
        for entity, values in quotas.items():
            if entity.tenant is None:
                continue
            members = frozenset(key.removeprefix(MEMBER) for key in values if key.startswith(MEMBER))
            connections_max = values.get(CONNECTIONS_MAX)
            self._by_name[entity.tenant] = Tenant(
                entity.tenant,
                members,
                connections_max=None if connections_max is None else int(connections_max),
            )
            self._by_member.update(dict.fromkeys(members, entity.tenant))

    def of(self, principal: str, groups: Sequence[str] = ()) -> Tenant | None:
        """None: the principal is of no tenant.  A user `acme/alice` is of tenant `acme` whether or not
        there is one: nobody gets out of a tenant by its end."""
        names = {self._by_member[who] for who in (principal, *groups) if who in self._by_member}
        if principal.startswith(_USER):
            owner, separator, _ = principal[len(_USER) :].partition(USER_SEPARATOR)
            if separator and is_tenant_name(owner):
                names.add(owner)
        if not names:
            return None
        if len(names) > 1:
            return Tenant("/".join(sorted(names)), exists=False)
        name = names.pop()
        return self._by_name.get(name) or Tenant(name, exists=False)

    def named(self, name: str) -> Tenant | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Tenant]:
        return iter(self._by_name.values())
