"""What a load needs: storage, brokers, partitions, network; and what of a running cluster it would use up first.  Pure.

    storage    = messages a day * size / compression * days kept * replicas
    brokers    = throughput / throughput of one broker * replicas
    partitions = throughput / throughput of one consumer

These three are the usual rules of thumb.  Brokers are also counted by disk, by network and by replicas, and the largest
count is the one that matters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.model.amounts import size_text

DAY_S = 86_400.0
WHOLE = 1e-9  # counts this near above a whole number are that number: floating point, not a need


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a cluster.  Rates are those on the network and on disk, after compression and growth."""

    messages_per_day: float
    message_bytes: float
    retention_s: float
    replication: int
    peak: float = 1.0
    """Peak throughput, as a multiple of the mean."""
    throughput: float | None = None
    """Bytes a second at the busiest time, where they are known better than by `peak`."""
    groups: int = 1
    """How many times everything is read."""
    compression: float = 1.0
    """How many times smaller compression makes the messages: 3 for 3 to 1.  `throughput` is already compressed."""
    growth: float = 0.0
    """Of messages and throughput in a month: 0.05 for 5 %."""
    months: float = 0.0
    """The load is that after so many months of growth."""

    @property
    def factor(self) -> float:
        """By how much the load will have grown."""
        return float((1 + self.growth) ** self.months)

    @property
    def mean_rate(self) -> float:
        return self.messages_per_day * self.message_bytes / self.compression * self.factor / DAY_S

    @property
    def peak_rate(self) -> float:
        return self.mean_rate * self.peak if self.throughput is None else self.throughput * self.factor


@dataclass(frozen=True, slots=True)
class BrokerCapacity:
    """What one broker, one partition and one consumer can do.  Rates are bytes a second."""

    broker_rate: float = 50e6
    """Written to a broker by producers and leaders alike."""
    consumer_rate: float = 10e6
    partition_rate: float = 50e6
    network_rate: float = 1.25e9
    """In each direction."""
    disk_bytes: float = 4e12
    disk_fill: float = 0.8
    """The share of a disk that may be full: past it alerts fire."""
    replicas_max: int = 4_000


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    storage_bytes: float
    """All replicas."""
    disk_bytes: float
    """To buy, so that disks stay below their allowed fill."""
    partitions: int
    partitions_by: Mapping[str, int]
    brokers: int
    brokers_by: Mapping[str, int]
    """What each resource alone would need."""
    limit: str
    """The resource that needs the most brokers, so the one that runs out first."""
    rate_in: float
    """At the peak, into all brokers: producers and replication."""
    rate_out: float
    """At the peak, out of all brokers: replication and consumers."""


class BadLoad(ValueError):
    """A load that contradicts itself or exceeds every cluster; the message says why."""


MEAN_MAX = 1e18
RETENTION_S_MAX = 1_000 * 365 * DAY_S
REPLICATION_MAX = 32
GROWING = frozenset({"throughput", "storage", "network"})
GROUPS_MAX = 1_000_000
PEAK_MAX = 1_000_000.0
COMPRESSION_MAX = 1_000.0
GROWTH_MIN, GROWTH_MAX = -0.9, 10.0
MONTHS_MAX = 120.0


def check(load: Load, machine: BrokerCapacity) -> None:
    """Raises `BadLoad` for contradictory and for impossibly large loads.  The comparisons also refuse NaN."""
    if not 1 <= load.compression <= COMPRESSION_MAX:
        raise BadLoad(
            f"the compression ratio must be from 1 to {COMPRESSION_MAX:,.0f}, not {load.compression:g}"
        )
    if not GROWTH_MIN <= load.growth <= GROWTH_MAX:
        raise BadLoad(
            f"the growth must be from {GROWTH_MIN:.0%} to {GROWTH_MAX:.0%} a month, not {load.growth:.0%}"
        )
    if not 0 <= load.months <= MONTHS_MAX:
        raise BadLoad(f"the plan can be for 0 to {MONTHS_MAX:.0f} months from now, not {load.months:g}")
    if not 0 < load.mean_rate <= MEAN_MAX:
        much = f"more than {size_text(MEAN_MAX)}/s" if load.mean_rate > 0 else "nothing at all"
        raise BadLoad(
            f"{load.messages_per_day:g} messages per day of {load.message_bytes:g} bytes are {much}"
        )
    if not 0 < load.retention_s <= RETENTION_S_MAX:
        raise BadLoad("the retention is longer than a thousand years")
    if not 1 <= load.replication <= REPLICATION_MAX:
        raise BadLoad(f"the replication factor must be from 1 to {REPLICATION_MAX}, not {load.replication}")
    if not 0 <= load.groups <= GROUPS_MAX:
        raise BadLoad(f"the number of consumer groups must be from 0 to {GROUPS_MAX}, not {load.groups}")
    if load.throughput is None and not 1 <= load.peak <= PEAK_MAX:
        raise BadLoad(f"the peak factor must be from 1 to {PEAK_MAX:,.0f}, not {load.peak:g}")
    if load.throughput is not None and not load.peak_rate >= load.mean_rate * (1 - WHOLE):
        raise BadLoad(
            f"a peak throughput of {size_text(load.peak_rate)}/s is less than the mean, "
            f"which is {size_text(load.mean_rate)}/s"
        )
    if not load.peak_rate <= MEAN_MAX * PEAK_MAX:
        raise BadLoad(f"a peak of {load.peak_rate:g} bytes per second is not possible")
    rates = (machine.broker_rate, machine.consumer_rate, machine.partition_rate, machine.network_rate)
    if not all(1 <= amount <= MEAN_MAX for amount in (*rates, machine.disk_bytes)):
        raise BadLoad(
            "what a broker, a disk, a partition or a consumer can do is one byte at least, and no exabyte"
        )
    if not 0 < machine.disk_fill <= 1 or machine.replicas_max < 1:
        raise BadLoad(
            "a disk may be full to a share above 0 and up to 1, and a broker holds one replica at least"
        )


