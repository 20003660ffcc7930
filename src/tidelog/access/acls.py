"""Who may do what: the decisions of Kafka's StandardAuthorizer over all ACL bindings.  Pure.

An `Authorizer` is immutable: the broker makes a new one when `Image.acls` is another object, and drops every decision
cached from the old one.  DENY wins; without a matching ACL the answer is DENY, unless the resource has no ACL at all
and `allow.everyone.if.no.acl.found` is set.

A lookup costs one dictionary access for each distinct length of a prefix, never one for each ACL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from tidelog.wire.acls import (
    CLUSTER_NAME,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

__all__ = [
    "CLUSTER_NAME",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermission",
    "AclResourceType",
    "Authorizer",
    "Decision",
    "Reason",
    "parse_super_users",
]

CACHED_DECISIONS_MAX = 50_000
# Kafka checks this name to learn whether a principal may do something anywhere.
_SOME_NAME = "hardcode"

_Op = AclOperation
# ALLOW for the operation on the left is given by ALLOW for any on the right (besides ALL).  A DENY implies nothing.
_IMPLIED_BY = {
    _Op.DESCRIBE: frozenset((_Op.DESCRIBE, _Op.READ, _Op.WRITE, _Op.DELETE, _Op.ALTER)),
    _Op.DESCRIBE_CONFIGS: frozenset((_Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS)),
}


class Reason(StrEnum):
    """Why a decision is what it is."""

    SUPER_USER = "super user"
    ACL = "acl"
    NO_ACL_FOUND = "the resource has no acl"
    NO_MATCHING_ACL = "no acl matches"


class Decision(NamedTuple):
    """`rule`: the ACL that decided, None where none did."""

    allowed: bool
    reason: Reason
    rule: AclBinding | None = None


_Rules = dict[str, list[AclBinding]]
"""The ACLs of one pattern, by principal."""


class _Patterns:
    """The ACLs of one resource type."""

    def __init__(self) -> None:
        self.literal: dict[str, _Rules] = {}
        self.prefixed: dict[str, _Rules] = {}
        self.lengths: tuple[int, ...] = ()  # of all prefixes, the longest first

    def add(self, binding: AclBinding) -> None:
        patterns = self.prefixed if binding.pattern_type is AclPatternType.PREFIXED else self.literal
        patterns.setdefault(binding.name, {}).setdefault(binding.principal, []).append(binding)

    def finish(self) -> None:
        self.lengths = tuple(sorted({len(name) for name in self.prefixed}, reverse=True))

    def covering(self, name: str) -> Iterable[_Rules]:
        """The patterns that cover `name`, the most specific first."""
        rules = self.literal.get(name)
        if rules is not None:
            yield rules
        for length in self.lengths:
            if length <= len(name) and (rules := self.prefixed.get(name[:length])) is not None:
                yield rules
        if name != WILDCARD and (rules := self.literal.get(WILDCARD)) is not None:
            yield rules


class Authorizer:
    def __init__(
        self,
        bindings: Iterable[AclBinding],
        super_users: Iterable[str] = (),
        allow_if_no_acl: bool = False,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._default = Decision(allow_if_no_acl, Reason.NO_ACL_FOUND)
        self._by_type: dict[int, _Patterns] = {}
        self._by_principal: dict[tuple[int, str], list[AclBinding]] = defaultdict(list)
        self._cache: dict[tuple[str, str, int, int, str], bool] = {}
        self._cache_of_types: dict[tuple[str, str, int, int], bool] = {}
        for binding in bindings:
            self._by_type.setdefault(binding.resource_type, _Patterns()).add(binding)
            self._by_principal[binding.resource_type, binding.principal].append(binding)
        for patterns in self._by_type.values():
            patterns.finish()

    def allowed(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """As `decide`; remembers what it decided."""
        key = (principal, host, operation, resource_type, name)
        allowed = self._cache.get(key)
        if allowed is None:
            if len(self._cache) >= CACHED_DECISIONS_MAX:
                self._cache.clear()
            allowed = self._cache[key] = self.decide(*key).allowed
        return allowed

    def decide(
        self,
        principal: str,
        host: str,
        operation: int,
        resource_type: int,
        name: str,
        groups: Sequence[str] = (),
    ) -> Decision:
        """`principal` as 'User:alice'; `groups`: further principals of the same session, as 'Group:billing'."""
        if principal in self._super_users:
            return Decision(True, Reason.SUPER_USER)
        patterns = self._by_type.get(resource_type)
        if patterns is None:
            return self._default
        principals = _principals(principal, groups)
        host = plain_host(host)
        allowing: AclBinding | None = None
        covered = False
        for rules in patterns.covering(name):
            covered = True
            for binding in (rule for who in principals for rule in rules.get(who, ())):
                if not _applies(binding, host, operation):
                    continue
                if binding.permission is AclPermission.DENY:
                    return Decision(False, Reason.ACL, binding)
                allowing = allowing or binding
        if allowing is not None:
            return Decision(True, Reason.ACL, allowing)
        return Decision(False, Reason.NO_MATCHING_ACL) if covered else self._default

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: int, resource_type: int, groups: Sequence[str] = ()
    ) -> bool:
        """True if the principal may do this on at least one resource of the type, in Kafka's approximation: no implied
        operations, and a prefix counts as long as no DENY covers all of it."""
        key = (principal, host, operation, resource_type)
        allowed = None if groups else self._cache_of_types.get(key)
        if allowed is None:
            allowed = self.decide(*key, _SOME_NAME, groups).allowed or self._on_some(*key, groups)
            if not groups:
                if len(self._cache_of_types) >= CACHED_DECISIONS_MAX:
                    self._cache_of_types.clear()
                self._cache_of_types[key] = allowed
        return allowed

    def _on_some(
        self, principal: str, host: str, operation: int, resource_type: int, groups: Sequence[str]
    ) -> bool:
        host = plain_host(host)
        denied: set[tuple[AclPatternType, str]] = set()
        allowed: set[tuple[AclPatternType, str]] = set()
        for who in _principals(principal, groups):
            for binding in self._by_principal.get((resource_type, who), ()):
                if binding.operation not in (operation, AclOperation.ALL):
                    continue
                if binding.host != WILDCARD and plain_host(binding.host) != host:
                    continue
                to = denied if binding.permission is AclPermission.DENY else allowed
                to.add((binding.pattern_type, binding.name))
        everything = (AclPatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        if everything in allowed:
            return True
        return any(
            pattern not in denied
            and not any((AclPatternType.PREFIXED, pattern[1][:end]) in denied for end in _ends(pattern[1]))
            for pattern in allowed
        )


def parse_super_users(text: str | None) -> frozenset[str]:
    """The principals of `super.users`, which are separated by semicolons since a distinguished name has commas."""
    return frozenset(part.strip() for part in (text or "").split(";") if part.strip())


def plain_host(host: str) -> str:
    """An address in its one shortest form, so that ::1 and 0:0:0:0:0:0:0:1 are the same host."""
    if ":" not in host:
        return host
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.compressed


def _principals(principal: str, groups: Sequence[str]) -> tuple[str, ...]:
    return (
        (principal, *groups) if principal == WILDCARD_PRINCIPAL else (principal, *groups, WILDCARD_PRINCIPAL)
    )


def _applies(binding: AclBinding, host: str, operation: int) -> bool:
    """True if an ACL of a pattern that covers the resource speaks about this host and operation."""
    if binding.host != WILDCARD and plain_host(binding.host) != host:
        return False
    if binding.operation in (AclOperation.ALL, operation):
        return True
    if binding.permission is AclPermission.DENY:
        return False
    implying = _IMPLIED_BY.get(operation)  # type: ignore[call-overload]  # an operation is its number
    return implying is not None and binding.operation in implying


def _ends(name: str) -> range:
    return range(1, len(name) + 1)
