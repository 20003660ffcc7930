"""Kafka Connect's REST API and `tidelog connect`, on real workers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conformance.process import wait_until
from tests.connect.conftest import NewWorker
from tests.connect.topics import values
from tests.connect.workers import TIDELOG, Worker
from tidelog.testing import ChildBroker


def lines(tmp_path: Path, count: int = 3) -> Path:
    source = tmp_path / "in.txt"
    source.write_text("".join(f"line {number}\n" for number in range(count)))
    return source


def test_a_connector_is_created_paused_resumed_stopped_and_deleted(
    worker: Worker, broker: ChildBroker, name: str, tmp_path: Path
) -> None:
    source, path = lines(tmp_path), f"/connectors/{name}"
    worker.create(name, connector_class="FileSource", file=source, topic=name, value_converter="string")
    worker.wait_running(name)
    wait_until(lambda: len(values(broker.bootstrap_servers, name)) == 3, 60, "three lines arrive")
    status, info = worker.ask("GET", path)
    assert (status, info["type"], info["tasks"]) == (200, "source", [{"connector": name, "task": 0}])
    assert info["config"]["topic"] == name and info["config"]["name"] == name
    assert worker.ask("GET", "/connectors") == (200, [name])
    assert set(worker.ask("GET", "/connectors?expand=status&expand=info")[1][name]) == {"status", "info"}

    assert worker.ask("PUT", f"{path}/pause")[0] == 202
    assert worker.status(name)["connector"]["state"] == "PAUSED"
    with source.open("a") as file:
        file.write("while paused\n")
    assert worker.ask("PATCH", f"{path}/offsets", {"offsets": []})[0] == 400
    assert worker.ask("PUT", f"{path}/resume")[0] == 202
    wait_until(lambda: len(values(broker.bootstrap_servers, name)) == 4, 60, "it goes on")

    assert worker.ask("PUT", f"{path}/stop")[0] == 202
    assert worker.status(name)["connector"]["state"] == "STOPPED"
    offset = worker.ask("GET", f"{path}/offsets")[1]["offsets"][0]
    assert offset["offset"] == {"position": source.stat().st_size}
    changed = {"offsets": [{"partition": offset["partition"], "offset": {"position": 7}}]}
    assert worker.ask("PATCH", f"{path}/offsets", changed)[0] == 200
    assert worker.ask("PUT", f"{path}/resume")[0] == 202
    wait_until(lambda: len(values(broker.bootstrap_servers, name)) == 7, 60, "it reads from there")

    assert worker.ask("DELETE", path)[0] == 204
    assert worker.ask("GET", path)[0] == 404
    assert worker.ask("GET", "/connectors") == (200, [])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, 'Missing required configuration "connector.class"'),
        ({"connector.class": "FileSorce"}, "did you mean 'FileSource'"),
        ({"connector.class": "FileSource", "topic": "t"}, 'Missing required configuration "file"'),
        ({"connector.class": "FileSource", "file": "f", "topic": "t", "flie": "x"}, "did you mean 'file'"),
        ({"connector.class": "FileSource", "file": "f", "topic": "t", "tasks.max": "x"}, "tasks.max"),
        ({"connector.class": "JdbcSink", "connection.url": "jdbc:sqlite:x"}, "topics or topics.regex"),
        (
            {"connector.class": "JdbcSink", "topics": "t", "connection.url": "jdbc:oracle:x"},
            "use jdbc:sqlite",
        ),
        (
            {
                "connector.class": "JdbcSink",
                "topics": "t",
                "connection.url": "jdbc:sqlite:x",
                "connection.password": "hunter2",
            },
            "is a secret and must not be written here",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_when_they_are_given(
    worker: Worker, name: str, settings: dict[str, str], words: str
) -> None:
    status, answer = worker.ask("POST", "/connectors", {"name": name, "config": settings})
    assert status == 400 and words in answer["message"], answer
    assert "hunter2" not in json.dumps(answer)
    assert worker.ask("GET", "/connectors") == (200, [])


def test_of_two_creations_one_wins(
    broker: ChildBroker, worker_of: NewWorker, name: str, tmp_path: Path
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    workers = [worker_of(broker.bootstrap_servers, name) for _ in range(2)]
    config = {"connector.class": "FileSource", "file": str(lines(tmp_path)), "topic": name}
    with ThreadPoolExecutor(6) as threads:
        answers = list(
            threads.map(
                lambda number: workers[number % 2].ask(
                    "POST", "/connectors", {"name": name, "config": config}
                ),
                range(6),
            )
        )
    assert sorted(status for status, _ in answers) == [201, 409, 409, 409, 409, 409], answers


def test_workers_share_connectors_and_a_stopped_one_hands_its_own_over(
    broker: ChildBroker, worker_of: NewWorker, name: str, tmp_path: Path
) -> None:
    first, second = (worker_of(broker.bootstrap_servers, name) for _ in range(2))

    def homes() -> set[str]:
        found = first.ask("GET", "/connectors?expand=status")[1]
        return {task["worker_id"] for shown in found.values() for task in shown["status"]["tasks"]}

    wait_until(lambda: "slots: " in second.log.read_text(), 60, "both have slots")
    source = lines(tmp_path)
    for number in range(4):
        first.create(f"{name}-{number}", connector_class="FileSource", file=source, topic=f"{name}-{number}")
    wait_until(lambda: homes() == {first.id, second.id}, 60, "both work")
    assert second.stop() == 0
    wait_until(lambda: homes() == {first.id}, 60, "the first takes over")
    for number in range(4):
        first.wait_running(f"{name}-{number}")
        wait_until(
            lambda number=number: len(values(broker.bootstrap_servers, f"{name}-{number}")) == 3,
            60,
            "three lines arrive",
        )


def test_a_failed_task_says_why_and_runs_again_when_it_is_restarted(
    worker: Worker, broker: ChildBroker, name: str, tmp_path: Path
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("x" * 50 + "\n")
    settings = {"line.bytes.max": "20", "file": str(source), "topic": name, "value.converter": "string"}
    config = {"connector.class": "FileSource", **settings}
    assert worker.ask("PUT", f"/connectors/{name}/config", config)[0] == 201
    # The line is read as a whole: only what has no end within the limit is too long.
    wait_until(lambda: values(broker.bootstrap_servers, name) == [b"x" * 50], 60, "the line arrives")
    with source.open("a") as file:
        file.write("y" * (1 << 20) + "z" * 100)
    worker.wait_failed(name, "more than 20 bytes.*line.bytes.max")
    wait_until(
        lambda: worker.ask("GET", f"/connectors/{name}/logs")[1]["lines"][-1].endswith("set line.bytes.max"),
        60,
        "the log has the reason as well",
    )
    config["line.bytes.max"] = str(1 << 21)
    assert worker.ask("PUT", f"/connectors/{name}/config", config)[0] == 200
    worker.wait_running(name)
    assert worker.ask("POST", f"/connectors/{name}/tasks/0/restart")[0] == 204
    assert worker.ask("POST", f"/connectors/{name}/tasks/7/restart")[0] == 404
    assert worker.ask("POST", f"/connectors/{name}/restart?includeTasks=true")[0] == 202
    worker.wait_running(name)


def test_plugins_and_their_settings_are_listed_and_checked(worker: Worker) -> None:
    status, plugins = worker.ask("GET", "/connector-plugins")
    kinds = {plugin["class"]: plugin["type"] for plugin in plugins}
    assert status == 200 and kinds["FileSource"] == "source" and kinds["JdbcSink"] == "sink"
    names = [setting["name"] for setting in worker.ask("GET", "/connector-plugins/FileSource/config")[1]]
    assert {"file", "topic", "tasks.max"} <= set(names)
    given = {"connector.class": "FileSource", "file": "x", "batch.size": 0}
    status, answer = worker.ask("PUT", "/connector-plugins/FileSource/config/validate", given)
    wrong = {each["value"]["name"] for each in answer["configs"] if each["value"]["errors"]}
    assert (status, answer["error_count"], wrong) == (200, 3, {"name", "topic", "batch.size"})
    assert worker.ask("GET", "/connector-plugins/Nothing/config")[0] == 404
    loggers = worker.ask("GET", "/admin/loggers")[1]
    assert loggers["root"]["level"] == "INFO"
    assert worker.ask("PUT", "/admin/loggers/tidelog.connect", {"level": "DEBUG"}) == (
        200,
        ["tidelog.connect"],
    )
    assert worker.ask("GET", "/admin/loggers")[1]["tidelog.connect"]["level"] == "DEBUG"


def test_pages_of_other_sites_and_bodies_of_other_kinds_are_refused(worker: Worker) -> None:
    import http.client

    for headers, status in (
        ({"Origin": "http://evil.example", "Content-Type": "application/json"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ):
        connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=30)
        connection.request("POST", "/connectors", "{}", headers)
        assert connection.getresponse().status == status
        connection.close()
    assert worker.ask("POST", "/connectors", [1])[0] == 400
    assert worker.ask("GET", "/nothing")[0] == 404


def test_connectors_from_the_command_line(worker: Worker, name: str, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [TIDELOG, "connect", *words, "--worker", worker.url]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    file = tmp_path / "settings.json"
    config = {"connector.class": "FileSource", "file": str(lines(tmp_path)), "topic": name}
    file.write_text(json.dumps({"name": "x", "config": config}))
    assert run("create", name, "--file", str(file)).returncode == 0
    again = run("create", name, "--file", str(file))
    assert again.returncode == 1 and f"Connector {name} already exists" in again.stderr
    assert run("create", name, "--file", str(file), "batch.size=5", "--replace").returncode == 0
    worker.wait_running(name)
    assert name in run("list").stdout and "1 running" in run("list").stdout
    shown = run("describe", name).stdout
    assert "batch.size=5" in shown and "RUNNING" in shown
    assert json.loads(run("describe", name, "--json").stdout)["config"]["batch.size"] == "5"
    assert run("pause", name).returncode == 0
    assert "PAUSED" in run("describe", name).stdout
    for verb in ("resume", "stop", "resume", "restart"):
        assert run(verb, name).returncode == 0
    worker.wait_running(name)
    assert "started on" in run("logs", name).stdout
    assert "FileSource" in run("plugins").stdout
    assert run("delete", name).returncode == 0
    gone = run("describe", name)
    assert gone.returncode == 1 and f"Connector {name} not found" in gone.stderr
    nobody = subprocess.run(
        [TIDELOG, "connect", "list", "--worker", "http://127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert nobody.returncode == 1 and "Is a worker running there" in nobody.stderr
