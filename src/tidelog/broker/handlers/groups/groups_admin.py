"""DescribeGroups (api 15), versions 0-6, ListGroups (api 16), versions 0-5, and DeleteGroups (api 42), versions 0-2.

DescribeGroups describes classic groups; of all others it says, as Kafka, that they are not found."""

from __future__ import annotations

import asyncio

from tidelog import errors
from tidelog.broker.services import PARTITIONS_A_TURN, Context
from tidelog.groups.classic.group import ClassicGroup, ClassicState
from tidelog.groups.group import SHARE
from tidelog.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from tidelog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_NOT_FOUND_FROM = 6
# Reading, deleting, describing, and both for settings: what everybody may do where nobody is kept from anything.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


async def describe_groups(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
    response = DescribeGroupsResponse()
    for number, group_id in enumerate(request.groups, 1):
        if number % PARTITIONS_A_TURN == 0:
            await asyncio.sleep(0)
        described = await _described(group_id, context)
        if request.include_authorized_operations and described.error_code == errors.NONE:
            described.authorized_operations = ALL_OPERATIONS
        response.groups.append(described)
    return response


async def _described(group_id: str, context: Context) -> DescribedGroup:
    try:
        group = await context.services.group_directory.classic(group_id)
    except errors.GroupIdNotFound as problem:
        if context.version < _NOT_FOUND_FROM:
            return DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        return DescribedGroup(problem.code, str(problem), group_id, ClassicState.DEAD.value)
    except errors.TidelogError as problem:
        return DescribedGroup(error_code=problem.code, group_id=group_id)
    stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if stable else "",
        members=_members(group, stable),
    )


def _members(group: ClassicGroup, stable: bool) -> list[DescribedGroupMember]:
    return [
        DescribedGroupMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]


async def list_groups(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    try:
        groups = await context.services.group_directory.list(request.states_filter, request.types_filter)
    except errors.TidelogError as problem:
        return ListGroupsResponse(error_code=problem.code)
    return ListGroupsResponse(
        groups=[ListedGroup(group.id, group.protocol_type, group.state_name, group.kind) for group in groups]
    )


async def delete_groups(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    response = DeleteGroupsResponse()
    for group_id in dict.fromkeys(request.groups_names):
        code = errors.NONE
        try:
            await _delete(group_id, context)
        except errors.TidelogError as problem:
            code = problem.code
        response.results.append(DeletableGroupResult(group_id, code))
    return response


async def _delete(group_id: str, context: Context) -> None:
    """A share group's state is kept elsewhere, and goes first."""
    if context.services.group_directory.kind_of(group_id) == SHARE:
        await context.services.share_groups.delete(group_id)
    else:
        await context.services.group_directory.delete(group_id)
