"""The figures of the overview."""

from __future__ import annotations

from tidelog.gateways.console.cluster.alert_rules import RULES, AlertStatus
from tidelog.gateways.console.cluster.health import ClusterHealth
from tidelog.gateways.console.pages.cluster.overview import health_figure
from tidelog.types import TopicPartition


def firing(*names: str) -> list[AlertStatus]:
    return [AlertStatus(rule, 0, ["x"]) for rule in RULES if rule.name in names]


def test_a_cluster_with_alerts_is_not_called_healthy() -> None:
    assert health_figure(ClusterHealth(), []) == ("good", "Healthy", "no alerts firing")
    lag = firing("ConsumerLag", "DiskUsageHigh")
    assert health_figure(ClusterHealth(), lag) == ("warn", "2 alerts firing", "ConsumerLag, DiskUsageHigh")
    assert health_figure(ClusterHealth(), firing("DiskFull"))[0] == "bad"


def test_a_problem_of_the_cluster_comes_before_its_alerts() -> None:
    offline = ClusterHealth(offline=[TopicPartition("t", 0)])
    level, summary, note = health_figure(offline, firing("OfflinePartitions"))
    assert (level, summary, note) == ("bad", "1 partition without a leader", "1 alert firing")
