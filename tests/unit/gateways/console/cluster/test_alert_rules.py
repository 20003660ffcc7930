"""When alerts are pending and when they fire."""

from __future__ import annotations

from pathlib import Path

import yaml

from tidelog.gateways.console.cluster.alert_rules import RULES, AlertFacts, Alerts

RULES_FILE = Path(__file__).resolve().parents[5] / "deploy" / "prometheus" / "tidelog.rules.yml"


def test_an_alert_is_pending_before_it_fires_and_clears() -> None:
    alerts = Alerts()

    def state(now_ms: int, facts: AlertFacts) -> str:
        alerts.evaluate(facts, now_ms)
        return next(one.state(now_ms) for one in alerts.statuses if one.rule.name == "BrokerDown")

    down = AlertFacts(missing_brokers=(3,))
    assert state(0, AlertFacts()) == "ok"
    assert state(1_000, down) == "pending"
    assert state(30_999, down) == "pending"
    assert state(31_000, down) == "firing"
    assert [one.rule.name for one in alerts.firing(31_000)] == ["BrokerDown"]
    assert state(40_000, AlertFacts()) == "ok"
    assert state(50_000, down) == "pending"


def test_each_rule_holds_for_its_own_fact_alone() -> None:
    facts = {
        "UnderReplicatedPartitions": AlertFacts(under_replicated=1),
        "PartitionsBelowMinInSync": AlertFacts(below_min=1),
        "OfflinePartitions": AlertFacts(offline=1),
        "PartitionsAwaitReplicas": AlertFacts(awaiting={3: 2}),
        "PartitionsNeedRecovery": AlertFacts(needing_recovery=1),
        "BrokerLeaseNotProven": AlertFacts(unproven_leases=(2,)),
        "BrokerDown": AlertFacts(missing_brokers=(1,)),
        "DiskFull": AlertFacts(disks={"d": 0.96}),
        "DataDirectoryOffline": AlertFacts(offline_folders=("d",)),
        "DamagedPartitions": AlertFacts(damaged=("orders-0 on broker 1: offsets 0 to 4",)),
        "ConsumerLagHuge": AlertFacts(lags={("g", "t"): 1_000_001}),
        "InSyncReplicasShrinking": AlertFacts(isr_shrinks=1),
        "ConsumerLag": AlertFacts(lags={("g", "t"): 10_001}),
        "ConsumerLagGrowing": AlertFacts(lags={("g", "t"): 1_001}, growing_lags={("g", "t"): 1}),
        "ProduceLatencyHigh": AlertFacts(produce_p99_ms=501),
        "RebalanceInProgress": AlertFacts(rebalancing=("g",)),
        "DiskUsageHigh": AlertFacts(disks={"d": 0.81}),
    }
    implied = {"DiskFull": {"DiskUsageHigh"}, "ConsumerLagHuge": {"ConsumerLag"}}
    assert set(facts) == {rule.name for rule in RULES}
    for name, one in facts.items():
        holding = {rule.name for rule in RULES if rule.holds(one)}
        assert holding == {name} | implied.get(name, set())
    bounds = AlertFacts(lags={("g", "t"): 10_000}, disks={"d": 0.8}, produce_p99_ms=500)
    assert not any(rule.holds(bounds) for rule in RULES)
    calm = AlertFacts(
        lags={("g", "t"): 1_000, ("h", "t"): 5_000}, growing_lags={("g", "t"): 9, ("h", "t"): 0}
    )
    assert not any(rule.holds(calm) for rule in RULES)


def test_the_rules_are_those_of_prometheus() -> None:
    rows = yaml.safe_load(RULES_FILE.read_text())["groups"][0]["rules"]
    units = {"s": 1_000, "m": 60_000}
    told = {
        row["alert"]: (
            row["labels"]["priority"].upper(),
            int(row["for"][:-1]) * units[row["for"][-1]] if "for" in row else 0,
        )
        for row in rows
    }
    assert told == {rule.name: (rule.severity, rule.after_ms) for rule in RULES}
    expressions = {row["alert"]: row["expr"] for row in rows}
    for name, bound in (("ConsumerLag", 10_000), ("ConsumerLagHuge", 1_000_000)):
        assert float(expressions[name].rpartition(">")[2]) == bound
    for name, share in (("DiskUsageHigh", 0.8), ("DiskFull", 0.95)):
        assert float(expressions[name].rpartition(">")[2]) == share


def test_an_alert_about_lag_names_the_group_and_the_topic() -> None:
    huge = next(rule for rule in RULES if rule.name == "ConsumerLagHuge")
    facts = AlertFacts(lags={("billing", "orders"): 1_000_001})
    assert huge.holds(facts) == ["group billing, topic orders: lag of 1,000,001 messages"]
    shrinking = next(rule for rule in RULES if rule.name == "InSyncReplicasShrinking")
    assert shrinking.holds(AlertFacts(isr_shrinks=2)) == ["2 ISR shrinks"]


def test_no_alert_shows_a_python_value() -> None:
    facts = AlertFacts(
        under_replicated=1,
        offline=1,
        below_min=1,
        awaiting={3: 2},
        needing_recovery=1,
        unproven_leases=(2,),
        missing_brokers=(1,),
        lags={("g", "t"): 2_000_000},
        growing_lags={("g", "t"): 5},
        produce_p99_ms=900.0,
        rebalancing=("g",),
        disks={"broker 1 /data": 0.96},
        offline_folders=("broker 1 /data",),
        damaged=("orders-0 on broker 1: offsets 0 to 4",),
        isr_shrinks=1,
    )
    for rule in RULES:
        details = rule.holds(facts)
        assert details
        assert not any(mark in detail for detail in details for mark in "()[]{}'")
