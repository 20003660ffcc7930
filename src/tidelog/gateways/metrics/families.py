"""The one table of the metrics at `/metrics`: the reference is generated from it, and nothing else can be shown.

Two lines for each:

    name kind [label ...]
      One line of documentation.

Names that other systems know are kept (`mq_messages_in_per_sec`).  Counters grow until the broker stops."""

from __future__ import annotations

from typing import NamedTuple

TABLE = """
mq_messages_in_per_sec gauge
  Records a second that producers wrote to partitions led here, over the last minute.
mq_messages_out_per_sec gauge
  Records a second that consumers were given, over the last minute; offsets that compaction emptied count as well.
mq_bytes_in_per_sec gauge
  Bytes of records a second from producers, over the last minute.
mq_bytes_out_per_sec gauge
  Bytes of records a second to consumers, over the last minute.
mq_messages_in_total counter
  Records from producers.
mq_messages_out_total counter
  Records to consumers.
mq_bytes_in_total counter
  Bytes of records from producers.
mq_bytes_out_total counter
  Bytes of records to consumers.
mq_topic_messages_in_total counter topic
  Records from producers, by topic.
mq_topic_messages_out_total counter topic
  Records to consumers, by topic.
mq_topic_bytes_in_total counter topic
  Bytes of records from producers, by topic.
mq_topic_bytes_out_total counter topic
  Bytes of records to consumers, by topic.
mq_produce_latency_ms histogram
  Time from the arrival of a produce request to its answer, including the wait for replicas and syncs.
mq_end_to_end_latency_ms histogram
  Time from the append of a batch to the answer that delivers it to a consumer, for each batch fetched.
mq_requests_total counter api
  Requests, by API.
mq_request_bytes_total counter api
  Bytes of requests, by API.
mq_response_bytes_total counter api
  Bytes of answers, by API.
mq_request_errors_total counter api error
  Error codes in answers, by API and error name.
mq_request_time_ms histogram api
  Time from the arrival of a request to its answer, including all waits.
mq_request_queue_time_ms_total counter api
  Time between the arrival of requests and the call of their handlers; divide by mq_requests_total.
mq_request_handler_time_ms_total counter api
  Time that handlers kept the event loop busy; divide by mq_requests_total.
mq_client_instances gauge software version
  Clients that asked for their telemetry subscriptions here lately, by software.
mq_client_metric gauge client_id instance metric attributes
  The last value of each metric that a client pushed (KIP-714); what it pushed as increments is added up.
mq_client_pushes_total counter
  Pushes of client metrics.
mq_client_pushed_bytes_total counter
  Bytes of pushed client metrics, as they came.
mq_client_telemetry_refused_total counter error
  Requests of client telemetry that were refused, by error.
mq_client_metric_left_out_series gauge
  Series of client metrics beyond the bound of one client, in the last pushes.
mq_client_exports_total counter
  Pushes of client metrics that the receiver of tidelog.telemetry.otlp.endpoint has accepted.
mq_client_export_bytes_total counter
  Bytes of these pushes, before compression.
mq_client_export_retries_total counter
  Requests to that receiver that failed and are repeated.
mq_client_export_dropped_total counter reason
  Pushes that were not forwarded: queue_full while the receiver was away, or refused by the receiver.
mq_client_export_queued_bytes gauge
  Bytes of client metrics that wait for the receiver; tidelog.telemetry.otlp.queue.bytes.max bounds them.
mq_requests_in_flight gauge
  Requests without an answer, and answers that are not yet sent.
mq_queued_request_bytes gauge
  Memory of requests that have not arrived completely, or wait to be handled.
mq_queued_request_bytes_max gauge
  Bound on mq_queued_request_bytes: queued.max.request.bytes.
mq_queued_request_waits_total counter
  How often reading from a connection paused in the middle of a request because the bound was reached.
mq_opened_batches_total counter
  Produced batches that were decompressed on a thread, because settings of their topic depend on the records.
mq_opened_bytes_total counter
  Bytes that those batches decompressed to.
mq_client_connections gauge client_id
  Open connections, by client id.
mq_client_requests_total counter client_id
  Requests, by client id.
mq_client_bytes_in_total counter client_id
  Bytes received, by client id.
mq_client_bytes_out_total counter client_id
  Bytes sent, by client id.
mq_client_errors_total counter client_id
  Error codes in answers, by client id.
mq_tenant_requests_total counter tenant
  Requests of connections of a tenant's users to this broker, by tenant; for billing, as the next two.
mq_tenant_bytes_in_total counter tenant
  Bytes received from a tenant's users, by tenant.
mq_tenant_bytes_out_total counter tenant
  Bytes sent to a tenant's users, by tenant.
mq_tenant_connections gauge tenant
  Open connections of a tenant's users to this broker, by tenant.
mq_tenant_stored_bytes gauge tenant
  Bytes of a tenant's replicas on this broker, by tenant; the sum over all brokers is what the limit is about.
mq_tenant_topics gauge tenant
  Topics of a tenant in the cluster, by tenant.
mq_tenant_partitions gauge tenant
  Partitions of a tenant in the cluster, by tenant.
mq_tenant_full gauge tenant
  1 while produce requests to a tenant's topics are refused because the tenant has reached `stored_bytes_max`, by tenant.
mq_tenant_limit gauge tenant limit
  Limits of a tenant, by tenant and name of the limit.
mq_connections gauge listener
  Open connections, by listener.
mq_connections_opened_total counter
  Connections accepted.
mq_connections_refused_total counter bound
  Connections refused, by the bound that was reached.
mq_audit_events_total counter event outcome
  Events of the audit trail, by kind and outcome; repeated ones count each time.
mq_audit_events_dropped_total counter
  Audit events that are in the log but not in the topic, because tidelog.audit.queue.max was reached.
mq_fetch_sessions gauge
  Fetch sessions held for consumers and followers.
mq_fetch_sessions_evicted_total counter
  Fetch sessions evicted to make room for others.
mq_throttled_requests_total counter quota
  Requests of clients above a quota: produce, fetch, request (time) or controller_mutation.
mq_throttle_time_ms_total counter quota
  For how long those clients were told to wait, by quota.
mq_throttled_fetches_total counter
  Fetches of followers that a replication throttle delayed.
mq_partitions gauge
  Replicas on this broker.
mq_leaders gauge
  Partitions that this broker leads.
mq_under_replicated_partitions gauge
  Partitions led here with fewer in-sync replicas than replicas; replicas that a reassignment adds do not count.
mq_under_min_isr_partitions gauge
  Partitions led here with fewer in-sync replicas than min.insync.replicas: produce requests with acks=all are refused.
mq_offline_partitions gauge
  Partitions of the cluster without a leader; reported by the controller, 0 elsewhere.
mq_partitions_awaiting_replicas gauge broker
  Partitions without a leader that get one when this broker returns; reported by the controller.
mq_partitions_needing_recovery gauge
  Partitions without a leader that need an operator (tidelog partitions recover); reported by the controller.
mq_replicas_in_doubt gauge
  Replicas that may lack acknowledged records, after a power cut or on a new disk; reported by the controller.
mq_eligible_leader_replicas_partitions gauge
  Partitions with eligible leader replicas, because too few replicas are in sync; reported by the controller.
mq_broker_lease_proven gauge
  1 while this broker knows by its own clock that it is registered; otherwise acks=1 is answered as late as acks=all.
mq_not_preferred_leaders gauge
  Partitions led here whose first replica is another broker.
mq_reassigning_partitions gauge
  Partitions led here that are being reassigned.
mq_active_controller gauge
  1 on the broker that is the controller.
mq_process_up gauge process
  1 if a process of tidelog.processes gave its metrics for this page, 0 if it did not answer; nothing if there is only one.
mq_live_brokers gauge
  Brokers that are registered, as this broker knows.
mq_missing_brokers gauge
  Brokers that have replicas and are not registered; reported by the controller, 0 elsewhere.
mq_isr_shrinks_total counter
  Replicas that left the ISR of partitions led here.
mq_isr_expands_total counter
  Replicas that joined the ISR of partitions led here.
mq_leader_elections_total counter
  Changes of leaders while this broker was the controller.
mq_unclean_leader_elections_total counter
  Elections of leaders that were not in sync, so that records may be lost.
mq_replication_lag_messages gauge topic partition replica
  Records that a follower has not fetched yet, reported by the leader.
mq_replication_lag_ms_max gauge
  How long the slowest follower of partitions led here has been behind.
mq_replication_bytes_in_total counter
  Bytes of records fetched from leaders.
mq_replication_bytes_out_total counter
  Bytes of records sent to followers.
mq_partition_log_start_offset gauge topic partition
  Log start offset, of replicas used since the broker started.
mq_partition_log_end_offset gauge topic partition
  Log end offset, of replicas used since the broker started.
mq_partition_committed_offset gauge topic partition
  High watermark, of replicas used since the broker started.
mq_partition_size_bytes gauge topic partition
  Bytes of the log of a replica.
mq_partition_segments gauge topic partition
  Segments of the log, of replicas used since the broker started.
mq_log_dir_size_bytes gauge dir
  Bytes of all logs in a data directory.
mq_log_dir_online gauge dir
  1 while a data directory is online.
mq_stray_logs gauge dir
  Logs that belong to no topic in the metadata, kept in folders that end in -stray until an operator removes them.
mq_disk_total_bytes gauge dir
  Size of the file system of a data directory.
mq_disk_free_bytes gauge dir
  Free bytes of the file system of a data directory.
mq_disk_usage_ratio gauge dir
  Share of the file system that is in use, from 0 to 1.
mq_flush_time_ms histogram dir
  Time of group commits: the writes and syncs of all logs that wait for one.
mq_compaction_rounds_total counter dir
  Logs compacted.
mq_compaction_failures_total counter dir
  Rounds of compaction that failed.
mq_compaction_read_bytes_total counter dir
  Bytes that compaction read.
mq_compaction_written_bytes_total counter dir
  Bytes that compaction wrote.
mq_compaction_last_round_ms gauge dir
  Duration of the last round.
mq_compaction_dirty_ratio_max gauge dir
  Share of the dirtiest log that is not yet compacted, from 0 to 1.
mq_uncleanable_partitions gauge dir
  Logs that cannot be compacted because they are damaged.
mq_damaged_partitions gauge dir
  Logs with damage that is not repaired.
mq_damaged_ranges gauge dir
  Damaged ranges of offsets, in all logs.
mq_remote_copied_segments_total counter
  Segments copied to remote storage.
mq_remote_copied_bytes_total counter
  Bytes of segments copied to remote storage.
mq_remote_copy_errors_total counter
  Copies to remote storage that failed; each is tried again.
mq_remote_deleted_segments_total counter
  Segments deleted from remote storage.
mq_remote_delete_errors_total counter
  Deletions from remote storage that failed; each is tried again.
mq_remote_read_requests_total counter
  Requests that read records or indexes from remote storage.
mq_remote_read_bytes_total counter
  Bytes read from remote storage.
mq_remote_read_errors_total counter
  Requests to read from remote storage that failed.
mq_remote_reads_waiting gauge
  Reads of remote storage that wait for their turn.
mq_remote_cache_bytes gauge
  Size of the cache of remote segments on disk.
mq_remote_cache_hits_total counter
  Reads of remote segments that found their records in the cache.
mq_remote_partition_size_bytes gauge topic partition
  Bytes of records in remote storage, by partition led or followed here whose manifest was read.
mq_scrubbed_bytes_total counter dir
  Bytes read in the background to find damage.
mq_scrub_found_ranges_total counter dir
  Damaged ranges found while the broker ran.
mq_scrub_rebuilt_indexes_total counter dir
  Indexes that did not match their segments and were rebuilt.
mq_scrub_round_done_ms gauge dir
  When the last complete scrub of a data directory ended, in milliseconds since 1970; 0 before the first.
mq_repaired_ranges_total counter
  Damaged ranges that were repaired from another replica.
mq_repair_cuts_total counter
  Logs that were truncated before their damage, to be copied again from their leaders.
mq_producers gauge
  Idempotent and transactional producers known to the logs used since the broker started.
mq_transactions gauge state
  Transactional ids coordinated here, by the state of their transaction.
mq_transactions_committed_total counter
  Transactions coordinated here that were committed.
mq_transactions_aborted_total counter
  Transactions coordinated here that were aborted, by their producers or by the coordinator.
mq_transactions_timed_out_total counter
  Transactions that were aborted because they exceeded their timeout.
mq_transaction_oldest_open_ms gauge
  Age of the oldest open transaction coordinated here.
mq_groups gauge kind state
  Groups coordinated here, by kind and state.
mq_group_members gauge group
  Members of a group, reported by its coordinator.
mq_group_rebalancing gauge group
  1 while members of a group wait for their partitions, reported by its coordinator.
mq_group_rebalance_time_ms histogram
  Duration of rebalances of classic and consumer groups, from the first change until all members have their partitions.
mq_group_rebalances_total counter group
  Generation or epoch of a group, which grows with every rebalance; reported by its coordinator.
mq_consumer_lag_messages gauge group topic partition
  Records after the committed offset of a group, reported by its coordinator alone.
mq_share_group_lag_messages gauge group topic partition
  Records that a share group has not yet acknowledged, reported only by the broker that stores its state.
mq_http_requests_total counter status
  HTTP requests, by status.
mq_event_loop_delay_ms histogram
  Delay of a timer of the event loop, measured once a second.
mq_metrics_left_out_series gauge
  Series left out of this page because of tidelog.metrics.series.max.
mq_metrics_collect_ms gauge
  Time it took to collect this page.
mq_build_info gauge version node_id cluster_id
  Always 1; the labels name the version, the broker and the cluster.
process_resident_memory_bytes gauge
  Memory of the process.
process_cpu_seconds_total counter
  CPU time of the process, without its compaction workers.
process_open_fds gauge
  Open files and sockets of the process.
process_max_fds gauge
  Maximum number of open files and sockets.
process_start_time_seconds gauge
  When the process started, in seconds since 1970.
"""


class Family(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    doc: str


def _read(table: str) -> dict[str, Family]:
    lines = table.strip("\n").split("\n")
    families = {}
    for facts, doc in zip(lines[::2], lines[1::2], strict=True):
        name, kind, *labels = facts.split()
        families[name] = Family(name, kind, tuple(labels), doc.strip())
    return families


FAMILIES = _read(TABLE)
