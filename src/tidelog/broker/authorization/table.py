"""Authorization of every API: the one table of guards.  Produce and Fetch ask the gate in their handlers instead.

A test compares the table with `routes`.

Imported with the first request to a broker that has an authorizer."""

from __future__ import annotations

from tidelog.broker.authorization import cluster, groups, share, topics, transactions
from tidelog.broker.authorization.coordinators import find_coordinator
from tidelog.broker.authorization.guards import Guard, everybody

GUARDS: dict[str, Guard] = {
    # Every client needs these, before it has logged in or after.
    "ApiVersions": everybody,
    "SaslHandshake": everybody,
    "SaslAuthenticate": everybody,
    "GetTelemetrySubscriptions": everybody,
    "PushTelemetry": everybody,
    # Their handlers ask the gate, batch by batch or token by token.
    "Produce": everybody,
    "Fetch": everybody,
    "CreateDelegationToken": everybody,
    "RenewDelegationToken": everybody,
    "ExpireDelegationToken": everybody,
    "DescribeDelegationToken": everybody,
    # Topics
    "Metadata": topics.metadata,
    "DescribeTopicPartitions": topics.describe_topic_partitions,
    "ListOffsets": topics.list_offsets,
    "OffsetForLeaderEpoch": topics.offset_for_leader_epoch,
    "CreateTopics": topics.create_topics,
    "DeleteTopics": topics.delete_topics,
    "DeleteRecords": topics.delete_records,
    "CreatePartitions": topics.create_partitions,
    "DescribeProducers": topics.describe_producers,
    # Groups
    "FindCoordinator": find_coordinator,
    "JoinGroup": groups.join_group,
    "SyncGroup": groups.sync_group,
    "Heartbeat": groups.heartbeat,
    "LeaveGroup": groups.leave_group,
    "DescribeGroups": groups.describe_groups,
    "ListGroups": groups.list_groups,
    "DeleteGroups": groups.delete_groups,
    "ConsumerGroupHeartbeat": groups.consumer_group_heartbeat,
    "ConsumerGroupDescribe": groups.consumer_group_describe,
    "StreamsGroupHeartbeat": groups.streams_group_heartbeat,
    "StreamsGroupDescribe": groups.streams_group_describe,
    "OffsetCommit": groups.offset_commit,
    "OffsetFetch": groups.offset_fetch,
    "OffsetDelete": groups.offset_delete,
    # Share groups
    "ShareGroupHeartbeat": groups.share_group_heartbeat,
    "ShareGroupDescribe": groups.share_group_describe,
    "ShareFetch": share.share_fetch,
    "ShareAcknowledge": share.share_acknowledge,
    "DescribeShareGroupOffsets": share.describe_share_group_offsets,
    "AlterShareGroupOffsets": share.alter_share_group_offsets,
    "DeleteShareGroupOffsets": share.delete_share_group_offsets,
    "InitializeShareGroupState": share.initialize_share_group_state,
    "ReadShareGroupState": share.read_share_group_state,
    "WriteShareGroupState": share.write_share_group_state,
    "DeleteShareGroupState": share.delete_share_group_state,
    "ReadShareGroupStateSummary": share.read_share_group_state_summary,
    # Transactions
    "InitProducerId": transactions.init_producer_id,
    "AddPartitionsToTxn": transactions.add_partitions_to_txn,
    "AddOffsetsToTxn": transactions.add_offsets_to_txn,
    "EndTxn": transactions.end_txn,
    "TxnOffsetCommit": transactions.txn_offset_commit,
    "WriteTxnMarkers": transactions.write_txn_markers,
    "DescribeTransactions": transactions.describe_transactions,
    "ListTransactions": transactions.list_transactions,
    # The cluster
    "DescribeCluster": cluster.describe_cluster,
    "DescribeConfigs": cluster.describe_configs,
    "AlterConfigs": cluster.alter_configs,
    "IncrementalAlterConfigs": cluster.incremental_alter_configs,
    "ListConfigResources": cluster.list_config_resources,
    "DescribeAcls": cluster.describe_acls,
    "CreateAcls": cluster.create_acls,
    "DeleteAcls": cluster.delete_acls,
    "DescribeClientQuotas": cluster.describe_client_quotas,
    "AlterClientQuotas": cluster.alter_client_quotas,
    "DescribeUserScramCredentials": cluster.describe_user_scram_credentials,
    "AlterUserScramCredentials": cluster.alter_user_scram_credentials,
    "DescribeLogDirs": cluster.describe_log_dirs,
    "AlterReplicaLogDirs": cluster.alter_replica_log_dirs,
    "ElectLeaders": cluster.elect_leaders,
    "AlterPartitionReassignments": cluster.alter_partition_reassignments,
    "ListPartitionReassignments": cluster.list_partition_reassignments,
    "DescribeQuorum": cluster.describe_quorum,
    "UnregisterBroker": cluster.unregister_broker,
    "AddRaftVoter": cluster.add_raft_voter,
    "RemoveRaftVoter": cluster.remove_raft_voter,
    "UpdateFeatures": cluster.update_features,
}
