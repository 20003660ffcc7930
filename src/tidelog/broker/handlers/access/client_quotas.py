"""DescribeClientQuotas (api 48) and AlterClientQuotas (49), versions 0-1.

Host names in place of addresses are refused: nobody looks them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum

from tidelog import errors
from tidelog.access.quotas import check_entity, check_quota
from tidelog.broker.services import Context
from tidelog.wire.client_quotas import CLIENT_ID, DEFAULT_ENTITY, IP, TENANT, USER, QuotaEntity
from tidelog.wire.messages import alter_client_quotas as alter
from tidelog.wire.messages import describe_client_quotas as describe

CHANGES_A_REQUEST_MAX = 10_000


class _Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def describe_client_quotas(
    request: describe.DescribeClientQuotasRequest, context: Context
) -> describe.DescribeClientQuotasResponse:
    try:
        exact, present = _wanted(request.components)
    except errors.TidelogError as problem:
        return describe.DescribeClientQuotasResponse(
            error_code=problem.code, error_message=str(problem), entries=None
        )
    return describe.DescribeClientQuotasResponse(
        entries=[
            describe.EntryData(
                [describe.EntityData(kind, name or None) for kind, name in entity.parts().items()],
                [describe.ValueData(key, value) for key, value in stored.values.items()],
            )
            for entity, stored in context.services.image().quotas.items()
            if _fits(entity, exact, present, request.strict)
        ]
    )


def _wanted(components: list[describe.ComponentData]) -> tuple[dict[str, str], set[str]]:
    """Entity types with the name they must have, and those that must be there with any name."""
    exact: dict[str, str] = {}
    present: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise errors.InvalidRequest("Invalid empty entity type.")
        if kind in exact or kind in present:
            raise errors.InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP, TENANT):
            raise errors.UnsupportedVersion(f"Unsupported entity type {kind}")
        if component.match_type not in set(_Match):
            raise errors.InvalidRequest(f"Unknown match type {component.match_type}")
        how = _Match(component.match_type)
        if how is _Match.EXACT and component.match is None:
            raise errors.InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if how is not _Match.EXACT and component.match is not None:
            raise errors.InvalidRequest(
                f"Request specified MATCH_TYPE_{how.name}, but also specified a match string."
            )
        if how is _Match.SPECIFIED:
            present.add(kind)
        else:
            exact[kind] = DEFAULT_ENTITY if component.match is None else component.match
        if how is _Match.EXACT and not component.match:
            exact[kind] = "\0"  # nobody's name is empty: it must not find the default
    kinds = present | exact.keys()
    if IP in kinds and len(kinds) > 1:
        raise errors.InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return exact, present


def _fits(entity: QuotaEntity, exact: Mapping[str, str], present: set[str], strict: bool) -> bool:
    parts = entity.parts()
    if strict and len(parts) != len(exact) + len(present):
        return False
    return present <= parts.keys() and all(parts.get(kind) == name for kind, name in exact.items())


async def alter_client_quotas(
    request: alter.AlterClientQuotasRequest, context: Context
) -> alter.AlterClientQuotasResponse:
    """All changes of one entity, or none of them."""
    times = Counter(_identity(entry) for entry in request.entries)
    response = alter.AlterClientQuotasResponse()
    answered: set[tuple[tuple[str, str | None], ...]] = set()
    for number, entry in enumerate(request.entries):
        identity = _identity(entry)
        if identity in answered:
            continue
        answered.add(identity)
        answer = alter.AlterClientQuotasResponseEntryData(
            error_message=None,
            entity=[alter.EntityData(part.entity_type, part.entity_name) for part in entry.entity],
        )
        try:
            if number >= CHANGES_A_REQUEST_MAX:
                raise errors.PolicyViolation(
                    f"at most {CHANGES_A_REQUEST_MAX} entities can be changed at once"
                )
            entity, changes = _changes(entry, times[identity])
            controller = context.services.controller
            await controller.access.alter_quotas(entity, changes, request.validate_only)
        except errors.TidelogError as problem:
            answer.error_code, answer.error_message = problem.code, str(problem)
        response.entries.append(answer)
    return response


def _identity(entry: alter.AlterClientQuotasRequestEntryData) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(((part.entity_type, part.entity_name) for part in entry.entity), key=repr))


def _changes(
    entry: alter.AlterClientQuotasRequestEntryData, times: int
) -> tuple[QuotaEntity, dict[str, float | None]]:
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    if len(parts) < len(entry.entity):
        raise errors.InvalidRequest("Invalid client quota entity, an entity type occurs twice in it")
    entity = check_entity(parts)
    if times > 1:
        raise errors.InvalidRequest(f"Ignoring duplicate entity {entity}")
    changes: dict[str, float | None] = {}
    for operation in entry.ops:
        if operation.key in changes:
            raise errors.InvalidRequest(
                f"Duplicate quota key {operation.key} not updating quota for this entity {entity}"
            )
        if not operation.remove:
            check_quota(entity, operation.key, operation.value)
        changes[operation.key] = None if operation.remove else operation.value
    return entity, changes
