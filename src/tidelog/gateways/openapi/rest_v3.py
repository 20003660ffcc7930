"""The operations of version 3 of the REST proxy.  Pure."""

from __future__ import annotations

from typing import Any

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
    Shape,
    many,
    maybe,
    one_of,
    ref,
    sent,
    taken,
)

CLUSTER = "/v3/clusters/{cluster}"
TOPIC = CLUSTER + "/topics/{topic}"
GROUP = CLUSTER + "/consumer-groups/{group}"
RELATED = sent({"related": TEXT})
SHAPES: dict[str, Shape] = {}


def _resource(kind: str, **fields: Shape) -> None:
    """The shape of a resource, and of a list of them."""
    about = sent({"self": TEXT, "resource_name": TEXT})
    SHAPES[kind] = sent({"kind": one_of(kind), "metadata": about, "cluster_id": TEXT, **fields})
    listed = sent({"self": TEXT, "next": maybe(TEXT)})
    SHAPES[f"{kind}List"] = sent({"kind": one_of(f"{kind}List"), "metadata": listed, "data": many(ref(kind))})


_resource(
    "KafkaCluster",
    controller=RELATED,
    brokers=RELATED,
    consumer_groups=RELATED,
    topics=RELATED,
    broker_configs=RELATED,
    partition_reassignments=RELATED,
)
_resource("KafkaBroker", broker_id=INDEX, host=TEXT, port=INDEX, rack=maybe(TEXT), configs=RELATED)
_resource(
    "KafkaTopic",
    topic_name=TEXT,
    is_internal=FLAG,
    replication_factor=INDEX,
    partitions_count=INDEX,
    partitions=RELATED,
    configs=RELATED,
    partition_reassignments=RELATED,
)
_resource(
    "KafkaReassignment",
    topic_name=TEXT,
    partition_id=INDEX,
    adding_replicas=many(INDEX),
    removing_replicas=many(INDEX),
    replicas=RELATED,
)
_resource("KafkaPartition", topic_name=TEXT, partition_id=INDEX, leader=maybe(RELATED), replicas=RELATED)
_resource(
    "KafkaReplica",
    topic_name=TEXT,
    partition_id=INDEX,
    broker_id=INDEX,
    is_leader=FLAG,
    is_in_sync=FLAG,
    broker=RELATED,
)
_CONFIG: dict[str, Any] = {
    "name": TEXT,
    "value": maybe(TEXT),
    "is_default": FLAG,
    "is_read_only": FLAG,
    "is_sensitive": FLAG,
    "source": TEXT,
    "synonyms": many(ANYTHING),
}
_resource("KafkaBrokerConfig", broker_id=INDEX, **_CONFIG)
_resource("KafkaClusterConfig", config_type=one_of("BROKER"), **_CONFIG)
_resource("KafkaTopicConfig", topic_name=TEXT, **_CONFIG)
_GROUP: dict[str, Any] = {
    "consumer_group_id": TEXT,
    "is_simple": FLAG,
    "state": TEXT,
    "type": TEXT,
    "consumers": RELATED,
    "lag_summary": RELATED,
}
_resource("KafkaConsumerGroup", **_GROUP)
SHAPES["KafkaConsumerGroup"]["properties"]["partition_assignor"] = maybe(TEXT)
_resource(
    "KafkaConsumer",
    consumer_group_id=TEXT,
    consumer_id=TEXT,
    instance_id=maybe(TEXT),
    client_id=TEXT,
    assignments=RELATED,
)
_resource(
    "KafkaConsumerAssignment",
    consumer_group_id=TEXT,
    consumer_id=TEXT,
    topic_name=TEXT,
    partition_id=INDEX,
    partition=RELATED,
)
_resource(
    "KafkaConsumerLag",
    consumer_group_id=TEXT,
    topic_name=TEXT,
    partition_id=INDEX,
    consumer_id=TEXT,
    instance_id=maybe(TEXT),
    client_id=TEXT,
    current_offset=WHOLE,
    log_end_offset=WHOLE,
    lag=WHOLE,
)
_resource(
    "KafkaConsumerGroupLagSummary",
    consumer_group_id=TEXT,
    max_lag_consumer_id=TEXT,
    max_lag_instance_id=maybe(TEXT),
    max_lag_client_id=TEXT,
    max_lag_topic_name=TEXT,
    max_lag_partition_id=INDEX,
    max_lag=WHOLE,
    total_lag=WHOLE,
)
del SHAPES["KafkaConsumerGroupLagSummaryList"]
SHAPES["KafkaTopicChecked"] = sent(
    {
        "kind": one_of("KafkaTopic"),
        "metadata": sent({"self": TEXT, "resource_name": TEXT}),
        "cluster_id": TEXT,
        "topic_name": TEXT,
    }
)
SHAPES["ConfigChange"] = taken(
    {"name": NAME}, {"value": maybe(TEXT), "operation": maybe(one_of("SET", "DELETE"))}
)
SHAPES["ConfigChanges"] = taken({"data": many(ref("ConfigChange"))}, {"validate_only": FLAG})
SHAPES["NewTopic"] = taken(
    {"topic_name": NAME},
    {
        "partitions_count": maybe(COUNT),
        "replication_factor": maybe({"type": "integer", "minimum": 1, "maximum": 2**15 - 1}),
        "configs": maybe(many(taken({"name": NAME, "value": TEXT}))),
        "validate_only": FLAG,
    },
)
SHAPES["Data"] = taken(
    {},
    {
        "type": maybe(one_of("BINARY", "STRING", "JSON", "AVRO", "JSONSCHEMA", "PROTOBUF")),
        "data": maybe(ANYTHING),
        "subject": maybe(NAME),
        "subject_name_strategy": maybe(one_of("TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME")),
        "schema_id": maybe(COUNT),
        "schema_version": maybe(COUNT),
        "schema": maybe(TEXT),
    },
)
SHAPES["Record"] = taken(
    {},
    {
        "partition_id": maybe(INDEX),
        "key": maybe(ref("Data")),
        "value": maybe(ref("Data")),
        "headers": maybe(many(taken({"name": TEXT}, {"value": maybe(BASE64)}))),
        "timestamp": maybe(TIME),
    },
)
SHAPES["Written"] = sent(
    {
        "error_code": {"type": "integer", "enum": [200]},
        "cluster_id": TEXT,
        "topic_name": TEXT,
        "partition_id": INDEX,
        "offset": OFFSET,
        "timestamp": TIME,
    },
    {"key": ref("WrittenData"), "value": ref("WrittenData")},
)
_ENTRY = {"cluster_id": TEXT, "topic_name": TEXT, "partition_id": INDEX, "offset": OFFSET, "timestamp": TIME}
SHAPES["BatchWritten"] = sent(
    {
        "successes": many(
            sent({"id": TEXT, **_ENTRY}, {"key": ref("WrittenData"), "value": ref("WrittenData")})
        ),
        "failures": many(sent({"id": TEXT, "error_code": WHOLE, "message": TEXT})),
    }
)
SHAPES["Batch"] = taken(
    {
        "entries": many(
            taken({"id": {**NAME, "maxLength": 80}}, SHAPES["Record"]["properties"]),
            minItems=1,
            maxItems=1000,
        )
    }
)
SHAPES["WrittenData"] = sent(
    {"type": TEXT, "size": INDEX}, {"subject": TEXT, "schema_id": COUNT, "schema_version": COUNT}
)


