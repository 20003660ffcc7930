"""Starts etcd processes on free ports of this machine, for tests that kill and freeze them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.conformance.process import free_port

READY_SECONDS_MAX = 180
INSTALL = "apt-get install etcd-server"


def program() -> str:
    etcd = shutil.which("etcd")
    if etcd is None:
        pytest.fail(f"these tests need etcd: {INSTALL}")
    return etcd


class Member:
    """One member, with quick elections, so that the shortest lease is one second."""

    def __init__(self, home: Path, name: str, options: dict[str, str] | None = None) -> None:
        self.name = name
        self.home = home / name
        self.host = "127.0.0.1"
        self.port = free_port()
        self.peer_port = free_port()
        self.options = options or {}
        self.prefix: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def peer(self) -> str:
        return f"http://{self.host}:{self.peer_port}"

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def spawn(self, cluster: str) -> None:
        scheme = "https" if "cert-file" in self.options else "http"
        options = {
            "name": self.name,
            "data-dir": str(self.home),
            "listen-client-urls": f"{scheme}://{self.endpoint}",
            "advertise-client-urls": f"{scheme}://{self.endpoint}",
            "listen-peer-urls": self.peer,
            "initial-advertise-peer-urls": self.peer,
            "initial-cluster": cluster,
            "heartbeat-interval": "50",
            "election-timeout": "500",
            "log-level": "warn",
            "logger": "zap",
            **self.options,
        }
        self.home.parent.mkdir(parents=True, exist_ok=True)
        with Path(f"{self.home}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.prefix, program(), *(f"--{name}={value}" for name, value in options.items())],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "GOMAXPROCS": "2"},
            )

    def await_listening(self) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                socket.create_connection((self.host, self.port), 1).close()
                return
            except OSError:
                assert self._process is not None and self._process.poll() is None, self.log_tail()
                assert time.monotonic() < deadline, self.log_tail()
                time.sleep(0.02)

    def kill(self) -> None:
        """Kills the member at once, as by kill -9, even if it is frozen."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def log_tail(self) -> str:
        return "\n".join(Path(f"{self.home}.log").read_text(errors="replace").splitlines()[-20:])


class Etcd:
    """A cluster of etcd members; `stop` ends all that still run."""

    def __init__(self, home: Path, size: int = 1, options: dict[str, str] | None = None) -> None:
        self.members = [Member(home, f"etcd-{number}", options) for number in range(1, size + 1)]
        self._cluster = ",".join(f"{member.name}={member.peer}" for member in self.members)

    @property
    def endpoints(self) -> tuple[str, ...]:
        return tuple(member.endpoint for member in self.members)

    def start(self) -> None:
        """Starts the members that do not run."""
        starting = [member for member in self.members if not member.running]
        for member in starting:
            member.spawn(self._cluster)
        for member in starting:
            member.await_listening()

    def stop(self) -> None:
        for member in self.members:
            member.kill()
