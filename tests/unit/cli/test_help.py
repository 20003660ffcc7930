from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import tidelog
from tests.unit.cli.commands import execute, invoke, leaves

ROOT = Path(__file__).resolve().parents[3]
LEAVES = dict(leaves())
NAMES = [" ".join(path) for path in LEAVES]
# They ask no broker.
OFFLINE = (
    *(f"backup {one}" for one in ("delete", "from-tiers", "list", "restore", "verify")),
    "certs",
    *(f"keys {one}" for one in ("create", "delete", "list", "rewrap", "rotate", "status")),
    "log dump",
    "log repair",
    "model fit",
    "model queue",
    *(f"pipeline {one}" for one in ("list", "restart", "status", "stop")),
    *(f"profile {one}" for one in ("create", "delete", "list", "show", "use")),
)
# They ask the schema registry, over HTTP.
REGISTRY = tuple(one for one in NAMES if one.startswith("schemas "))
# They ask a worker of connectors, over HTTP.
CONNECT = tuple(one for one in NAMES if one.startswith("connect "))
# They start something, and say when it is ready.
PROCESSES = (
    "quickstart",
    "serve",
    "dev restart",
    "metadata serve",
    "pipeline run",
    "pipeline submit",
    "connect worker",
    "backup schedule",
)


def examples_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if re.match(r"\s+(\S.*\| )?tidelog ", line)]


