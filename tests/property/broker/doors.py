"""The table of what each Kafka API needs: see `test_doors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.record.builder import BatchBuilder

TOPIC_ID = "id of orders"
"""Stands in a row for the id of the topic `orders`."""

PARTS = [{"partition_index": 0}]
ONE_TOPIC = [{"name": "orders", "partitions": PARTS}]
STATE = [{"topic_id": TOPIC_ID, "partitions": [{"partition": 0}]}]


def records() -> bytes:
    builder = BatchBuilder()
    builder.add(b"k", b"v", 1_700_000_000_000)
    return builder.build()


class Row(NamedTuple):
    api: str
    version: int
    needs: str
    """As `WRITE TOPIC`, several with commas: each of them is needed.  Alternatives with `or`: each of them is enough."""
    fields: Mapping[str, Any] = {}
    shows: str = ""
    """What is not there for a user without the right, where an answer refuses nothing and leaves out instead."""
    anywhere: bool = False
    """The right on any other resource is enough, too."""


TABLE = [
    Row(
        "Produce",
        9,
        "WRITE TOPIC",
        {
            "acks": 1,
            "timeout_ms": 1000,
            "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": records()}]}],
        },
    ),
    Row(
        "Fetch",
        12,
        "READ TOPIC",
        {
            "max_wait_ms": 0,
            "max_bytes": 1000,
            "topics": [{"topic": "orders", "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}],
        },
    ),
    Row("ListOffsets", 7, "DESCRIBE TOPIC", {"replica_id": -1, "topics": ONE_TOPIC}),
    Row("Metadata", 9, "DESCRIBE TOPIC", {"topics": [{"name": "orders"}]}),
    Row("Metadata", 9, "DESCRIBE TOPIC", {"topics": None}, "orders"),
    Row("Metadata", 12, "DESCRIBE TOPIC", {"topics": [{"topic_id": TOPIC_ID, "name": None}]}, "orders"),
    Row("DescribeTopicPartitions", 0, "DESCRIBE TOPIC", {"topics": [{"name": "orders"}]}),
    Row(
        "OffsetForLeaderEpoch",
        4,
        "DESCRIBE TOPIC or CLUSTER_ACTION CLUSTER",
        {"replica_id": -1, "topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]},
    ),
    Row(
        "CreateTopics",
        4,
        "CREATE TOPIC or CREATE CLUSTER",
        {"topics": [{"name": "orders", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 1000},
    ),
    Row("DeleteTopics", 5, "DELETE TOPIC", {"topic_names": ["orders"], "timeout_ms": 1000}),
    Row("DeleteRecords", 2, "DELETE TOPIC", {"topics": ONE_TOPIC, "timeout_ms": 1000}),
    Row(
        "CreatePartitions", 3, "ALTER TOPIC", {"topics": [{"name": "orders", "count": 3}], "timeout_ms": 1000}
    ),
    Row("DescribeProducers", 0, "READ TOPIC", {"topics": [{"name": "orders", "partition_indexes": [0]}]}),
    # Groups
    Row("FindCoordinator", 3, "DESCRIBE GROUP", {"key": "g", "key_type": 0}),
    Row("FindCoordinator", 3, "DESCRIBE TRANSACTIONAL_ID", {"key": "tx", "key_type": 1}),
    Row(
        "FindCoordinator",
        6,
        "CLUSTER_ACTION CLUSTER",
        {"key_type": 2, "coordinator_keys": ["g:AAAAAAAAAAAAAAAAAAAAAQ:0"]},
    ),
    Row(
        "JoinGroup",
        5,
        "READ GROUP",
        {
            "group_id": "g",
            "session_timeout_ms": 6000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range"}],
        },
    ),
    Row("SyncGroup", 3, "READ GROUP", {"group_id": "g", "member_id": "m"}),
    Row("Heartbeat", 4, "READ GROUP", {"group_id": "g", "member_id": "m"}),
    Row("LeaveGroup", 2, "READ GROUP", {"group_id": "g", "member_id": "m"}),
    Row("DescribeGroups", 5, "DESCRIBE GROUP", {"groups": ["g"]}),
    Row("ListGroups", 4, "DESCRIBE GROUP or DESCRIBE CLUSTER", {}, "g"),
    Row("DeleteGroups", 2, "DELETE GROUP", {"groups_names": ["g"]}),
    Row(
        "OffsetCommit",
        8,
        "READ GROUP, READ TOPIC",
        {"group_id": "g", "topics": [{"name": "orders", "partitions": PARTS}]},
    ),
    Row(
        "OffsetFetch",
        8,
        "DESCRIBE GROUP, DESCRIBE TOPIC",
        {"groups": [{"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}]},
    ),
    Row(
        "OffsetFetch",
        5,
        "DESCRIBE GROUP, DESCRIBE TOPIC",
        {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]},
    ),
    Row("OffsetDelete", 0, "DELETE GROUP, READ TOPIC", {"group_id": "g", "topics": ONE_TOPIC}),
    Row(
        "ConsumerGroupHeartbeat",
        0,
        "READ GROUP, DESCRIBE TOPIC",
        {
            "group_id": "g2",
            "member_id": "m",
            "rebalance_timeout_ms": 1000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
        },
    ),
    Row("ConsumerGroupDescribe", 0, "DESCRIBE GROUP", {"group_ids": ["g"]}),
    Row(
        "StreamsGroupHeartbeat",
        0,
        "READ GROUP, DESCRIBE TOPIC",
        {
            "group_id": "g4",
            "member_id": "m",
            "rebalance_timeout_ms": 1000,
            "topology": {
                "epoch": 0,
                "subtopologies": [{"subtopology_id": "0", "source_topics": ["orders"]}],
            },
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        },
    ),
    Row("StreamsGroupDescribe", 0, "DESCRIBE GROUP", {"group_ids": ["g"]}),
    Row(
        "ShareGroupHeartbeat",
        1,
        "READ GROUP, DESCRIBE TOPIC",
        {"group_id": "g3", "member_id": "m", "subscribed_topic_names": ["orders"]},
    ),
    Row("ShareGroupDescribe", 1, "DESCRIBE GROUP", {"group_ids": ["g"]}),
    Row(
        "ShareFetch",
        1,
        "READ GROUP, READ TOPIC",
        {
            "group_id": "g",
            "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "max_wait_ms": 0,
            "max_bytes": 1000,
            "topics": [{"topic_id": TOPIC_ID, "partitions": PARTS}],
        },
    ),
    Row(
        "ShareAcknowledge",
        1,
        "READ GROUP, READ TOPIC",
        {
            "group_id": "g",
            "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "share_session_epoch": 1,
            "topics": [{"topic_id": TOPIC_ID, "partitions": PARTS}],
        },
    ),
    Row(
        "DescribeShareGroupOffsets",
        0,
        "DESCRIBE GROUP, DESCRIBE TOPIC",
        {"groups": [{"group_id": "g", "topics": [{"topic_name": "orders", "partitions": [0]}]}]},
    ),
    Row(
        "AlterShareGroupOffsets",
        0,
        "READ GROUP, READ TOPIC",
        {"group_id": "g", "topics": [{"topic_name": "orders", "partitions": PARTS}]},
    ),
    Row(
        "DeleteShareGroupOffsets",
        0,
        "DELETE GROUP, READ TOPIC",
        {"group_id": "g", "topics": [{"topic_name": "orders"}]},
    ),
    # What brokers ask each other
    *(
        Row(f"{verb}ShareGroupState{of}", 0, "CLUSTER_ACTION CLUSTER", {"group_id": "g", "topics": STATE})
        for verb, of in (("Initialize", ""), ("Read", ""), ("Write", ""), ("Delete", ""), ("Read", "Summary"))
    ),
    Row(
        "WriteTxnMarkers",
        1,
        "CLUSTER_ACTION CLUSTER or ALTER CLUSTER",
        {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "topics": [{"name": "orders", "partition_indexes": [0]}],
                }
            ]
        },
    ),
    # Transactions
    Row(
        "InitProducerId",
        4,
        "WRITE TRANSACTIONAL_ID",
        {"transactional_id": "tx", "transaction_timeout_ms": 1000},
    ),
    Row(
        "InitProducerId",
        4,
        "IDEMPOTENT_WRITE CLUSTER or WRITE TOPIC",
        {"transactional_id": None},
        anywhere=True,
    ),
    Row(
        "AddPartitionsToTxn",
        3,
        "WRITE TRANSACTIONAL_ID, WRITE TOPIC",
        {
            "v3_and_below_transactional_id": "tx",
            "v3_and_below_topics": [{"name": "orders", "partitions": [0]}],
        },
    ),
    Row(
        "AddPartitionsToTxn",
        4,
        "CLUSTER_ACTION CLUSTER",
        {"transactions": [{"transactional_id": "tx", "topics": [{"name": "orders", "partitions": [0]}]}]},
    ),
    Row(
        "AddOffsetsToTxn",
        3,
        "WRITE TRANSACTIONAL_ID, READ GROUP",
        {"transactional_id": "tx", "group_id": "g"},
    ),
    Row("EndTxn", 3, "WRITE TRANSACTIONAL_ID", {"transactional_id": "tx"}),
    Row(
        "TxnOffsetCommit",
        3,
        "WRITE TRANSACTIONAL_ID, READ GROUP, READ TOPIC",
        {"transactional_id": "tx", "group_id": "g", "topics": ONE_TOPIC},
    ),
    Row("DescribeTransactions", 0, "DESCRIBE TRANSACTIONAL_ID", {"transactional_ids": ["tx"]}),
    Row("ListTransactions", 0, "DESCRIBE TRANSACTIONAL_ID", {}, "tx"),
    # Settings
    *(
        Row("DescribeConfigs", 4, needs, {"resources": [{"resource_type": kind, "resource_name": name}]})
        for needs, kind, name in (
            ("DESCRIBE_CONFIGS TOPIC", 2, "orders"),
            ("DESCRIBE_CONFIGS CLUSTER", 4, "1"),
            ("DESCRIBE_CONFIGS CLUSTER", 8, "1"),
            ("DESCRIBE_CONFIGS GROUP", 32, "g"),
        )
    ),
    *(
        Row(api, 1, needs, {"resources": [{"resource_type": kind, "resource_name": name, "configs": []}]})
        for api in ("AlterConfigs", "IncrementalAlterConfigs")
        for needs, kind, name in (
            ("ALTER_CONFIGS TOPIC", 2, "orders"),
            ("ALTER_CONFIGS CLUSTER", 4, "1"),
            ("ALTER_CONFIGS GROUP", 32, "g"),
        )
    ),
    Row("ListConfigResources", 1, "DESCRIBE_CONFIGS CLUSTER"),
    # Who may do what
    Row(
        "DescribeAcls",
        3,
        "DESCRIBE CLUSTER",
        {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
    ),
    Row(
        "CreateAcls",
        3,
        "ALTER CLUSTER",
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "x",
                    "resource_pattern_type": 3,
                    "principal": "User:x",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    ),
    Row(
        "DeleteAcls",
        3,
        "ALTER CLUSTER",
        {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "x",
                    "pattern_type_filter": 3,
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        },
    ),
    Row("DescribeClientQuotas", 1, "DESCRIBE_CONFIGS CLUSTER", {"components": []}),
    Row(
        "AlterClientQuotas",
        1,
        "ALTER_CONFIGS CLUSTER",
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "x"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1.0}],
                }
            ]
        },
    ),
    Row("DescribeUserScramCredentials", 0, "DESCRIBE CLUSTER", {"users": []}),
    Row("AlterUserScramCredentials", 0, "ALTER CLUSTER", {"deletions": [{"name": "x", "mechanism": 1}]}),
    Row(
        "CreateDelegationToken",
        3,
        "CREATE_TOKENS USER",
        {"owner_principal_type": "User", "owner_principal_name": "bob", "max_lifetime_ms": -1},
    ),
    # The cluster
    Row("DescribeLogDirs", 4, "DESCRIBE CLUSTER", {"topics": None}),
    Row(
        "AlterReplicaLogDirs",
        2,
        "ALTER CLUSTER",
        {"dirs": [{"path": "/more", "topics": [{"name": "orders", "partitions": [0]}]}]},
    ),
    Row(
        "ElectLeaders",
        2,
        "ALTER CLUSTER",
        {"topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout_ms": 1000},
    ),
    Row(
        "AlterPartitionReassignments",
        0,
        "ALTER CLUSTER",
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": None}]}]},
    ),
    Row("ListPartitionReassignments", 0, "DESCRIBE CLUSTER", {"topics": None}),
    Row(
        "DescribeQuorum",
        2,
        "DESCRIBE CLUSTER",
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": PARTS}]},
    ),
    Row("UnregisterBroker", 0, "ALTER CLUSTER", {"broker_id": 99}),
    Row("AddRaftVoter", 1, "ALTER CLUSTER", {"cluster_id": None, "voter_id": 3}),
    Row("RemoveRaftVoter", 0, "ALTER CLUSTER", {"cluster_id": None, "voter_id": 3}),
    Row("UpdateFeatures", 2, "ALTER CLUSTER", {"feature_updates": []}),
]

# These ask for no right of an ACL: a token is known to those who may use it by its secret, or by being its owner.
OWN_TOKENS = {"RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"}
