"""Polls the whole cluster every few seconds while somebody views the console: end offsets, group lag, disks.

Every broker can show the figures of all, for it asks as any client does.  Polling stops when no page was viewed for a
while, and becomes less frequent where a poll takes long, so that it never takes more than a small share of the
broker's time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import sub
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog._speed.log.request_metrics import TIME_BOUNDS_MS
from tidelog.config.damaged_partitions import parse_damaged
from tidelog.errors import TidelogError
from tidelog.gateways.console.cluster import peers
from tidelog.gateways.console.cluster.alert_rules import LAG_NOTICED, AlertFacts, Alerts
from tidelog.gateways.console.cluster.health import cluster_health
from tidelog.gateways.console.cluster.history import ClusterHistory, quantile
from tidelog.gateways.console.cluster.process_figures import COUNTERS, process_figures
from tidelog.gateways.console.parts.markup import path
from tidelog.gateways.http.identity import as_broker
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin.groups import GroupListing
    from tidelog.client.admin.log_dirs import LogDir
    from tidelog.gateways.http.services import GatewayServices

T = TypeVar("T")

log = logging.getLogger("tidelog.http.console")

INTERVAL_MS, INTERVAL_MS_MAX = 5_000, 20_000
BUSY_SHARE_MAX = 0.05  # of the time: a slow poll is followed by a longer pause
IDLE_MS = 900_000  # without a page view: polling stops
DISKS_EVERY = 6  # polls
PARTITIONS_AT_ONCE = 100
FIRST_POLL_S = 0.3
STEP_S_MAX = 3.0
RECENT_MS = 300_000
GROWTH_MS = 600_000  # lags are compared with those of that long ago
SETTLED = frozenset({"Stable", "Empty", "Dead", ""})


@dataclass
class ClusterSnapshot:
    """What the last poll saw."""

    at_ms: int = 0
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    groups: list[GroupListing] = field(default_factory=list)
    topic_lags: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """In offsets, by group and topic."""
    disks: Mapping[int, list[LogDir]] = field(default_factory=dict)
    processes: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    """The process figures of each broker that answered."""
    problem: str | None = None
    """Why a step of the poll failed, if one did; its figures are then those of the poll before."""

    @cached_property
    def lags(self) -> dict[str, int]:
        """In offsets, by group."""
        lags: dict[str, int] = {}
        for (group, _), lag in self.topic_lags.items():
            lags[group] = lags.get(group, 0) + lag
        return lags

    @cached_property
    def damaged(self) -> tuple[str, ...]:
        """One text per log with damaged records: the partition, the broker and the offsets."""
        return tuple(
            f"{partition} on broker {node}: offsets "
            + ", ".join(f"{start} to {end - 1}" for start, end in ranges)
            for node, figures in sorted(self.processes.items())
            for partition, ranges in parse_damaged(str(figures.get("damaged", ""))).items()
        )

    def topic_sizes(self) -> dict[str, int]:
        """Bytes by topic, all replicas."""
        sizes: dict[str, int] = {}
        for partition_sizes in self._partition_sizes():
            for partition, size in partition_sizes.items():
                sizes[partition.topic] = sizes.get(partition.topic, 0) + size
        return sizes

    def _partition_sizes(self) -> Iterator[Mapping[TopicPartition, int]]:
        return (log_dir.partitions for log_dirs in self.disks.values() for log_dir in log_dirs)


class ClusterPoller:
    def __init__(self, around: GatewayServices) -> None:
        self._around = around
        self.history = ClusterHistory()
        self.snapshot = ClusterSnapshot()
        self.alerts = Alerts()
        self._viewed_ms = 0
        self._polls = 0
        self._task: asyncio.Task[None] | None = None
        self._first_poll = asyncio.Event()

    async def page_viewed(self) -> None:
        """Starts polling if it has stopped.  Waits a moment for the first poll, but not for a cluster in trouble."""
        self._viewed_ms = self._around.clock.now_ms()
        if self._task is None or self._task.done():
            self._first_poll.clear()
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="console", context=as_broker()
            )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first_poll.wait(), FIRST_POLL_S)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        clock = self._around.clock
        while clock.now_ms() - self._viewed_ms < IDLE_MS:
            started_ms = clock.now_ms()
            try:
                await self._poll()
            except Exception as problem:
                log.exception("the console could not poll the cluster")
                self.snapshot.problem = repr(problem)
            finally:
                self._first_poll.set()
            took_ms = clock.now_ms() - started_ms
            pause_ms = min(max(INTERVAL_MS - took_ms, took_ms / BUSY_SHARE_MAX), INTERVAL_MS_MAX)
            await asyncio.sleep(pause_ms / 1000)

    async def _poll(self) -> None:
        """A step that fails, for example because a broker is down, does not prevent the others."""
        before, snapshot = self.snapshot, ClusterSnapshot()
        ends = await self._step(snapshot, self._ends())
        snapshot.ends = before.ends if ends is None else ends
        groups = await self._step(snapshot, self._groups())
        snapshot.groups = before.groups if groups is None else groups
        lags = await self._step(snapshot, self._lags(snapshot))
        share_lags = await self._step(snapshot, self._share_lags(snapshot))
        if share_lags is None:
            share_groups = {group.group_id for group in snapshot.groups if group.type == "share"}
            share_lags = {key: lag for key, lag in before.topic_lags.items() if key[0] in share_groups}
        if lags is not None:
            lags |= share_lags
        snapshot.topic_lags = before.topic_lags if lags is None else lags
        disks = await self._step(snapshot, self._disks()) if self._polls % DISKS_EVERY == 0 else None
        snapshot.disks = before.disks if disks is None else disks
        snapshot.processes = await self._processes()
        self._polls += 1
        snapshot.at_ms = self._around.clock.now_ms()
        self.snapshot = snapshot
        self._record(before, ends, lags)

    def _record(
        self,
        before: ClusterSnapshot,
        ends: Mapping[TopicPartition, int] | None,
        lags: Mapping[tuple[str, str], int] | None,
    ) -> None:
        """Adds a point to the history and evaluates the alerts.  What this poll could not get leaves a gap."""
        snapshot = self.snapshot
        topic_ends: dict[str, int] = {}
        for partition, end in (ends or {}).items():
            topic_ends[partition.topic] = topic_ends.get(partition.topic, 0) + end
        totals = {"bytes": sum(snapshot.topic_sizes().values())}
        if lags is not None:
            totals["lag"] = sum(lags.values())
        for node, figures in snapshot.processes.items():
            totals |= {f"{node}.{name}": figures[name] for name in COUNTERS}
        totals["produce_p99_us"] = _produce_p99_us(before, snapshot)
        self.history.add(snapshot.at_ms, topic_ends, lags or {}, totals)
        self.alerts.evaluate(self._facts(), snapshot.at_ms)

    async def _step(self, snapshot: ClusterSnapshot, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            async with asyncio.timeout(STEP_S_MAX):
                return await work
        except (TidelogError, ExceptionGroup) as problem:
            snapshot.problem = str(problem)
        except TimeoutError:
            snapshot.problem = f"some brokers did not answer within {STEP_S_MAX:.0f} seconds"
        return None

    async def _groups(self) -> list[GroupListing]:
        return await (await self._around.clients.admin()).list_groups()

    async def _disks(self) -> dict[int, list[LogDir]]:
        nodes = [broker.node_id for broker in self._around.image.reachable_brokers]
        return await (await self._around.clients.admin()).describe_log_dirs(nodes)

    def rates(self, counter: str) -> list[float | None]:
        """The rate of one of the brokers' counters, summed over the brokers."""
        sums: list[float | None] = [None] * len(self.history.times_ms)
        for node in self.snapshot.processes:
            counts = self.history.totals.of(f"{node}.{counter}")
            for at, rate in enumerate(self.history.rates(counts)):
                if rate is not None:
                    sums[at] = (sums[at] or 0) + rate
        return sums

    async def _processes(self) -> dict[int, dict[str, Any]]:
        around = self._around
        own: dict[int, dict[str, Any]] = {around.node_id: process_figures(around)}
        others = [
            broker.node_id for broker in around.image.reachable_brokers if broker.node_id != around.node_id
        ]
        answers = await asyncio.gather(*(peers.ask(around, node, path("peer", "process")) for node in others))
        return own | {
            node: figures for node, figures in zip(others, answers, strict=True) if figures is not None
        }

    def _facts(self) -> AlertFacts:
        around, snapshot = self._around, self.snapshot
        health = cluster_health(around.image, around.config.topic_defaults.min_insync_replicas)
        shrinks = 0
        for node in snapshot.processes:
            counts = [count for count in self._recent(f"{node}.isr_shrinks") if count is not None]
            shrinks += max(0, counts[-1] - counts[0]) if counts else 0
        log_dirs = [
            (f"broker {node} {log_dir.path}", log_dir)
            for node, dirs in snapshot.disks.items()
            for log_dir in dirs
        ]
        return AlertFacts(
            under_replicated=len(health.under_replicated),
            offline=len(health.offline),
            below_min=len(health.below_min),
            awaiting=health.awaiting,
            needing_recovery=health.needing_recovery,
            unproven_leases=tuple(
                node
                for node, figures in sorted(snapshot.processes.items())
                if not figures.get("lease_proven", True)
            ),
            missing_brokers=tuple(sorted(health.missing)),
            lags=snapshot.topic_lags,
            growing_lags={
                key: growth
                for key, lag in snapshot.topic_lags.items()
                if lag > LAG_NOTICED and (growth := self.history.lag_growth(*key, GROWTH_MS)) is not None
            },
            produce_p99_ms=((self.history.totals.of("produce_p99_us") or [0])[-1] or 0) / 1000,
            damaged=snapshot.damaged,
            rebalancing=tuple(group.group_id for group in snapshot.groups if group.state not in SETTLED),
            disks={
                name: 1 - log_dir.usable_bytes / log_dir.total_bytes
                for name, log_dir in log_dirs
                if log_dir.total_bytes > 0 and log_dir.usable_bytes >= 0
            },
            offline_folders=tuple(name for name, log_dir in log_dirs if log_dir.problem is not None),
            isr_shrinks=shrinks,
        )

    def _recent(self, name: str) -> list[int | None]:
        times = self.history.times_ms
        since = next((at for at, time in enumerate(times) if time >= times[-1] - RECENT_MS), 0)
        return self.history.totals.of(name)[since:]

    async def _ends(self) -> dict[TopicPartition, int]:
        admin, image = await self._around.clients.admin(), self._around.image
        live = {broker.node_id for broker in image.reachable_brokers}
        partitions = [
            TopicPartition(topic.name, partition.index)
            for topic in image.topics.values()
            for partition in topic.partitions
            if partition.leader in live
        ]
        ends: dict[TopicPartition, int] = {}
        # In chunks: between them the event loop answers producers.
        for at in range(0, len(partitions), PARTITIONS_AT_ONCE):
            chunk = partitions[at : at + PARTITIONS_AT_ONCE]
            listed = await admin.list_offsets(dict.fromkeys(chunk, "latest"))
            ends |= {partition: latest.offset for partition, latest in listed.items()}
        return ends

    async def _lags(self, snapshot: ClusterSnapshot) -> dict[tuple[str, str], int]:
        """In offsets.  The page of a group counts messages, which is exact and more expensive."""
        admin = await self._around.clients.admin()
        groups = [group.group_id for group in snapshot.groups if group.type != "share"]
        lags: dict[tuple[str, str], int] = {}
        for group, offsets in (await admin.list_groups_offsets(groups)).items():
            for partition, committed in offsets.items():
                if partition in snapshot.ends:
                    key = group, partition.topic
                    lags[key] = lags.get(key, 0) + max(0, snapshot.ends[partition] - committed.offset)
        return lags

    async def _share_lags(self, snapshot: ClusterSnapshot) -> dict[tuple[str, str], int]:
        admin = await self._around.clients.admin()
        groups = [group.group_id for group in snapshot.groups if group.type == "share"]
        lags: dict[tuple[str, str], int] = {}
        for group, offsets in (await admin.list_share_groups_offsets(groups)).items():
            for partition, start in offsets.items():
                key = group, partition.topic
                lags[key] = lags.get(key, 0) + (start.lag or 0)
        return lags


def _produce_p99_us(before: ClusterSnapshot, now: ClusterSnapshot) -> int:
    """The 99th percentile of produce latency since the poll before, in microseconds; -1 without produce requests."""
    counts = [0] * (len(TIME_BOUNDS_MS) + 1)
    for node, figures in now.processes.items():
        old = before.processes.get(node, {}).get("produce_times") or []
        new = figures["produce_times"]
        if len(old) == len(new) == len(counts):
            counts = [total + added for total, added in zip(counts, map(sub, new, old), strict=True)]
    p99_ms = quantile(0.99, TIME_BOUNDS_MS, counts)
    return -1 if p99_ms is None else int(1000 * p99_ms)
