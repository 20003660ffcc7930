"""`tidelog topics` and `tidelog configs` against a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cli.commands import invoke


def ok(*arguments: str) -> str:
    shown = invoke(*arguments)
    assert shown.exit_code == 0, shown.stderr
    return shown.stdout


def failed(*arguments: str) -> str:
    shown = invoke(*arguments)
    assert shown.exit_code == 1, shown.stdout
    assert shown.stderr.startswith("Error: ") and shown.stderr.count("\n") == 1
    return shown.stderr


@pytest.fixture
def on(bootstrap: str) -> tuple[str, str]:
    return ("--bootstrap", bootstrap)


def described(topic: str, on: tuple[str, str]) -> Any:
    (one,) = json.loads(ok("topics", "describe", topic, "--json", *on))
    return one


def test_a_topic_is_created_listed_described_and_deleted(
    on: tuple[str, str], name: Callable[[], str]
) -> None:
    topic = name()
    created = json.loads(
        ok("topics", "create", topic, "--partitions", "3", "--config", "retention.ms=3600000", "--json", *on)
    )
    (one,) = created["created"]
    assert (one["name"], one["partitions"], one["replication_factor"]) == (topic, 3, 1)
    listed = {one["name"]: one for one in json.loads(ok("topics", "list", "--json", *on))}
    assert listed[topic] == {**one, "internal": False}
    assert topic in ok("topics", "list", *on)
    found = described(topic, on)
    assert found["id"] == one["id"] and found["configs"] == {"retention.ms": "3600000"}
    assert [part["partition"] for part in found["details"]] == [0, 1, 2]
    for part in found["details"]:
        assert part["leader"] in part["in_sync"] and part["in_sync"] == part["replicas"]
        assert (part["start_offset"], part["end_offset"], part["size_bytes"]) == (0, 0, 0)
    text = ok("topics", "describe", topic, *on)
    assert "retention.ms=3600000" in text and text.count("\n") == 6
    assert json.loads(ok("topics", "delete", topic, "--json", *on)) == {
        "deleted": [topic],
        "missing": [],
        "dry_run": False,
    }
    assert topic not in ok("topics", "list", *on)


def test_what_is_there_already_or_not_at_all_is_an_error_unless_said_otherwise(
    on: tuple[str, str], name: Callable[[], str]
) -> None:
    topic = name()
    ok("topics", "create", topic, *on)
    assert f"Topic '{topic}' already exists." in failed("topics", "create", topic, *on)
    assert "already exists" in ok("topics", "create", topic, "--if-not-exists", *on)
    ok("topics", "delete", topic, *on)
    for arguments in (("delete", topic), ("describe", topic), ("alter", topic, "--partitions", "2")):
        assert f"there is no topic '{topic}'" in failed("topics", *arguments, *on)
    assert "does not exist" in ok("topics", "delete", topic, "--if-exists", *on)


def test_of_several_topics_the_good_ones_are_made_and_the_bad_one_is_named(
    on: tuple[str, str], name: Callable[[], str]
) -> None:
    first, second = name(), name()
    said = failed("topics", "create", first, "not a name", second, *on)
    assert "not a name" in said
    listed = ok("topics", "list", *on)
    assert first in listed and second in listed


def test_partitions_are_added_and_never_taken_away(on: tuple[str, str], topic: Callable[..., str]) -> None:
    fresh = topic(partitions=2)
    ok("topics", "alter", fresh, "--partitions", "4", *on)
    failed("topics", "alter", fresh, "--partitions", "3", *on)
    assert described(fresh, on)["partitions"] == 4


def test_settings_are_set_shown_with_their_source_and_unset(
    on: tuple[str, str], topic: Callable[..., str]
) -> None:
    fresh = topic()

    def entry(*options: str) -> Any:
        shown = ok("configs", "describe", "topic", fresh, "segment.bytes", "--json", *options, *on)
        (one,) = json.loads(shown)["configs"]
        return one

    before = entry()
    assert (before["value"], before["default"]) == ("1073741824", "1073741824")
    assert (before["source"], before["documentation"]) == ("default", None)
    assert "segment.bytes=2000000" in ok("configs", "set", "topic", fresh, "segment.bytes=2000000", *on)
    changed = entry("--docs")
    assert (changed["value"], changed["source"]) == ("2000000", "dynamic_topic")
    assert changed["default"] == before["value"] and len(changed["documentation"]) > 20
    ok("topics", "alter", fresh, "--config", "retention.ms=5000", "--unset", "segment.bytes", *on)
    assert entry() == before
    assert described(fresh, on)["configs"] == {"retention.ms": "5000"}
    ok("configs", "unset", "topic", fresh, "retention.ms", *on)
    assert described(fresh, on)["configs"] == {}


def test_a_setting_that_cannot_be_is_refused_and_nothing_changes(
    on: tuple[str, str], topic: Callable[..., str]
) -> None:
    fresh = topic()
    assert "no.such.setting" in failed("configs", "set", "topic", fresh, "no.such.setting=1", *on)
    assert "retention.ms" in failed("configs", "set", "topic", fresh, "retention.ms=soon", *on)
    assert "no.such.setting" in failed("configs", "describe", "topic", fresh, "no.such.setting", *on)
    assert described(fresh, on)["configs"] == {}


def test_a_brokers_settings_are_shown(on: tuple[str, str]) -> None:
    shape = json.loads(ok("configs", "describe", "broker", "1", "--json", *on))
    assert (shape["kind"], shape["name"]) == ("broker", "1")
    by_name = {one["name"]: one for one in shape["configs"]}
    assert by_name["node.id"]["value"] == "1"
    assert by_name["num.partitions"]["default"] == "1"
    text = ok("configs", "describe", "broker", "1", "--changed", *on)
    assert text.splitlines()[0].split() == ["NAME", "VALUE", "SOURCE", "DEFAULT"]
    assert "there is no broker 77: the cluster has 1" in failed("configs", "describe", "broker", "77", *on)


def test_the_settings_of_a_topic_that_is_not_there_are_an_error(
    on: tuple[str, str], name: Callable[[], str]
) -> None:
    missing = name()
    for arguments in (("describe", "topic", missing), ("set", "topic", missing, "retention.ms=1")):
        assert f"there is no topic '{missing}'" in failed("configs", *arguments, *on)
