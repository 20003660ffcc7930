"""Metrics of groups and transactions, each reported by its coordinator alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.metrics.page import Page
from tidelog.gateways.metrics.partition_ends import PartitionEnds
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.group import Group
from tidelog.groups.share.group_state import UNKNOWN_START, lag_of
from tidelog.transactions.transaction import TransactionStatus

SLICE = 50
SETTLED = frozenset({"Stable", "Empty", "Dead"})


def groups(around: GatewayServices, page: Page) -> Iterator[None]:
    by_state: Counter[tuple[str, str]] = Counter()
    number = 0
    for shard in around.services.groups.coordinator.shards():
        for group_id, group in list(shard.machine.groups.items()):
            state = group.state_name
            by_state[group.kind, state] += 1
            page.put("mq_group_members", len(getattr(group, "members", ())), group_id)
            page.put("mq_group_rebalancing", int(state not in SETTLED), group_id)
            page.put("mq_group_rebalances_total", _turns(group), group_id)
            number += 1
            if number % SLICE == 0:
                yield
    for (kind, state), count in sorted(by_state.items()):
        page.put("mq_groups", count, kind, state)
    took = around.services.groups.rebalances.times_ms
    page.put_histogram("mq_group_rebalance_time_ms", took.bounds, took.read(), took.sum)


def _turns(group: Group) -> int:
    return group.generation if isinstance(group, ClassicGroup) else getattr(group, "epoch", 0)


def lag(around: GatewayServices, page: Page, ends: PartitionEnds) -> Iterator[None]:
    number = 0
    for shard in around.services.groups.coordinator.shards():
        offsets = shard.machine.offsets
        for group_id in list(offsets.groups()):
            for (topic, index), committed in list(offsets.of(group_id).items()):
                end = ends.of(topic, index)
                if end is not None:
                    behind = max(end - committed.offset, 0)
                    page.put("mq_consumer_lag_messages", behind, group_id, topic, index)
                number += 1
                if number % SLICE == 0:
                    yield


def share_lag(around: GatewayServices, page: Page, ends: PartitionEnds) -> Iterator[None]:
    """Reported by the broker that stores the group's state for the partition."""
    number, names = 0, around.image.names
    for shard in around.services.share_shards.coordinator.shards():
        for key, state in list(shard.machine.states.items()):
            topic = names.get(key.topic_id)
            if topic is not None and state.start != UNKNOWN_START:
                start, end = ends.start_of(topic, key.partition), ends.of(topic, key.partition)
                if start is not None and end is not None:
                    behind = lag_of(state, start, end)
                    page.put("mq_share_group_lag_messages", behind, key.group, topic, key.partition)
            number += 1
            if number % SLICE == 0:
                yield


def transactions(around: GatewayServices, page: Page) -> Iterator[None]:
    coordinated = around.services.transactions
    states: Counter[str] = Counter()
    now_ms, oldest_ms, number = around.clock.now_ms(), 0, 0
    for shard in coordinated.coordinator.shards():
        for transaction in shard.machine:
            states[transaction.state.title] += 1
            if transaction.state is TransactionStatus.ONGOING:
                oldest_ms = max(oldest_ms, now_ms - transaction.started_ms)
            number += 1
            if number % SLICE == 0:
                yield
    for state in TransactionStatus:
        page.put("mq_transactions", states[state.title], state.title)
    page.put("mq_transaction_oldest_open_ms", oldest_ms)
    page.put("mq_transactions_committed_total", coordinated.committed)
    page.put("mq_transactions_aborted_total", coordinated.aborted)
    page.put("mq_transactions_timed_out_total", coordinated.timed_out)
