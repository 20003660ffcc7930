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
  From the arrival of a produce request to its answer, with the wait for replicas and syncs.
mq_end_to_end_latency_ms histogram
  From the append of a batch to the answer that gives it to a consumer, for each batch fetched.
mq_requests_total counter api
  Requests, by API.
mq_request_bytes_total counter api
  Bytes of requests, by API.
mq_response_bytes_total counter api
  Bytes of answers, by API.
mq_request_errors_total counter api error
  Error codes in answers, by API and name of the error.
mq_request_time_ms histogram api
  From the arrival of a request to its answer, with all it waits for.
mq_request_queue_time_ms_total counter api
  Time between the arrival of requests and the call of their handlers; divide by mq_requests_total.
mq_request_handler_time_ms_total counter api
  Time that handlers kept the event loop busy; divide by mq_requests_total.
mq_requests_in_flight gauge
  Requests without an answer, and answers that have not left.
mq_queued_request_bytes gauge
  Memory of requests that have not wholly arrived, or wait to be worked on.
mq_queued_request_bytes_max gauge
  Bound on mq_queued_request_bytes: queued.max.request.bytes.
mq_queued_request_waits_total counter
  How often a connection in the middle of a request was not read because the bound was reached.
mq_opened_batches_total counter
  Batches of producers that were opened on a thread, since their topic's settings depend on their records.
mq_opened_bytes_total counter
  What those batches expanded to.
mq_client_connections gauge client_id
  Open connections, by the id that clients give themselves.
mq_client_requests_total counter client_id
  Requests, by client id.
mq_client_bytes_in_total counter client_id
  Bytes received, by client id.
mq_client_bytes_out_total counter client_id
  Bytes sent, by client id.
mq_client_errors_total counter client_id
  Error codes in answers, by client id.
mq_connections gauge listener
  Open connections, by listener.
mq_connections_opened_total counter
  Connections accepted.
mq_connections_refused_total counter bound
  Connections refused, by the bound that was reached.
mq_fetch_sessions gauge
  Fetch sessions held for consumers and followers.
mq_fetch_sessions_evicted_total counter
  Fetch sessions that made room for others.
mq_throttled_fetches_total counter
  Fetches of followers that were put off by a replication throttle.
mq_partitions gauge
  Replicas on this broker.
mq_leaders gauge
  Partitions that this broker leads.
mq_under_replicated_partitions gauge
  Partitions led here with fewer in-sync replicas than replicas, without those that a move adds.
mq_under_min_isr_partitions gauge
  Partitions led here with fewer in-sync replicas than min.insync.replicas: writes with acks=all are refused.
mq_offline_partitions gauge
  Partitions of the cluster without a leader; told by the controller, 0 elsewhere.
mq_partitions_awaiting_replicas gauge broker
  Partitions without a leader that have one again when this broker returns; told by the controller.
mq_partitions_needing_recovery gauge
  Partitions without a leader that wait for an operator (tidelog partitions recover); told by the controller.
mq_replicas_in_doubt gauge
  Replicas that may lack acknowledged records, after a power cut or on a new disk; told by the controller.
mq_eligible_leader_replicas_partitions gauge
  Partitions with eligible leader replicas, as too few are in sync; told by the controller.
mq_broker_lease_proven gauge
  1 while this broker knows by its own clock that it is registered; else acks=1 is answered as late as acks=all.
mq_not_preferred_leaders gauge
  Partitions led here whose first replica is another broker.
mq_reassigning_partitions gauge
  Partitions led here that are on the way to other brokers.
mq_active_controller gauge
  1 on the broker that is the controller.
mq_live_brokers gauge
  Brokers that are registered, as this one knows.
mq_missing_brokers gauge
  Brokers that have replicas and are not registered; told by the controller, 0 elsewhere.
mq_isr_shrinks_total counter
  Replicas that left in-sync sets of partitions led here.
mq_isr_expands_total counter
  Replicas that joined in-sync sets of partitions led here.
mq_leader_elections_total counter
  Changes of leaders while this broker was the controller.
mq_unclean_leader_elections_total counter
  Of these, leaders that were not in sync: records may be lost.
