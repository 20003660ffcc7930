"""Workers as processes of their own, and their REST API."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.process import free_port, wait_until

TIDELOG = str(Path(sys.executable).parent / "tidelog")
SESSION_MS = 2_000
READY_S = 60
# A group notices quickly that a worker is gone.
BROKER = {
    "group.min.session.timeout.ms": "1000",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class Worker:
    """One worker; the group is that of its bootstrap servers and `group`."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        folder: Path,
        *more: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.log = folder / f"worker-{self.port}.log"
        self._command = [TIDELOG, "connect", "worker", "--bootstrap", bootstrap, "--group", group]
        self._command += ["--listen", f"127.0.0.1:{self.port}", "--slots", "6"]
        self._command += ["--session-timeout-ms", str(SESSION_MS), *more]
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None

    @property
    def id(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.id}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Worker:
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready rest="), self.log.read_text()[-3000:]
        return self

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(60)
        assert process.stdout is not None
        process.stdout.close()
        return code

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def create(self, name: str, **settings: Any) -> None:
        """`connector_class` is `connector.class`, and so on."""
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        status, answer = self.ask("POST", "/connectors", {"name": name, "config": config})
        assert status == 201, answer

    def status(self, name: str) -> Any:
        return self.ask("GET", f"/connectors/{name}/status")[1]

    def states(self, name: str) -> list[str]:
        return [task["state"] for task in self.status(name).get("tasks", [])]

    def runs(self, name: str) -> bool:
        states = self.states(name)
        return bool(states) and set(states) == {"RUNNING"}

    def wait_running(self, name: str) -> None:
        wait_until(lambda: self.runs(name), READY_S, f"{name} runs")

    def wait_failed(self, name: str, pattern: str) -> str:
        """Until a task has failed; its trace."""
        wait_until(lambda: "FAILED" in self.states(name), READY_S, f"{name} fails")
        trace = "\n".join(task.get("trace", "") for task in self.status(name)["tasks"])
        assert re.search(pattern, trace), trace
        return trace
