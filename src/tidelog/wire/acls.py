"""ACLs as the protocol names them: the codes of resource types, pattern types, operations and permissions, a binding,
and the filter of DescribeAcls and DeleteAcls.  Pure.

Clients, the metadata records and the authorizer share these values; `access.acls` decides about rights."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeVar

WILDCARD = "*"
WILDCARD_PRINCIPAL = "User:*"
CLUSTER_NAME = "kafka-cluster"


class AclResourceType(IntEnum):
    """What an ACL is about; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(IntEnum):
    """`MATCH` is for filters only: every pattern that applies to a resource of that name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What an ACL allows or denies.  ALL is every operation; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Which of the two an ACL does; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


AclCode = TypeVar("AclCode", AclResourceType, AclPatternType, AclOperation, AclPermission)


def acl_code(kind: type[AclCode], code: int) -> AclCode:
    """A code from the wire; one that this version does not know is UNKNOWN."""
    try:
        return kind(code)
    except ValueError:
        return kind.UNKNOWN


class AclBinding(NamedTuple):
    """One ACL: `permission` for `principal` from `host` to do `operation` on the resources of the pattern."""

    resource_type: AclResourceType
    pattern_type: AclPatternType
    name: str
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        return (
            f"{self.permission.name} {self.principal} from {self.host} to {self.operation.name} "
            f"{self.resource_type.name}:{self.pattern_type.name}:{self.name}"
        )

    def applies_to(self, resource_type: int, name: str) -> bool:
        """True if the pattern covers the resource of that name."""
        if self.resource_type != resource_type:
            return False
        if self.pattern_type is AclPatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclFilter(NamedTuple):
    """Which bindings are meant.  None matches every name, principal or host, as ANY matches every code."""

    resource_type: AclResourceType = AclResourceType.ANY
    pattern_type: AclPatternType = AclPatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @property
    def unknown(self) -> bool:
        """True if a code comes from a newer client: what the filter means is not known here."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches(self, binding: AclBinding) -> bool:
        return (
            self.resource_type in (AclResourceType.ANY, binding.resource_type)
            and self._pattern_matches(binding)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (AclOperation.ANY, binding.operation)
            and self.permission in (AclPermission.ANY, binding.permission)
        )

    def _pattern_matches(self, binding: AclBinding) -> bool:
        if self.pattern_type is AclPatternType.MATCH:
            return self.name is None or binding.applies_to(binding.resource_type, self.name)
        if self.pattern_type not in (AclPatternType.ANY, binding.pattern_type):
            return False
        return self.name is None or self.name == binding.name
