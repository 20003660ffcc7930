"""REST proxy, version 3: consumer groups, their members and assignments, and the lag of each group."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog.client.admin.groups import DEAD, GroupDescription
from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest, number
from tidelog.gateways.rest.v3 import ClusterLinks
from tidelog.types import TopicPartition

ROOT = "consumer-groups"


async def _described(rest: Rest, request: Request) -> tuple[ClusterLinks, GroupDescription]:
    links, name = ClusterLinks(request, rest.cluster(request)), request.path_params["group"]
    admin = await rest.around.clients.admin()
    described = (await admin.describe_groups([name]))[name]
    if described.state == DEAD or described.type == "share":
        raise Problem(404, f"consumer group {name!r} does not exist", 404)
    return links, described


def _group(links: ClusterLinks, name: str, **fields: Any) -> dict[str, Any]:
    return links.resource(
        "KafkaConsumerGroup",
        (ROOT, name),
        consumer_group_id=name,
        **fields,
        consumers=links.related(ROOT, name, "consumers"),
        lag_summary=links.related(ROOT, name, "lag-summary"),
    )


async def groups(rest: Rest, request: Request) -> Response:
    links = ClusterLinks(request, rest.cluster(request))
    listed = await (await rest.around.clients.admin()).list_groups()
    data = [
        _group(
            links,
            group.group_id,
            is_simple=not group.protocol_type,
            state=group.state.upper(),
            type=group.type,
        )
        for group in listed
        if group.type != "share"
    ]
    return links.listed("KafkaConsumerGroupList", (ROOT,), data)


async def group(rest: Rest, request: Request) -> Response:
    links, described = await _described(rest, request)
    return JsonAnswer(
        _group(
            links,
            described.group_id,
            is_simple=not described.members and not described.assignor,
            partition_assignor=described.assignor,
            state=described.state.upper(),
            type=described.type,
        )
    )


def _member(links: ClusterLinks, group: str, member: Any) -> dict[str, Any]:
    where = (ROOT, group, "consumers", member.member_id)
    return links.resource(
        "KafkaConsumer",
        where,
        consumer_group_id=group,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        assignments=links.related(*where, "assignments"),
    )


async def consumers(rest: Rest, request: Request) -> Response:
    links, described = await _described(rest, request)
    data = [_member(links, described.group_id, member) for member in described.members]
    return links.listed("KafkaConsumerList", (ROOT, described.group_id, "consumers"), data)


def _member_of(request: Request, described: GroupDescription) -> Any:
    wanted = request.path_params["consumer"]
    for member in described.members:
        if member.member_id == wanted:
            return member
    raise Problem(404, f"group {described.group_id!r} has no member {wanted!r}", 404)


async def consumer(rest: Rest, request: Request) -> Response:
    links, described = await _described(rest, request)
    return JsonAnswer(_member(links, described.group_id, _member_of(request, described)))


def _assignment(links: ClusterLinks, group: str, member: str, part: TopicPartition) -> dict[str, Any]:
    return links.resource(
        "KafkaConsumerAssignment",
        (ROOT, group, "consumers", member, "assignments", part.topic, "partitions", part.partition),
        consumer_group_id=group,
        consumer_id=member,
        topic_name=part.topic,
        partition_id=part.partition,
        partition=links.related("topics", part.topic, "partitions", part.partition),
    )


async def assignments(rest: Rest, request: Request) -> Response:
    links, described = await _described(rest, request)
    member = _member_of(request, described)
    where = (ROOT, described.group_id, "consumers", member.member_id, "assignments")
    data = [_assignment(links, described.group_id, member.member_id, part) for part in member.assignment]
    return links.listed("KafkaConsumerAssignmentList", where, data)


def _part(request: Request) -> TopicPartition:
    return TopicPartition(
        request.path_params["topic"], number(request.path_params["partition"], "a partition")
    )


async def assignment(rest: Rest, request: Request) -> Response:
    links, described = await _described(rest, request)
    member, part = _member_of(request, described), _part(request)
    if part not in member.assignment:
        raise Problem(404, f"partition {part} is not assigned to member {member.member_id!r}", 404)
    return JsonAnswer(_assignment(links, described.group_id, member.member_id, part))


async def _lags(rest: Rest, links: ClusterLinks, described: GroupDescription) -> list[dict[str, Any]]:
    admin = await rest.around.clients.admin()
    offsets = await admin.list_group_offsets(described.group_id)
    committed: dict[TopicPartition, int] = {partition: at.offset for partition, at in offsets.items()}
    data = []
    for part, lag in sorted((await admin.group_lag(committed)).items()):
        owner = described.owner(part)
        data.append(
            links.resource(
                "KafkaConsumerLag",
                (ROOT, described.group_id, "lags", part.topic, "partitions", part.partition),
                consumer_group_id=described.group_id,
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
    links, described = await _described(rest, request)
    data = await _lags(rest, links, described)
    return links.listed("KafkaConsumerLagList", (ROOT, described.group_id, "lags"), data)


async def lag(rest: Rest, request: Request) -> Response:
    links, described = await _described(rest, request)
    part = _part(request)
    for lag in await _lags(rest, links, described):
        if (lag["topic_name"], lag["partition_id"]) == part:
            return JsonAnswer(lag)
    raise Problem(404, f"group {described.group_id!r} has no committed offset for {part}", 404)


async def lag_summary(rest: Rest, request: Request) -> Response:
    links, described = await _described(rest, request)
    data = await _lags(rest, links, described)
    if not data:
        raise Problem(404, f"group {described.group_id!r} has no committed offsets", 404)
    most = max(data, key=lambda lag: int(lag["lag"]))
    return JsonAnswer(
        links.resource(
            "KafkaConsumerGroupLagSummary",
            (ROOT, described.group_id, "lag-summary"),
            consumer_group_id=described.group_id,
            max_lag_consumer_id=most["consumer_id"],
            max_lag_instance_id=most["instance_id"],
            max_lag_client_id=most["client_id"],
            max_lag_topic_name=most["topic_name"],
            max_lag_partition_id=most["partition_id"],
            max_lag=most["lag"],
            total_lag=sum(int(lag["lag"]) for lag in data),
        )
    )
