"""How ACLs are written on the command line: principals, resources and operations."""

from __future__ import annotations

from typing import Any

import click

from tidelog.wire.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
)

TYPES = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "cluster": AclResourceType.CLUSTER,
    "transactional-id": AclResourceType.TRANSACTIONAL_ID,
    "token": AclResourceType.DELEGATION_TOKEN,
    "user": AclResourceType.USER,
}
TYPE_NAMES = {kind: name for name, kind in TYPES.items()}
OPERATIONS = {
    operation.name.lower().replace("_", "-"): operation
    for operation in AclOperation
    if operation > AclOperation.ANY
}
OPERATION = click.Choice(list(OPERATIONS))
Resource = tuple[AclResourceType, AclPatternType, str]


def principal(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A user's name alone will do."""
    if value is None:
        return None
    if not value:
        raise click.BadParameter("it is empty")
    return value if ":" in value else f"User:{value}"


def resource(ctx: click.Context, param: click.Parameter, value: str | None) -> Resource | None:
    """`topic:orders`, `topic:orders.*` for all that begin so, `topic:*` for all, `cluster`."""
    if value is None:
        return None
    word, colon, name = value.partition(":")
    if word not in TYPES:
        raise click.BadParameter(f"{word!r} is not a resource: use {', '.join(TYPES)}, as in topic:orders")
    kind = TYPES[word]
    if kind is AclResourceType.CLUSTER:
        if name not in ("", CLUSTER_NAME):
            raise click.BadParameter("the cluster has no name: write cluster")
        return kind, AclPatternType.LITERAL, CLUSTER_NAME
    if not colon or not name:
        raise click.BadParameter(f"a {word} has a name, as in {word}:orders; {word}:* is all of them")
    if name != WILDCARD and name.endswith(WILDCARD):
        return kind, AclPatternType.PREFIXED, name.removesuffix(WILDCARD)
    return kind, AclPatternType.LITERAL, name


def resource_text(binding: AclBinding) -> str:
    word = TYPE_NAMES.get(binding.resource_type, binding.resource_type.name.lower())
    if binding.resource_type is AclResourceType.CLUSTER:
        return word
    return f"{word}:{binding.name}{WILDCARD if binding.pattern_type is AclPatternType.PREFIXED else ''}"


def operation_text(operation: AclOperation) -> str:
    return operation.name.lower().replace("_", "-")


def acl_json(binding: AclBinding) -> dict[str, Any]:
    return {
        "principal": binding.principal,
        "permission": binding.permission.name.lower(),
        "operation": operation_text(binding.operation),
        "resource": resource_text(binding),
        "host": binding.host,
    }


def acl_row(binding: AclBinding) -> tuple[str, str, str, str, str]:
    permission = "DENY" if binding.permission is AclPermission.DENY else "allow"
    return (
        binding.principal,
        permission,
        operation_text(binding.operation),
        resource_text(binding),
        binding.host,
    )


ACL_COLUMNS = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "HOST")
ACL_SHAPE = '{"principal", "permission", "operation", "resource", "host"}'
