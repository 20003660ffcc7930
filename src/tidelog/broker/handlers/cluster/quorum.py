"""DescribeQuorum (api 55), versions 0-2, and UnregisterBroker (api 64), version 0.

The metadata's consensus is the store's business.  What Kafka's tools ask about it is answered from what brokers know:
the controller is the leader, the brokers are its observers, and the store's revision is how far the metadata reaches."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.metadata.topics.names import CLUSTER_METADATA
from tidelog.types import NodeId
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

NOBODY = -1
_NODES_FROM = 2
EPOCH_MASK = 0x7FFFFFFF  # it grows with every controller, and the wire has 31 bits for it


def describe_quorum(request: DescribeQuorumRequest, context: Context) -> DescribeQuorumResponse:
    image, now_ms = context.services.image(), context.services.clock.now_ms()
    response = DescribeQuorumResponse(error_message=None)
    for topic in request.topics:
        row = DescribeQuorumResponseTopicData(topic_name=topic.topic_name)
        for requested in topic.partitions:
            part = DescribeQuorumResponsePartitionData(
                partition_index=requested.partition_index, error_message=None
            )
            if topic.topic_name != CLUSTER_METADATA or requested.partition_index != 0:
                problem = errors.UnknownTopicOrPartition("This server does not host this topic-partition.")
                part.error_code, part.error_message = problem.code, str(problem)
            else:
                leader = image.controller
                part.leader_id = NOBODY if leader is None else leader
                leading = None if leader is None else image.brokers.get(leader)
                part.leader_epoch = 0 if leading is None else leading.epoch & EPOCH_MASK
                part.high_watermark = image.revision
                for node in sorted(image.brokers):
                    state = ReplicaState(
                        replica_id=node,
                        log_end_offset=image.revision,
                        last_fetch_timestamp=now_ms,
                        last_caught_up_timestamp=now_ms,
                    )
                    (part.current_voters if node == leader else part.observers).append(state)
            row.partitions.append(part)
        response.topics.append(row)
    for node in sorted(image.brokers) if context.version >= _NODES_FROM else ():
        listeners = [
            Listener(endpoint.listener, endpoint.host, endpoint.port)
            for endpoint in image.brokers[node].endpoints
        ]
        response.nodes.append(Node(node_id=node, listeners=listeners))
    return response


async def unregister_broker(request: UnregisterBrokerRequest, context: Context) -> UnregisterBrokerResponse:
    """A registration ends with its lease.  A stopped broker without replicas therefore leaves only its settings and its
    report about tenants: both are deleted, so that a later broker of the same id does not find them.  Otherwise the
    answer says what to do first."""
    image, node = context.services.image(), NodeId(request.broker_id)
    holds = any(
        node in partition.replicas for topic in image.topics.values() for partition in topic.partitions
    )
    problem: errors.TidelogError
    if node in image.brokers:
        problem = errors.InvalidRequest(f"broker {node} is running: stop it first")
    elif holds:
        problem = errors.InvalidRequest(
            f"broker {node} has replicas: move them first (tidelog partitions reassign --remove-broker {node})"
        )
    elif not image.broker_overrides(node) and node not in image.tenant_usage:
        problem = errors.BrokerIdNotRegistered(f"Broker ID {node} is not currently registered")
    else:
        try:
            await context.services.controller.alter_broker_configs(node, lambda _: {})
            await context.services.controller.access.report_usage(node, {})
            return UnregisterBrokerResponse(error_message=None)
        except errors.TidelogError as failed:
            problem = failed
    return UnregisterBrokerResponse(error_code=problem.code, error_message=str(problem))
