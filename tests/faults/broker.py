"""A Tidelog process that tests are cruel to: several data directories, limits of its own, a namespace with small disks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.process import free_port
from tests.conformance.tidelog_broker import TidelogBroker

STOPPED_SECONDS_MAX = 180
# What no broker may ever say: a bug of ours that a client or a disk has brought to light.
UNEXPECTED = re.compile(
    r"a handler failed|Traceback|never retrieved|never awaited|CRITICAL|Exception ignored|Fatal Python"
    r"|compaction in .* failed"
)


class FaultyBroker(TidelogBroker):
    """`command` is run behind `prefix`; the first of `dirs` holds the metadata."""

    def __init__(
        self,
        home: Path,
        settings: dict[str, str] | None = None,
        dirs: Sequence[Path] = (),
        prefix: Sequence[str] = (),
    ) -> None:
        super().__init__(home, settings or {})
        self.port = free_port()
        self.folders = list(dirs) or self.folders
        self.prefix = list(prefix)
        self.node: int | None = None
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        super().start()

    def command(self) -> list[str]:
        command = [*self.prefix, *super().command()]
        return command if self.node is None else [*command, "--id", str(self.node)]

    def spawn(self) -> None:
        """Starts it without waiting for anything."""
        with (self.home / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL
            )

    def run_to_its_end(self, seconds: float = 20) -> subprocess.CompletedProcess[str]:
        """For a start that has to be refused."""
        self.home.mkdir(parents=True, exist_ok=True)
        return subprocess.run(self.command(), capture_output=True, text=True, timeout=seconds)

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = STOPPED_SECONDS_MAX) -> int:
        """Its exit code, once it ends by itself or from a signal sent before."""
        assert self._process is not None, "the broker is not running"
        process, self._process = self._process, None
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"still running after {seconds} s: {self.log_tail()}") from None

    def log_text(self) -> str:
        log = self.home / "broker.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def unexpected(self) -> list[str]:
        """Lines of its log that tell of a bug, with what follows them."""
        lines = self.log_text().splitlines()
        return ["\n".join(lines[at : at + 30]) for at, line in enumerate(lines) if UNEXPECTED.search(line)][
            :3
        ]

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def health(self, path: str = "ready") -> tuple[int, str]:
        """Status and body of the health page."""
        try:
            with urllib.request.urlopen(f"http://{self.http}/health/{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read().decode()
