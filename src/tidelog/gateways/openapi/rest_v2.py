"""The operations of version 2 of the REST proxy: topics, records, events, consumer instances.  Pure."""

from __future__ import annotations

from tidelog.gateways.openapi.shapes import (
    ANYTHING,
    BASE64,
    COUNT,
    FLAG,
    INDEX,
    NAME,
    OFFSET,
    TEXT,
    TIME,
    WHOLE,
    Operation,
    Parameter,
    Shape,
    many,
    mapping,
    maybe,
    one_of,
    ref,
    sent,
    taken,
)

MEDIA_TYPE = "application/vnd.kafka.v2+json"
TOPIC = "/topics/{topic}"
PARTITION = TOPIC + "/partitions/{partition}"
INSTANCE = "/consumers/{group}/instances/{instance}"
FORMATS = ("binary", "json", "avro", "jsonschema", "protobuf")


def media_type(name: str) -> str:
    return f"application/vnd.kafka.{name}.v2+json"


_WRITTEN = sent(
    {"partition": maybe(INDEX), "offset": maybe(OFFSET), "error_code": maybe(WHOLE), "error": maybe(TEXT)}
)
_WHERE: dict[str, Shape] = {"topic": TEXT, "partition": INDEX}
_PLACE = sent({**_WHERE, "offset": OFFSET})


def _records(data: Shape, schemas: bool) -> Shape:
    record = taken({}, {"key": maybe(data), "value": maybe(data), "partition": maybe(INDEX)})
    named: dict[str, Shape] = {}
    for which in ("key", "value") if schemas else ():
        named |= {f"{which}_schema": maybe(TEXT), f"{which}_schema_id": maybe(COUNT)}
    return taken({"records": many(record, minItems=1, maxItems=10_000)}, named)


SHAPES: dict[str, Shape] = {
    "Partition": sent(
        {
            "partition": INDEX,
            "leader": WHOLE,
            "replicas": many(sent({"broker": INDEX, "leader": FLAG, "in_sync": FLAG})),
        }
    ),
    "BinaryRecords": _records(BASE64, False),
    "JsonRecords": _records(ANYTHING, False),
    "SchemaRecords": _records(ANYTHING, True),
    "RecordsWritten": sent(
        {"key_schema_id": maybe(COUNT), "value_schema_id": maybe(COUNT), "offsets": many(_WRITTEN)}
    ),
    "NewInstance": taken(
        {},
        {
            "name": NAME,
            "format": one_of(*FORMATS),
            "auto.offset.reset": one_of("earliest", "latest", "none"),
            "auto.commit.enable": {"oneOf": [FLAG, one_of("true", "false")]},
            "fetch.min.bytes": {"type": "integer", "minimum": -1, "maximum": 10_000_000},
            "consumer.request.timeout.ms": {"type": "integer", "minimum": 0, "maximum": 600_000},
        },
    ),
    "Instance": sent({"instance_id": TEXT, "base_uri": TEXT}),
    "Subscription": {
        "oneOf": [taken({"topics": many(NAME, minItems=1)}), taken({"topic_pattern": NAME})],
    },
    "Partitions": taken({"partitions": many(taken(_WHERE))}),
    "Assignment": sent({"partitions": many(sent(_WHERE))}),
    "Positions": taken(
        {},
        {
            "offsets": many(taken({**_WHERE, "offset": OFFSET}, {"metadata": maybe(TEXT)})),
            "timestamps": many(taken({**_WHERE, "timestamp": TIME}, {"metadata": maybe(TEXT)})),
        },
    ),
    "Commits": taken({}, {"offsets": many(taken({**_WHERE, "offset": OFFSET}, {"metadata": maybe(TEXT)}))}),
    "Committed": sent({"offsets": many(sent({**_WHERE, "offset": OFFSET, "metadata": TEXT}))}),
    "Consumed": sent(
        {
            "topic": TEXT,
            "key": maybe(ANYTHING),
            "value": maybe(ANYTHING),
            "partition": INDEX,
            "offset": OFFSET,
        }
    ),
}
_BODIES = {
    media_type("binary"): ref("BinaryRecords"),
    media_type("json"): ref("JsonRecords"),
    **{media_type(name): ref("SchemaRecords") for name in FORMATS[2:]},
}


