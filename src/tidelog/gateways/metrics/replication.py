"""Metrics of partitions: leaders, replicas, offsets, what topics take in and give out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidelog.client.cluster.topology import under_replicated
from tidelog.gateways.http.surroundings import Surroundings
from tidelog.gateways.metrics.page import Page, labels_of
from tidelog.metadata.elections import awaited, choose_leader
from tidelog.metadata.image import PartitionImage
from tidelog.replication.partition import Partition
from tidelog.types import NodeId

SLICE = 50


class _Census:
    """Of the partitions in the metadata, as one broker sees them."""

    def __init__(self, node: NodeId, live: frozenset[NodeId]) -> None:
        self._node = node
        self._live = live
        self.here = self.led = self.under_replicated = self.under_min = 0
        self.offline = self.not_preferred = self.moving = 0
        self.homes: set[NodeId] = set()
        self.awaiting: Counter[NodeId] = Counter()
        self.needing_recovery = self.in_doubt = self.with_eligible = 0

    def add(self, one: PartitionImage, in_sync_min: int) -> None:
        self.homes.update(one.replicas)
        self.here += self._node in one.replicas
        self.in_doubt += len(one.doubts)
        self.with_eligible += bool(one.eligible)
        if one.leader is None:
            self.offline += 1
            self._add_leaderless(one)
        elif one.leader == self._node:
            self.led += 1
            self.under_replicated += under_replicated(one.replicas, one.adding, one.in_sync)
            self.under_min += len(one.in_sync) < min(in_sync_min, len(one.replicas))
            self.not_preferred += one.replicas[0] != self._node
            self.moving += bool(one.adding or one.removing)

    def _add_leaderless(self, one: PartitionImage) -> None:
        if choose_leader(one, self._live, self._live) is None:
            nodes = awaited(one, self._live)
            self.awaiting.update(nodes)
            self.needing_recovery += not nodes


def metadata(around: Surroundings, page: Page) -> Iterator[None]:
    node, image = around.node_id, around.image
    census = _Census(node, frozenset(broker.node_id for broker in image.live_brokers))
    number = 0
    for topic in image.topics.values():
        in_sync_min = around.services.controller.topic_config(topic.name).min_insync_replicas
        for one in topic.partitions:
            census.add(one, in_sync_min)
            number += 1
            if number % SLICE == 0:
                yield
    controls = image.controller == node
    page.put("mq_partitions", census.here)
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


def partitions(around: Surroundings, page: Page) -> Iterator[None]:
    """Those that were used since the start: others are not open."""
    topics: dict[str, list[int]] = {}
    producers = lag_ms_max = 0
    now_ms = around.clock.monotonic_ms()
    for number, one in enumerate(around.partitions.open_ones()):
        labels = labels_of(("topic", "partition"), one.name)
        log = one.log
        page.put_at("mq_partition_log_start_offset", log.start, labels)
        page.put_at("mq_partition_log_end_offset", log.end, labels)
        page.put_at("mq_partition_committed_offset", one.state.committed, labels)
        page.put_at("mq_partition_size_bytes", log.size, labels)
        page.put_at("mq_partition_segments", len(log.segments), labels)
        sums = topics.setdefault(one.topic, [0, 0, 0, 0])
        sums[0] += one.messages_in
        sums[1] += one.messages_out
        sums[2] += one.bytes_in
        sums[3] += one.bytes_out
        producers += len(log.producers)
        if one.leader == around.node_id:
            lag_ms_max = max(lag_ms_max, _followers(around, page, one, now_ms))
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


def _followers(around: Surroundings, page: Page, one: Partition, now_ms: int) -> int:
    """Longest time that a follower has been behind."""
    known = around.image.partition(*one.name)
    longest = 0
    if known is None or len(known.replicas) < 2:
        return 0
    state = one.state
    for replica in known.replicas:
        if replica == around.node_id:
            continue
        lag = max(state.end - (state.follower_end(replica) or 0), 0)
        page.put("mq_replication_lag_messages", lag, *one.name, replica)
        longest = max(longest, state.behind_ms(replica, now_ms))
    return longest
