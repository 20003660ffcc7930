"""Metrics of partitions: leaders, replicas, offsets, traffic of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidelog.client.cluster.topology import under_replicated
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.metrics.page import Page, labels_of
from tidelog.metadata.elections.elections import awaited, choose_leader
from tidelog.metadata.image.image import PartitionImage
from tidelog.replication.partition import HostedPartition
from tidelog.types import NodeId

SLICE = 50


class _Census:
    """Counts the partitions of the metadata from the view of one broker."""

    def __init__(self, node: NodeId, live: frozenset[NodeId]) -> None:
        self._node = node
        self._live = live
        self.replicas_here = self.led = self.under_replicated = self.under_min = 0
        self.offline = self.not_preferred = self.moving = 0
        self.homes: set[NodeId] = set()
        self.awaiting: Counter[NodeId] = Counter()
        self.needing_recovery = self.in_doubt = self.with_eligible = 0

    def add(self, partition: PartitionImage, in_sync_min: int) -> None:
        self.homes.update(partition.replicas)
        self.replicas_here += self._node in partition.replicas
        self.in_doubt += len(partition.doubts)
        self.with_eligible += bool(partition.eligible)
        if partition.leader is None:
            self.offline += 1
            self._add_leaderless(partition)
        elif partition.leader == self._node:
            self.led += 1
            self.under_replicated += under_replicated(partition.replicas, partition.adding, partition.in_sync)
            self.under_min += len(partition.in_sync) < min(in_sync_min, len(partition.replicas))
            self.not_preferred += partition.replicas[0] != self._node
            self.moving += bool(partition.adding or partition.removing)

    def _add_leaderless(self, partition: PartitionImage) -> None:
        if choose_leader(partition, self._live, self._live) is None:
            nodes = awaited(partition, self._live)
            self.awaiting.update(nodes)
            self.needing_recovery += not nodes


def metadata(around: GatewayServices, page: Page) -> Iterator[None]:
    node, image = around.node_id, around.image
    census = _Census(node, frozenset(broker.node_id for broker in image.live_brokers))
    number = 0
    for topic in image.topics.values():
        in_sync_min = around.services.controller.topic_config(topic.name).min_insync_replicas
        for partition in topic.partitions:
            census.add(partition, in_sync_min)
            number += 1
            if number % SLICE == 0:
                yield
    controls = image.controller == node
    page.put("mq_partitions", census.replicas_here)
    page.put("mq_leaders", census.led)
    page.put("mq_under_replicated_partitions", census.under_replicated)
    page.put("mq_under_min_isr_partitions", census.under_min)
    page.put("mq_offline_partitions", census.offline if controls else 0)
    for broker, count in sorted(census.awaiting.items()) if controls else ():
        page.put("mq_partitions_awaiting_replicas", count, broker)
    page.put("mq_partitions_needing_recovery", census.needing_recovery if controls else 0)
    page.put("mq_replicas_in_doubt", census.in_doubt if controls else 0)
    page.put("mq_eligible_leader_replicas_partitions", census.with_eligible if controls else 0)
    page.put("mq_broker_lease_proven", int(around.services.partitions.lease_proven()))
    page.put("mq_not_preferred_leaders", census.not_preferred)
    page.put("mq_reassigning_partitions", census.moving)
    page.put("mq_active_controller", int(controls))
    page.put("mq_live_brokers", len(image.brokers))
    page.put("mq_missing_brokers", len(census.homes - set(image.brokers)) if controls else 0)
    shifts = around.figures.shifts
    page.put("mq_isr_shrinks_total", shifts.shrinks)
    page.put("mq_isr_expands_total", shifts.expands)
    page.put("mq_leader_elections_total", shifts.elections)
    page.put("mq_unclean_leader_elections_total", shifts.unclean_elections)


def partitions(around: GatewayServices, page: Page) -> Iterator[None]:
    """Metrics of the partitions used since the start: the others are not open."""
    topics: dict[str, list[int]] = {}
    producers = lag_ms_max = 0
    now_ms = around.clock.monotonic_ms()
    for number, partition in enumerate(around.partitions.open_ones()):
        labels = labels_of(("topic", "partition"), partition.name)
        log = partition.log
        page.put_at("mq_partition_log_start_offset", log.start, labels)
        page.put_at("mq_partition_log_end_offset", log.end, labels)
        page.put_at("mq_partition_committed_offset", partition.state.committed, labels)
        page.put_at("mq_partition_size_bytes", log.size, labels)
        page.put_at("mq_partition_segments", len(log.segments), labels)
        sums = topics.setdefault(partition.topic, [0, 0, 0, 0])
        sums[0] += partition.messages_in
        sums[1] += partition.messages_out
        sums[2] += partition.bytes_in
        sums[3] += partition.bytes_out
        producers += len(log.producers)
        if partition.leader == around.node_id:
            lag_ms_max = max(lag_ms_max, _followers(around, page, partition, now_ms))
        if number % SLICE == SLICE - 1:
            yield
    page.put("mq_producers", producers)
    page.put("mq_replication_lag_ms_max", lag_ms_max)
    for number, (topic, (messages_in, messages_out, bytes_in, bytes_out)) in enumerate(
        sorted(topics.items())
    ):
        labels = labels_of(("topic",), (topic,))
        page.put_at("mq_topic_messages_in_total", messages_in, labels)
        page.put_at("mq_topic_messages_out_total", messages_out, labels)
        page.put_at("mq_topic_bytes_in_total", bytes_in, labels)
        page.put_at("mq_topic_bytes_out_total", bytes_out, labels)
        if number % SLICE == SLICE - 1:
            yield


def _followers(around: GatewayServices, page: Page, partition: HostedPartition, now_ms: int) -> int:
    """How long the slowest follower has been behind."""
    described = around.image.partition(*partition.name)
    longest = 0
    if described is None or len(described.replicas) < 2:
        return 0
    state = partition.state
    for replica in described.replicas:
        if replica == around.node_id:
            continue
        lag = max(state.end - (state.follower_end(replica) or 0), 0)
        page.put("mq_replication_lag_messages", lag, *partition.name, replica)
        longest = max(longest, state.behind_ms(replica, now_ms))
    return longest