def _settings(path: str, kind: str, whose: str) -> dict[tuple[str, str], Operation]:
    bad = (400,)
    value = taken({"value": TEXT})
    return {
        ("GET", path): Operation(f"all settings of {whose}", ref(f"{kind}List"), refused=bad),
        ("POST", f"{path}:alter"): Operation(
            f"change settings of {whose}, several at once", None, ref("ConfigChanges")
        ),
        ("GET", f"{path}/{{name}}"): Operation(f"a setting of {whose}", ref(kind), refused=bad),
        ("PUT", f"{path}/{{name}}"): Operation(f"change a setting of {whose}", None, value),
        ("DELETE", f"{path}/{{name}}"): Operation(f"reset a setting of {whose}", None, refused=bad),
    }


OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "/v3/clusters"): Operation("this cluster, in a list", ref("KafkaClusterList")),
    ("GET", CLUSTER): Operation("this cluster", ref("KafkaCluster")),
    ("GET", CLUSTER + "/brokers"): Operation("brokers of the cluster", ref("KafkaBrokerList")),
    ("GET", CLUSTER + "/brokers/{broker}"): Operation("a broker", ref("KafkaBroker"), refused=(400,)),
    ("GET", CLUSTER + "/brokers/-/configs"): Operation(
        "all settings of each broker", ref("KafkaBrokerConfigList")
    ),
    **_settings(CLUSTER + "/brokers/{broker}/configs", "KafkaBrokerConfig", "a broker"),
    **_settings(CLUSTER + "/broker-configs", "KafkaClusterConfig", "all brokers"),
    ("GET", CLUSTER + "/brokers/{broker}/partition-replicas"): Operation(
        "replicas on a broker", ref("KafkaReplicaList"), refused=(400,)
    ),
    ("GET", CLUSTER + "/topics"): Operation("all topics", ref("KafkaTopicList")),
    ("POST", CLUSTER + "/topics"): Operation(
        "create a topic; with validate_only only check the request",
        ref("KafkaTopic"),
        ref("NewTopic"),
        status=201,
        others=((200, ref("KafkaTopicChecked")),),
    ),
    ("GET", TOPIC): Operation("a topic", ref("KafkaTopic")),
    ("PATCH", TOPIC): Operation("add partitions", ref("KafkaTopic"), taken({"partitions_count": COUNT})),
    ("DELETE", TOPIC): Operation("delete a topic", None, refused=(400,)),
    ("GET", TOPIC + "/partitions"): Operation("partitions of the topic", ref("KafkaPartitionList")),
    ("GET", TOPIC + "/partitions/{partition}"): Operation(
        "a partition", ref("KafkaPartition"), refused=(400,)
    ),
    ("GET", TOPIC + "/partitions/{partition}/replicas"): Operation(
        "replicas of a partition", ref("KafkaReplicaList"), refused=(400,)
    ),
    ("GET", TOPIC + "/partitions/{partition}/replicas/{broker}"): Operation(
        "a replica of a partition", ref("KafkaReplica"), refused=(400,)
    ),
    ("GET", CLUSTER + "/topics/-/partitions/-/reassignment"): Operation(
        "all ongoing reassignments", ref("KafkaReassignmentList")
    ),
    ("GET", TOPIC + "/partitions/-/reassignment"): Operation(
        "ongoing reassignments of the topic", ref("KafkaReassignmentList")
    ),
    ("GET", TOPIC + "/partitions/{partition}/reassignment"): Operation(
        "the ongoing reassignment of a partition", ref("KafkaReassignment"), refused=(400,)
    ),
    **_settings(TOPIC + "/configs", "KafkaTopicConfig", "a topic"),
    ("POST", TOPIC + "/records"): Operation(
        "write a record, or a stream of concatenated JSON objects; each record has its own answer",
        ref("Written"),
        ref("Record"),
        refused=(422,),
    ),
    ("POST", TOPIC + "/records:batch"): Operation(
        "write a batch of records", ref("BatchWritten"), ref("Batch"), refused=(422,), status=207
    ),
    ("GET", CLUSTER + "/consumer-groups"): Operation("all consumer groups", ref("KafkaConsumerGroupList")),
    ("GET", GROUP): Operation("a consumer group", ref("KafkaConsumerGroup")),
    ("GET", GROUP + "/consumers"): Operation("members of the group", ref("KafkaConsumerList")),
    ("GET", GROUP + "/consumers/{consumer}"): Operation("a member", ref("KafkaConsumer")),
    ("GET", GROUP + "/consumers/{consumer}/assignments/{topic}/partitions/{partition}"): Operation(
        "a partition assigned to a member", ref("KafkaConsumerAssignment"), refused=(400,)
    ),
    ("GET", GROUP + "/lags/{topic}/partitions/{partition}"): Operation(
        "lag of the group in a partition", ref("KafkaConsumerLag"), refused=(400,)
    ),
    ("GET", GROUP + "/consumers/{consumer}/assignments"): Operation(
        "partitions assigned to a member", ref("KafkaConsumerAssignmentList")
    ),
    ("GET", GROUP + "/lags"): Operation("lag of the group, by partition", ref("KafkaConsumerLagList")),
    ("GET", GROUP + "/lag-summary"): Operation("total lag of the group", ref("KafkaConsumerGroupLagSummary")),
}
