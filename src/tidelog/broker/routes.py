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
TWO_PHASE = (22, 6)
"""InitProducerId in the version that is served with `transaction.two.phase.commit.enable` alone."""


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
    ("Produce", "produce.produce", "produce"),
    ("Fetch", "fetch", "fetch"),
    ("ListOffsets", "list_offsets", "list_offsets"),
    ("Metadata", "metadata", "metadata"),
    ("OffsetCommit", "groups.offsets", "offset_commit"),
    ("OffsetFetch", "groups.offsets", "offset_fetch"),
    ("FindCoordinator", "groups.coordinators", "find_coordinator"),
    ("JoinGroup", "groups.classic", "join_group"),
    ("Heartbeat", "groups.classic", "heartbeat"),
    ("LeaveGroup", "groups.classic", "leave_group"),
    ("SyncGroup", "groups.classic", "sync_group"),
    ("DescribeGroups", "groups.groups_admin", "describe_groups"),
    ("ListGroups", "groups.groups_admin", "list_groups"),
    ("ApiVersions", "api_versions", "api_versions"),
    ("CreateTopics", "topics.topics", "create_topics"),
    ("DeleteTopics", "topics.topics", "delete_topics"),
    ("DeleteRecords", "topics.records", "delete_records"),
    ("InitProducerId", "transactions.producers", "init_producer_id"),
    ("AddPartitionsToTxn", "transactions.transactions", "add_partitions_to_txn"),
    ("AddOffsetsToTxn", "transactions.transactions", "add_offsets_to_txn"),
    ("EndTxn", "transactions.transactions", "end_txn"),
    ("WriteTxnMarkers", "transactions.transactions", "write_txn_markers"),
    ("TxnOffsetCommit", "transactions.txn_offset_commit", "txn_offset_commit"),
    ("DescribeTransactions", "transactions.transactions", "describe_transactions"),
    ("ListTransactions", "transactions.transactions", "list_transactions"),
    ("OffsetForLeaderEpoch", "list_offsets", "offset_for_leader_epoch"),
    ("DescribeConfigs", "topics.configs", "describe_configs"),
    ("AlterConfigs", "topics.configs", "alter_configs"),
    ("SaslHandshake", "access.sasl", "sasl_handshake"),
    ("SaslAuthenticate", "access.sasl", "sasl_authenticate"),
    ("DescribeAcls", "access.acls", "describe_acls"),
    ("CreateAcls", "access.acls", "create_acls"),
    ("DeleteAcls", "access.acls", "delete_acls"),
    ("CreateDelegationToken", "access.delegation_tokens", "create_delegation_token"),
    ("RenewDelegationToken", "access.delegation_tokens", "renew_delegation_token"),
    ("ExpireDelegationToken", "access.delegation_tokens", "expire_delegation_token"),
    ("DescribeDelegationToken", "access.delegation_tokens", "describe_delegation_token"),
    ("DescribeClientQuotas", "access.client_quotas", "describe_client_quotas"),
    ("AlterClientQuotas", "access.client_quotas", "alter_client_quotas"),
    ("DescribeUserScramCredentials", "access.users", "describe_user_scram_credentials"),
    ("AlterUserScramCredentials", "access.users", "alter_user_scram_credentials"),
    ("AlterReplicaLogDirs", "cluster.log_dirs", "alter_replica_log_dirs"),
    ("DescribeLogDirs", "cluster.log_dirs", "describe_log_dirs"),
    ("CreatePartitions", "topics.partitions", "create_partitions"),
    ("DeleteGroups", "groups.groups_admin", "delete_groups"),
    ("ElectLeaders", "topics.partitions", "elect_leaders"),
    ("IncrementalAlterConfigs", "topics.configs", "incremental_alter_configs"),
    ("AlterPartitionReassignments", "topics.reassignments", "alter_partition_reassignments"),
    ("ListPartitionReassignments", "topics.reassignments", "list_partition_reassignments"),
    ("OffsetDelete", "groups.offsets", "offset_delete"),
    ("UpdateFeatures", "cluster.features", "update_features"),
    ("DescribeQuorum", "cluster.quorum", "describe_quorum"),
    ("DescribeCluster", "cluster.cluster", "describe_cluster"),
    ("UnregisterBroker", "cluster.quorum", "unregister_broker"),
    ("AddRaftVoter", "cluster.raft_voters", "add_raft_voter"),
    ("RemoveRaftVoter", "cluster.raft_voters", "remove_raft_voter"),
    ("DescribeProducers", "transactions.producers", "describe_producers"),
    ("ConsumerGroupHeartbeat", "groups.consumer_groups", "consumer_group_heartbeat"),
    ("ConsumerGroupDescribe", "groups.consumer_groups", "consumer_group_describe"),
    ("ShareGroupHeartbeat", "groups.share_groups", "share_group_heartbeat"),
    ("ShareGroupDescribe", "groups.share_groups", "share_group_describe"),
    ("StreamsGroupHeartbeat", "groups.streams_groups", "streams_group_heartbeat"),
    ("StreamsGroupDescribe", "groups.streams_groups", "streams_group_describe"),
    ("ShareFetch", "groups.share_fetch", "share_fetch"),
    ("ShareAcknowledge", "groups.share_fetch", "share_acknowledge"),
    ("InitializeShareGroupState", "groups.share_state", "initialize_share_group_state"),
    ("ReadShareGroupState", "groups.share_state", "read_share_group_state"),
    ("WriteShareGroupState", "groups.share_state", "write_share_group_state"),
    ("DeleteShareGroupState", "groups.share_state", "delete_share_group_state"),
    ("ReadShareGroupStateSummary", "groups.share_state", "read_share_group_state_summary"),
    ("DescribeShareGroupOffsets", "groups.share_groups", "describe_share_group_offsets"),
    ("AlterShareGroupOffsets", "groups.share_groups", "alter_share_group_offsets"),
    ("DeleteShareGroupOffsets", "groups.share_groups", "delete_share_group_offsets"),
    ("GetTelemetrySubscriptions", "cluster.telemetry", "get_telemetry_subscriptions"),
    ("PushTelemetry", "cluster.telemetry", "push_telemetry"),
    ("ListConfigResources", "topics.configs", "list_config_resources"),
    ("DescribeTopicPartitions", "metadata", "describe_topic_partitions"),
)

# What has a handler for its common case beside the other: (module in broker.handlers, function in it)
PLAIN = {"OffsetCommit": ("groups.fast_offset_commit", "commit_plainly")}


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
