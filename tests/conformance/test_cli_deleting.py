"""`tidelog topics delete` and `delete-records`: patterns, questions, trial runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from tests.conformance.pseudo_terminal import PseudoTerminal
from tests.conformance.test_cli_records import ok
from tests.unit.cli.commands import TIDELOG, execute


@pytest.fixture
def on(bootstrap: str) -> tuple[str, str]:
    return ("--bootstrap", bootstrap)


def names(on: tuple[str, str], prefix: str) -> list[str]:
    listed = json.loads(ok("topics", "list", "--json", *on))
    return sorted(topic["name"].removeprefix(prefix) for topic in listed if topic["name"].startswith(prefix))


def test_a_pattern_deletes_the_topics_that_it_matches(on: tuple[str, str], name: Callable[[], str]) -> None:
    prefix = name()
    topics = [f"{prefix}{ending}" for ending in ("-a1", "-a2", "-b1")]
    ok("topics", "create", *topics, *on)
    shown = ok("topics", "delete", f"{prefix}-a*", "--dry-run", *on).decode()
    assert shown == f"would delete {topics[0]}\nwould delete {topics[1]}\n"
    trial = json.loads(ok("topics", "delete", f"{prefix}-a?", "--dry-run", "--json", *on))
    assert trial == {"deleted": topics[:2], "missing": [], "dry_run": True}
    refused = execute("topics", "delete", f"{prefix}-a*", *on)
    assert refused.returncode == 1 and b"2 topics match: add --yes" in refused.stderr
    assert names(on, prefix) == ["-a1", "-a2", "-b1"]

    done = json.loads(ok("topics", "delete", f"{prefix}-a*", "--yes", "--json", *on))
    assert done == {"deleted": topics[:2], "missing": [], "dry_run": False}
    assert names(on, prefix) == ["-b1"]
    nothing = execute("topics", "delete", f"{prefix}-z*", "--yes", *on)
    assert nothing.returncode == 1 and f"no topic matches '{prefix}-z*'" in nothing.stderr.decode()
    assert (
        ok("topics", "delete", f"{prefix}-z*", "--if-exists", *on).decode() == f"{prefix}-z* does not exist\n"
    )
    assert ok("topics", "delete", topics[2], *on).decode() == f"deleted {topics[2]}\n", (
        "a name needs no --yes"
    )


def test_on_a_terminal_it_asks(on: tuple[str, str], name: Callable[[], str]) -> None:
    topic = name()
    ok("topics", "create", topic, *on)
    for answer, left in (("n", [""]), ("y", [])):
        with PseudoTerminal([TIDELOG, "topics", "delete", topic, *on]) as terminal:
            terminal.until_output(lambda text: "with all records?" in text, "it asks")
            terminal.press(f"{answer}\r")
            terminal.process.wait(60)
        assert names(on, topic) == left


def test_records_before_a_place_are_deleted(on: tuple[str, str], topic: Callable[..., str]) -> None:
    fresh = topic(partitions=2)
    for index in ("0", "1"):
        ok("produce", fresh, "--partition", index, *on, input=b"a\nb\nc\nd\n")
    trial = json.loads(ok("topics", "delete-records", fresh, "--before", "-1", "--dry-run", "--json", *on))
    assert trial == {
        "topic": fresh,
        "dry_run": True,
        "partitions": [{"partition": index, "before": 3, "records": 3} for index in (0, 1)],
    }
    assert len(ok("consume", fresh, *on).splitlines()) == 8
    shown = ok("topics", "delete-records", fresh, "--before", "2", "--partition", "1", "--yes", *on).decode()
    assert shown == f"deleted 2 records of {fresh} in 1 partition\n"
    assert ok("consume", fresh, "--partition", "1", *on) == b"c\nd\n"
    assert ok("consume", fresh, "--partition", "0", *on) == b"a\nb\nc\nd\n"
    ok("topics", "delete-records", fresh, "--before", "end", "--yes", *on)
    assert ok("consume", fresh, *on) == b""
    for options, problem in (
        (("--before", "99"), "offset 99 is out of range"),
        (("--before", "0", "--partition", "7"), "has no partition 7"),
    ):
        said = execute("topics", "delete-records", fresh, *options, "--yes", *on)
        assert said.returncode == 1 and problem in said.stderr.decode()
    ok("produce", fresh, *on, input=b"new\n")
    said = execute("topics", "delete-records", fresh, "--before", "end", *on)
    assert said.returncode == 1 and b"add --yes" in said.stderr
    assert ok("consume", fresh, *on) == b"new\n"


def test_a_closed_standard_input_is_no_terminal(on: tuple[str, str], name: Callable[[], str]) -> None:
    topic = name()
    ok("topics", "create", topic, *on)
    command = [TIDELOG, "topics", "delete", topic, *on]
    assert subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True).returncode == 0
