"""What operators have beside a cluster: Prometheus with the rules of deploy/, and eyes for the metrics page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conformance.process import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "tidelog.rules.yml"
READY_S_MAX = 180
PACKAGES = {"prometheus": "prometheus", "promtool": "prometheus", "amtool": "prometheus-alertmanager"}


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"these tests need {name}: apt-get install {PACKAGES[name]}")
    return found


def http_get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(http: str) -> Series:
    """Every sample on the page of a broker: (name, labels in order) -> value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(http_get(f"http://{http}/metrics"))
        for sample in family.samples
    }


def of(series: Series, name: str, **labels: str) -> float:
    """The sum of the samples that have these labels."""
    wanted = set(labels.items())
    found = [value for (known, its), value in series.items() if known == name and wanted <= set(its)]
    assert found, f"there is no {name} with {labels}"
    return sum(found)


def family_of(name: str, families: Any) -> str:
    """The metric that a sample belongs to."""
    return name if name in families else re.sub(r"_(bucket|sum|count)$", "", name)


def hurried(rules: str) -> str:
    """The same rules, with seconds where they have minutes: a test does not wait that long."""
    return re.sub(r"\[\d+[smh]\]", "[12s]", re.sub(r"\bfor: \S+", "for: 1s", rules))


class Prometheus:
    def __init__(self, home: Path, targets: list[str]) -> None:
        home.mkdir(parents=True)
        self._home = home
        self._address = f"127.0.0.1:{free_port()}"
        (home / "rules.yml").write_text(hurried(RULES.read_text()))
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "tidelog", "static_configs": [{"targets": targets}]}],
        }
        (home / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._home / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={self._home / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self._home / 'data'}",
                    f"--web.listen-address={self._address}",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "GOMAXPROCS": "1"},  # with the mark of `tests.leftovers`
            )
        deadline = time.monotonic() + READY_S_MAX
        while True:
            try:
                http_get(f"http://{self._address}/-/ready")
                return
            except OSError:
                assert self._process.poll() is None and time.monotonic() < deadline, self.log()
                time.sleep(0.1)

    def log(self) -> str:
        return (self._home / "prometheus.log").read_text(errors="replace")[-2000:]

    def firing(self) -> set[str]:
        answer = json.loads(http_get(f"http://{self._address}/api/v1/alerts"))
        return {one["labels"]["alertname"] for one in answer["data"]["alerts"] if one["state"] == "firing"}

    def rules(self) -> dict[str, str]:
        """Every alert, and whether Prometheus could evaluate it."""
        answer = json.loads(http_get(f"http://{self._address}/api/v1/rules"))
        return {rule["name"]: rule["health"] for group in answer["data"]["groups"] for rule in group["rules"]}

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
