"""DescribeCluster (api 60), versions 0-2.  Endpoints of controllers are not told: clients talk to brokers here.

With fields of our own, the answer also has what a backup needs of this broker (`backup_cut`)."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2
# What may be done to the cluster where there are no ACLs, as bits.
_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


async def describe_cluster(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    response = _described(request, context)
    if request.backup_cut_ms >= 0 and response.error_code == errors.NONE:
        from tidelog.broker.handlers.cluster.backup_cut import add_backup_cut

        try:
            await add_backup_cut(request, response, context)
        except errors.TidelogError as problem:
            return DescribeClusterResponse(error_code=problem.code, error_message=str(problem))
    return response


def _described(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    if context.version >= 1 and request.endpoint_type != BROKERS:
        problem: errors.TidelogError = errors.UnsupportedEndpointType(
            f"this listener tells of brokers (type {BROKERS}), not of endpoints of type {request.endpoint_type}"
        )
        if request.endpoint_type == CONTROLLERS:
            problem = errors.MismatchedEndpointType("this is a broker's listener, not a controller's")
        return DescribeClusterResponse(error_code=problem.code, error_message=str(problem))
    image = context.services.image()
    fenced_too = context.version >= 2 and request.include_fenced_brokers
    response = DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=-1 if image.controller is None else image.controller,
    )
    for node in sorted(image.brokers):
        broker = image.brokers[node]
        endpoint = broker.endpoint(context.listener)
        if endpoint is not None and (fenced_too or not broker.fenced):
            described = DescribeClusterBroker(
                broker_id=node, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            if context.version >= 2:
                described.is_fenced = broker.fenced
            response.brokers.append(described)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _OPERATIONS
    return response
