"""`tidelog queues` against a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.process import wait_until
from tests.conformance.test_cli_topics import failed, ok
from tests.conformance.tidelog_broker import TidelogBroker
from tests.unit.cli.commands import invoke

SECONDS_MAX = 30.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogBroker]:
    running = TidelogBroker(tmp_path_factory.mktemp("queues"), {})
    running.start()
    yield running
    running.stop()


@pytest.fixture
def on(broker: TidelogBroker) -> tuple[str, str]:
    return ("--bootstrap", broker.bootstrap)


@pytest.fixture
def queue(on: tuple[str, str], tmp_path: Path) -> str:
    name = f"q-{tmp_path.name[:60]}"
    ok("queues", "create", name, *on)
    return name


def messages(queue: str, on: tuple[str, str]) -> int | None:
    count: int | None = json.loads(ok("queues", "describe", queue, "--json", *on))["messages"]
    return count


def values(queue: str, on: tuple[str, str], *options: str) -> list[str]:
    return [one["value"] for one in json.loads(ok("queues", "get", queue, "--json", *options, *on))]


def test_what_is_published_waits_and_is_gone_when_it_was_taken(queue: str, on: tuple[str, str]) -> None:
    ok("queues", "publish", queue, "a", "--key", "k", "--header", "kind=first", *on)
    ok("queues", "publish", queue, "b", *on)
    assert messages(queue, on) == 2
    assert queue in ok("queues", "list", *on)
    (first,) = json.loads(ok("queues", "get", queue, "--release", "--json", *on))
    assert (first["value"], first["key"], first["headers"], first["deliveries"]) == (
        "a",
        "k",
        {"kind": "first"},
        1,
    )
    assert values(queue, on, "--max", "2") == ["a", "b"]
    assert values(queue, on, "--wait", "0.3") == []
    wait_until(lambda: messages(queue, on) == 0, SECONDS_MAX, "nothing waits")


def test_standard_input_is_a_message(queue: str, on: tuple[str, str]) -> None:
    assert invoke("queues", "publish", queue, *on, input=b"from\na pipe").exit_code == 0
    assert ok("queues", "get", queue, *on) == "from\na pipe\n"


def test_higher_priorities_come_first(queue: str, on: tuple[str, str]) -> None:
    name = f"{queue}-ranked"
    ok("queues", "create", name, "--priorities", "5", *on)
    for value, priority in (("low", "0"), ("high", "4"), ("middle", "2")):
        ok("queues", "publish", name, value, "--priority", priority, *on)
    assert values(name, on, "--max", "3") == ["high", "middle", "low"]


def test_what_is_rejected_is_a_dead_letter(queue: str, on: tuple[str, str]) -> None:
    name = f"{queue}-strict"
    ok("queues", "create", f"{queue}-dead", *on)
    ok("queues", "create", name, "--dead-letters", f"{queue}-dead", *on)
    ok("queues", "publish", name, "bad", *on)
    assert values(name, on, "--reject") == ["bad"]
    (letter,) = json.loads(ok("queues", "get", f"{queue}-dead", "--json", "--wait", "10", *on))
    assert (letter["value"], letter["headers"]["tidelog.dead.letter.reason"]) == ("bad", "rejected")


def test_purging_says_first_what_it_would_do(queue: str, on: tuple[str, str]) -> None:
    for value in "abc":
        ok("queues", "publish", queue, value, *on)
    assert "3 messages" in ok("queues", "purge", queue, *on)
    assert messages(queue, on) == 3
    assert json.loads(ok("queues", "purge", queue, "--execute", "--json", *on))["purged"] == 3
    wait_until(lambda: messages(queue, on) == 0, SECONDS_MAX, "nothing waits")


def test_what_waits_for_its_time_is_listed_and_cancelled(queue: str, on: tuple[str, str]) -> None:
    assert json.loads(ok("queues", "delayed", "list", queue, "--json", *on)) == []
    for value, delay in (("late", "3000"), ("early", "2000"), ("soon", "1000")):
        ok("queues", "publish", queue, value, "--delay", delay, *on)
    waiting: list[dict[str, Any]] = []

    def moved() -> bool:
        """The broker moves them when it comes to them."""
        waiting[:] = json.loads(ok("queues", "delayed", "list", queue, "--json", *on))
        return len(waiting) == 3

    wait_until(moved, SECONDS_MAX, "all wait")
    assert [one["value"] for one in waiting] == ["soon", "early", "late"]
    assert values(queue, on, "--wait", "0.3") == []
    ok("queues", "delayed", "cancel", queue, waiting[1]["id"], *on)
    assert [one["value"] for one in json.loads(ok("queues", "delayed", "list", queue, "--json", *on))] == [
        "soon",
        "late",
    ]
    assert "nothing waits" in failed("queues", "delayed", "cancel", queue, waiting[1]["id"], *on)


def test_a_topic_that_is_no_queue_is_told_how_to_become_one(queue: str, on: tuple[str, str]) -> None:
    ok("topics", "create", f"{queue}-plain", *on)
    assert "queue.groups=" in failed("queues", "describe", f"{queue}-plain", *on)
    assert f"{queue}-plain" not in ok("queues", "list", *on)
