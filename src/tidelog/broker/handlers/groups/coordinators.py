"""FindCoordinator (api 10), versions 0-6, for groups and transactions (share groups from version 6 on).

The coordinator of a name is the leader of its partition of an internal topic.  The topic is made at the first question,
and the answer comes when it is there: Kafka answers COORDINATOR_NOT_AVAILABLE meanwhile, and its clients ask again."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context, Services
from tidelog.coordination.internal_topic import InternalTopic, partition_for
from tidelog.groups.share.state_coordinator import parse_coordinator_key
from tidelog.types import NodeId
from tidelog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
_SHARE_FROM = 6
_BATCHED_FROM = 4


async def find_coordinator(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    if context.version >= _BATCHED_FROM:
        return FindCoordinatorResponse(
            coordinators=[
                await _coordinator(key, request.key_type, context) for key in request.coordinator_keys
            ]
        )
    coordinator = await _coordinator(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


async def _coordinator(key: str, kind: int, context: Context) -> Coordinator:
    try:
        _check(key, kind, context.version)
        node = await _node(key, kind, context.services)
        broker = context.services.image().brokers.get(node)
        endpoint = None if broker is None else broker.endpoint(context.listener)
        if endpoint is None:
            raise errors.CoordinatorNotAvailable(f"broker {node} is registering again: try again")
    except errors.TidelogError as problem:
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=problem.code, error_message=str(problem)
        )
    return Coordinator(key=key, node_id=node, host=endpoint.host, port=endpoint.port, error_message="NONE")


def _check(key: str, kind: int, version: int) -> None:
    if kind not in (GROUP, TRANSACTION, SHARE) or (kind == SHARE and version < _SHARE_FROM):
        raise errors.InvalidRequest(f"coordinators of kind {kind} are not known in version {version}")
    if kind == SHARE:
        parse_coordinator_key(key)


async def _node(key: str, kind: int, services: Services) -> NodeId:
    topic = _topic(kind, services)
    count = await topic.ensure()
    partition = services.image().partition(topic.name, partition_for(key, count))
    if partition is None or partition.leader is None:
        raise errors.CoordinatorNotAvailable(f"{topic.name} has no leader for {key!r} now: try again")
    return partition.leader


def _topic(kind: int, services: Services) -> InternalTopic:
    if kind == TRANSACTION:
        return services.transactions.topic
    return services.groups.topic if kind == GROUP else services.share_shards.topic