def _v2(
    summary: str,
    answer: Shape | None,
    body: Shape | dict[str, Shape] | None = None,
    refused: tuple[int, ...] = (),
    query: tuple[Parameter, ...] = (),
    body_needed: bool = True,
) -> Operation:
    return Operation(summary, answer, body, query, refused, body_needed=body_needed, media_type=MEDIA_TYPE)


_EVENTS = (
    Parameter("from", TEXT, "earliest, latest (the default) or an offset"),
    Parameter("partition", INDEX, "only this partition"),
    Parameter("key", TEXT, "only records with this key"),
)
_READ = (
    Parameter("timeout", WHOLE, "maximum wait for records, in milliseconds"),
    Parameter("max_bytes", WHOLE, "maximum bytes of keys and values; the answer has at least one record"),
)
_LATER = (Parameter("async", FLAG, "do not wait for the commit"),)

OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "/topics"): _v2("names of all topics", many(TEXT)),
    ("GET", TOPIC): _v2(
        "a topic with its settings and partitions",
        sent({"name": TEXT, "configs": mapping(maybe(TEXT)), "partitions": many(ref("Partition"))}),
    ),
    ("POST", TOPIC): _v2("write records", ref("RecordsWritten"), _BODIES, (422,)),
    ("GET", TOPIC + "/events"): Operation(
        "records as server-sent events, until the client disconnects",
        TEXT,
        query=_EVENTS,
        refused=(400, 429),
        media_type="text/event-stream",
    ),
    ("GET", TOPIC + "/partitions"): _v2("partitions of the topic", many(ref("Partition"))),
    ("GET", PARTITION): _v2("a partition", ref("Partition")),
    ("POST", PARTITION): _v2("write records to the partition", ref("RecordsWritten"), _BODIES, (422,)),
    ("GET", PARTITION + "/offsets"): _v2(
        "first and end offset of the partition", sent({"beginning_offset": OFFSET, "end_offset": OFFSET})
    ),
    ("POST", "/consumers/{group}"): _v2(
        "create a consumer instance on this broker",
        ref("Instance"),
        ref("NewInstance"),
        (409, 422, 429),
        body_needed=False,
    ),
    ("DELETE", INSTANCE): _v2("delete a consumer instance", None),
    ("POST", INSTANCE + "/subscription"): _v2(
        "subscribe to topics, or to all that match a pattern", None, ref("Subscription"), (409, 422)
    ),
    ("GET", INSTANCE + "/subscription"): _v2("topics of the subscription", sent({"topics": many(TEXT)})),
    ("DELETE", INSTANCE + "/subscription"): _v2("delete the subscription", None),
    ("POST", INSTANCE + "/assignments"): _v2(
        "assign partitions, without the group's assignor", None, ref("Partitions"), (409, 422)
    ),
    ("GET", INSTANCE + "/assignments"): _v2("assigned partitions", ref("Assignment")),
    ("POST", INSTANCE + "/positions"): _v2("seek to offsets or times", None, ref("Positions"), (409, 422)),
    ("POST", INSTANCE + "/positions/beginning"): _v2(
        "seek to the beginning", None, ref("Partitions"), (409, 422)
    ),
    ("POST", INSTANCE + "/positions/end"): _v2("seek to the end", None, ref("Partitions"), (409, 422)),
    ("POST", INSTANCE + "/offsets"): _v2(
        "commit the offsets of the last processed records, or of all records read",
        many(_PLACE),
        ref("Commits"),
        (409, 422),
        _LATER,
        body_needed=False,
    ),
    ("GET", INSTANCE + "/offsets"): _v2(
        "committed offsets of the partitions in the body, or of all assigned partitions",
        ref("Committed"),
        refused=(400, 409, 415, 422),
    ),
    ("GET", INSTANCE + "/records"): Operation(
        "read records; the content type of the answer depends on the format of the instance",
        {media_type(name): many(ref("Consumed")) for name in FORMATS},
        query=_READ,
        refused=(409, 422),
    ),
    ("GET", "/openapi.json"): Operation("this document", {"type": "object"}),
}
