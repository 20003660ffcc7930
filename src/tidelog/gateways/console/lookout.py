"""Looks at the whole cluster every few seconds, while somebody looks at the console: ends of topics, lag of groups, disks.

Asked as any client would, so every broker can show the figures of all.  It stops when nobody has looked for a while, and
looks less often where a look takes long, so that it never takes more than a small share of the broker's time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import sub
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog._speed.request_metrics import TIME_BOUNDS_MS
from tidelog.config.facts import parse_damaged
from tidelog.errors import TidelogError
from tidelog.gateways.console import peers
from tidelog.gateways.console.condition import condition
from tidelog.gateways.console.history import History, quantile
from tidelog.gateways.console.markup import path
from tidelog.gateways.console.process import COUNTERS, process_figures
from tidelog.gateways.console.rules import Alerts, Facts
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.disks import LogDir
    from tidelog.client.groups import GroupListing
    from tidelog.gateways.http.surroundings import Surroundings

T = TypeVar("T")

log = logging.getLogger("tidelog.http.console")

INTERVAL_MS, INTERVAL_MS_MAX = 5_000, 20_000
SHARE_MAX = 0.05  # of the time
IDLE_MS = 900_000  # nobody has looked: stop
DISKS_EVERY = 6
PARTITIONS_AT_ONCE = 100
FIRST_WAIT_S = 0.3
PART_S_MAX = 3.0
RECENT_MS = 300_000
SETTLED = frozenset({"Stable", "Empty", "Dead", ""})


@dataclass
class Look:
    """What was seen last."""

    at_ms: int = 0
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    groups: list[GroupListing] = field(default_factory=list)
    topic_lags: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """In offsets, by group and topic."""
    disks: Mapping[int, list[LogDir]] = field(default_factory=dict)
    processes: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    """What each broker says of itself; without those that cannot be asked."""
    problem: str | None = None
    """Why the last look failed, if it did; the rest is then from the one before."""

    @cached_property
    def lags(self) -> dict[str, int]:
        """By group."""
        lags: dict[str, int] = {}
        for (group, _), lag in self.topic_lags.items():
            lags[group] = lags.get(group, 0) + lag
        return lags

    @cached_property
    def damaged(self) -> tuple[str, ...]:
        """Logs with damaged records: which, on which broker, and the offsets."""
        return tuple(
            f"{name} on broker {node}: offsets " + ", ".join(f"{start} to {end - 1}" for start, end in ranges)
            for node, figures in sorted(self.processes.items())
            for name, ranges in parse_damaged(str(figures.get("damaged", ""))).items()
        )

    def topic_sizes(self) -> dict[str, int]:
        """Bytes by topic, all replicas."""
        sizes: dict[str, int] = {}
        for one in self._partitions():
            for partition, size in one.items():
                sizes[partition.topic] = sizes.get(partition.topic, 0) + size
        return sizes

    def _partitions(self) -> Iterator[Mapping[TopicPartition, int]]:
        return (one.partitions for disks in self.disks.values() for one in disks)


class Lookout:
    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.history = History()
        self.look = Look()
        self.alerts = Alerts()
        self._seen_ms = 0
        self._count = 0
        self._beating: asyncio.Task[None] | None = None
        self._first = asyncio.Event()

    async def seen(self) -> None:
        """Somebody looks at the console; the first one waits for the first look, but not for a cluster in trouble."""
        self._seen_ms = self._around.clock.now_ms()
        if self._beating is None or self._beating.done():
            self._first.clear()
            self._beating = asyncio.get_running_loop().create_task(self._beat(), name="console")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first.wait(), FIRST_WAIT_S)

    async def stop(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    async def _beat(self) -> None:
        clock = self._around.clock
        while clock.now_ms() - self._seen_ms < IDLE_MS:
            begun = clock.now_ms()
            try:
                await self._take()
            except Exception as problem:
                log.exception("the console could not look at the cluster")
                self.look.problem = repr(problem)
            finally:
                self._first.set()
            took = clock.now_ms() - begun
            await asyncio.sleep(min(max(INTERVAL_MS - took, took / SHARE_MAX), INTERVAL_MS_MAX) / 1000)

    async def _take(self) -> None:
        """A part that cannot be had, because a broker is gone, does not keep the others from being seen."""
        before, look = self.look, Look()
        ends = await self._part(look, self._ends())
        look.ends = before.ends if ends is None else ends
        listed = await self._part(look, self._groups())
        look.groups = before.groups if listed is None else listed
        lags = await self._part(look, self._lags(look))
        shared = await self._part(look, self._share_lags(look))
        if shared is None:
            names = {one.group_id for one in look.groups if one.type == "share"}
            shared = {key: lag for key, lag in before.topic_lags.items() if key[0] in names}
        if lags is not None:
            lags |= shared
        look.topic_lags = before.topic_lags if lags is None else lags
        disks = await self._part(look, self._disks()) if self._count % DISKS_EVERY == 0 else None
        look.disks = before.disks if disks is None else disks
        look.processes = await self._processes()
        self._count += 1
        look.at_ms = self._around.clock.now_ms()
        self.look = look
        sums: dict[str, int] = {}
        for partition, end in (ends or {}).items():
            sums[partition.topic] = sums.get(partition.topic, 0) + end
        totals = {"bytes": sum(look.topic_sizes().values())}
        if lags is not None:
            totals["lag"] = sum(lags.values())
        for node, figures in look.processes.items():
            totals |= {f"{node}.{name}": figures[name] for name in COUNTERS}
        totals["produce_p99_us"] = _produce_p99_us(before, look)
        self.history.add(look.at_ms, sums, {} if lags is None else look.lags, totals)
        self.alerts.seen(self._facts(), look.at_ms)

    async def _part(self, look: Look, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            async with asyncio.timeout(PART_S_MAX):
                return await work
        except (TidelogError, ExceptionGroup) as problem:
            look.problem = str(problem)
        except TimeoutError:
            look.problem = f"some brokers did not answer within {PART_S_MAX:.0f} seconds"
        return None

    async def _groups(self) -> list[GroupListing]:
        return await (await self._around.clients.admin()).list_groups()

    async def _disks(self) -> dict[int, list[LogDir]]:
        live = [one.node_id for one in self._around.image.reachable_brokers]
        return await (await self._around.clients.admin()).describe_log_dirs(live)

    def rates(self, name: str) -> list[float | None]:
        """Of one of the counters that brokers keep, all brokers together."""
        found: list[float | None] = [None] * len(self.history.times_ms)
        for node in self.look.processes:
            for at, rate in enumerate(self.history.rates(self.history.totals.of(f"{node}.{name}"))):
                if rate is not None:
                    found[at] = (found[at] or 0) + rate
        return found

    async def _processes(self) -> dict[int, dict[str, Any]]:
        around = self._around
        found: dict[int, dict[str, Any]] = {around.node_id: process_figures(around)}
        others = [one.node_id for one in around.image.reachable_brokers if one.node_id != around.node_id]
        answers = await asyncio.gather(*(peers.ask(around, one, path("peer", "process")) for one in others))
        return found | {node: one for node, one in zip(others, answers, strict=True) if one is not None}

    def _facts(self) -> Facts:
        """For the alerts."""
        around, look = self._around, self.look
        found = condition(around.image, around.config.topic_defaults.min_insync_replicas)
        shrinks = 0
        for node in look.processes:
            known = [one for one in self._recent(f"{node}.isr_shrinks") if one is not None]
            shrinks += max(0, known[-1] - known[0]) if known else 0
        return Facts(
            under_replicated=len(found.under_replicated),
            offline=len(found.offline),
            below_min=len(found.below_min),
            awaiting=found.awaiting,
            needing_recovery=found.needing_recovery,
            unproven_leases=tuple(
                node
                for node, figures in sorted(look.processes.items())
                if not figures.get("lease_proven", True)
            ),
            missing_brokers=tuple(sorted(found.missing)),
            lags=look.topic_lags,
            damaged=look.damaged,
            rebalancing=tuple(one.group_id for one in look.groups if one.state not in SETTLED),
            disks={
                f"broker {node} {one.path}": 1 - one.usable_bytes / one.total_bytes
                for node, disks in look.disks.items()
                for one in disks
                if one.total_bytes > 0 and one.usable_bytes >= 0
            },
            offline_folders=tuple(
                f"broker {node} {one.path}"
                for node, disks in look.disks.items()
                for one in disks
                if one.problem is not None
            ),
            isr_shrinks=shrinks,
        )

    def _recent(self, name: str) -> list[int | None]:
        times = self.history.times_ms
        since = next((at for at, time in enumerate(times) if time >= times[-1] - RECENT_MS), 0)
        return self.history.totals.of(name)[since:]

    async def _ends(self) -> dict[TopicPartition, int]:
        admin, image = await self._around.clients.admin(), self._around.image
        live = {one.node_id for one in image.reachable_brokers}
        wanted = [
            TopicPartition(topic.name, one.index)
            for topic in image.topics.values()
            for one in topic.partitions
            if one.leader in live
        ]
        ends: dict[TopicPartition, int] = {}
        # In pieces: between them the loop answers producers.
        for at in range(0, len(wanted), PARTITIONS_AT_ONCE):
            some = wanted[at : at + PARTITIONS_AT_ONCE]
            found = await admin.list_offsets(dict.fromkeys(some, "latest"))
            ends |= {partition: one.offset for partition, one in found.items()}
        return ends

    async def _lags(self, look: Look) -> dict[tuple[str, str], int]:
        """The page of a group counts more exactly."""
        admin = await self._around.clients.admin()
        names = [one.group_id for one in look.groups if one.type != "share"]
        lags: dict[tuple[str, str], int] = {}
        for name, offsets in (await admin.list_groups_offsets(names)).items():
            for partition, one in offsets.items():
                if partition in look.ends:
                    key = name, partition.topic
                    lags[key] = lags.get(key, 0) + max(0, look.ends[partition] - one.offset)
        return lags

    async def _share_lags(self, look: Look) -> dict[tuple[str, str], int]:
        admin = await self._around.clients.admin()
        names = [one.group_id for one in look.groups if one.type == "share"]
        lags: dict[tuple[str, str], int] = {}
        for name, offsets in (await admin.list_share_groups_offsets(names)).items():
            for partition, one in offsets.items():
                key = name, partition.topic
                lags[key] = lags.get(key, 0) + (one.lag or 0)
        return lags


def _produce_p99_us(before: Look, now: Look) -> int:
    """99 of 100 produce requests since the last look were answered within so long; -1 when there were none."""
    counts = [0] * (len(TIME_BOUNDS_MS) + 1)
    for node, figures in now.processes.items():
        old = before.processes.get(node, {}).get("produce_times") or []
        new = figures["produce_times"]
        if len(old) == len(new) == len(counts):
            counts = [sum(one) for one in zip(counts, map(sub, new, old), strict=True)]
    found = quantile(0.99, TIME_BOUNDS_MS, counts)
    return -1 if found is None else int(1000 * found)
