"""Authorization: looking for the coordinator of a group or of a transaction."""

from __future__ import annotations

from typing import Any

from tidelog import errors
from tidelog.broker.authorization.guards import GROUP, TRANSACTIONAL_ID, Handler, Op, answered
from tidelog.broker.services import Context
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_BATCHED_FROM = 4


async def find_coordinator(request: Any, context: Context, handle: Handler) -> Any:
    batched = context.version >= _BATCHED_FROM
    left, refused = [], []
    for key in request.coordinator_keys if batched else [request.key]:
        try:
            _check(key, request.key_type, context)
        except errors.TidelogError as problem:
            refused.append(_refusal(key, problem))
        else:
            left.append(key)
    if not batched:
        if refused:
            return FindCoordinatorResponse(
                error_code=refused[0].error_code,
                error_message=refused[0].error_message,
                node_id=-1,
                host="",
                port=-1,
            )
        return await answered(handle, request, context)
    request.coordinator_keys = left
    response = await answered(handle, request, context)
    response.coordinators += refused
    return response


def _check(key: str, kind: int, context: Context) -> None:
    if kind == _GROUP:
        context.check(Op.DESCRIBE, GROUP, key)
    elif kind == _TRANSACTION:
        context.check(Op.DESCRIBE, TRANSACTIONAL_ID, key)
    elif kind == _SHARE:
        context.check_cluster(Op.CLUSTER_ACTION)


def _refusal(key: str, problem: errors.TidelogError) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=problem.code, error_message=str(problem)
    )
