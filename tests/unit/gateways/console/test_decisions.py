"""What the console decides: how a cluster is, which alerts stand, what bytes look like."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from tidelog.client.admin.replica_states import CAUSES
from tidelog.gateways.console.condition import condition, why_leaderless
from tidelog.gateways.console.differences import Change, differences
from tidelog.gateways.console.plan import LOAD, MACHINE
from tidelog.gateways.console.plan import _read as plan_read
from tidelog.gateways.console.rules import RULES, Alerts, Facts
from tidelog.gateways.console.values import Unreadable, readable, typed, typed_headers
from tidelog.metadata.image import BrokerImage, Configs, Image, PartitionImage, TopicImage
from tidelog.metadata.records import Cause, Endpoint, Tail
from tidelog.metadata.sharded_map import ShardedMap
from tidelog.model.capacity import BadLoad, plan
from tidelog.types import NodeId

RULES_FILE = Path(__file__).resolve().parents[4] / "deploy" / "prometheus" / "tidelog.rules.yml"
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def partition(index: int, leader: NodeId | None, in_sync: tuple[NodeId, ...]) -> PartitionImage:
    return PartitionImage(index, (ONE, TWO, THREE), leader, 0, in_sync, 0, 0)


def image(
    *partitions: PartitionImage, brokers: tuple[NodeId, ...] = (ONE, TWO, THREE), least: str = "2"
) -> Image:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
    return Image(
        brokers={node: BrokerImage(node, 0, (endpoint,), None, False) for node in brokers},
        topics=ShardedMap([("t", TopicImage("t", uuid4(), partitions, 0))]),
        topic_configs=ShardedMap([("t", Configs({"min.insync.replicas": least}, 0))]),
    )


def test_the_condition_tells_the_worst_first() -> None:
    well = condition(image(partition(0, ONE, (ONE, TWO, THREE))), 1)
    assert well.words == ("good", "All well") and (well.topics, well.partitions, well.brokers) == (1, 1, 3)
    late = condition(image(partition(0, ONE, (ONE, TWO))), 1)
    assert late.words == ("warn", "1 partition under-replicated")
    moving = partition(0, ONE, (ONE, TWO))._replace(adding=(THREE,))
    assert condition(image(moving), 1).words == ("good", "All well")
    gone = condition(image(partition(0, ONE, (ONE, TWO)), brokers=(ONE, TWO)), 1)
    assert gone.words == ("warn", "1 broker missing") and gone.missing == {THREE}
    refused = condition(image(partition(0, ONE, (ONE,)), partition(1, ONE, (ONE,))), 1)
    assert refused.words == ("bad", "2 partitions cannot take acks=all")
    offline = condition(
        image(partition(0, None, (THREE,)), partition(1, THREE, (THREE,)), brokers=(ONE, TWO)), 1
    )
    assert offline.words == ("bad", "2 partitions without a leader: waiting for broker 3")
    assert offline.awaiting == {THREE: 1}


def test_a_partition_without_a_leader_says_what_it_waits_for() -> None:
    assert why_leaderless(partition(0, ONE, (ONE,)), (ONE,)) == []
    assert why_leaderless(partition(0, None, (TWO, THREE)), (ONE,)) == ["Waits for broker 2 or 3."]
    assert why_leaderless(partition(0, None, (ONE,)), (ONE,)) == []
    empty = partition(0, None, (ONE,))._replace(doubts=(Tail(ONE, -1, -1, Cause.NEW_DIRECTORY),))
    assert why_leaderless(empty, (ONE, TWO)) == [
        "An operator has to decide: see tidelog partitions recover.",
        "Broker 1: it came back with a new, empty directory.",
    ]
    level, words = condition(image(empty), 1).words
    assert level == "bad" and words.endswith("without a leader: 1 for an operator to decide")


def test_every_cause_of_doubt_has_words() -> None:
    assert set(CAUSES) == set(Cause)


def test_a_topic_without_a_setting_follows_the_brokers() -> None:
    found = image(partition(0, ONE, (ONE, TWO)), least="")
    assert condition(found, 2).below_min == [] and len(condition(found, 3).below_min) == 1


def test_an_alert_is_pending_before_it_fires_and_clears() -> None:
    alerts = Alerts()

    def state(now_ms: int, facts: Facts) -> str:
        alerts.seen(facts, now_ms)
        return next(one.state(now_ms) for one in alerts.standings if one.rule.name == "BrokerDown")

    down = Facts(missing_brokers=(3,))
    assert state(0, Facts()) == "ok"
    assert state(1_000, down) == "pending"
    assert state(30_999, down) == "pending"
    assert state(31_000, down) == "firing"
    assert [one.rule.name for one in alerts.firing(31_000)] == ["BrokerDown"]
    assert state(40_000, Facts()) == "ok"
    assert state(50_000, down) == "pending"


def test_each_rule_holds_for_its_own_fact_alone() -> None:
    facts = {
        "UnderReplicatedPartitions": Facts(under_replicated=1),
        "PartitionsBelowMinInSync": Facts(below_min=1),
        "OfflinePartitions": Facts(offline=1),
        "PartitionsAwaitReplicas": Facts(awaiting={3: 2}),
        "PartitionsNeedRecovery": Facts(needing_recovery=1),
        "BrokerLeaseNotProven": Facts(unproven_leases=(2,)),
        "BrokerDown": Facts(missing_brokers=(1,)),
        "DiskFull": Facts(disks={"d": 0.96}),
        "DataDirectoryOffline": Facts(offline_folders=("d",)),
        "DamagedPartitions": Facts(damaged=("orders-0 on broker 1: offsets 0 to 4",)),
        "ConsumerLagHuge": Facts(lags={("g", "t"): 1_000_001}),
        "InSyncReplicasShrinking": Facts(isr_shrinks=1),
        "ConsumerLag": Facts(lags={("g", "t"): 10_001}),
        "RebalanceInProgress": Facts(rebalancing=("g",)),
        "DiskUsageHigh": Facts(disks={"d": 0.81}),
    }
    implied = {"DiskFull": {"DiskUsageHigh"}, "ConsumerLagHuge": {"ConsumerLag"}}
    assert set(facts) == {rule.name for rule in RULES}
    for name, one in facts.items():
        holding = {rule.name for rule in RULES if rule.holds(one)}
        assert holding == {name} | implied.get(name, set())
    bounds = Facts(lags={("g", "t"): 10_000}, disks={"d": 0.8})
    assert not any(rule.holds(bounds) for rule in RULES)


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


def test_bytes_are_shown_as_what_they_look_like() -> None:
    assert readable(None) == ("null", "null")
    assert readable(b"")[:2] == ("empty", "")
    assert readable("grüß".encode())[:2] == ("text", "grüß")
    assert readable(b'{"a":[1]}') == ("JSON", '{"a": [1]}')
    assert readable(b'{"a":[1]}', whole=True) == ("JSON", '{\n  "a": [\n    1\n  ]\n}')
    assert readable(b'{"a":1e999}') == ("text", '{"a":1e999}')
    assert readable(b'{"\\udfff":1}') == ("JSON", '{"\\udfff": 1}')
    deep = b"[" * 900 + b"1," * 10_000 + b"1" + b"]" * 900
    assert len(readable(deep, whole=True).text) < 100_000, "with a line for each it is twenty megabytes"
    assert readable(b"{broken")[:2] == ("text", "{broken")
    assert readable(b"[" * 100_000).kind == "text"
    assert readable(b"a\x00b").kind == "bytes" and readable(b"\xff").text.startswith("000000  ff ")
    assert readable(bytes(10_000)).text.endswith("… 10,000 bytes")
    assert readable(b"x" * 5_000).cut() == "x" * 2_000 + "… (5,000 characters)"


def test_what_is_typed_becomes_bytes() -> None:
    assert typed("text", "ü") == "ü".encode() and typed("null", "x") is None
    assert typed("json", ' {"a":  1}') == b'{"a":1}'
    assert typed("base64", "AP8 =\n") == b"\x00\xff" and typed("hex", "00 ff") == b"\x00\xff"
    assert typed_headers("a: 1\n\nb:\nc: d: e") == [("a", b"1"), ("b", b""), ("c", b"d: e")]
    for kind, text in (("json", "{"), ("base64", "!"), ("hex", "0")):
        with pytest.raises(Unreadable):
            typed(kind, text)
    with pytest.raises(Unreadable, match="no header"):
        typed_headers("nothing")


def test_differences_by_line() -> None:
    assert differences("a\nb\nc", "a\nx\nc\nd") == [
        (Change.KEPT, "a"),
        (Change.REMOVED, "b"),
        (Change.ADDED, "x"),
        (Change.KEPT, "c"),
        (Change.ADDED, "d"),
    ]


def test_the_planner_reads_what_the_command_does() -> None:
    defaults = {name: one.default for name, one in (LOAD | MACHINE).items()}
    load, machine = plan_read(defaults)
    assert load.throughput is None and plan(load, machine).brokers > 0
    load, _ = plan_read(defaults | {"throughput": "500MB/s", "groups": "0"})
    assert (load.throughput, load.groups) == (500e6, 0)
    for wrong in (
        {"peak": "0.1"},
        {"throughput": "1KB/s"},
        {"messages": "1e300", "size": "1e300"},
        {"replication": "99"},
    ):
        with pytest.raises(BadLoad):
            plan(*plan_read(defaults | wrong))
