"""REST proxy, version 3: replicas, by partition and by broker."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest, number
from tidelog.gateways.rest.v3 import ClusterLinks, one_partition


def _replica(links: ClusterLinks, topic: str, partition: Any, node: int) -> dict[str, Any]:
    return links.resource(
        "KafkaReplica",
        ("topics", topic, "partitions", partition.index, "replicas", node),
        topic_name=topic,
        partition_id=partition.index,
        broker_id=node,
        is_leader=node == partition.leader,
        is_in_sync=node in partition.in_sync,
        broker=links.related("brokers", node),
    )


async def replicas(rest: Rest, request: Request) -> Response:
    links, partition = ClusterLinks(request, rest.cluster(request)), one_partition(rest, request)
    topic = request.path_params["topic"]
    where = ("topics", topic, "partitions", partition.index, "replicas")
    return links.listed(
        "KafkaReplicaList", where, [_replica(links, topic, partition, node) for node in partition.replicas]
    )


async def replica(rest: Rest, request: Request) -> Response:
    links, partition = ClusterLinks(request, rest.cluster(request)), one_partition(rest, request)
    topic, node = request.path_params["topic"], number(request.path_params["broker"], "a broker's id")
    if node not in partition.replicas:
        raise Problem(404, f"broker {node} has no replica of {topic}-{partition.index}")
    return JsonAnswer(_replica(links, topic, partition, node))


async def on_broker(rest: Rest, request: Request) -> Response:
    links, node = (
        ClusterLinks(request, rest.cluster(request)),
        number(request.path_params["broker"], "a broker's id"),
    )
    if node not in rest.image.brokers:
        raise Problem(404, f"broker {node} does not exist")
    data = [
        _replica(links, name, partition, node)
        for name, topic in sorted(rest.image.topics.items())
        for partition in topic.partitions
        if node in partition.replicas
    ]
    return links.listed("KafkaReplicaList", ("brokers", node, "partition-replicas"), data)
