"""FindCoordinator (api 10), versions 0-6, for groups and transactions (share groups from version 6 on).

In a cluster of one every coordinator is this broker."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
_SHARE_FROM = 6
_BATCHED_FROM = 4


def find_coordinator(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    if context.version >= _BATCHED_FROM:
        return FindCoordinatorResponse(
            coordinators=[_coordinator(key, request.key_type, context) for key in request.coordinator_keys]
        )
    one = _coordinator(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _coordinator(key: str, kind: int, context: Context) -> Coordinator:
    node = context.services.node_id
    broker = context.services.image().brokers.get(node)
    endpoint = None if broker is None else broker.endpoint(context.listener)
    problem = _refusal(key, kind, context.version)
    if problem is None and endpoint is None:
        problem = errors.CoordinatorNotAvailable("this broker is registering again after a pause: try again")
    if problem is not None or endpoint is None:
        assert problem is not None
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=problem.code, error_message=str(problem)
        )
    return Coordinator(key=key, node_id=node, host=endpoint.host, port=endpoint.port, error_message="NONE")


def _refusal(key: str, kind: int, version: int) -> errors.TidelogError | None:
    if kind not in (GROUP, TRANSACTION, SHARE) or (kind == SHARE and version < _SHARE_FROM):
        return errors.InvalidRequest(f"coordinators of kind {kind} are not known in version {version}")
    if kind == SHARE and key.count(":") < 2:
        return errors.InvalidRequest("the key of a share coordinator is group:topic-id:partition")
    return None
