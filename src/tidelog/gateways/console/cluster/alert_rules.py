"""The alert rules of `deploy/prometheus/tidelog.rules.yml`, evaluated on what the console polls.  Pure.

A rule whose condition holds is pending; once the condition has held for `after_ms` the rule fires."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.gateways.console.cluster.health import many

LAG_LARGE, LAG_HUGE = 10_000, 1_000_000
LAG_NOTICED = 1_000
PRODUCE_P99_MS = 500
DISK_FILLING, DISK_FULL = 0.8, 0.95


@dataclass(frozen=True, slots=True)
class AlertFacts:
    under_replicated: int = 0
    offline: int = 0
    below_min: int = 0
    awaiting: Mapping[int, int] = field(default_factory=dict)
    """By broker: how many partitions without a leader wait for that broker."""
    needing_recovery: int = 0
    unproven_leases: tuple[int, ...] = ()
    """Brokers that cannot renew their registration."""
    missing_brokers: tuple[int, ...] = ()
    lags: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """In offsets, by group and topic."""
    growing_lags: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By how much lags have grown in the last ten minutes, by group and topic."""
    produce_p99_ms: float = 0.0
    rebalancing: tuple[str, ...] = ()
    """Groups that are rebalancing."""
    disks: Mapping[str, float] = field(default_factory=dict)
    """The used share of each disk, by broker and log directory."""
    offline_folders: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    """One text per log with damaged records: the partition, the broker and the offsets."""
    isr_shrinks: int = 0
    """In the last five minutes."""


class AlertRule(NamedTuple):
    name: str
    severity: str
    after_ms: int
    about: str
    holds: Callable[[AlertFacts], list[str]]
    """What the rule applies to now, one text for each; empty when the condition does not hold."""


def _counted(count: int, noun: str) -> list[str]:
    return [many(count, noun)] if count else []


def _lag(facts: AlertFacts, least: int) -> list[str]:
    return [
        f"group {group}, topic {topic}: lag of {lag:,} messages"
        for (group, topic), lag in sorted(facts.lags.items())
        if lag > least
    ]


def _growing(facts: AlertFacts) -> list[str]:
    return [
        f"group {group}, topic {topic}: {growth:,} more messages in ten minutes"
        for (group, topic), growth in sorted(facts.growing_lags.items())
        if growth > 0 and facts.lags.get((group, topic), 0) > LAG_NOTICED
    ]


def _disk(facts: AlertFacts, least: float) -> list[str]:
    return [f"{name}: {used * 100:.0f} % used" for name, used in sorted(facts.disks.items()) if used > least]


