"""The one table of what this broker serves: which handler answers which API, in which versions.

Versions are Kafka 4's own, from `wire.apis`, without those still unstable there.  ApiVersions advertises this table;
the reference of supported APIs is generated from it.  Modules are imported at the first request that needs them."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.wire.apis import APIS

PRODUCE = 0
FETCH = 1
HEARTBEAT = 12
API_VERSIONS = 18


class Route(NamedTuple):
    api_key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    message: str  # module in wire.messages
    module: str  # module in broker.handlers
    function: str


# (API name, module in broker.handlers, function in it)
_HANDLERS = (
    ("Produce", "produce", "produce"),
    ("Fetch", "fetch", "fetch"),
    ("ListOffsets", "list_offsets", "list_offsets"),
    ("Metadata", "metadata", "metadata"),
    ("OffsetCommit", "offsets", "offset_commit"),
    ("OffsetFetch", "offsets", "offset_fetch"),
    ("FindCoordinator", "coordinators", "find_coordinator"),
    ("JoinGroup", "groups", "join_group"),
    ("Heartbeat", "groups", "heartbeat"),
    ("LeaveGroup", "groups", "leave_group"),
    ("SyncGroup", "groups", "sync_group"),
    ("DescribeGroups", "groups_admin", "describe_groups"),
    ("ListGroups", "groups_admin", "list_groups"),
    ("ApiVersions", "api_versions", "api_versions"),
    ("CreateTopics", "topics", "create_topics"),
    ("DeleteTopics", "topics", "delete_topics"),
    ("DeleteRecords", "records", "delete_records"),
    ("InitProducerId", "producers", "init_producer_id"),
    ("AddPartitionsToTxn", "transactions", "add_partitions_to_txn"),
    ("AddOffsetsToTxn", "transactions", "add_offsets_to_txn"),
    ("EndTxn", "transactions", "end_txn"),
    ("WriteTxnMarkers", "transactions", "write_txn_markers"),
    ("TxnOffsetCommit", "txn_offset_commit", "txn_offset_commit"),
    ("DescribeTransactions", "transactions", "describe_transactions"),
    ("ListTransactions", "transactions", "list_transactions"),
    ("OffsetForLeaderEpoch", "list_offsets", "offset_for_leader_epoch"),
    ("DescribeConfigs", "configs", "describe_configs"),
    ("AlterConfigs", "configs", "alter_configs"),
    ("SaslHandshake", "sasl", "sasl_handshake"),
    ("SaslAuthenticate", "sasl", "sasl_authenticate"),
    ("DescribeAcls", "acls", "describe_acls"),
    ("CreateAcls", "acls", "create_acls"),
    ("DeleteAcls", "acls", "delete_acls"),
    ("CreateDelegationToken", "delegation_tokens", "create_delegation_token"),
    ("RenewDelegationToken", "delegation_tokens", "renew_delegation_token"),
    ("ExpireDelegationToken", "delegation_tokens", "expire_delegation_token"),
    ("DescribeDelegationToken", "delegation_tokens", "describe_delegation_token"),
    ("DescribeClientQuotas", "client_quotas", "describe_client_quotas"),
    ("AlterClientQuotas", "client_quotas", "alter_client_quotas"),
    ("DescribeUserScramCredentials", "users", "describe_user_scram_credentials"),
    ("AlterUserScramCredentials", "users", "alter_user_scram_credentials"),
    ("AlterReplicaLogDirs", "log_dirs", "alter_replica_log_dirs"),
    ("DescribeLogDirs", "log_dirs", "describe_log_dirs"),
    ("CreatePartitions", "partitions", "create_partitions"),
    ("DeleteGroups", "groups_admin", "delete_groups"),
    ("ElectLeaders", "partitions", "elect_leaders"),
    ("IncrementalAlterConfigs", "configs", "incremental_alter_configs"),
    ("AlterPartitionReassignments", "reassignments", "alter_partition_reassignments"),
    ("ListPartitionReassignments", "reassignments", "list_partition_reassignments"),
    ("OffsetDelete", "offsets", "offset_delete"),
    ("UpdateFeatures", "features", "update_features"),
    ("DescribeQuorum", "quorum", "describe_quorum"),
    ("DescribeCluster", "cluster", "describe_cluster"),
    ("UnregisterBroker", "quorum", "unregister_broker"),
    ("DescribeProducers", "producers", "describe_producers"),
    ("ConsumerGroupHeartbeat", "consumer_groups", "consumer_group_heartbeat"),
    ("ConsumerGroupDescribe", "consumer_groups", "consumer_group_describe"),
    ("ShareGroupHeartbeat", "share_groups", "share_group_heartbeat"),
    ("ShareGroupDescribe", "share_groups", "share_group_describe"),
    ("ShareFetch", "share_fetch", "share_fetch"),
    ("ShareAcknowledge", "share_fetch", "share_acknowledge"),
    ("InitializeShareGroupState", "share_state", "initialize_share_group_state"),
    ("ReadShareGroupState", "share_state", "read_share_group_state"),
    ("WriteShareGroupState", "share_state", "write_share_group_state"),
    ("DeleteShareGroupState", "share_state", "delete_share_group_state"),
    ("ReadShareGroupStateSummary", "share_state", "read_share_group_state_summary"),
    ("DescribeShareGroupOffsets", "share_groups", "describe_share_group_offsets"),
    ("AlterShareGroupOffsets", "share_groups", "alter_share_group_offsets"),
    ("DeleteShareGroupOffsets", "share_groups", "delete_share_group_offsets"),
    ("GetTelemetrySubscriptions", "telemetry", "get_telemetry_subscriptions"),
    ("PushTelemetry", "telemetry", "push_telemetry"),
    ("ListConfigResources", "configs", "list_config_resources"),
    ("DescribeTopicPartitions", "metadata", "describe_topic_partitions"),
)

# What has a handler for its common case beside the other: (module in broker.handlers, function in it)
PLAIN = {"OffsetCommit": ("plain_commits", "commit_plainly")}


def _routes() -> dict[int, Route]:
    by_name = {api.name: api for api in APIS.values()}
    routes = {}
    for name, module, function in _HANDLERS:
        api = by_name[name]
        routes[api.key] = Route(
            api.key, name, api.min, api.stable_max, api.flexible_from, api.module, module, function
        )
    return routes


ROUTES = _routes()
