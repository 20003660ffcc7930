"""REST proxy, version 2: topics, partitions, and records written with the content types of binary, JSON and schemas."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest, body_of, media_type_of, number, only, refused
from tidelog.gateways.rest.schemas import TYPES, ChosenSchema
from tidelog.gateways.rest.values import chosen_in_v2, plain
from tidelog.types import TopicPartition

MEDIA_TYPE = "application/vnd.kafka.v2+json"
FORMATS = {
    "binary": "BINARY",
    "json": "JSON",
    "avro": "AVRO",
    "jsonschema": "JSONSCHEMA",
    "protobuf": "PROTOBUF",
}
TOPIC_GONE, PARTITION_GONE = 40401, 40402
RECORDS_MAX = 10_000
BREATH_BYTES, BREATH_EACH = 64 << 10, 640
FIELDS = ("key", "value", "partition")
SCHEMAS = ("key_schema", "value_schema", "key_schema_id", "value_schema_id")


def _answer(body: Any) -> Response:
    return JsonAnswer(body, media_type=MEDIA_TYPE)


async def topics(rest: Rest, request: Request) -> Response:
    return _answer(rest.visible_topics())


def _partition(partition: Any) -> dict[str, Any]:
    replicas = [
        {"broker": node, "leader": node == partition.leader, "in_sync": node in partition.in_sync}
        for node in partition.replicas
    ]
    return {"partition": partition.index, "leader": partition.leader, "replicas": replicas}


async def topic(rest: Rest, request: Request) -> Response:
    from tidelog.client.admin.configs import ConfigResource

    topic = rest.topic(request, TOPIC_GONE)
    resource = ConfigResource("topic", topic.name)
    listed = (await (await rest.around.clients.admin()).describe_configs([resource]))[resource]
    settings = {entry.name: entry.value for entry in listed}
    parts = [_partition(partition) for partition in topic.partitions]
    return _answer({"name": topic.name, "configs": settings, "partitions": parts})


async def partitions(rest: Rest, request: Request) -> Response:
    return _answer([_partition(partition) for partition in rest.topic(request, TOPIC_GONE).partitions])


def _one(rest: Rest, request: Request) -> Any:
    topic = rest.topic(request, TOPIC_GONE)
    wanted = request.path_params["partition"]
    for partition in topic.partitions:
        if str(partition.index) == wanted:
            return partition
    raise Problem(404, f"topic {topic.name!r} has no partition {wanted}", PARTITION_GONE)


async def partition(rest: Rest, request: Request) -> Response:
    return _answer(_partition(_one(rest, request)))


async def offsets(rest: Rest, request: Request) -> Response:
    part = TopicPartition(request.path_params["topic"], _one(rest, request).index)
    admin = await rest.around.clients.admin()
    first = (await admin.list_offsets({part: "earliest"}))[part].offset
    end = (await admin.list_offsets({part: "latest"}))[part].offset
    return _answer({"beginning_offset": first, "end_offset": end})


async def produce(rest: Rest, request: Request) -> Response:
    name = rest.topic(request, TOPIC_GONE).name
    fixed = _one(rest, request).index if "partition" in request.path_params else None
    kind, body = _format(request), await body_of(request, bytes_max=None)
    only(body, ("records", *SCHEMAS), "a body", 422)
    if kind not in TYPES and any(body.get(field) is not None for field in SCHEMAS):
        raise Problem(422, f"records of type {kind} have no schema, and the body has one")
    records = body.get("records")
    if (
        not isinstance(records, list)
        or not records
        or not all(isinstance(record, dict) for record in records)
    ):
        raise Problem(422, 'records must be a non-empty list of {"key", "value", "partition"}')
    if len(records) > RECORDS_MAX:
        raise Problem(422, f"the body has {len(records)} records: send at most {RECORDS_MAX}", 422)
    chosen: dict[str, ChosenSchema] = {}
    if kind in TYPES:
        for which in ("key", "value"):
            if any(record.get(which) is not None for record in records):
                chosen[which] = await chosen_in_v2(rest, name, kind, body, which)
    # All records are checked before the first is written.
    ready, since = [], 0
    for record in records:
        ready.append(_ready(kind, chosen, record, fixed))
        since += BREATH_EACH + sum(len(side or b"") for side in ready[-1][:2])
        if since > BREATH_BYTES:
            since = 0
            await asyncio.sleep(0)  # other work gets a turn
    producer = await rest.around.clients.producer()
    sent: list[Any] = []
    for key, value, where in ready:
        try:
            sent.append(await producer.send(name, value, key, partition=where))
        except errors.TidelogError as problem:
            sent.append(problem)
    answers = [await _done(result) for result in sent]
    ids = {f"{which}_schema_id": schema.id for which, schema in chosen.items()}
    return _answer({"key_schema_id": None, "value_schema_id": None, **ids, "offsets": answers})


def _ready(
    kind: str, chosen: dict[str, ChosenSchema], record: dict[str, Any], fixed: int | None
) -> tuple[bytes | None, bytes | None, int | None]:
    only(record, FIELDS, "a record of version 2", 422)
    wanted = record.get("partition")
    where = fixed if wanted is None else number(wanted, "partition", status=422)
    key, value = (
        chosen[which].encode(record[which])
        if which in chosen and record.get(which) is not None
        else plain(kind, record.get(which))
        for which in ("key", "value")
    )
    return key, value, where


async def _done(sent: Any) -> dict[str, Any]:
    try:
        if isinstance(sent, errors.TidelogError):
            raise sent
        at = await sent
    except errors.TidelogError as problem:
        code = 2 if problem.retriable else 1
        return {"partition": None, "offset": None, "error_code": code, "error": refused(problem).message}
    return {"partition": at.partition, "offset": at.offset, "error_code": None, "error": None}


def _format(request: Request) -> str:
    sent = media_type_of(request)
    for name, kind in FORMATS.items():
        if sent == f"application/vnd.kafka.{name}.v2+json":
            return kind
    if sent in (MEDIA_TYPE, "application/json"):
        return "BINARY"
    types = ", ".join(f"application/vnd.kafka.{name}.v2+json" for name in FORMATS)
    raise Problem(415, f"records must be {types}, not {sent or 'without a content type'}")
