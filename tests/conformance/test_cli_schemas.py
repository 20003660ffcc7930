"""`tidelog schemas` on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.registry import record
from tests.conformance.tidelog_broker import TidelogBroker

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no schema registry")

TIDELOG = str(Path(sys.executable).parent / "tidelog")


def test_schemas_from_the_command_line(
    broker: TidelogBroker, name: Callable[[], str], tmp_path: Path
) -> None:
    subject, file = f"{name()}/value", tmp_path / "order.avsc"

    def run(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [TIDELOG, "schemas", *words, "--registry", f"http://{broker.http}"]
        return subprocess.run(command, capture_output=True, text=True, input=text, timeout=60)

    file.write_text(json.dumps(record("Order", ("id", "long"))))
    said = run("register", subject, str(file))
    assert said.returncode == 0 and said.stdout.startswith(f"{subject} version 1 has id "), said
    number = said.stdout.split()[-1]
    assert json.loads(run("get", subject).stdout)["name"] == "Order"
    assert json.loads(run("get", "--id", number, "--json").stdout)["schema"]
    listed = json.loads(run("list", "--prefix", subject, "--json").stdout)
    assert listed == [
        {"subject": subject, "versions": [1], "id": int(number), "type": "AVRO", "compatibility": "BACKWARD"}
    ]
    assert subject in run("list").stdout
    file.write_text(json.dumps(record("Order", ("id", "long"), ("note", "string"))))
    said = run("check", subject, str(file))
    assert said.returncode == 1 and "'note' at path '/fields/1'" in said.stderr
    said = run("register", subject, "-", text=file.read_text())
    assert said.returncode == 1 and "READER_FIELD_MISSING_DEFAULT_VALUE" in said.stderr
    assert run("config", subject, "--set", "none").stdout == "compatibilityLevel: NONE\n"
    assert run("check", subject, str(file)).stdout == "compatible\n"
    assert run("config", subject, "--unset").stdout == "compatibilityLevel: BACKWARD\n"
    assert run("delete", subject).stdout == f"deleted {subject}, versions 1\n"
    assert run("get", subject).stderr.endswith(f"Subject '{subject}' not found.\n")
    assert run("delete", subject, "--permanent", "--json").stdout == "[1]\n"
    proto = tmp_path / "a.proto"
    proto.write_text('syntax = "proto3"; import "other"; message A { B b = 1; }')
    (tmp_path / "b.proto").write_text('syntax = "proto3"; message B { int32 x = 1; }')
    assert run("register", f"{subject}-b", str(tmp_path / "b.proto")).returncode == 0
    assert run("register", f"{subject}-a", str(proto)).returncode == 1
    said = run("register", f"{subject}-a", str(proto), "--reference", f"other={subject}-b:1")
    assert said.returncode == 0 and "message A {" in run("get", f"{subject}-a").stdout


def test_what_cannot_be_done_is_told_in_a_line(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([TIDELOG, "schemas", *words], capture_output=True, text=True, timeout=60)

    said = run("list", "--registry", "http://127.0.0.1:1")
    assert said.returncode == 1 and said.stderr.count("\n") == 1 and "is it running?" in said.stderr
    assert run("get").returncode == 2
    assert run("register", "a", str(tmp_path / "missing")).returncode == 1
    assert run("list", "--registry", "nonsense").returncode == 1
