"""Requests that a broker refuses, one for each error that people and tools meet: what is asked, by name.

`T` is a topic with two partitions, `G` a group that there is not, `N` a fresh name that nothing has."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
Request = tuple[str, int, dict[str, Any]]


def create(name: str = "N", partitions: int = 1, replicas: int = 1, **more: Any) -> Request:
    configs = [
        {"name": key.replace("_", "."), "value": value} for key, value in more.pop("configs", {}).items()
    ]
    assignments = [
        {"partition_index": index, "broker_ids": brokers}
        for index, brokers in more.pop("assignments", {}).items()
    ]
    wanted = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "configs": configs,
        "assignments": assignments,
    }
    return "create_topics", 7, {"topics": [wanted], "timeout": 10_000, **more}


def grow(name: str, count: int, assignments: list[list[int]] | None = None) -> Request:
    rows = None if assignments is None else [{"broker_ids": brokers} for brokers in assignments]
    return (
        "create_partitions",
        3,
        {"topics": [{"name": name, "count": count, "assignments": rows}], "timeout": 9000},
    )


def alter(kind: int, name: str, setting: str, value: str | None, operation: int = SET) -> Request:
    configs = [{"name": setting, "config_operation": operation, "value": value}]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    return "incremental_alter_configs", 1, {"resources": resources}


def replace(kind: int, name: str, setting: str, value: str | None) -> Request:
    resources = [
        {"resource_type": kind, "resource_name": name, "configs": [{"name": setting, "value": value}]}
    ]
    return "alter_configs", 2, {"resources": resources}


def describe(kind: int, name: str) -> Request:
    return "describe_configs", 4, {"resources": [{"resource_type": kind, "resource_name": name}]}


def reassign(name: str, partition: int, replicas: list[int] | None, **more: Any) -> Request:
    rows = [{"partition_index": partition, "replicas": replicas}]
    return (
        "alter_partition_reassignments",
        1,
        {"topics": [{"name": name, "partitions": rows}], "timeout": 9000, **more},
    )


def elect(name: str, partition: int, kind: int = 0) -> Request:
    rows = [{"topic": name, "partitions": [partition]}]
    return "elect_leaders", 2, {"election_type": kind, "topic_partitions": rows, "timeout": 9000}


def quota(entity: dict[str, str | None], key: str, value: float) -> Request:
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    entry = {"entity": parts, "ops": [{"key": key, "value": value, "remove": False}]}
    return "alter_client_quotas", 1, {"entries": [entry], "validate_only": False}


def beat(group: str = "G", **more: Any) -> Request:
    whole = {"group_id": group, "member_id": "m", "member_epoch": 0, "rebalance_timeout": 9000}
    return (
        "consumer_group_heartbeat",
        1,
        {**whole, "subscribed_topic_names": ["T"], "topic_partitions": [], **more},
    )


def scram(user: str, mechanism: int, iterations: int) -> Request:
    row = {
        "name": user,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": b"p",
    }
    return "alter_user_scram_credentials", 0, {"upsertions": [row]}


def commit(group: str, topic: str, partition: int = 0, generation: int = -1, member: str = "") -> Request:
    rows = [{"partition_index": partition, "committed_offset": 1, "committed_metadata": ""}]
    return (
        "offset_commit",
        8,
        {
            "group_id": group,
            "generation_id_or_member_epoch": generation,
            "member_id": member,
            "topics": [{"name": topic, "partitions": rows}],
        },
    )


def voter(directory: uuid.UUID) -> dict[str, Any]:
    listeners = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}]
    return {"voter_id": 3, "voter_directory_id": directory, "listeners": listeners, "timeout": 9000}


REFUSED: dict[str, Request] = {
    "create: exists": create("T"),
    "create: no partitions": create(partitions=0),
    "create: minus two partitions": create(partitions=-2),
    "create: replication factor 0": create(replicas=0),
    "create: replication factor above the brokers": create(replicas=9),
    "create: empty name": create(""),
    "create: dot": create("."),
    "create: two dots": create(".."),
    "create: bad letters": create("a b"),
    "create: long name": create("x" * 250),
    "create: unknown setting": create(configs={"no_such_setting": "1"}),
    "create: bad number": create(configs={"retention_ms": "soon"}),
    "create: number out of range": create(configs={"segment_bytes": "1"}),
    "create: bad word": create(configs={"compression_type": "zip"}),
    "create: bad policy": create(configs={"cleanup_policy": "burn"}),
    "create: null value": create(configs={"retention_ms": None}),
    "create: assignment and count": create(partitions=2, assignments={0: [1]}),
    "create: assignment to an unknown broker": create(partitions=-1, replicas=-1, assignments={0: [7]}),
    "create: assignment with a gap": create(partitions=-1, replicas=-1, assignments={1: [1]}),
    "create: assignment with a broker twice": create(partitions=-1, replicas=-1, assignments={0: [1, 1]}),
    "create: empty assignment": create(partitions=-1, replicas=-1, assignments={0: []}),
    "create: internal topic exists": create("__cluster_metadata"),
    "grow: unknown topic": grow("N", 4),
    "grow: fewer": grow("T", 1),
    "grow: as many": grow("T", 2),
    "grow: negative": grow("T", -1),
    "grow: too few assignments": grow("T", 4, [[1]]),
    "grow: unknown broker": grow("T", 3, [[7]]),
    "grow: broker twice": grow("T", 3, [[1, 1]]),
    "grow: empty assignment": grow("T", 3, [[]]),
    "delete: unknown": ("delete_topics", 6, {"topics": [{"name": "N"}], "timeout": 9000}),
    "delete: unknown id": (
        "delete_topics",
        6,
        {"topics": [{"name": None, "topic_id": uuid.UUID(int=7)}], "timeout": 9000},
    ),
    "alter: unknown topic": alter(TOPIC, "N", "retention.ms", "1"),
    "alter: unknown setting of a topic": alter(TOPIC, "T", "no.such.setting", "1"),
    "alter: bad number of a topic": alter(TOPIC, "T", "retention.ms", "soon"),
    "alter: out of range of a topic": alter(TOPIC, "T", "segment.bytes", "1"),
    "alter: append to a number": alter(TOPIC, "T", "retention.ms", "1", APPEND),
    "alter: null": alter(TOPIC, "T", "retention.ms", None),
    "alter: fixed setting of a broker": alter(BROKER, "1", "num.partitions", "3"),
    "alter: unknown broker": alter(BROKER, "77", "log.retention.ms", "3"),
    "alter: name of a broker": alter(BROKER, "one", "log.retention.ms", "3"),
    "alter: bad number of a broker": alter(BROKER, "1", "log.retention.ms", "soon"),
    "alter: level of a logger": alter(LOGGER, "1", "root", "LOUD"),
    "alter: append to a logger": alter(LOGGER, "1", "root", "INFO", APPEND),
    "alter: unknown type": alter(99, "T", "retention.ms", "1"),
    "alter: unknown setting of a group": alter(GROUP, "G", "no.such.setting", "1"),
    "alter: bad number of a group": alter(GROUP, "G", "consumer.session.timeout.ms", "soon"),
    "alter: out of range of a group": alter(GROUP, "G", "consumer.session.timeout.ms", "1"),
    "alter: empty group": alter(GROUP, "", "consumer.session.timeout.ms", "46000"),
    "replace: unknown topic": replace(TOPIC, "N", "retention.ms", "1"),
    "replace: unknown setting": replace(TOPIC, "T", "no.such.setting", "1"),
    "replace: bad number": replace(TOPIC, "T", "retention.ms", "soon"),
    "replace: null": replace(TOPIC, "T", "retention.ms", None),
    "describe: unknown topic": describe(TOPIC, "N"),
    "describe: bad topic name": describe(TOPIC, "a b"),
    "describe: unknown broker": describe(BROKER, "77"),
    "describe: name of a broker": describe(BROKER, "one"),
    "describe: logger of another broker": describe(LOGGER, "77"),
    "describe: unknown type": describe(99, "T"),
    "reassign: unknown topic": reassign("N", 0, [1]),
    "reassign: unknown partition": reassign("T", 7, [1]),
    "reassign: unknown broker": reassign("T", 0, [7]),
    "reassign: no replicas": reassign("T", 0, []),
    "reassign: broker twice": reassign("T", 0, [1, 1]),
    "reassign: negative broker": reassign("T", 0, [-1]),
    "reassign: nothing to cancel": reassign("T", 0, None),
    "elect: unknown topic": elect("N", 0),
    "elect: unknown partition": elect("T", 7),
    "elect: not needed": elect("T", 0),
    "elect: unclean, not needed": elect("T", 0, 1),
    "records: unknown topic": (
        "delete_records",
        2,
        {"topics": [{"name": "N", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout": 9000},
    ),
    "records: above the end": (
        "delete_records",
        2,
        {"topics": [{"name": "T", "partitions": [{"partition_index": 0, "offset": 99}]}], "timeout": 9000},
    ),
    "quota: unknown key": quota({"user": "u"}, "no_such_rate", 1.0),
    "quota: unknown entity": quota({"planet": "u"}, "producer_byte_rate", 1.0),
    "quota: zero": quota({"user": "u"}, "producer_byte_rate", 0.0),
    "quota: negative": quota({"user": "u"}, "producer_byte_rate", -1.0),
    "quota: broken number": quota({"user": "u"}, "producer_byte_rate", 1.5),
    "quota: no entity": quota({}, "producer_byte_rate", 1.0),
    "quota: ip and user": quota({"ip": "1.2.3.4", "user": "u"}, "connection_creation_rate", 1.0),
    "quota: bad ip": quota({"ip": "nowhere at all"}, "connection_creation_rate", 1.0),
    "scram: few iterations": scram("u", 1, 1),
    "scram: many iterations": scram("u", 1, 99999),
    "scram: unknown mechanism": scram("u", 9, 4096),
    "scram: empty user": scram("", 1, 4096),
    "scram: delete nothing": (
        "alter_user_scram_credentials",
        0,
        {"deletions": [{"name": "nobody", "mechanism": 1}]},
    ),
    "scram: describe nobody": ("describe_user_scram_credentials", 0, {"users": [{"name": "nobody"}]}),
    "broker: unregister unknown": ("unregister_broker", 0, {"broker_id": 77}),
    "quorum: other topic": (
        "describe_quorum",
        2,
        {"topics": [{"topic_name": "T", "partitions": [{"partition_index": 0}]}]},
    ),
    "quorum: add a voter": ("add_raft_voter", 1, voter(uuid.UUID(int=9))),
    "quorum: add nobody": ("add_raft_voter", 1, voter(uuid.UUID(int=0))),
    "quorum: remove a voter": (
        "remove_raft_voter",
        0,
        {"voter_id": 3, "voter_directory_id": uuid.UUID(int=9)},
    ),
    "quorum: remove nobody": (
        "remove_raft_voter",
        0,
        {"voter_id": 3, "voter_directory_id": uuid.UUID(int=0)},
    ),
    "resources: unknown type": ("list_config_resources", 1, {"resource_types": [7]}),
    "coordinator: unknown kind": ("find_coordinator", 4, {"key_type": 9, "coordinator_keys": ["G"]}),
    "consumer: empty group": beat(""),
    "consumer: no member id": beat(member_id=""),
    "consumer: unknown member": beat(member_epoch=5, subscribed_topic_names=None, topic_partitions=None),
    "consumer: no timeout": beat(rebalance_timeout=-1),
    "consumer: no subscription": beat(subscribed_topic_names=None),
    "consumer: unknown assignor": beat(server_assignor="dice"),
    "consumer: bad pattern": beat(subscribed_topic_names=None, subscribed_topic_regex="["),
    "consumer: static without a name": beat(member_epoch=-2),
    "consumer: empty instance": beat(instance_id=""),
    "consumer: describe unknown": ("consumer_group_describe", 1, {"group_ids": ["G"]}),
    "share: describe unknown": ("share_group_describe", 1, {"group_ids": ["G"]}),
    "groups: describe unknown": ("describe_groups", 6, {"groups": ["G"]}),
    "groups: delete unknown": ("delete_groups", 2, {"groups_names": ["G"]}),
    "groups: leave unknown": ("leave_group", 5, {"group_id": "G", "members": [{"member_id": "m"}]}),
    "groups: heartbeat of nobody": ("heartbeat", 4, {"group_id": "G", "generation_id": 1, "member_id": "m"}),
    "commit: unknown topic": commit("G", "N"),
    "commit: unknown partition": commit("G", "T", 7),
    "commit: member of no group": commit("G", "T", 0, 3, "m"),
    "offsets: unknown topic": (
        "list_offsets",
        7,
        {
            "replica_id": -1,
            "topics": [{"name": "N", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
    ),
    "transactions: list unknown state": ("list_transactions", 0, {"state_filters": ["Dreaming"]}),
    "transactions: timeout too long": (
        "init_producer_id",
        4,
        {
            "transactional_id": "N",
            "transaction_timeout": 2_000_000_000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
    ),
    "producers: unknown topic": (
        "describe_producers",
        0,
        {"topics": [{"name": "N", "partition_indexes": [0]}]},
    ),
    "acls: without an authorizer": (
        "describe_acls",
        3,
        {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
    ),
    "tokens: without a key": ("describe_delegation_token", 3, {"owners": None}),
    "features: unknown": (
        "update_features",
        1,
        {
            "timeout": 9000,
            "feature_updates": [{"feature": "flying", "max_version_level": 1, "upgrade_type": 1}],
        },
    ),
}


@dataclass(frozen=True)
class Names:
    topic: str
    group: str
    fresh: str

    def fill(self, value: Any) -> Any:
        """`value` with the names for their letters."""
        if isinstance(value, dict):
            return {key: self.fill(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        return (
            {"T": self.topic, "G": self.group, "N": self.fresh}.get(value, value)
            if isinstance(value, str)
            else value
        )

    def hide(self, text: str | None) -> str | None:
        if text is None:
            return None
        return (
            text.replace(self.topic, "{topic}").replace(self.group, "{group}").replace(self.fresh, "{fresh}")
        )


def errors_in(answer: Any) -> list[tuple[int, str | None]]:
    """Every (code, text) in the answer that is no success, in order."""
    found: list[tuple[int, str | None]] = []
    if isinstance(answer, tuple):
        return [error for item in answer for error in errors_in(item)]
    if not is_dataclass(answer):
        return found
    for field in fields(answer):
        value = getattr(answer, field.name)
        if field.name.endswith("error_code"):
            if int(value):
                found.append((int(value), getattr(answer, "error_message", None)))
        else:
            found += errors_in(value)
    return found