def test_the_commands_are_those_that_are_promised() -> None:
    assert NAMES == [
        "quickstart",
        "serve",
        "dev restart",
        "metadata serve",
        "profile create",
        "profile delete",
        "profile list",
        "profile show",
        "profile use",
        "topics alter",
        "topics copy",
        "topics create",
        "topics delete",
        "topics delete-records",
        "topics describe",
        "topics list",
        "configs describe",
        "configs set",
        "configs unset",
        "produce",
        "consume",
        "groups delete",
        "groups describe",
        "groups list",
        "groups members",
        "groups reset",
        "groups set",
        "queues create",
        "queues delayed cancel",
        "queues delayed list",
        "queues describe",
        "queues get",
        "queues list",
        "queues publish",
        "queues purge",
        "certs",
        "keys create",
        "keys delete",
        "keys list",
        "keys rewrap",
        "keys rotate",
        "keys status",
        "users create",
        "users delete",
        "users list",
        "users password",
        "acls create",
        "acls delete",
        "acls explain",
        "acls list",
        "roles grant",
        "roles list",
        "roles revoke",
        "audit",
        "quotas delete",
        "quotas list",
        "quotas set",
        "tenants create",
        "tenants delete",
        "tenants limits",
        "tenants list",
        "tenants members",
        "tenants usage",
        "transactions abort",
        "transactions describe",
        "transactions list",
        "schemas check",
        "schemas config",
        "schemas delete",
        "schemas get",
        "schemas list",
        "schemas register",
        "partitions elect",
        "partitions reassign",
        "partitions recover",
        "brokers describe",
        "brokers drain",
        "brokers list",
        "brokers load",
        "cluster diff",
        "cluster status",
        "backup create",
        "backup delete",
        "backup from-tiers",
        "backup list",
        "backup restore",
        "backup schedule",
        "backup verify",
        "fork",
        "top",
        "pipeline list",
        "pipeline restart",
        "pipeline run",
        "pipeline status",
        "pipeline stop",
        "pipeline submit",
        "sql",
        "connect create",
        "connect delete",
        "connect describe",
        "connect list",
        "connect logs",
        "connect pause",
        "connect plugins",
        "connect restart",
        "connect resume",
        "connect stop",
        "connect worker",
        "model fit",
        "model group",
        "model measure",
        "model queue",
        "plan",
        "bench consume",
        "bench latency",
        "bench produce",
        "log dump",
        "log repair",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_examples_that_parse(name: str) -> None:
    shown = invoke(*name.split(), "--help")
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    examples = examples_of(shown.output)
    assert examples
    for example in examples:
        last = re.split(r"\| (?=tidelog )", example)[-1]
        words = shlex.split(last[last.index("tidelog ") :].split(" | less")[0].split(" < ")[0])
        assert words[0] == "tidelog" and " ".join(words[1:]).startswith(name)
        command = LEAVES[tuple(name.split())]
        arguments = words[1 + len(name.split()) :]
        # Parsed as a user's would be: an option that is misspelt in an example fails here.
        command.make_context("tidelog", arguments, resilient_parsing=False)


@pytest.mark.parametrize(
    "name", [one for one in NAMES if one not in (*PROCESSES, *OFFLINE, *REGISTRY, *CONNECT)]
)
def test_every_command_that_asks_a_broker_takes_the_same_options(name: str) -> None:
    options = {one.name: one for one in LEAVES[tuple(name.split())].params}
    assert {"bootstrap", "timeout", "as_json"} <= set(options)
    bootstrap = options["bootstrap"]
    assert isinstance(bootstrap, click.Option)
    assert (bootstrap.default, bootstrap.envvar) == ("127.0.0.1:9092", "TIDELOG_BOOTSTRAP")


@pytest.mark.parametrize("name", [one for one in NAMES if one not in PROCESSES])
def test_every_command_says_what_its_json_looks_like(name: str) -> None:
    assert "With --json:" in invoke(*name.split(), "--help").output


def test_the_overview_matches_the_commands() -> None:
    shown = invoke("--help").output
    for name in ("serve", "dev", "topics", "configs", "produce", "consume", "log"):
        assert re.search(rf"^  {name} +\S", shown, re.MULTILINE)


def modules_after(*arguments: str) -> set[str]:
    """What is imported when a process has run the command."""
    code = f"""
import sys
import tidelog.cli
sys.argv = ["tidelog", *{arguments!r}]
try:
    tidelog.cli.main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    modules = set(shown.stderr.split())
    assert "click" in modules, shown.stderr
    return modules


def test_the_overview_imports_nothing_that_it_does_not_need() -> None:
    heavy = {"asyncio", "rich", "ssl", "tidelog.client", "tidelog.errors", "tidelog.wire", "lz4", "cramjam"}
    assert not heavy & modules_after("--help")


def test_help_of_a_command_does_not_load_the_client() -> None:
    assert not {"asyncio", "rich", "tidelog.wire.messages.fetch"} & modules_after("consume", "--help")


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tidelog.__version__ == project["version"]
    shown = execute("--version")
    assert shown.stdout.decode() == f"tidelog {tidelog.__version__}\n"


def test_a_misspelt_command_gets_a_suggestion() -> None:
    shown = invoke("topic", "list")
    assert shown.exit_code == 2
    assert "No such command 'topic': did you mean 'topics'?" in shown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "list", "--bootstrap", "host:port"),
        ("topics", "create", "a", "--partitions", "0"),
        ("topics", "create", "a", "--config", "novalue"),
        ("topics", "create"),
        ("topics", "alter", "a"),
        ("topics", "list", "--timeout", "0"),
        ("topics", "list", "--timeout", "nan"),
        ("topics", "list", "--timeout", "inf"),
        ("configs", "set", "topic", "a", "x"),
        ("configs", "set", "planet", "a", "x=1"),
        ("produce", "a", "--compression", "rar"),
        ("produce", "a", "--header", "x"),
        ("produce", "a", "--key-separator", ""),
        ("consume", "a", "--from", "yesterday"),
        ("consume", "a", "--format", "%q"),
        ("consume", "a", "--max", "0"),
        ("plan", "--messages-per-day", "1", "--size", "1", "--peak", "nan"),
        ("plan", "--messages-per-day", "1", "--size", "1", "--peak", "inf"),
        ("model", "queue", "--arrival", "nan", "--service-ms", "1"),
    ],
)
def test_a_wrong_command_line_is_refused_with_exit_code_2(arguments: tuple[str, ...]) -> None:
    shown = invoke(*arguments)
    assert shown.exit_code == 2
    assert "Error: " in shown.stderr and "Traceback" not in shown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "list"),
        ("topics", "create", "a"),
        ("topics", "describe", "a"),
        ("topics", "alter", "a", "--partitions", "2"),
        ("topics", "delete", "a"),
        ("configs", "describe", "topic", "a"),
        ("configs", "set", "topic", "a", "retention.ms=1"),
        ("configs", "unset", "topic", "a", "retention.ms"),
        ("produce", "a"),
        ("consume", "a"),
    ],
)
def test_an_unreachable_broker_is_one_clear_line(arguments: tuple[str, ...]) -> None:
    shown = invoke(*arguments, "--bootstrap", "127.0.0.1:1", input=b"x\n")
    assert shown.exit_code == 1
    expected = "Error: cannot reach a broker at 127.0.0.1:1: connection refused; is it running?\n"
    assert shown.stderr == expected