def plan(load: Load, machine: BrokerCapacity) -> CapacityPlan:
    """`BadLoad`: see `check`."""
    check(load, machine)
    peak, replicas = load.peak_rate, load.replication
    storage = load.mean_rate * load.retention_s * replicas
    partitions_by = {
        "consumers": _ceil(peak / machine.consumer_rate),
        "writes": _ceil(peak / machine.partition_rate),
    }
    partitions = max(partitions_by.values())
    rate_in, rate_out = peak * replicas, peak * (replicas - 1 + load.groups)
    brokers_by = {
        "throughput": _ceil(peak / machine.broker_rate) * replicas,
        "storage": _ceil(storage / (machine.disk_bytes * machine.disk_fill)),
        "network": _ceil(max(rate_in, rate_out) / machine.network_rate),
        "replicas": _ceil(partitions * replicas / machine.replicas_max),
        "replication": replicas,
    }
    # Of equals the first one: throughput before the mere number of copies.
    limit = max(brokers_by, key=lambda name: brokers_by[name])
    return CapacityPlan(
        storage_bytes=storage,
        disk_bytes=storage / machine.disk_fill,
        partitions=partitions,
        partitions_by=partitions_by,
        brokers=brokers_by[limit],
        brokers_by=brokers_by,
        limit=limit,
        rate_in=rate_in,
        rate_out=rate_out,
    )


def _ceil(amount: float) -> int:
    return max(1, math.ceil(amount - WHOLE))


@dataclass(frozen=True, slots=True)
class Measured:
    """A cluster as it is.  None: it could not be measured, because nothing was written or nothing is kept."""

    brokers: int
    partitions: int
    """Of topics of users."""
    replicas: int
    stored_bytes: float
    """All replicas, internal topics too."""
    disk_bytes: float
    disk_free_bytes: float
    messages_per_s: float
    message_bytes: float | None
    """The mean of what is kept."""

    @property
    def rate(self) -> float | None:
        """Bytes of new records a second, before replication."""
        return None if self.message_bytes is None else self.messages_per_s * self.message_bytes


@dataclass(frozen=True, slots=True)
class Need:
    """One resource: how much the plan needs, and how much there is."""

    resource: str
    needed: float
    there: float
    now: float | None = None
    """How much of it is used now."""

    @property
    def share(self) -> float:
        return self.needed / self.there if self.there else math.inf


class Outgrown(NamedTuple):
    """Which resource the load outgrows first, after how many months."""

    resource: str
    months: float


@dataclass(frozen=True, slots=True)
class CapacityComparison:
    needs: list[Need]
    limit: Need
    """What runs out first: the resource of which the plan would use the largest share."""
    message_bytes: float | None
    disk_full_s: float | None
    """Until the disks reach their allowed fill, if writes go on as now and nothing is deleted; None: never."""
    outgrown: Outgrown | None = None
    """None: the load does not grow."""

    @property
    def fits(self) -> bool:
        return self.limit.share <= 1 + WHOLE


def compare(load: Load, machine: BrokerCapacity, cluster: Measured) -> CapacityComparison:
    wanted = plan(load, machine)
    rate = cluster.rate
    replicas_each = cluster.replicas / cluster.partitions if cluster.partitions else 1.0
    written = None if rate is None else rate * replicas_each
    needs = [
        Need("throughput", wanted.rate_in, cluster.brokers * machine.broker_rate, written),
        Need("storage", wanted.storage_bytes, cluster.disk_bytes * machine.disk_fill, cluster.stored_bytes),
        Need("network", max(wanted.rate_in, wanted.rate_out), cluster.brokers * machine.network_rate, None),
        Need("partitions", wanted.partitions, cluster.partitions, cluster.partitions),
        Need("replication", load.replication, cluster.brokers, None),
    ]
    # Partitions are added in a moment: they never limit what a cluster can take.
    limit = max((need for need in needs if need.resource != "partitions"), key=lambda need: need.share)
    return CapacityComparison(
        needs, limit, cluster.message_bytes, _full_after_s(machine, cluster, written), _outgrown(load, needs)
    )


def _outgrown(load: Load, needs: list[Need]) -> Outgrown | None:
    """`needs` are those at the end of the plan; they grow with the load."""
    if load.growth <= 0:
        return None
    growing = [need for need in needs if need.resource in GROWING]
    first = max(growing, key=lambda need: need.share)
    if not math.isfinite(first.share):
        return Outgrown(first.resource, 0.0)
    months = load.months - math.log(first.share) / math.log(1 + load.growth)
    return Outgrown(first.resource, max(0.0, months))


def _full_after_s(machine: BrokerCapacity, cluster: Measured, written: float | None) -> float | None:
    if not written or not cluster.disk_bytes:
        return None
    left = cluster.disk_free_bytes - cluster.disk_bytes * (1 - machine.disk_fill)
    return max(0.0, left) / written
