"""A broker as a process of its own: what the Tidelog and the Apache Kafka fixtures share.

A broker keeps its address over restarts, so that clients that stay connected find it again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from tidelog.testing.claimed_port import ClaimedPort

STOP_SECONDS_MAX = 180


class BrokerProcess:
    """Started with `start`, ended with `stop` (SIGTERM) or `kill` (SIGKILL), any number of times."""

    name: str
    clean_exit_codes: frozenset[int]

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        self.home = home
        self.settings = dict(settings)
        self.folders = [home / "data"]
        self.host = "127.0.0.1"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """The first log folder; most brokers have only this one."""
        return self.folders[0]

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def start(self) -> None:
        raise NotImplementedError

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """The process ends at once, as in a crash; what it wrote stays in the page cache."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """A clean end, which the broker confirms with its exit code."""
        code = self._signal(signal.SIGTERM)
        assert code in self.clean_exit_codes, f"{self.name} ended with {code}: {self.log_tail()}"

    def discard(self) -> None:
        """At the end of a test that failed or killed its broker on purpose."""
        if self.alive():
            self._signal(signal.SIGKILL)

    def log_tail(self) -> str:
        log = self.home / "broker.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-30:]) if log.exists() else "(no log)"

    def resident_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS in /proc")

    def _signal(self, number: int) -> int:
        assert self._process is not None, "the broker is not running"
        process, self._process = self._process, None
        if process.poll() is None:
            os.kill(process.pid, number)
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"{self.name} ignored signal {number} for {STOP_SECONDS_MAX} s: {self.log_tail()}"
            ) from None


CLAIMS_MAX = 300  # each takes a file descriptor; brokers of so many claims ago are listening, or gone
PORTS = (
    10_000,
    20_900,
)  # with the HTTP ports of `tidelog dev`, 1,000 above its brokers', below those of its etcd
_claims: deque[ClaimedPort] = deque()


def free_ports(apart: Sequence[int] = (0,)) -> int:
    """The first of some ports that lie so far from it, all claimed: a broker that is down keeps its address."""
    while True:
        # Tests may seed the shared generator, which would make two of them draw the same ports.
        first = random.SystemRandom().randrange(*PORTS)
        claims: list[ClaimedPort] = []
        try:
            for each in apart:
                claims.append(ClaimedPort(first + each))
        except OSError:
            for claim in claims:
                claim.release()
            continue
        _claims.extend(claims)
        while len(_claims) > CLAIMS_MAX:
            _claims.popleft().release()
        return first


def free_port() -> int:
    return free_ports()


def wait_until(reached: object, seconds: float, what: str, every: float = 0.05) -> None:
    """For states that are only visible from outside, such as a file or a background job's result."""
    assert callable(reached)
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(every)
