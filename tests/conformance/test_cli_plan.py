"""`tidelog plan`: by itself, and beside a real broker that takes records while it is watched."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from tests.conformance.clients import Message, confluent_produce
from tests.conformance.consuming import fill
from tests.conformance.test_cli_topics import ok
from tests.unit.cli.commands import invoke

LOAD = ("plan", "--messages-per-day", "1e9", "--size", "1KB", "--retention", "7d", "--replication", "3")


def test_a_plan_without_a_cluster() -> None:
    found = json.loads(ok(*LOAD, "--throughput", "500MB/s", "--offline", "--json"))
    assert round(found["plan"]["storage_bytes"] / 1e12, 6) == 21
    assert found["plan"]["brokers"] == 30 and found["plan"]["partitions"] == 50
    assert found["measured"] is None and found["comparison"] is None
    shown = ok(*LOAD, "--throughput", "500MB/s", "--offline")
    assert "21 TB" in shown and "Throughput is the bottleneck: the load needs 30 brokers." in shown


def test_a_plan_for_a_load_that_grows_and_is_compressed() -> None:
    grows = ("--compression", "4", "--growth", "5", "--months", "24", "--offline")
    found = json.loads(ok(*LOAD, *grows, "--json"))
    assert round(found["plan"]["storage_bytes"] / 1e12, 3) == round(21 / 4 * 1.05**24, 3)
    shown = ok(*LOAD, *grows)
    assert "1 kB / 4 * 3.23 * 7 days" in shown and "in 24 months, growing by 5 % a month" in shown


def test_a_cluster_that_is_not_there_does_not_keep_from_planning() -> None:
    shown = invoke(*LOAD, "--bootstrap", "127.0.0.1:1", "--timeout", "2")
    assert shown.exit_code == 0
    assert "21 TB" in shown.stdout and "No cluster to compare with" in shown.stderr


def test_a_cluster_is_measured(bootstrap: str, topic: Callable[..., str]) -> None:
    name, ended = topic(partitions=2), threading.Event()
    fill(bootstrap, name, partitions=2, each=50)

    def write() -> None:
        while not ended.wait(0.05):
            confluent_produce(bootstrap, name, [Message(b"x" * 500)] * 20, partition=0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        on = ("--bootstrap", bootstrap, "--measure", "1")
        found = json.loads(ok(*LOAD, *on, "--json"))
        shown = ok(*LOAD, *on)
    finally:
        ended.set()
        writer.join()
    measured = found["measured"]
    assert measured["brokers"] == 1 and measured["partitions"] >= 2
    assert measured["messages_per_s"] > 0 and measured["message_bytes"] > 10
    assert measured["stored_bytes"] > 500 and measured["disk_bytes"] > measured["disk_free_bytes"] > 0
    assert found["comparison"]["fits"] is False  # three copies do not fit on one broker
    assert found["comparison"]["disk_full_s"] > 0
    assert found["comparison"]["outgrown"] is None
    assert "This cluster is too small for the plan" in shown and "runs out first" in shown


def test_amounts_that_mean_nothing() -> None:
    for option, value in (
        ("--size", "1XB"),
        ("--messages-per-day", "many"),
        ("--retention", "7"),
        ("--peak", "0.5"),
        ("--disk-fill", "0"),
        ("--replication", "0"),
        ("--broker-disk", "0"),
        ("--compression", "0.5"),
        ("--growth", "5000"),
        ("--months", "-1"),
    ):
        shown = invoke(*LOAD, option, value, "--offline")
        assert shown.exit_code == 2, option
        assert option in shown.stderr


def test_loads_that_contradict_themselves() -> None:
    for option, value, words in (
        ("--throughput", "1KB/s", "less than the mean"),
        ("--messages-per-day", "1e300", "more than 1 EB/s"),
        ("--retention", "1e308d", "a thousand years"),
    ):
        shown = invoke(*LOAD, option, value, "--offline")
        assert shown.exit_code == 2 and words in shown.stderr, option
