"""Pipelines as processes of their own: by the command line, killed, restarted, and on a cluster."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.process import free_port, wait_until
from tests.pipeline.conftest import JAVA
from tests.pipeline.records import rows, send

# Processes of their own, beside the session that other tests share; on a busy machine they take their time.
pytestmark = pytest.mark.timeout(1500)
COPY = """
import os
from tidelog.pipeline import Pipeline

pipeline = Pipeline("copy")


def where(row):
    return {"n": row.n, "where": os.getcwd()}


numbers = pipeline.stream("SOURCE", schema="n int", maxRecordsPerTrigger=100, minPartitions=4)
numbers.map(where, schema="n int, where string").key_by("n").to("TARGET")
pipeline.run()
"""
WAIT_S = 600


def tidelog(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from tidelog.cli import main; main()", *words],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, "JAVA_TOOL_OPTIONS": JAVA, **environment},
    )


def ok(*words: str, **environment: str) -> str:
    done = tidelog(*words, **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def copy(bootstrap: str, topic: Callable[..., str], tmp_path: Path) -> tuple[Path, str, str]:
    source, target = topic(partitions=2), topic(partitions=2)
    file = tmp_path / "copy.py"
    file.write_text(COPY.replace("SOURCE", source).replace("TARGET", target))
    return file, source, target


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "home"
    yield folder
    for app in folder.glob("*/app.json"):
        from tidelog.pipeline.running.apps import AppFolder

        if AppFolder(folder, app.parent.name).running:
            os.kill(json.loads(app.read_text())["pid"], signal.SIGKILL)


def status(home: Path, name: str = "copy") -> Any:
    return json.loads(ok("pipeline", "status", name, "--home", str(home), "--json"))


def lag(home: Path, output: str) -> int | None:
    """The lag that `status` shows, read without starting a process each time."""
    from tidelog.pipeline.running.apps import AppFolder

    queries = AppFolder(home, "copy").read_status().get("queries", {})
    return queries[output]["lag"] if output in queries else None


def kill_and_restart(bootstrap: str, copy: tuple[Path, str, str], home: Path, kills: int) -> None:
    """Numbers are sent while the process is killed again and again: each of them arrives once."""
    file, source, target = copy
    dice, sent, at_home = random.Random(11), 0, ("--home", str(home))
    port = free_port()
    words = ("--bootstrap", bootstrap, "--master", "local[2]", "--metrics", f"127.0.0.1:{port}", *at_home)
    ok("pipeline", "run", str(file), "--detach", *words)
    for _ in range(kills):
        send(bootstrap, source, [{"n": number} for number in range(sent, sent + 300)], key="n")
        sent += 300
        wanted = sent - dice.randint(50, 250)
        wait_until(
            lambda wanted=wanted: len(rows(bootstrap, target)) >= wanted,
            WAIT_S,
            "records are copied",
            every=0.5,
        )
        ok("pipeline", "stop", "copy", "--kill", *at_home)
        assert status(home)["state"] == "killed"
        ok("pipeline", "restart", "copy", *at_home)
    # Before its first batch: the checkpoint tells where it is.
    wait_until(lambda: lag(home, target) is not None, WAIT_S, "the lag is told")
    send(bootstrap, source, [{"n": number} for number in range(sent, sent + 100)], key="n")
    sent += 100
    wait_until(lambda: len(rows(bootstrap, target)) >= sent, WAIT_S, "all are copied", every=0.5)
    wait_until(lambda: lag(home, target) == 0, WAIT_S, "the lag is told")
    shown = status(home)
    assert shown["state"] == "running" and shown["queries"][target]["records"] > 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    assert f'tidelog_pipeline_lag_records{{pipeline="copy",output="{target}"}} 0' in text
    assert (home / "copy" / "metrics.prom").read_text().startswith("# HELP tidelog_pipeline_records_total")
    assert tidelog("pipeline", "run", str(file), *at_home).stderr.strip().endswith("or give this one --name")
    ok("pipeline", "stop", "copy", *at_home)
    assert status(home)["state"] == "stopped"
    assert sorted(row["n"] for row in rows(bootstrap, target)) == list(range(sent))


def test_a_killed_pipeline_goes_on_and_writes_everything_once(
    bootstrap: str, copy: tuple[Path, str, str], home: Path
) -> None:
    kill_and_restart(bootstrap, copy, home, kills=1)


@pytest.mark.deep
@pytest.mark.timeout(3000)
def test_a_pipeline_killed_often_writes_everything_once(
    bootstrap: str, copy: tuple[Path, str, str], home: Path
) -> None:
    kill_and_restart(bootstrap, copy, home, kills=8)


@pytest.fixture
def without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a machine without its own Java; only the package's Java is there."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for path in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if not path.name.startswith("j") and not (bin / path.name).is_symlink():
                (bin / path.name).symlink_to(path)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return {"PATH": str(bin), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_sql_from_the_command_line_where_there_is_no_java(
    bootstrap: str,
    copy: tuple[Path, str, str],
    home: Path,
    tmp_path: Path,
    without_java: dict[str, str],
) -> None:
    _, source, _ = copy
    send(bootstrap, source, [{"n": 1}, {"n": 2}], key="n")
    on = ("--bootstrap", bootstrap, "--home", str(home), "--master", "local[2]")
    text = f"CREATE STREAM numbers (n INT) WITH (topic = '{source}'); SELECT sum(n) AS total FROM numbers;"
    message, total = ok("sql", "-e", text, "--json", *on, **without_java).splitlines()
    assert json.loads(message) == {"said": f"stream numbers is topic {source}"} and json.loads(total) == {
        "total": 3
    }
    assert '"numbers"' in (home / "catalog.json").read_text()
    assert list((tmp_path / "cache" / "tidelog").glob("java-*/bin/java")), (
        "it has found a Java of the machine's"
    )


def test_ctrl_c_ends_a_query_without_noise(bootstrap: str, copy: tuple[Path, str, str], home: Path) -> None:
    _, source, _ = copy
    send(bootstrap, source, [{"n": 1}, {"n": 2}], key="n")
    text = f"CREATE STREAM numbers (n INT) WITH (topic = '{source}'); SELECT n FROM numbers EMIT CHANGES; SHOW TOPICS;"
    words = [
        "sql",
        "-e",
        text,
        "--json",
        "--bootstrap",
        bootstrap,
        "--home",
        str(home),
        "--master",
        "local[2]",
    ]
    running = subprocess.Popen(
        [sys.executable, "-c", "from tidelog.cli import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAVA_TOOL_OPTIONS": JAVA},
    )
    try:
        assert running.stdout is not None
        shown = [json.loads(running.stdout.readline()) for _ in range(3)]
        assert sorted(row["n"] for row in shown[1:]) == [1, 2]
        running.send_signal(signal.SIGINT)
        more, message = running.communicate(timeout=WAIT_S)
    finally:
        running.kill()
    assert running.returncode == 0 and "Traceback" not in message and "ERROR" not in message, message[-3000:]
    assert not more, "the next statement was carried out"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone master with two workers."""
    from pyspark.find_spark_home import _find_spark_home

    spark_home, port, started = _find_spark_home(), free_port(), []
    environment = {
        **os.environ,
        "SPARK_HOME": spark_home,
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
    }

    def start(name: str, *words: str) -> None:
        log = (tmp_path / f"{name}.log").open("wb")
        command = [os.path.join(spark_home, "bin", "spark-class"), *words]
        started.append(
            subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        )

    master = "org.apache.spark.deploy.master.Master"
    start("master", master, "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()))
    url = f"spark://127.0.0.1:{port}"
    for name in ("one", "two"):
        work = ("--work-dir", str(tmp_path / name), "--webui-port", str(free_port()))
        start(
            name,
            "org.apache.spark.deploy.worker.Worker",
            "--cores",
            "1",
            "--memory",
            "1g",
            "--host",
            "127.0.0.1",
            *work,
            url,
        )
    log = tmp_path / "master.log"
    wait_until(lambda: log.read_text().count("Registering worker") == 2, WAIT_S, "two workers")
    yield url
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.deep
@pytest.mark.timeout(1200)
def test_a_pipeline_on_a_cluster(
    bootstrap: str, copy: tuple[Path, str, str], home: Path, cluster: str
) -> None:
    file, source, target = copy
    send(bootstrap, source, [{"n": number} for number in range(400)], key="n")
    words = ("--master", cluster, "--home", str(home), "--bootstrap", bootstrap, "--until-done")
    shown = ok("pipeline", "submit", str(file), *words, "--dry-run")
    assert "spark-submit" in shown and cluster in shown
    done = tidelog("pipeline", "submit", str(file), *words, "--", "--conf", "spark.executor.memory=512m")
    assert done.returncode == 0, done.stderr[-3000:]
    written = rows(bootstrap, target)
    assert sorted(row["n"] for row in written) == list(range(400))
    # Each executor works in a folder of its worker's.
    assert {Path(row["where"]).parents[1].name for row in written} == {"one", "two"}
