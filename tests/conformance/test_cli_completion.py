"""The completion of the shell, as bash asks for it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.consuming import fill
from tests.conformance.tidelog_broker import TidelogBroker
from tests.unit.cli.commands import TIDELOG, execute


def complete(*words: str, seconds: str = "60", **environment: str) -> list[str]:
    """What bash is offered for the last word."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    asked = {
        "_TIDELOG_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "TIDELOG_COMPLETION_TIMEOUT": seconds,
    }
    shown = subprocess.run(
        [TIDELOG], capture_output=True, text=True, timeout=60, env={**clean, **asked, **environment}
    )
    assert shown.stderr == ""
    return [line.partition(",")[2] for line in shown.stdout.splitlines() if line]


def test_topics_and_groups_are_completed(
    bootstrap: str, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    first, second, group = topic(), topic(), name()
    fill(bootstrap, first)
    done = execute("consume", first, "--group", group, "--exit", "--bootstrap", bootstrap)
    assert done.returncode == 0, done.stderr
    beginning = first[:-1]
    for command in (("consume",), ("produce",), ("topics", "describe"), ("topics", "delete")):
        words = ("tidelog", *command, beginning)
        assert {first, second} <= set(complete(*words, TIDELOG_BOOTSTRAP=bootstrap)), command
    words = ("tidelog", "consume", "--bootstrap", bootstrap, first)
    assert complete(*words) == [first], "the option counts, too"
    for command in (("groups", "describe"), ("groups", "reset"), ("consume", first, "--group")):
        assert complete("tidelog", *command, group, TIDELOG_BOOTSTRAP=bootstrap) == [group], command


def test_without_a_broker_nothing_is_completed_and_nothing_is_printed() -> None:
    assert complete("tidelog", "consume", "x", TIDELOG_BOOTSTRAP="127.0.0.1:1", seconds="1") == []
    assert complete("tidelog", "consume", "x", TIDELOG_COMMAND_CONFIG="/nowhere") == []


@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no schema registry")
def test_subjects_are_completed(broker: TidelogBroker, name: Callable[[], str]) -> None:
    subject, registry = f"{name()}-value", f"http://{broker.http}"
    done = execute(
        "schemas", "register", subject, "-", "--registry", registry, input=json.dumps("string").encode()
    )
    assert done.returncode == 0, done.stderr
    assert complete("tidelog", "schemas", "get", subject[:-2], TIDELOG_REGISTRY=registry) == [subject]
