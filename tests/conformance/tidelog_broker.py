"""`tidelog serve` as a process of its own, the way a user starts it.

With TIDELOG_TEST_ETCD=host:port every broker keeps its metadata there, each below a root of its own.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.conformance.process import BrokerProcess, free_port

READY_SECONDS_MAX = 120  # a start takes half a second; a machine under load may take its time
READY = re.compile(rb"^ready kafka=(?P<kafka>\S+):(?P<port>\d+) http=(?P<http>\S+:\d+) id=(?P<id>\d+)\s*$")


class TidelogBroker(BrokerProcess):
    name = "tidelog"
    clean_exit_codes = frozenset({0})

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        super().__init__(home, settings)
        self.http = f"127.0.0.1:{free_port()}"

    def start(self) -> None:
        """Returns when the broker has said that it is ready; a restart takes the same ports again."""
        self.home.mkdir(parents=True, exist_ok=True)
        command = self.command()
        with (self.home / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL
            )
        ready = READY.match(self._first_line())
        assert ready, f"tidelog serve did not say that it is ready: {self.log_tail()}"
        self.port = int(ready["port"])
        self.http = ready["http"].decode()

    def command(self) -> list[str]:
        command = [str(Path(sys.executable).parent / "tidelog"), "serve"]
        command += ["--listen", self.bootstrap, "--http", self.http]
        for folder in self.folders:
            command += ["--data", str(folder)]
        etcd = os.environ.get("TIDELOG_TEST_ETCD")
        if etcd and "tidelog.metadata" not in self.settings:
            command += ["--metadata", f"etcd://{etcd}{self.home.resolve()}"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def _first_line(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        out, deadline = self._process.stdout, time.monotonic() + READY_SECONDS_MAX
        while not select.select([out], [], [], 0.2)[0]:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.discard()
                return b""
        return out.readline()
