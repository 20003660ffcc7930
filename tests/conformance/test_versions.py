"""Every API in every version that Kafka 4 serves: a valid request is answered, without an error, in that version's form."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kio.schema.index import schema_name_map

from tests.conformance import batches, coordinated
from tests.conformance.process import BrokerProcess, wait_until
from tests.conformance.raw import API_KEYS, Connection
from tests.conformance.scene import Scene
from tests.conformance.test_security_apis import ACL, ANY_ACL, QUOTA
from tests.conformance.topics import append, describe

# What Apache Kafka 4.3 advertises for the APIs that Tidelog serves.  Produce is advertised from 0 for old librdkafka
# releases, but served from 3 on.
ADVERTISED = {
    "produce": (0, 13),
    "fetch": (4, 18),
    "list_offsets": (1, 11),
    "metadata": (0, 13),
    "find_coordinator": (0, 6),
    "api_versions": (0, 4),
    "create_topics": (2, 7),
    "delete_topics": (1, 6),
    "delete_records": (0, 2),
    "init_producer_id": (0, 5),
    "offset_for_leader_epoch": (2, 4),
    "describe_configs": (1, 4),
    "alter_configs": (0, 2),
    "describe_acls": (1, 3),
    "create_acls": (1, 3),
    "delete_acls": (1, 3),
    "describe_client_quotas": (0, 1),
    "alter_client_quotas": (0, 1),
    "describe_user_scram_credentials": (0, 0),
    "alter_user_scram_credentials": (0, 0),
    "describe_delegation_token": (1, 3),
    "alter_replica_log_dirs": (1, 2),
    "describe_log_dirs": (1, 5),
    "create_partitions": (0, 3),
    "elect_leaders": (0, 2),
    "incremental_alter_configs": (0, 1),
    "update_features": (0, 2),
    "describe_cluster": (0, 2),
    "describe_producers": (0, 0),
    "list_config_resources": (0, 1),
    "describe_topic_partitions": (0, 0),
    **coordinated.ADVERTISED,
}
# Their refusals have -1 for a time, which kio cannot read: who gets a token is tested in tests/unit/broker.
TOKENS = {
    "create_delegation_token": (1, 3),
    "renew_delegation_token": (1, 2),
    "expire_delegation_token": (1, 2),
}
# Tested in tests/conformance/test_streams_groups.py.
STREAMS = {"streams_group_heartbeat": (0, 0), "streams_group_describe": (0, 0)}
# Served on every listener, as in Kafka; tested in tests/conformance/test_secured_clients.py.
LOGINS = {"sasl_handshake": (0, 1), "sasl_authenticate": (0, 2)}
# Kafka advertises these two only where a plugin that receives client metrics is installed, Tidelog where a subscription is:
# tested in tests/conformance/test_client_telemetry.py.
TELEMETRY = {"get_telemetry_subscriptions": (0, 0), "push_telemetry": (0, 0)}


def produce(s: Scene) -> dict[str, Any]:
    parts = [{"index": 0, "records": batches.batch([b"x"])}]
    return {"acks": -1, "timeout": 5000, "topic_data": [s.both | {"partition_data": parts}]}


def fetch(s: Scene) -> dict[str, Any]:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    whole = {"replica_id": -1, "max_wait": 100, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    return whole | {"topics": [s.both | {"partitions": [part]}]}


def list_offsets(s: Scene) -> dict[str, Any]:
    part = {"partition_index": 0, "timestamp": -1}
    return {"replica_id": -1, "topics": [s.both | {"partitions": [part]}], "timeout": 5000}


def create_topics(s: Scene) -> dict[str, Any]:
    wanted = {"name": s.fresh, "num_partitions": 1, "replication_factor": 1}
    return {"topics": [wanted], "timeout": 5000}


def delete_topics(s: Scene) -> dict[str, Any]:
    return {"topic_names": [s.topic], "topics": [{"name": s.topic}], "timeout": 5000}


def delete_records(s: Scene) -> dict[str, Any]:
    return {
        "topics": [{"name": s.topic, "partitions": [{"partition_index": 0, "offset": 1}]}],
        "timeout": 5000,
    }


def find_coordinator(s: Scene) -> dict[str, Any]:
    return {"key": "some-group", "key_type": 0, "coordinator_keys": ["some-group"]}


def epochs(s: Scene) -> dict[str, Any]:
    part = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"topic": s.topic, "partitions": [part]}]}


def alter_configs(s: Scene) -> dict[str, Any]:
    change = {"name": "retention.ms", "value": "1000000", "config_operation": 0}
    return {"resources": [{"resource_type": 2, "resource_name": s.topic, "configs": [change]}]}


SAMPLES: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "produce": produce,
    "fetch": fetch,
    "list_offsets": list_offsets,
    "metadata": lambda s: {"topics": [{"name": s.topic}]},
    "find_coordinator": find_coordinator,
    "api_versions": lambda s: {"client_software_name": "tests", "client_software_version": "1.0"},
    "create_topics": create_topics,
    "delete_topics": delete_topics,
    "delete_records": delete_records,
    "init_producer_id": lambda s: {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
    "offset_for_leader_epoch": epochs,
    "describe_configs": lambda s: {"resources": [{"resource_type": 2, "resource_name": s.topic}]},
    "alter_configs": alter_configs,
    "alter_replica_log_dirs": lambda s: {
        "dirs": [{"path": s.data, "topics": [{"name": s.topic, "partitions": [0]}]}]
    },
    "describe_log_dirs": lambda s: {"topics": [{"topic": s.topic, "partitions": [0]}]},
    "create_partitions": lambda s: {"topics": [{"name": s.topic, "count": 2}], "timeout": 5000},
    "elect_leaders": lambda s: {"topic_partitions": [{"topic": s.topic, "partitions": [0]}], "timeout": 5000},
    "incremental_alter_configs": alter_configs,
    "update_features": lambda s: {"timeout": 5000, "feature_updates": []},
    "describe_cluster": lambda s: {"endpoint_type": 1},
    "describe_producers": lambda s: {"topics": [{"name": s.topic, "partition_indexes": [0]}]},
    "list_config_resources": lambda s: {},
    "describe_topic_partitions": lambda s: {"topics": [{"name": s.topic}], "response_partition_limit": 10},
    "get_telemetry_subscriptions": lambda s: {},
    "describe_acls": lambda s: ANY_ACL,
    "create_acls": lambda s: {"creations": [ACL]},
    "delete_acls": lambda s: {"filters": [ANY_ACL]},
    "describe_client_quotas": lambda s: {"components": [], "strict": False},
    "alter_client_quotas": lambda s: {"entries": [QUOTA], "validate_only": True},
    "describe_user_scram_credentials": lambda s: {"users": None},
    "alter_user_scram_credentials": lambda s: {
        "deletions": [{"name": "nobody", "mechanism": 1}],
        "upsertions": [],
    },
    "describe_delegation_token": lambda s: {"owners": None},
    **coordinated.SAMPLES,
}

# Valid requests that have nothing to do here: the preferred leader leads already, there is no authorizer, nobody has
# logged in.
EXPECTED_ERRORS = {
    "elect_leaders": {"election_not_needed"},
    "describe_acls": {"security_disabled"},
    "create_acls": {"security_disabled"},
    "delete_acls": {"security_disabled"},
    "alter_user_scram_credentials": {"resource_not_found"},
    "describe_delegation_token": {"delegation_token_request_not_allowed"},
    **coordinated.EXPECTED_ERRORS,
}

# On a fresh broker the first call may find the coordinator's topic, or a block of producer ids, still on its way.
NOT_YET = {"coordinator_not_available", "coordinator_load_in_progress", "not_coordinator"}
COORDINATORS = GROUPS, TRANSACTIONS, SHARES = range(3)


def served_versions() -> list[Any]:
    return [
        pytest.param(api, version, id=f"{api}-v{version}")
        for api, (_, last) in ADVERTISED.items()
        for version in range(min(schema_name_map[api]), last + 1)
        if version >= ADVERTISED[api][0]
    ]


@pytest.mark.parametrize(("api", "version"), served_versions())
def test_a_valid_request_is_answered_in_every_version(
    api: str, version: int, broker: BrokerProcess, connection: Connection, topic: Any, name: Any
) -> None:
    known = topic()
    append(connection, known, batches.batch([b"a", b"b"]))
    scene = Scene(known, describe(connection, known).topic_id, name(), str(broker.data), version)
    fields = SAMPLES[api](scene)
    if api in coordinated.SAMPLES:
        await_coordinators(connection, scene)
    answer: Any = None

    def answered() -> bool:
        nonlocal answer
        answer = connection.call(api, version, **fields)
        return not NOT_YET & {*errors(answer)}

    wait_until(answered, 30, "the coordinator is there")
    assert set(errors(answer)) <= EXPECTED_ERRORS.get(api, set()), answer


def await_coordinators(connection: Connection, scene: Scene) -> None:
    """Asking for one makes the topic that it keeps its state in."""
    shares = f"{scene.fresh}:{base64.urlsafe_b64encode(scene.topic_id.bytes).decode().rstrip('=')}:0"
    for kind in COORDINATORS:
        fields = {"key_type": kind, "coordinator_keys": [shares if kind == SHARES else scene.fresh]}
        wait_until(
            lambda fields=fields: not NOT_YET & {*errors(connection.call("find_coordinator", 6, **fields))},
            30,
            "the coordinator is there",
        )


def test_the_versions_are_those_of_kafka(connection: Connection) -> None:
    answer = connection.call("api_versions", 0)
    found = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}
    expected = ADVERTISED | TOKENS | LOGINS | STREAMS
    assert {api: found.get(API_KEYS[api]) for api in expected} == expected


def test_only_what_is_tested_here_is_advertised(connection: Connection, broker: BrokerProcess) -> None:
    if broker.name == "kafka":
        pytest.skip("Apache Kafka serves more")
    answer = connection.call("api_versions", 0)
    known = {API_KEYS[api] for api in ADVERTISED | TOKENS | LOGINS | STREAMS | TELEMETRY}
    assert {k.api_key for k in answer.api_keys} <= known


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_below_version_3_is_refused_though_advertised(
    version: int, connection: Connection, topic: Any
) -> None:
    known = topic().encode()
    data = batches.old_message(b"x", 0)
    body = (
        _i16(1) + _i32(5000) + _i32(1) + _i16(len(known)) + known + _i32(1) + _i32(0) + _i32(len(data)) + data
    )
    frame = _i16(0) + _i16(version) + _i32(7) + _i16(-1) + body
    connection.send_bytes(_i32(len(frame)) + frame)
    assert connection.closed_by_broker()


def errors(answer: Any) -> Iterator[str]:
    """The names of all errors anywhere in an answer."""
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.name == "error_code" and value != 0:
            yield value.name
        for item in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(item):
                yield from errors(item)


def _i16(number: int) -> bytes:
    return number.to_bytes(2, "big", signed=True)


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)
