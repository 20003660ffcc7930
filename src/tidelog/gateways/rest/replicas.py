"""REST proxy, version 3: who holds which partitions."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest, number
from tidelog.gateways.rest.v3 import Place, one_partition


def _told(place: Place, topic: str, one: Any, node: int) -> dict[str, Any]:
    return place.one(
        "KafkaReplica",
        ("topics", topic, "partitions", one.index, "replicas", node),
        topic_name=topic,
        partition_id=one.index,
        broker_id=node,
        is_leader=node == one.leader,
        is_in_sync=node in one.in_sync,
        broker=place.related("brokers", node),
    )


async def replicas(rest: Rest, request: Request) -> Response:
    place, one = Place(request, rest.cluster(request)), one_partition(rest, request)
    topic = request.path_params["topic"]
    where = ("topics", topic, "partitions", one.index, "replicas")
    return place.listed("KafkaReplicaList", where, [_told(place, topic, one, node) for node in one.replicas])


async def replica(rest: Rest, request: Request) -> Response:
    place, one = Place(request, rest.cluster(request)), one_partition(rest, request)
    topic, node = request.path_params["topic"], number(request.path_params["broker"], "a broker's id")
    if node not in one.replicas:
        raise Problem(404, f"broker {node} does not hold {topic}-{one.index}")
    return JsonAnswer(_told(place, topic, one, node))


async def on_broker(rest: Rest, request: Request) -> Response:
    place, node = (
        Place(request, rest.cluster(request)),
        number(request.path_params["broker"], "a broker's id"),
    )
    if node not in rest.image.brokers:
        raise Problem(404, f"there is no broker {node}")
    data = [
        _told(place, name, one, node)
        for name, topic in sorted(rest.image.topics.items())
        for one in topic.partitions
        if node in one.replicas
    ]
    return place.listed("KafkaReplicaList", ("brokers", node, "partition-replicas"), data)
