"""Authorization by asking every ACL in turn, as the model's documentation describes it."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission

DESCRIBES = {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}


def covers(binding: AclBinding, resource_type: int, name: str) -> bool:
    if binding.resource_type != resource_type:
        return False
    if binding.pattern_type == AclPatternType.PREFIXED:
        return name.startswith(binding.name)
    return binding.name in ("*", name)


def speaks(binding: AclBinding, principal: str, host: str, operation: int) -> bool:
    if binding.principal not in (principal, "User:*") or binding.host not in (host, "*"):
        return False
    if binding.operation in (AclOperation.ALL, operation):
        return True
    if binding.permission == AclPermission.DENY:
        return False
    if operation == AclOperation.DESCRIBE:
        return binding.operation in DESCRIBES
    return operation == AclOperation.DESCRIBE_CONFIGS and binding.operation == AclOperation.ALTER_CONFIGS


def allowed(
    bindings: Sequence[AclBinding],
    super_users: Sequence[str],
    allow_if_no_acl: bool,
    principal: str,
    host: str,
    operation: int,
    resource_type: int,
    name: str,
) -> bool:
    if principal in super_users:
        return True
    covering = [binding for binding in bindings if covers(binding, resource_type, name)]
    if not covering:
        return allow_if_no_acl
    permissions = {one.permission for one in covering if speaks(one, principal, host, operation)}
    return permissions == {AclPermission.ALLOW}


def allowed_somewhere(
    bindings: Sequence[AclBinding], principal: str, host: str, operation: int, resource_type: int
) -> bool:
    """What ACLs alone say: an allowed pattern that no denied one covers whole."""
    mine = [
        one
        for one in bindings
        if one.resource_type == resource_type
        and one.principal in (principal, "User:*")
        and one.host in (host, "*")
        and one.operation in (operation, AclOperation.ALL)
    ]
    denied = [one for one in mine if one.permission == AclPermission.DENY]
    if any(one.name == "*" and one.pattern_type == AclPatternType.LITERAL for one in denied):
        return False
    for one in mine:
        if one.permission != AclPermission.ALLOW:
            continue
        if one.name == "*" and one.pattern_type == AclPatternType.LITERAL:
            return True
        if not any(
            (deny.pattern_type == AclPatternType.PREFIXED and one.name.startswith(deny.name))
            or (deny.pattern_type == one.pattern_type and deny.name == one.name)
            for deny in denied
        ):
            return True
    return False
