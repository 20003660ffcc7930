"""How much each scenario does: every load is bounded by these numbers."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1_000_000_000
MB = 1_000_000


@dataclass(frozen=True)
class Scale:
    rounds: int = 5  # of each repeated measurement
    starts: int = 5
    round_bytes: int = 500 * MB  # produced or consumed in one round
    warm_up_bytes: int = 1500 * MB
    warm_up_requests: int = 100_000
    small_requests: int = 50_000  # in one round
    memory_load_bytes: int = 2 * GB
    latency_seconds: int = 15
    flush_seconds: int = 5
    idle_seconds: int = 60
    partitions: int = 10_000
    kafka_partitions: int = 2_000
    connections: int = 1_000
    groups: int = 1_000
    compaction_bytes: int = 600 * MB
    compaction_seconds_max: int = 60
    client_megabytes: int = 50  # that each Python client moves in one round
    cluster_partitions: int = 3_000
    cluster_outages: int = 3  # of each kind
    reassigned_bytes: int = 1500 * MB
    spark_records: int = 1_000_000
    hostile_topics: int = 100_000


FULL = Scale(memory_load_bytes=10 * GB, latency_seconds=30, reassigned_bytes=10 * GB)
DEFAULT = Scale()
QUICK = Scale(
    rounds=2,
    starts=2,
    round_bytes=100 * MB,
    warm_up_bytes=200 * MB,
    warm_up_requests=10_000,
    small_requests=10_000,
    memory_load_bytes=300 * MB,
    latency_seconds=3,
    flush_seconds=2,
    idle_seconds=10,
    partitions=1_000,
    kafka_partitions=1_000,
    connections=200,
    groups=100,
    compaction_bytes=60 * MB,
    compaction_seconds_max=30,
    client_megabytes=10,
    cluster_partitions=300,
    cluster_outages=1,
    reassigned_bytes=200 * MB,
    spark_records=100_000,
    hostile_topics=5_000,
)