MINUTE = 60_000
RULES = (
    AlertRule(
        "UnderReplicatedPartitions",
        "P0",
        MINUTE,
        "Some partitions have fewer in-sync replicas than replicas: another failure may lose messages.",
        lambda facts: _counted(facts.under_replicated, "partition"),
    ),
    AlertRule(
        "PartitionsBelowMinInSync",
        "P0",
        MINUTE // 2,
        "The ISR is smaller than min.insync.replicas: producers with acks=all get NOT_ENOUGH_REPLICAS.",
        lambda facts: _counted(facts.below_min, "partition"),
    ),
    AlertRule(
        "OfflinePartitions",
        "P0",
        MINUTE // 2,
        "Partitions without a leader can be neither read nor written.",
        lambda facts: _counted(facts.offline, "partition"),
    ),
    AlertRule(
        "PartitionsAwaitReplicas",
        "P0",
        MINUTE // 2,
        "Partitions have no leader until a broker returns: only brokers that are not running have all of their records.",
        lambda facts: [
            f"broker {node}: {many(count, 'partition')}" for node, count in sorted(facts.awaiting.items())
        ],
    ),
    AlertRule(
        "PartitionsNeedRecovery",
        "P0",
        MINUTE // 2,
        "No replica is known to have all records of these partitions: `tidelog partitions recover` compares the replicas.",
        lambda facts: _counted(facts.needing_recovery, "partition"),
    ),
    AlertRule(
        "BrokerDown",
        "P0",
        MINUTE // 2,
        "A broker that holds replicas is not running or cannot be reached.",
        lambda facts: [f"broker {node}" for node in facts.missing_brokers],
    ),
    AlertRule(
        "DiskFull",
        "P0",
        MINUTE,
        "A disk is almost full: when it is, producers get KAFKA_STORAGE_ERROR.",
        lambda facts: _disk(facts, DISK_FULL),
    ),
    AlertRule(
        "DataDirectoryOffline",
        "P0",
        MINUTE // 2,
        "A log directory failed: the broker does not serve its partitions until the disk is repaired.",
        lambda facts: list(facts.offline_folders),
    ),
    AlertRule(
        "DamagedPartitions",
        "P1",
        5 * MINUTE,
        "Records on a disk are damaged and cannot be repaired from another replica.",
        lambda facts: list(facts.damaged),
    ),
    AlertRule(
        "ConsumerLagHuge",
        "P1",
        5 * MINUTE,
        "A group lags by more than a million messages: its consumers are too few, too slow, or gone.",
        lambda facts: _lag(facts, LAG_HUGE),
    ),
    AlertRule(
        "InSyncReplicasShrinking",
        "P1",
        0,
        "Replicas left the ISR in the last five minutes: a follower is down, slow, or cut off.",
        lambda facts: _counted(facts.isr_shrinks, "ISR shrink"),
    ),
    AlertRule(
        "BrokerLeaseNotProven",
        "P1",
        MINUTE,
        "A broker cannot renew its registration: it is cut off from etcd, or etcd is slow.",
        lambda facts: [f"broker {node}" for node in facts.unproven_leases],
    ),
    AlertRule(
        "ConsumerLag",
        "P2",
        5 * MINUTE,
        "A group lags by more than ten thousand messages: watch whether the lag grows.",
        lambda facts: _lag(facts, LAG_LARGE),
    ),
    AlertRule(
        "ConsumerLagGrowing",
        "P2",
        10 * MINUTE,
        "A group reads more slowly than producers write: `tidelog model measure` tells how many consumers keep up.",
        _growing,
    ),
    AlertRule(
        "ProduceLatencyHigh",
        "P2",
        5 * MINUTE,
        "One produce request in a hundred takes longer than half a second: a disk, a follower or the network is slow.",
        lambda facts: [f"{facts.produce_p99_ms:,.0f} ms"] if facts.produce_p99_ms > PRODUCE_P99_MS else [],
    ),
    AlertRule(
        "RebalanceInProgress",
        "P2",
        MINUTE,
        "Members of a group are waiting for their partitions.",
        lambda facts: [f"group {name}" for name in facts.rebalancing],
    ),
    AlertRule(
        "DiskUsageHigh",
        "P2",
        10 * MINUTE,
        "A disk is more than 80 % full: add space or shorten retention before it is full.",
        lambda facts: _disk(facts, DISK_FILLING),
    ),
)


class AlertStatus(NamedTuple):
    """The state of a rule.  `since_ms`: when its condition began to hold, None while it does not."""

    rule: AlertRule
    since_ms: int | None
    details: list[str]

    def state(self, now_ms: int) -> str:
        if self.since_ms is None:
            return "ok"
        return "firing" if now_ms - self.since_ms >= self.rule.after_ms else "pending"


class Alerts:
    def __init__(self, rules: tuple[AlertRule, ...] = RULES) -> None:
        self._rules = rules
        self._since: dict[str, int] = {}
        self.statuses = [AlertStatus(rule, None, []) for rule in rules]

    def evaluate(self, facts: AlertFacts, now_ms: int) -> None:
        self.statuses = []
        for rule in self._rules:
            details = rule.holds(facts)
            if details:
                since: int | None = self._since.setdefault(rule.name, now_ms)
            else:
                self._since.pop(rule.name, None)
                since = None
            self.statuses.append(AlertStatus(rule, since, details))

    def firing(self, now_ms: int) -> list[AlertStatus]:
        return [status for status in self.statuses if status.state(now_ms) == "firing"]
