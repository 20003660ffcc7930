"""The alerts: the rules of `deploy/prometheus/tidelog.rules.yml`, worked out on what the console sees.  Pure.

A rule that holds is pending first; after its time it fires."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LAG_LARGE, LAG_HUGE = 10_000, 1_000_000
DISK_FILLING, DISK_FULL = 0.8, 0.95


@dataclass(frozen=True, slots=True)
class Facts:
    under_replicated: int = 0
    offline: int = 0
    below_min: int = 0
    awaiting: Mapping[int, int] = field(default_factory=dict)
    """How many partitions without a leader wait for a broker."""
    needing_recovery: int = 0
    unproven_leases: tuple[int, ...] = ()
    """Brokers that cannot renew their registration."""
    missing_brokers: tuple[int, ...] = ()
    lags: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By group and topic."""
    rebalancing: tuple[str, ...] = ()
    """Names of groups."""
    disks: Mapping[str, float] = field(default_factory=dict)
    """What share of each disk is used, by broker and folder."""
    offline_folders: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    """Logs with damaged records, by broker."""
    isr_shrinks: int = 0
    """In the last five minutes."""


class Rule(NamedTuple):
    name: str
    severity: str
    after_ms: int
    about: str
    holds: Callable[[Facts], list[str]]
    """What it holds for, in words; empty when all is well."""


def _number(count: int, words: str) -> list[str]:
    return [f"{count:,} {words}"] if count else []


def _lag(facts: Facts, least: int) -> list[str]:
    return [
        f"group {name}: {lag:,} messages behind" for name, lag in sorted(facts.lags.items()) if lag > least
    ]


def _disk(facts: Facts, least: float) -> list[str]:
    return [f"{name}: {used * 100:.0f} % used" for name, used in sorted(facts.disks.items()) if used > least]


MINUTE = 60_000
RULES = (
    Rule(
        "UnderReplicatedPartitions",
        "P0",
        MINUTE,
        "Partitions lack replicas: another failure may lose messages.",
        lambda facts: _number(facts.under_replicated, "partitions"),
    ),
    Rule(
        "PartitionsBelowMinInSync",
        "P0",
        MINUTE // 2,
        "Fewer replicas are in sync than min.insync.replicas asks for: producers with acks=all are refused.",
        lambda facts: _number(facts.below_min, "partitions"),
    ),
    Rule(
        "OfflinePartitions",
        "P0",
        MINUTE // 2,
        "Partitions without a leader can be neither read nor written.",
        lambda facts: _number(facts.offline, "partitions"),
    ),
    Rule(
        "PartitionsAwaitReplicas",
        "P0",
        MINUTE // 2,
        "Partitions have no leader until a broker is back: only brokers that are not running have all of their records.",
        lambda facts: [
            f"broker {node}: {count:,} partitions" for node, count in sorted(facts.awaiting.items())
        ],
    ),
    Rule(
        "PartitionsNeedRecovery",
        "P0",
        MINUTE // 2,
        "No replica is known to have all records of these partitions: tidelog partitions recover shows what there is.",
        lambda facts: _number(facts.needing_recovery, "partitions"),
    ),
    Rule(
        "BrokerDown",
        "P0",
        MINUTE // 2,
        "A broker that holds replicas is not there.",
        lambda facts: [f"broker {node}" for node in facts.missing_brokers],
    ),
    Rule(
        "DiskFull",
        "P0",
        MINUTE,
        "A disk is almost full: producers will get KAFKA_STORAGE_ERROR.",
        lambda facts: _disk(facts, DISK_FULL),
    ),
    Rule(
        "DataDirectoryOffline",
        "P0",
        MINUTE // 2,
        "A disk failed: its partitions are not served by this broker until it is repaired.",
        lambda facts: list(facts.offline_folders),
    ),
    Rule(
        "DamagedPartitions",
        "P1",
        5 * MINUTE,
        "Records on a disk are damaged and are not repaired from another replica.",
        lambda facts: list(facts.damaged),
    ),
    Rule(
        "ConsumerLagHuge",
        "P1",
        5 * MINUTE,
        "A group is more than a million messages behind: its consumers are too few, too slow, or gone.",
        lambda facts: _lag(facts, LAG_HUGE),
    ),
    Rule(
        "InSyncReplicasShrinking",
        "P1",
        0,
        "Replicas fell behind in the last five minutes: a follower is down, slow, or cut off.",
        lambda facts: _number(facts.isr_shrinks, "times"),
    ),
    Rule(
        "BrokerLeaseNotProven",
        "P1",
        MINUTE,
        "A broker cannot renew its registration: it is cut off from etcd, or etcd is slow.",
        lambda facts: [f"broker {node}" for node in facts.unproven_leases],
    ),
    Rule(
        "ConsumerLag",
        "P2",
        5 * MINUTE,
        "A group is more than ten thousand messages behind: watch whether it grows.",
        lambda facts: _lag(facts, LAG_LARGE),
    ),
    Rule(
        "RebalanceInProgress",
        "P2",
        MINUTE,
        "Members of a group wait for their partitions.",
        lambda facts: [f"group {name}" for name in facts.rebalancing],
    ),
    Rule(
        "DiskUsageHigh",
        "P2",
        10 * MINUTE,
        "A disk is more than 80 % full: add space or shorten retention before it is full.",
        lambda facts: _disk(facts, DISK_FILLING),
    ),
)


class Standing(NamedTuple):
    """How a rule stands: `since_ms` is when it began to hold, None while it does not."""

    rule: Rule
    since_ms: int | None
    details: list[str]

    def state(self, now_ms: int) -> str:
        if self.since_ms is None:
            return "ok"
        return "firing" if now_ms - self.since_ms >= self.rule.after_ms else "pending"


class Alerts:
    def __init__(self, rules: tuple[Rule, ...] = RULES) -> None:
        self._rules = rules
        self._since: dict[str, int] = {}
        self.standings = [Standing(rule, None, []) for rule in rules]

    def seen(self, facts: Facts, now_ms: int) -> None:
        self.standings = []
        for rule in self._rules:
            details = rule.holds(facts)
            if details:
                since: int | None = self._since.setdefault(rule.name, now_ms)
            else:
                self._since.pop(rule.name, None)
                since = None
            self.standings.append(Standing(rule, since, details))

    def firing(self, now_ms: int) -> list[Standing]:
        return [one for one in self.standings if one.state(now_ms) == "firing"]