mq_replication_lag_messages gauge topic partition replica
  Records that a follower has not fetched yet, told by the leader.
mq_replication_lag_ms_max gauge
  For how long the slowest follower of partitions led here has not held everything.
mq_replication_bytes_in_total counter
  Bytes of records fetched from leaders.
mq_replication_bytes_out_total counter
  Bytes of records given to followers.
mq_partition_log_start_offset gauge topic partition
  The first offset, of replicas used since the start.
mq_partition_log_end_offset gauge topic partition
  The next offset, of replicas used since the start.
mq_partition_committed_offset gauge topic partition
  Up to where consumers may read, of replicas used since the start.
mq_partition_size_bytes gauge topic partition
  Bytes of the log of a replica.
mq_partition_segments gauge topic partition
  Segments of the log, of replicas used since the start.
mq_log_dir_size_bytes gauge dir
  Bytes of all logs in a data directory.
mq_log_dir_online gauge dir
  1 while a data directory works.
mq_stray_logs gauge dir
  Logs that belong to no topic in the metadata: parked in folders that end in -stray, until somebody removes them.
mq_disk_total_bytes gauge dir
  Size of the file system of a data directory.
mq_disk_free_bytes gauge dir
  What of it can still be used.
mq_disk_usage_ratio gauge dir
  Share of the file system that is in use, from 0 to 1.
mq_flush_time_ms histogram dir
  Time of group commits: writes and syncs of all logs that asked for one.
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
  Share of the dirtiest log that has not been compacted, from 0 to 1.
mq_uncleanable_partitions gauge dir
  Logs that cannot be compacted, because they are damaged.
mq_damaged_partitions gauge dir
  Logs with damaged bytes that are not repaired.
mq_damaged_ranges gauge dir
  Stretches of offsets that are damaged, in all logs.
mq_scrubbed_bytes_total counter dir
  Bytes that were read in the background to find damage.
mq_scrub_found_ranges_total counter dir
  Damaged stretches that were found while the broker ran.
mq_scrub_rebuilt_indexes_total counter dir
  Indexes that did not fit their segments and were built anew.
mq_scrub_round_done_ms gauge dir
  When all of a data directory had last been read, in milliseconds since 1970; 0 before the first time.
mq_repaired_ranges_total counter
  Damaged stretches that were written anew as another replica has them.
mq_repair_cuts_total counter
  Logs that were cut before their damage, to be copied from their leaders from there on.
mq_producers gauge
  Idempotent and transactional producers that logs used since the start remember.
mq_transactions gauge state
  Transactional ids coordinated here, by the state of their transaction.
mq_transactions_committed_total counter
  Transactions that were decided to be committed here.
mq_transactions_aborted_total counter
  Transactions that were decided to be aborted here, by their producers or for them.
mq_transactions_timed_out_total counter
  Of these, transactions that took longer than their time-out.
mq_transaction_oldest_open_ms gauge
  Age of the oldest transaction coordinated here that is not decided.
mq_groups gauge kind state
  Groups coordinated here, by kind and state.
mq_group_members gauge group
  Members of a group, told by its coordinator.
mq_group_rebalancing gauge group
  1 while members of a group wait for their partitions, told by its coordinator.
mq_group_rebalances_total counter group
  Generation of a classic group, epoch of another: one more with every rebalance, told by the coordinator.
mq_consumer_lag_messages gauge group topic partition
  Records behind the offset that a group has committed, told by its coordinator alone.
mq_share_group_lag_messages gauge group topic partition
  Records that a share group has not done with yet, told by the broker that keeps its state for the partition alone.
mq_http_requests_total counter status
  HTTP requests, by status.
mq_event_loop_delay_ms histogram
  How late a timer of the event loop was, measured once a second.
mq_metrics_left_out_series gauge
  Series that tidelog.metrics.series.max left out of this page.
mq_metrics_collect_ms gauge
  Time it took to collect this page.
mq_build_info gauge version node_id cluster_id
  1; what runs here.
process_resident_memory_bytes gauge
  Memory of the process.
process_cpu_seconds_total counter
  CPU time of the process, its compactions not included.
process_open_fds gauge
  Open files and sockets of the process.
process_max_fds gauge
  Bound on them.
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
