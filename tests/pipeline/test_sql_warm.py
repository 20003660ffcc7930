"""One Spark for several `tidelog sql`: a process that stays for a while, with a session of its own for each command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.process import wait_until
from tests.pipeline.conftest import JAVA
from tests.pipeline.records import rows, send
from tests.unit.cli.commands import TIDELOG
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.sql.warm import client

pytestmark = pytest.mark.timeout(900)  # Spark on a busy machine takes its time

SPARKS = "SELECT upper(value) AS v FROM `{}`"  # no query that is answered without Spark


class Commands:
    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.folder = folder
        self.on = ("--bootstrap", bootstrap, "--home", str(folder / "home"), "--json")
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "JAVA_TOOL_OPTIONS": JAVA}

    def __call__(self, text: str, *words: str) -> list[object]:
        done = self.run("-e", text, *words)
        assert done.returncode == 0, done.stderr + self.log()
        assert not done.stderr, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [TIDELOG, "sql", *self.on, *words]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=600)

    def sockets(self) -> list[Path]:
        return list(self.folder.glob("tidelog/*.sock"))

    def log(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("tidelog/*.log"))


@pytest.fixture(scope="module")
def commands(bootstrap: str) -> Iterator[Commands]:
    folder = Path(tempfile.mkdtemp(prefix="warm-"))  # A socket has no long path.
    commands = Commands(bootstrap, folder)
    yield commands
    assert commands.run("--stop-warm").stdout.startswith("stopped: ")
    wait_until(lambda: not commands.sockets(), 60, "the end of the process")
    shutil.rmtree(folder)


@pytest.fixture
def numbers(bootstrap: str, topic: Callable[..., str]) -> str:
    name = topic()
    send(bootstrap, name, [b"a", b"b"])
    return name


def _listener(commands: Commands) -> int:
    [path] = commands.sockets()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], "little")


def test_the_next_command_finds_spark_running(commands: Commands, numbers: str) -> None:
    assert commands(SPARKS.format(numbers)) == [{"v": "A"}, {"v": "B"}]
    process = _listener(commands)
    assert commands(SPARKS.format(numbers) + " WHERE value = 'b'") == [{"v": "B"}]
    assert _listener(commands) == process


def test_settings_and_views_of_a_command_are_its_own(commands: Commands, numbers: str) -> None:
    text = "SET spark.sql.session.timeZone = 'Asia/Tokyo'; SELECT current_timezone() AS zone;"
    assert commands(text)[1] == {"zone": "Asia/Tokyo"}
    assert commands("SELECT current_timezone() AS zone") == [{"zone": "UTC"}]


def test_an_error_has_the_place_in_the_whole_text(commands: Commands, numbers: str) -> None:
    done = commands.run("-e", f"SHOW TOPICS;\n{SPARKS.format(numbers)};\n SELECT nothing(1);")
    assert done.returncode == 1 and "line 3, column 9" in done.stderr and "Traceback" not in done.stderr


def test_declarations_and_queries_of_both_processes(
    commands: Commands, bootstrap: str, numbers: str, topic: Callable[..., str]
) -> None:
    source, copy = topic(), topic()
    said = commands(
        f"CREATE STREAM n (id INT) WITH (topic = '{source}'); INSERT INTO n VALUES (1), (2);"
        f"CREATE STREAM twice WITH (topic = '{copy}') AS SELECT id * 2 AS id FROM n; SHOW QUERIES; SELECT * FROM n;",
        "--until-done",
    )
    assert said[3] == {"query": "twice", "topic": copy, "state": "running"} or said[3]["state"] == "ended"  # type: ignore[index]
    assert sorted(str(row) for row in said[4:]) == ["{'id': 1}", "{'id': 2}"]
    assert sorted(row["id"] for row in rows(bootstrap, copy)) == [2, 4]
    assert commands("DESCRIBE twice")[0] == {"column": "id", "type": "int", "about": ""}


def test_ctrl_c_ends_the_command_and_its_query_alone(commands: Commands, numbers: str) -> None:
    commands(SPARKS.format(numbers))
    process = _listener(commands)
    text = SPARKS.format(numbers) + " EMIT CHANGES"
    with subprocess.Popen(
        [TIDELOG, "sql", *commands.on, "-e", text],
        env=commands.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(120) in (0, 1, 130) and "Traceback" not in running.stderr.read()
    assert commands(SPARKS.format(numbers)) == [{"v": "A"}, {"v": "B"}]
    assert _listener(commands) == process


def test_a_killed_process_is_started_again(commands: Commands, numbers: str) -> None:
    commands(SPARKS.format(numbers))
    os.kill(_listener(commands), signal.SIGKILL)
    assert commands(SPARKS.format(numbers)) == [{"v": "A"}, {"v": "B"}]


def test_without_work_the_process_ends(commands: Commands, numbers: str) -> None:
    commands.run("--stop-warm")
    wait_until(lambda: not commands.sockets(), 60, "the end of the process")
    assert commands(SPARKS.format(numbers), "--keep-warm", "0.02") == [{"v": "A"}, {"v": "B"}]
    wait_until(lambda: not commands.sockets(), 60, "the end of the process")


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    client.runtime_folder().chmod(0o755)
    with pytest.raises(PipelineError, match="is open to other users"):
        client.runtime_folder()
