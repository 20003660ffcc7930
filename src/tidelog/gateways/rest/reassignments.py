"""REST proxy, version 3: ongoing reassignments of partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest
from tidelog.gateways.rest.v3 import TOPIC_GONE, ClusterLinks, one_partition


def _reassignment(links: ClusterLinks, topic: str, partition: Any) -> dict[str, Any]:
    where = ("topics", topic, "partitions", partition.index)
    return links.resource(
        "KafkaReassignment",
        (*where, "reassignment"),
        topic_name=topic,
        partition_id=partition.index,
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
        replicas=links.related(*where, "replicas"),
    )


def _moving(links: ClusterLinks, topics: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        _reassignment(links, topic.name, partition)
        for topic in topics
        for partition in topic.partitions
        if partition.adding or partition.removing
    ]


async def of_all(rest: Rest, request: Request) -> Response:
    links = ClusterLinks(request, rest.cluster(request))
    topics = [topic for _, topic in sorted(rest.image.topics.items())]
    where = ("topics", "-", "partitions", "-", "reassignment")
    return links.listed("KafkaReassignmentList", where, _moving(links, topics))


async def of_topic(rest: Rest, request: Request) -> Response:
    links, topic = ClusterLinks(request, rest.cluster(request)), rest.topic(request, TOPIC_GONE)
    where = ("topics", topic.name, "partitions", "-", "reassignment")
    return links.listed("KafkaReassignmentList", where, _moving(links, [topic]))


async def of_partition(rest: Rest, request: Request) -> Response:
    links, partition = ClusterLinks(request, rest.cluster(request)), one_partition(rest, request)
    topic = request.path_params["topic"]
    if not partition.adding and not partition.removing:
        raise Problem(404, f"partition {topic}-{partition.index} is not being reassigned")
    return JsonAnswer(_reassignment(links, topic, partition))
