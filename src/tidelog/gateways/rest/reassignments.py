"""REST proxy, version 3: partitions that move to other brokers now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest
from tidelog.gateways.rest.v3 import TOPIC_GONE, Place, one_partition


def _told(place: Place, topic: str, one: Any) -> dict[str, Any]:
    where = ("topics", topic, "partitions", one.index)
    return place.one(
        "KafkaReassignment",
        (*where, "reassignment"),
        topic_name=topic,
        partition_id=one.index,
        adding_replicas=list(one.adding),
        removing_replicas=list(one.removing),
        replicas=place.related(*where, "replicas"),
    )


def _moving(place: Place, topics: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        _told(place, topic.name, one)
        for topic in topics
        for one in topic.partitions
        if one.adding or one.removing
    ]


async def of_all(rest: Rest, request: Request) -> Response:
    place = Place(request, rest.cluster(request))
    found = [topic for _, topic in sorted(rest.image.topics.items())]
    where = ("topics", "-", "partitions", "-", "reassignment")
    return place.listed("KafkaReassignmentList", where, _moving(place, found))


async def of_topic(rest: Rest, request: Request) -> Response:
    place, topic = Place(request, rest.cluster(request)), rest.topic(request, TOPIC_GONE)
    where = ("topics", topic.name, "partitions", "-", "reassignment")
    return place.listed("KafkaReassignmentList", where, _moving(place, [topic]))


async def of_partition(rest: Rest, request: Request) -> Response:
    place, one = Place(request, rest.cluster(request)), one_partition(rest, request)
    topic = request.path_params["topic"]
    if not one.adding and not one.removing:
        raise Problem(404, f"{topic}-{one.index} does not move to other brokers now")
    return JsonAnswer(_told(place, topic, one))
