"""JoinGroup (api 11), versions 0-9, SyncGroup (api 14), versions 0-5, Heartbeat (api 12), versions 0-4, and LeaveGroup
(api 13), versions 0-5.

A Heartbeat may be held until a rebalance begins, so that members learn of the rebalance at once.  The next request of the
connection ends the hold, so no request waits for it.  Reasons for joining and leaving are not stored."""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.groups.classic.coordinator import ClassicGroups, MemberConnection
from tidelog.groups.consumer.classic_members_coordinator import ClassicMembers
from tidelog.groups.held_heartbeats import HeldAnswer
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_REBALANCE_TIMEOUT_FROM = 1
_NULL_PROTOCOL_FROM = 7
_PROTOCOL_IN_SYNC_FROM = 5
_MANY_LEAVE_FROM = 3


async def join_group(request: JoinGroupRequest, context: Context) -> JoinGroupResponse:
    if context.version < _REBALANCE_TIMEOUT_FROM:
        request.rebalance_timeout_ms = request.session_timeout_ms
    response = await _members(request.group_id, context).join(request, caller_of(context))
    if context.version < _NULL_PROTOCOL_FROM and response.protocol_name is None:
        response.protocol_name = ""
    return response


async def sync_group(request: SyncGroupRequest, context: Context) -> SyncGroupResponse:
    if context.version >= _PROTOCOL_IN_SYNC_FROM and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=errors.InconsistentGroupProtocol.code)
    return await _members(request.group_id, context).sync(request)


def heartbeat(
    request: HeartbeatRequest, context: Context
) -> HeartbeatResponse | HeldAnswer[HeartbeatResponse] | Awaitable[HeartbeatResponse]:
    migrating = context.services.classic_members
    if migrating.holds(request.group_id):
        return _heartbeat_of_migrating(migrating, request, context)
    code = context.services.classic_groups.heartbeat(request, context.hold)
    return code.turned(_beat) if isinstance(code, HeldAnswer) else _beat(code)


def _beat(code: int) -> HeartbeatResponse:
    return HeartbeatResponse(0, code)


async def _heartbeat_of_migrating(
    members: ClassicMembers, request: HeartbeatRequest, context: Context
) -> HeartbeatResponse:
    return _beat(await members.heartbeat(request, caller_of(context)))


async def leave_group(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    many = context.version >= _MANY_LEAVE_FROM
    leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]
    try:
        answers = await _members(request.group_id, context).leave(request.group_id, leaving)
    except errors.TidelogError as problem:
        return LeaveGroupResponse(error_code=problem.code)
    if many:
        return LeaveGroupResponse(members=answers)
    return LeaveGroupResponse(error_code=answers[0].error_code)


def _members(group_id: str, context: Context) -> ClassicGroups | ClassicMembers:
    """Classic members may be in a consumer group, while it migrates."""
    migrating = context.services.classic_members
    return migrating if migrating.holds(group_id) else context.services.classic_groups


def caller_of(context: Context) -> MemberConnection:
    host = context.peer.rpartition(":")[0]
    return MemberConnection(
        context.client_id or "", f"/{host}", context.version, context.hold, context.topic_viewer
    )
