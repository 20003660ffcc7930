"""Kafka Streams applications from Apache Kafka's jars: compiled by javac, run as processes, killed and started again."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path

from tests.conformance.apache_kafka import JVM
from tests.conformance.jvm.maven import STREAMS
from tests.conformance.process import wait_until

SECONDS_MAX = 180


def compiled(source: Path, classes: Path) -> Path:
    command = ["javac", "-nowarn", "-d", str(classes), "-cp", f"{STREAMS.path}/*", str(source)]
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
        command = ["java", *JVM, "-cp", f"{self._classes}:{STREAMS.path}/*", self._main_class]
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
