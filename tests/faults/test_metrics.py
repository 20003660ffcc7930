"""Every metric, moved by real clients of a real broker: what is counted is what happened."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import NewTopic as ConfluentTopic  # type: ignore[attr-defined]

from tests.conformance.batches import Record, batch
from tests.conformance.members import Member
from tests.conformance.process import wait_until
from tests.conformance.raw import Connection, ConnectionClosed
from tests.conformance.share_client import set_group
from tests.conformance.test_metrics_export import PUSHED_METRICS
from tests.conformance.topics import append, create_topic, fetch, produce
from tests.faults.broker import FaultyBroker
from tests.faults.conftest import SMALL, BrokerFactory
from tests.faults.monitored import Series, family_of, of, scrape
from tests.faults.test_alerts import Cluster, cluster
from tests.faults.tiered import REMOTE_METRICS
from tests.unit.gateways.around import asked, surroundings
from tidelog import Admin, ShareConsumer
from tidelog import Consumer as OurConsumer
from tidelog.aio import ConfigResource, TopicPartition
from tidelog.gateways.http.app import application
from tidelog.gateways.metrics.families import FAMILIES

__all__ = ["cluster"]

SECONDS_MAX = 180
QUIET = {"log_level": 0}

# What each test below moves; together that is all there is.
TRAFFIC = {
    "mq_messages_in_per_sec", "mq_messages_out_per_sec", "mq_bytes_in_per_sec", "mq_bytes_out_per_sec",
    "mq_messages_in_total", "mq_messages_out_total", "mq_bytes_in_total", "mq_bytes_out_total",
    "mq_topic_messages_in_total", "mq_topic_messages_out_total", "mq_topic_bytes_in_total",
    "mq_topic_bytes_out_total", "mq_produce_latency_ms", "mq_end_to_end_latency_ms", "mq_requests_total",
    "mq_request_bytes_total", "mq_response_bytes_total", "mq_request_time_ms", "mq_request_queue_time_ms_total",
    "mq_request_handler_time_ms_total", "mq_fetch_sessions", "mq_partition_log_end_offset",
    "mq_partition_committed_offset", "mq_partition_size_bytes", "mq_log_dir_size_bytes", "mq_producers",
    "mq_partitions", "mq_leaders", "mq_client_requests_total", "mq_client_bytes_in_total",
    "mq_client_bytes_out_total", "mq_connections_opened_total", "mq_http_requests_total",
    "mq_event_loop_delay_ms", "mq_metrics_collect_ms", "process_cpu_seconds_total",
    "process_resident_memory_bytes",
}  # fmt: skip
CONNECTIONS = {
    "mq_request_errors_total", "mq_client_errors_total", "mq_client_connections", "mq_connections",
    "mq_connections_refused_total", "mq_requests_in_flight", "process_open_fds",
}  # fmt: skip
STORAGE = {
    "mq_flush_time_ms", "mq_partition_segments", "mq_partition_log_start_offset", "mq_disk_free_bytes",
    "mq_disk_usage_ratio", "mq_compaction_rounds_total", "mq_compaction_read_bytes_total",
    "mq_compaction_written_bytes_total", "mq_compaction_last_round_ms", "mq_compaction_dirty_ratio_max",
    "mq_compaction_failures_total", "mq_uncleanable_partitions",
}  # fmt: skip
GROUPS = {
    "mq_consumer_lag_messages", "mq_groups", "mq_group_members", "mq_group_rebalancing",
    "mq_group_rebalances_total", "mq_group_rebalance_time_ms", "mq_share_group_lag_messages",
}  # fmt: skip
TRANSACTIONS = {
    "mq_transactions", "mq_transactions_committed_total", "mq_transactions_aborted_total",
    "mq_transactions_timed_out_total", "mq_transaction_oldest_open_ms",
}  # fmt: skip
REPLICATION = {
    "mq_partitions_awaiting_replicas", "mq_eligible_leader_replicas_partitions",
    "mq_under_replicated_partitions", "mq_under_min_isr_partitions", "mq_offline_partitions",
    "mq_not_preferred_leaders", "mq_reassigning_partitions", "mq_active_controller", "mq_live_brokers",
    "mq_missing_brokers", "mq_isr_shrinks_total", "mq_isr_expands_total", "mq_leader_elections_total",
    "mq_unclean_leader_elections_total", "mq_replication_lag_messages", "mq_replication_lag_ms_max",
    "mq_replication_bytes_in_total", "mq_replication_bytes_out_total", "mq_throttled_fetches_total",
}  # fmt: skip
ELSEWHERE = {
    "mq_process_up",  # test_processes
    *PUSHED_METRICS,
    *REMOTE_METRICS,  # tests/faults/test_tiers_metrics.py
    "mq_throttled_requests_total",
    "mq_throttle_time_ms_total",  # tests/conformance/test_quotas.py
    "mq_broker_lease_proven",  # test_alerts: etcd is away
    "mq_stray_logs",  # test_operations: a topic deleted while a broker is down
    # tests/conformance/test_audit.py; how it drops: tests/unit/broker/audit
    "mq_audit_events_dropped_total",
    "mq_audit_events_total",
    # tests/conformance/test_tenants.py
    "mq_tenant_bytes_in_total",
    "mq_tenant_bytes_out_total",
    "mq_tenant_connections",
    "mq_tenant_full",
    "mq_tenant_limit",
    "mq_tenant_partitions",
    "mq_tenant_requests_total",
    "mq_tenant_stored_bytes",
    "mq_tenant_topics",
    "mq_opened_batches_total",  # tests/conformance/test_large_expansions.py
    "mq_opened_bytes_total",
    "mq_queued_request_bytes",  # tests/unit/speed/test_connection.py
    "mq_queued_request_bytes_max",
    "mq_queued_request_waits_total",
    "mq_partitions_needing_recovery",  # test_alerts: a broker with a new disk
    "mq_replicas_in_doubt",  # test_recover: a broker with a new disk
    "mq_log_dir_online",  # test_alerts: a folder that is gone
    "mq_fetch_sessions_evicted_total",  # tests/unit/broker/test_fetch_sessions.py: takes minutes here
    "mq_metrics_left_out_series",  # the test of the bound, below
    # test_repair
    "mq_damaged_partitions",
    "mq_damaged_ranges",
    "mq_scrubbed_bytes_total",
    "mq_scrub_found_ranges_total",
    "mq_scrub_rebuilt_indexes_total",  # tests/unit/storage/test_scrubber.py
    "mq_scrub_round_done_ms",
    "mq_repaired_ranges_total",
    "mq_repair_cuts_total",
}
CONSTANT = {"mq_build_info", "mq_disk_total_bytes", "process_max_fds", "process_start_time_seconds"}


def moved(before: Series, after: Series) -> set[str]:
    """The metrics of which some series changed, came or went."""
    names = {
        name for name, labels in before.keys() | after.keys()
        if before.get((name, labels), 0) != after.get((name, labels), 0)
    }  # fmt: skip
    return {family_of(name, FAMILIES) for name in names}


class Eyes:
    """Looks at the page of a broker again and again."""

    def __init__(self, broker: FaultyBroker) -> None:
        self._broker = broker
        self.first = self.last = scrape(broker.http)
        self.seen: set[str] = set()

    def look(self) -> Series:
        now = scrape(self._broker.http)
        self.seen |= moved(self.last, now)
        self.last = now
        return now

    def until(self, seen: Callable[[Series], bool], what: str) -> None:
        wait_until(lambda: seen(self.look()), SECONDS_MAX, what, every=0.1)

    def grown(self, name: str, **labels: str) -> float:
        """Since the beginning."""
        try:
            before = of(self.first, name, **labels)
        except AssertionError:
            before = 0.0
        return of(self.look(), name, **labels) - before


def start(new_broker: BrokerFactory, **settings: str) -> tuple[FaultyBroker, Eyes]:
    given = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    broker = new_broker({**given, **{name.replace("_", "."): value for name, value in settings.items()}})
    broker.start()
    return broker, Eyes(broker)


def test_every_metric_is_moved_by_some_test() -> None:
    together = (TRAFFIC, CONNECTIONS, STORAGE, GROUPS, TRANSACTIONS, REPLICATION, ELSEWHERE, CONSTANT)
    assert set().union(*together) == set(FAMILIES)
    assert not any(one & other for one, other in itertools.combinations(together, 2))


def test_traffic(new_broker: BrokerFactory) -> None:
    broker, eyes = start(new_broker)
    create_topic(broker.bootstrap, "orders", 2)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "shop",
            "linger.ms": 0,
            "enable.idempotence": True,
            **QUIET,
        }
    )
    for number in range(300):
        # One small request after the other: most of them never leave native code.
        producer.produce("orders", b"value %d" % number, partition=number % 2)
        producer.flush(SECONDS_MAX)
    time.sleep(0.06)  # more than the first bound of the latency, less than most
    with OurConsumer(  # unlike librdkafka, it has fetch sessions
        "orders", bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        taken = 0
        while taken < 300:
            taken += len(list(consumer.poll(timeout_ms=10_000)))
    time.sleep(1.1)
    eyes.look()
    for name in ("mq_messages_in_total", "mq_messages_out_total"):
        assert eyes.grown(name) == 300
    for name in ("mq_topic_messages_in_total", "mq_topic_messages_out_total"):
        assert eyes.grown(name, topic="orders") == 300
    assert eyes.grown("mq_topic_bytes_in_total", topic="orders") == eyes.grown("mq_bytes_out_total")
    # Every request is counted and timed, whichever way it took.
    assert eyes.grown("mq_requests_total", api="Produce") == 300
    assert eyes.grown("mq_produce_latency_ms_count") == 300
    assert eyes.grown("mq_end_to_end_latency_ms_count") == 300  # one batch each
    assert eyes.grown("mq_end_to_end_latency_ms_bucket", le="10") == 0
    assert eyes.grown("mq_partition_log_end_offset", topic="orders") == 300
    assert eyes.grown("mq_client_requests_total", client_id="shop") >= 300
    assert of(eyes.last, "mq_messages_in_per_sec") > 0
    assert TRAFFIC - eyes.seen == set()


def test_end_to_end_latency_is_that_of_the_append(new_broker: BrokerFactory) -> None:
    broker, eyes = start(new_broker)
    create_topic(broker.bootstrap, "orders")
    with Connection(broker.bootstrap) as connection:
        # The producer's clock does not matter.
        append(connection, "orders", batch([b"a", b"b", b"c"], base_timestamp=1_000))
        time.sleep(0.15)
        append(connection, "orders", batch([b"d"], base_timestamp=1_000))
        fetch(connection, "orders", 0)
    assert eyes.grown("mq_end_to_end_latency_ms_count") == 2
    assert eyes.grown("mq_end_to_end_latency_ms_bucket", le="100") <= 1
    assert 150 <= eyes.grown("mq_end_to_end_latency_ms_sum") < 60_000
    assert eyes.grown("mq_messages_out_total") == 4


def test_connections_and_mistakes(new_broker: BrokerFactory) -> None:
    broker, eyes = start(new_broker, max_connections_per_ip="5")
    create_topic(broker.bootstrap, "orders")
    with Connection(broker.bootstrap) as connection, Connection(broker.bootstrap) as waiting:
        assert produce(connection, "nowhere", batch([b"x"])).error_code != 0
        assert eyes.grown("mq_request_errors_total", api="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
        assert eyes.grown("mq_client_errors_total", client_id="raw") >= 1
        topics = [
            {
                "topic": "orders",
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
            }
        ]
        waiting.send("fetch", 4, replica_id=-1, max_wait=20_000, min_bytes=1, max_bytes=1000, topics=topics)
        eyes.until(lambda page: of(page, "mq_requests_in_flight") >= 1, "a fetch waits")
        others = [socket.create_connection((broker.host, broker.port)) for _ in range(6)]
        eyes.until(lambda page: "mq_connections_refused_total" in {name for name, _ in page}, "a refusal")
        assert of(eyes.last, "mq_connections_refused_total", bound="max.connections.per.ip") >= 3
        assert of(eyes.last, "mq_connections", listener="PLAINTEXT") == 5
        for other in others:
            other.close()
    assert CONNECTIONS - eyes.seen == set()


def test_storage(new_broker: BrokerFactory) -> None:
    broker, eyes = start(new_broker, **SMALL, log_cleaner_min_cleanable_ratio="0.01")
    create_topic(broker.bootstrap, "synced", 1, {"flush.messages": "1"})
    create_topic(broker.bootstrap, "keyed", 1, {"cleanup.policy": "compact"})
    with Connection(broker.bootstrap) as connection:
        append(connection, "synced", batch([b"x"]))
        assert eyes.grown("mq_flush_time_ms_count") >= 1
        write_keys(connection, 40)
        eyes.until(lambda page: of(page, "mq_compaction_rounds_total") >= 1, "a round of compaction")
        connection.call(
            "delete_records", 2, timeout=10_000,
            topics=[{"name": "synced", "partitions": [{"partition_index": 0, "offset": 1}]}],
        )  # fmt: skip
        eyes.until(lambda page: of(page, "mq_partition_log_start_offset", topic="synced") == 1, "a new start")

        def found(page: Series) -> bool:
            # A record that a disk has turned into another one; a round that had read it before writes it anew, whole.
            with contextlib.suppress(FileNotFoundError):
                spoil(broker)
            write_keys(connection, 10)
            return of(page, "mq_uncleanable_partitions") == 1

        eyes.until(found, "the damage is found")
    assert STORAGE - eyes.seen == set()


def write_keys(connection: Connection, count: int) -> None:
    for number in range(count):
        records = [Record(os.urandom(200), b"key %d" % key) for key in range(5)]
        append(connection, "keyed", batch(records, base_timestamp=int(time.time() * 1000) + number))


def spoil(broker: FaultyBroker) -> None:
    sealed = sorted((broker.data / "keyed-0").glob("*.log"))[:-1]
    first = next(path for path in sealed if path.stat().st_size > 1000)
    with first.open("r+b") as file:
        file.seek(first.stat().st_size - 3)
        file.write(b"\x00\xff\x55")


def test_groups(new_broker: BrokerFactory) -> None:
    broker, eyes = start(new_broker)
    create_topic(broker.bootstrap, "orders", 2)
    with Connection(broker.bootstrap) as connection:
        for _ in range(5):
            append(connection, "orders", batch([b"a", b"b"]), 1)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing", **QUIET})
    consumer.commit(offsets=[Place("orders", 1, 3)], asynchronous=False)
    eyes.look()
    assert of(eyes.last, "mq_consumer_lag_messages", group="billing", topic="orders", partition="1") == 7
    consumer.close()
    member = Member(broker.bootstrap, "billing", session_ms=30_000, rebalance_ms=30_000)
    turns = of(eyes.last, "mq_group_rebalances_total", group="billing")
    member.join()
    eyes.look()
    assert of(eyes.last, "mq_group_rebalancing", group="billing") == 1
    assert of(eyes.last, "mq_group_members", group="billing") == 1
    assert of(eyes.last, "mq_group_rebalances_total", group="billing") == turns + 1
    assert of(eyes.last, "mq_groups", kind="classic") == 1
    member.sync({member.id: b""})
    eyes.look()
    assert of(eyes.last, "mq_group_rebalance_time_ms_count") == 1
    member.leave()
    member.close()
    share_records(broker, eyes)
    assert GROUPS - eyes.seen == set()


def share_records(broker: FaultyBroker, eyes: Eyes) -> None:
    """A share group that does with some records and lets others go back."""
    set_group(broker.bootstrap, "workers", share_auto_offset_reset="earliest")

    def behind(records: int) -> None:
        labels = (("group", "workers"), ("partition", "1"), ("topic", "orders"))
        series = ("mq_share_group_lag_messages", labels)
        eyes.until(lambda page: page.get(series) == records, f"{records} records are not done with")

    with ShareConsumer(
        "orders", bootstrap_servers=broker.bootstrap, group_id="workers", acknowledgement_mode="explicit"
    ) as consumer:
        records = consumer.poll(timeout_ms=SECONDS_MAX * 1000)
        assert len(records) == 10
        behind(10)
        for number, record in enumerate(records):
            consumer.acknowledge(record, "accept" if number % 2 else "release")
        consumer.commit()
        # Half of it is done with, in the middle and not at the beginning.
        behind(5)
        with Connection(broker.bootstrap) as connection:
            append(connection, "orders", batch([b"c"]), 1)
        behind(6)


def test_transactions(new_broker: BrokerFactory) -> None:
    broker, eyes = start(new_broker, transaction_abort_timed_out_transaction_cleanup_interval_ms="100")
    create_topic(broker.bootstrap, "orders")
    for outcome in ("commit", "abort", "time out"):
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "transactional.id": outcome,
                "transaction.timeout.ms": 1500 if outcome == "time out" else 60_000,
                **QUIET,
            }
        )
        producer.init_transactions(SECONDS_MAX)
        producer.begin_transaction()
        producer.produce("orders", b"x")
        producer.flush(SECONDS_MAX)
        if outcome == "commit":
            producer.commit_transaction(SECONDS_MAX)
        elif outcome == "abort":
            producer.abort_transaction(SECONDS_MAX)
        else:
            eyes.until(lambda page: of(page, "mq_transactions", state="Ongoing") == 1, "one is open")
            assert of(eyes.look(), "mq_transaction_oldest_open_ms") > 0
            eyes.until(lambda page: of(page, "mq_transactions_timed_out_total") == 1, "it is aborted")
    eyes.until(lambda page: of(page, "mq_transactions_aborted_total") == 2, "both are aborted")
    assert of(eyes.last, "mq_transactions_committed_total") == 1
    assert TRANSACTIONS - eyes.seen == set()


def test_the_number_of_series_is_bounded(new_broker: BrokerFactory) -> None:
    broker, _ = start(new_broker, tidelog_metrics_series_max="100", tidelog_metrics_clients_max="3")
    create_topic(broker.bootstrap, "wide", 150)
    for number in range(6):
        with Connection(broker.bootstrap, f"client {number}") as connection:
            connection.call("metadata", 12, topics=[])
    page = scrape(broker.http)
    assert len([1 for name, _ in page if name == "mq_partition_size_bytes"]) == 100
    assert of(page, "mq_metrics_left_out_series") >= 5 * 50
    clients = {dict(labels)["client_id"] for name, labels in page if name == "mq_client_requests_total"}
    assert len(clients) == 4 and "(others)" in clients
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs({ConfigResource("broker", "1"): {"tidelog.metrics.series.max": "1000"}})
    wait_until(
        lambda: of(scrape(broker.http), "mq_metrics_left_out_series") == 0, SECONDS_MAX, "all is shown"
    )


def test_a_json_log_tells_the_request(new_broker: BrokerFactory) -> None:
    broker, _ = start(new_broker, tidelog_log_format="json", tidelog_log_levels="info")
    with Connection(broker.bootstrap) as connection, pytest.raises(ConnectionClosed):
        connection.send_bytes(b"\x00\x00\x00\x0a" + b"\x00\x03\x7f\xff" + bytes(6))
        connection.receive("metadata", 12)
    broker.stop()
    lines = [json.loads(line) for line in broker.log_text().splitlines()]
    assert {line["service.node.name"] for line in lines} == {"1"}
    (told,) = [line for line in lines if "closing the connection" in line["message"]]
    assert told["log.level"] == "warning" and told["request.id"].startswith("127.0.0.1:")


def test_replication(cluster: Cluster) -> None:
    eyes = {node: Eyes(broker) for node, broker in cluster.brokers.items()}

    def look(nodes: tuple[int, ...] = (1, 2, 3)) -> dict[int, Series]:
        return {node: eyes[node].look() for node in nodes}

    def until(name: str, reached: Callable[[float], bool], *nodes: int) -> None:
        def seen() -> bool:
            return any(
                reached(value)
                for page in look(nodes or (1, 2, 3)).values()
                for (known, _), value in page.items()
                if known == name
            )

        wait_until(seen, SECONDS_MAX, f"{name} moves", every=0.1)

    for topic in (
        ConfluentTopic("wide", 3, 3, config={"min.insync.replicas": "3"}),
        ConfluentTopic("single", 1, replica_assignment=[[3]]),
        ConfluentTopic(
            "risky", 1, replica_assignment=[[2, 3]], config={"unclean.leader.election.enable": "true"}
        ),
    ):
        cluster.create(topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1, **QUIET})

    def write(topic: str, count: int) -> None:
        for _ in range(count):
            producer.produce(topic, bytes(1000), partition=0)
        producer.flush(5)  # what the frozen broker leads has to wait

    write("wide", 10)
    until("mq_replication_bytes_in_total", lambda value: value > 0)
    # A follower that is frozen falls behind, then counts as gone.
    os.kill(cluster.brokers[3].pid, signal.SIGSTOP)
    try:
        write("wide", 10)
        write("risky", 1)
        until("mq_replication_lag_messages", lambda value: value > 0, 1, 2)
        until("mq_replication_lag_ms_max", lambda value: value > 0, 1, 2)
        for name in ("mq_under_replicated_partitions", "mq_under_min_isr_partitions", "mq_missing_brokers"):
            until(name, lambda value: value > 0, 1, 2)
        until("mq_offline_partitions", lambda value: value > 0, 1, 2)
        until("mq_partitions_awaiting_replicas", lambda value: value > 0, 1, 2)
        until("mq_eligible_leader_replicas_partitions", lambda value: value > 0, 1, 2)
    finally:
        os.kill(cluster.brokers[3].pid, signal.SIGCONT)
    until("mq_isr_expands_total", lambda value: value > 0)
    # Only a replica that is not in sync is left of one partition, and it may lead.
    cluster.brokers[3].kill()
    until("mq_missing_brokers", lambda value: value == 1, 1, 2)
    write("risky", 1)
    until("mq_under_replicated_partitions", lambda value: value > 0, 1, 2)
    cluster.brokers[2].kill()
    until("mq_offline_partitions", lambda value: value >= 2, 1)
    cluster.brokers[3].start()
    until("mq_unclean_leader_elections_total", lambda value: value > 0, 1, 3)
    cluster.brokers[2].start()
    until("mq_not_preferred_leaders", lambda value: value > 0)
    slow_move(cluster, producer, until)
    (controller,) = [node for node, page in look().items() if of(page, "mq_active_controller") == 1]
    cluster.brokers[controller].kill()
    others = tuple({1, 2, 3} - {controller})
    until("mq_active_controller", lambda value: value == 1, *others)
    assert REPLICATION - set().union(*(one.seen for one in eyes.values())) == set()


def slow_move(cluster: Cluster, producer: Producer, until: Callable[..., None]) -> None:
    """A partition that moves to another broker, held back by a throttle."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        broker = ConfigResource("broker", "1")
        admin.alter_configs({broker: {"leader.replication.throttled.rate": "20000"}})
        throttled = {"leader.replication.throttled.replicas": "*"}
        cluster.create(ConfluentTopic("moving", 1, replica_assignment=[[1]], config=throttled))
        for _ in range(500):
            producer.produce("moving", bytes(4000))
        assert producer.flush(SECONDS_MAX) == 0
        admin.reassign_partitions({TopicPartition("moving", 0): [2]})
        until("mq_reassigning_partitions", lambda value: value > 0)
        until("mq_throttled_fetches_total", lambda value: value > 0)


def test_http_requests_are_counted_by_status() -> None:
    around = surroundings()
    app = application(around)
    asked(app, "GET", "/health/live")
    asked(app, "GET", "/nowhere")
    asked(app, "GET", "/health/live", {"host": "evil.example"})
    assert around.statuses == {200: 1, 404: 1, 421: 1}
