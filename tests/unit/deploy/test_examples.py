"""The examples in deploy/: commands that `tidelog serve` takes, settings that there are, metrics that there are."""

from __future__ import annotations

import json
import logging
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml  # type: ignore[import-untyped]

from tidelog.access.audit_events import Actor, AuditEvent
from tidelog.cli.serve import serve
from tidelog.config import BrokerConfig
from tidelog.config.properties import parse_properties
from tidelog.gateways.http.health import routes
from tidelog.gateways.http.rights import RIGHTS
from tidelog.gateways.metrics.families import FAMILIES
from tidelog.logs import JsonFormatter, request_id

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


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


@pytest.mark.parametrize("version", ["1.28", "1.34"])
@pytest.mark.parametrize("name", ["tidelog.yaml", "etcd.yaml"])
def test_kubernetes_takes_the_manifests(name: str, version: str) -> None:
    documents = manifests(name)
    assert {document["kind"] for document in documents} == {"Service", "PodDisruptionBudget", "StatefulSet"}
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)
    broken = manifests(name)[-1]
    broken["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


@pytest.mark.parametrize("name", ["tidelog.yaml", "etcd.yaml"])
def test_services_budgets_and_pods_mean_each_other(name: str) -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for document in manifests(name):
        by_kind.setdefault(document["kind"], []).append(document)
    (pods,) = by_kind["StatefulSet"]
    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert pods["spec"]["selector"]["matchLabels"] == labels and pods["spec"]["replicas"] == 3
    (budget,) = by_kind["PodDisruptionBudget"]
    assert budget["spec"]["selector"]["matchLabels"] == labels and budget["spec"]["maxUnavailable"] == 1
    assert pods["spec"]["serviceName"] in {service["metadata"]["name"] for service in by_kind["Service"]}
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for service in by_kind["Service"]:
        assert service["spec"]["selector"] == labels
        assert all(ports[port["name"]] == port["port"] for port in service["spec"]["ports"])
    security = pods["spec"]["template"]["spec"]["securityContext"]
    users = re.findall(r"^USER (\d+):(\d+)$", (DEPLOY / "docker/Dockerfile").read_text(), re.M)
    assert (
        set(users) == {(str(security["runAsUser"]), str(security["runAsGroup"]))}
        and security["runAsUser"] != 0
    )


def test_etcd_knows_the_options_of_its_manifest() -> None:
    (container,) = manifests("etcd.yaml")[-1]["spec"]["template"]["spec"]["containers"]
    shown = subprocess.run(["etcd", "--help"], capture_output=True, text=True, timeout=30)
    known = set(re.findall(r"--[a-z-]+", shown.stdout + shown.stderr))
    assert {argument.partition("=")[0] for argument in container["args"]} <= known
    names = re.findall(r"(etcd-\d)=http://(etcd-\d)\.etcd-members:2380", " ".join(container["args"]))
    assert names == [(name, name) for name in ("etcd-0", "etcd-1", "etcd-2")]


def test_the_composition_publishes_on_this_machine_only_and_each_listener_at_its_own_port() -> None:
    services = yaml.safe_load((DEPLOY / "compose/compose.yml").read_text())["services"]
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert published and all(port.startswith("127.0.0.1:") for port in published)
    outside = {}
    for name, command in commands():
        if name.startswith("compose"):
            parsed = serve.make_context("serve", command[command.index("serve") + 1 :]).params
            (host,) = [address for address in parsed["advertise"] if address.startswith("HOST://")]
            outside[name.removeprefix("compose ")] = host.removeprefix("HOST://localhost:")
            assert f"HOST://0.0.0.0:{outside[name.removeprefix('compose ')]}" in parsed["listen"]
    assert {
        name: f"127.0.0.1:{port}:{port}" in services[name]["ports"] for name, port in outside.items()
    } == {**dict.fromkeys(("broker1", "broker2", "broker3"), True)}


def written_fields() -> set[str]:
    """The fields of a line of the JSON log, with a request, a failure and an event of the audit trail."""
    actor = Actor("User:a", "PLAINTEXT", "a-client", "10.0.0.9")
    event = AuditEvent(0, "authorization", "denied", actor, "Write", "topic", "orders", "no ACL allows it")
    logger = logging.getLogger("tidelog.deploy.test")
    record = logger.makeRecord(
        logger.name, logging.WARNING, "f", 1, "no", (), None, extra={"audit": event.fields(1, "e")}
    )
    try:
        raise ValueError("no")
    except ValueError:
        record.exc_info = sys.exc_info()
    token = request_id.set("7")
    try:
        return set(json.loads(JsonFormatter(1).format(record)))
    finally:
        request_id.reset(token)


def test_elastic_gets_the_fields_that_its_searches_show() -> None:
    """Elasticsearch and Kibana are not here to read the files: these are the names that must agree."""
    fields = written_fields()
    lines = (DEPLOY / "elastic/kibana.ndjson").read_text().splitlines()
    objects = {(item["type"], item["id"]): item for item in map(json.loads, lines)}
    assert len(objects) == len(lines) and ("search", "tidelog-problems") in objects
    for (kind, _), item in objects.items():
        assert all((wanted["type"], wanted["id"]) in objects for wanted in item["references"])
        if kind == "search":
            source = json.loads(item["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"])
            assert source["indexRefName"] in {wanted["name"] for wanted in item["references"]}
            searched = re.findall(r"([\w.]+) :", source["query"]["query"])
            assert searched and set(searched) | set(item["attributes"]["columns"]) <= fields
    indices = {item["attributes"]["title"] for (kind, _), item in objects.items() if kind == "index-pattern"}
    for name in ("filebeat", "metricbeat"):
        beat = yaml.safe_load((DEPLOY / f"elastic/{name}.yml").read_text())
        assert beat["setup.template"]["pattern"] in indices
        assert re.sub("%.*", "*", beat["output.elasticsearch"]["index"]) in indices


def test_metricbeat_asks_for_the_page_that_there_is() -> None:
    beat = yaml.safe_load((DEPLOY / "elastic/metricbeat.yml").read_text())
    (module,) = beat["metricbeat.modules"]
    assert ("GET", module["metrics_path"]) in RIGHTS and len(module["hosts"]) == 3
    for pattern in module["metrics_filters"]["exclude"]:
        assert any(re.search(pattern, name) for name in FAMILIES)
