"""REST proxy, version 3: consumer groups, their members, what these have, and how far each group is behind."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.client.admin.groups import DEAD, GroupDescription
from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest, number
from tidelog.gateways.rest.v3 import Place
from tidelog.types import TopicPartition

ROOT = "consumer-groups"


async def _described(rest: Rest, request: Request) -> tuple[Place, GroupDescription]:
    place, name = Place(request, rest.cluster(request)), request.path_params["group"]
    admin = await rest.around.clients.admin()
    found = (await admin.describe_groups([name]))[name]
    if found.state == DEAD or found.type == "share":
        raise Problem(404, f"there is no consumer group {name!r}", 404)
    return place, found


def _told(place: Place, name: str, **fields: Any) -> dict[str, Any]:
    return place.one(
        "KafkaConsumerGroup",
        (ROOT, name),
        consumer_group_id=name,
        **fields,
        consumers=place.related(ROOT, name, "consumers"),
        lag_summary=place.related(ROOT, name, "lag-summary"),
    )


async def groups(rest: Rest, request: Request) -> Response:
    place = Place(request, rest.cluster(request))
    listed = await (await rest.around.clients.admin()).list_groups()
    data = [
        _told(place, one.group_id, is_simple=not one.protocol_type, state=one.state.upper(), type=one.type)
        for one in listed
        if one.type != "share"
    ]
    return place.listed("KafkaConsumerGroupList", (ROOT,), data)


async def group(rest: Rest, request: Request) -> Response:
    place, found = await _described(rest, request)
    return JsonAnswer(
        _told(
            place,
            found.group_id,
            is_simple=not found.members and not found.assignor,
            partition_assignor=found.assignor,
            state=found.state.upper(),
            type=found.type,
        )
    )


def _member(place: Place, group: str, one: Any) -> dict[str, Any]:
    where = (ROOT, group, "consumers", one.member_id)
    return place.one(
        "KafkaConsumer",
        where,
        consumer_group_id=group,
        consumer_id=one.member_id,
        instance_id=one.instance_id,
        client_id=one.client_id,
        assignments=place.related(*where, "assignments"),
    )


async def consumers(rest: Rest, request: Request) -> Response:
    place, found = await _described(rest, request)
    data = [_member(place, found.group_id, one) for one in found.members]
    return place.listed("KafkaConsumerList", (ROOT, found.group_id, "consumers"), data)


def _wanted(request: Request, found: GroupDescription) -> Any:
    wanted = request.path_params["consumer"]
    for one in found.members:
        if one.member_id == wanted:
            return one
    raise Problem(404, f"group {found.group_id!r} has no member {wanted!r}", 404)


async def consumer(rest: Rest, request: Request) -> Response:
    place, found = await _described(rest, request)
    return JsonAnswer(_member(place, found.group_id, _wanted(request, found)))


def _assignment(place: Place, group: str, member: str, part: TopicPartition) -> dict[str, Any]:
    return place.one(
        "KafkaConsumerAssignment",
        (ROOT, group, "consumers", member, "assignments", part.topic, "partitions", part.partition),
        consumer_group_id=group,
        consumer_id=member,
        topic_name=part.topic,
        partition_id=part.partition,
        partition=place.related("topics", part.topic, "partitions", part.partition),
    )


async def assignments(rest: Rest, request: Request) -> Response:
    place, found = await _described(rest, request)
    one = _wanted(request, found)
    where = (ROOT, found.group_id, "consumers", one.member_id, "assignments")
    data = [_assignment(place, found.group_id, one.member_id, part) for part in one.assignment]
    return place.listed("KafkaConsumerAssignmentList", where, data)


def _part(request: Request) -> TopicPartition:
    return TopicPartition(
        request.path_params["topic"], number(request.path_params["partition"], "a partition")
    )


async def assignment(rest: Rest, request: Request) -> Response:
    place, found = await _described(rest, request)
    one, part = _wanted(request, found), _part(request)
    if part not in one.assignment:
        raise Problem(404, f"member {one.member_id!r} does not read {part.topic}-{part.partition}", 404)
    return JsonAnswer(_assignment(place, found.group_id, one.member_id, part))


async def _lags(rest: Rest, place: Place, found: GroupDescription) -> list[dict[str, Any]]:
    admin = await rest.around.clients.admin()
    offsets = await admin.list_group_offsets(found.group_id)
    committed: dict[TopicPartition, int] = {one: at.offset for one, at in offsets.items()}
    data = []
    for part, lag in sorted((await admin.group_lag(committed)).items()):
        owner = found.owner(part)
        data.append(
            place.one(
                "KafkaConsumerLag",
                (ROOT, found.group_id, "lags", part.topic, "partitions", part.partition),
                consumer_group_id=found.group_id,
                topic_name=part.topic,
                partition_id=part.partition,
                consumer_id=owner.member_id if owner else "",
                instance_id=owner.instance_id if owner else None,
                client_id=owner.client_id if owner else "",
                current_offset=committed[part],
                log_end_offset=lag.end,
                lag=lag.lag,
            )
        )
    return data


async def lags(rest: Rest, request: Request) -> Response:
    place, found = await _described(rest, request)
    data = await _lags(rest, place, found)
    return place.listed("KafkaConsumerLagList", (ROOT, found.group_id, "lags"), data)


async def lag(rest: Rest, request: Request) -> Response:
    place, found = await _described(rest, request)
    part = _part(request)
    for one in await _lags(rest, place, found):
        if (one["topic_name"], one["partition_id"]) == part:
            return JsonAnswer(one)
    raise Problem(
        404, f"group {found.group_id!r} has committed nothing for {part.topic}-{part.partition}", 404
    )


async def lag_summary(rest: Rest, request: Request) -> Response:
    place, found = await _described(rest, request)
    data = await _lags(rest, place, found)
    if not data:
        raise Problem(404, f"group {found.group_id!r} has committed nothing", 404)
    most = max(data, key=lambda one: int(one["lag"]))
    return JsonAnswer(
        place.one(
            "KafkaConsumerGroupLagSummary",
            (ROOT, found.group_id, "lag-summary"),
            consumer_group_id=found.group_id,
            max_lag_consumer_id=most["consumer_id"],
            max_lag_instance_id=most["instance_id"],
            max_lag_client_id=most["client_id"],
            max_lag_topic_name=most["topic_name"],
            max_lag_partition_id=most["partition_id"],
            max_lag=most["lag"],
            total_lag=sum(int(one["lag"]) for one in data),
        )
    )
