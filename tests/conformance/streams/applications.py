"""Kafka Streams applications from Apache Kafka's published jars: compiled by javac, run as processes, killed, started again.

The jars are in the folder that `TIDELOG_STREAMS_JARS` names, or in `.jars/` of the repository, where Maven puts them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

from tests.conformance.apache_kafka import JVM, VERSION
from tests.conformance.process import wait_until

SECONDS_MAX = 180
POM = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>kafka-streams</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId>
      <version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""


def jar_folder() -> Path:
    named = os.environ.get("TIDELOG_STREAMS_JARS")
    return Path(named) if named else Path(__file__).parents[3] / ".jars" / f"kafka-streams-{VERSION}"


def resolve_jars() -> str | None:
    """Have the jars, through Maven if need be; the reason when that is impossible."""
    if shutil.which("javac") is None:
        return "a JDK of Java 17 or newer is not installed (javac)"
    folder = jar_folder()
    if list(folder.glob("kafka-streams-*.jar")):
        return None
    if os.environ.get("TIDELOG_STREAMS_JARS") or shutil.which("mvn") is None:
        return f"no jars of Kafka Streams in {folder}, and Maven (mvn) is not there to fetch them"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        (Path(work) / "pom.xml").write_text(POM)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={work}/jars", "-DincludeScope=runtime"]
        fetched = subprocess.run(
            ["mvn", "-q", "-B", "-f", f"{work}/pom.xml", *goal], capture_output=True, text=True, timeout=300
        )
        if fetched.returncode:
            return f"Maven could not resolve Kafka Streams {VERSION}: {fetched.stdout[-2000:]}"
        if not folder.exists():
            (Path(work) / "jars").rename(folder)
    return None


def compiled(source: Path, classes: Path) -> Path:
    command = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{jar_folder()}/*", str(source)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert made.returncode == 0, made.stderr
    return classes


class StreamsInstance:
    """One process of an application; `start` after `kill` continues with the same state directory."""

    def __init__(
        self, home: Path, classes: Path, main_class: str, settings: dict[str, str], prefix: str
    ) -> None:
        self.home = home
        self.states: list[str] = []
        self.answers: list[str] = []
        self._classes = classes
        self._main_class = main_class
        self._prefix = prefix
        self._process: subprocess.Popen[str] | None = None
        home.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}" for name, value in settings.items()]
        (home / "application.properties").write_text("\n".join(lines))

    def start(self) -> None:
        self.states.clear()
        command = ["java", *JVM, "-cp", f"{self._classes}:{jar_folder()}/*", self._main_class]
        with (self.home / "stderr.log").open("a") as log:
            self._process = subprocess.Popen(
                [*command, str(self.home / "application.properties"), self._prefix],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            kind, _, rest = line.strip().partition(" ")
            if kind == "state":
                self.states.append(rest)
            elif kind == "got":
                self.answers.append(rest)

    def await_running(self) -> None:
        wait_until(self.is_running, SECONDS_MAX, f"{self.home.name} runs ({self.log_tail()})", every=0.2)

    def is_running(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.log_tail()
        return self.states[-1:] == ["RUNNING"]

    def get(self, key: str) -> tuple[str, str]:
        """(the instance that has the key, what this instance has of it)"""
        assert self._process is not None and self._process.stdin is not None
        count = len(self.answers)
        self._process.stdin.write(f"get {key}\n")
        self._process.stdin.flush()
        wait_until(lambda: len(self.answers) > count, 60, "the query is answered")
        answered, host, value = self.answers[-1].split(" ")
        assert answered == key
        return host, value

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def close(self) -> None:
        """As a user stops it; killed if it does not end."""
        if self._process is None or self._process.poll() is not None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(90)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def log_tail(self) -> str:
        return (self.home / "stderr.log").read_text(errors="replace")[-3000:]
