"""The examples in deploy/: commands that `tidelog serve` takes, settings that there are, metrics that there are."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tidelog.cli.serve import serve
from tidelog.config import BrokerConfig
from tidelog.config.properties import parse_properties
from tidelog.gateways.http.health import routes
from tidelog.gateways.metrics.families import FAMILIES

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"


def entry_point() -> list[str]:
    (line,) = re.findall(r'^ENTRYPOINT (\["tidelog".*\])$', (DEPLOY / "docker/Dockerfile").read_text(), re.M)
    return [str(word) for word in json.loads(line)]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every way in which a broker is started."""
    unit = (DEPLOY / "systemd/tidelog.service").read_text()
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.M)
    yield "systemd", shlex.split(start)
    yield "docker", entry_point()
    for name, service in yaml.safe_load((DEPLOY / "compose/compose.yml").read_text())["services"].items():
        if name.startswith("broker"):
            yield f"compose {name}", [*entry_point(), *service["command"]]
    (pod,) = [
        part["spec"]["template"]["spec"]
        for part in yaml.safe_load_all((DEPLOY / "kubernetes/tidelog.yaml").read_text())
        if part["kind"] == "StatefulSet"
    ]
    (script,) = pod["containers"][0]["args"]
    script = script.replace("$((${HOSTNAME##*-} + 1))", "1").replace("$HOSTNAME", "tidelog-0")
    yield "kubernetes", shlex.split(script.removeprefix("exec "))


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda value: value if type(value) is str else ""
)
def test_a_broker_takes_the_command(name: str, command: list[str]) -> None:
    at = command.index("serve")
    assert command[at - 1].endswith("tidelog")
    # Reads the flags as the command line does, and stops before anything is started.
    parsed = serve.make_context("serve", command[at + 1 :]).params
    config = BrokerConfig.of(parsed["given"])
    if name.startswith(("compose", "kubernetes")):
        # Three brokers: one may be lost, and nothing with it.
        assert (config.default_replication_factor, config.topic_defaults.min_insync_replicas) == (3, 2)


def test_the_settings_of_the_unit_are_known() -> None:
    config = BrokerConfig.of(parse_properties((DEPLOY / "systemd/server.properties").read_text()))
    assert config.metadata_address is not None and config.topic_defaults.min_insync_replicas == 2


def test_brokers_of_the_composition_are_different_ones() -> None:
    ids = [
        one for name, command in commands() if name.startswith("compose") for one in command if "--id=" in one
    ]
    assert ids == ["--id=1", "--id=2", "--id=3"]
    targets = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"][0]
    assert targets["static_configs"][0]["targets"] == ["broker1:8090", "broker2:8090", "broker3:8090"]


def test_probes_ask_for_pages_that_there_are() -> None:
    text = (DEPLOY / "kubernetes/tidelog.yaml").read_text() + (DEPLOY / "docker/Dockerfile").read_text()
    known = {route.path for route in routes(None)}  # type: ignore[attr-defined, arg-type]
    assert set(re.findall(r"/health/\w+", text)) == known


@pytest.mark.parametrize("path", ["prometheus/tidelog.rules.yml", "grafana/tidelog.json"])
def test_only_metrics_that_there_are_are_named(path: str) -> None:
    named = set(re.findall(r"\b((?:mq|process)_[a-z_]+)\b", (DEPLOY / path).read_text()))
    assert {re.sub(r"_bucket$", "", name) for name in named} - FAMILIES.keys() == set()
    assert len(named) > 5
