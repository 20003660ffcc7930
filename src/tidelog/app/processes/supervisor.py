"""`tidelog serve --processes N`: N brokers as one unit, and the metadata store that they share.

The supervisor forks the processes, says `ready` once when all are, starts one that has ended again without touching the
others, and ends them all: the brokers first, so that they can say good-bye in the metadata."""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.app.processes.child import fork
from tidelog.app.processes.plan import with_known_ports

log = logging.getLogger("tidelog.processes")

STORE = "the metadata store"
LOOK_S = 0.2
RESTART_S_MIN = 0.5  # doubled after each end, until the process has lived for STABLE_S
RESTART_S_MAX = 60.0
STABLE_S = 60.0
END_S_MAX = 60.0
LINE_BYTES_MAX = 64 * 1024

RunBroker = Callable[[Mapping[str, str]], int]
RunStore = Callable[[], int]


class _Process:
    """A process of the unit: running, or to be started again at `next_start_s`."""

    def __init__(self, name: str, run: Callable[[], int]) -> None:
        self.name = name
        self.run = run
        self.pid = 0
        self.out = -1
        self.written = b""
        self.is_ready = False
        self.started_s = 0.0
        self.wait_s = RESTART_S_MIN
        self.next_start_s = 0.0

    def told(self) -> dict[str, str]:
        """`ready a=x b=y` as a dict; empty while it is not ready."""
        line, newline, _ = self.written.decode(errors="replace").partition("\n")
        words = line.split()
        if not newline or words[:1] != ["ready"]:
            return {}
        return dict(word.split("=", 1) for word in words[1:] if "=" in word)


class Ready(NamedTuple):
    kafka: str
    http: str
    ids: str


class Supervisor:
    def __init__(
        self, plans: Mapping[int, Mapping[str, str]], run_broker: RunBroker, run_store: RunStore | None
    ) -> None:
        """`plans`: node id -> settings."""
        self._settings = dict(plans)
        self._run_broker = run_broker
        self._store = None if run_store is None else _Process(STORE, run_store)
        self._brokers = {
            node: _Process(f"broker {node}", lambda node=node: self._run_broker(self._settings[node]))  # type: ignore[misc]
            for node in plans
        }
        self._asked = 0
        self._wakes, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def run(self, ready: Callable[[Ready], None]) -> int:
        """Until SIGINT or SIGTERM; the exit code."""
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        gc.collect()
        gc.freeze()  # what is loaded stays shared between the processes
        try:
            if not self._start_all():
                return 0 if self._asked else 1
            ready(self._addresses())
            self._look_after()
            return 0
        finally:
            self._stop_all()
            signal.set_wakeup_fd(-1)

    def _ask(self, *_: object) -> None:
        self._asked += 1

    @property
    def _all(self) -> list[_Process]:
        return [*([self._store] if self._store else []), *self._brokers.values()]

    # Starting

    def _start_all(self) -> bool:
        """False if one could not start, which has said why, or somebody has asked to stop."""
        if self._store is not None and not self._start_and_await([self._store]):
            return False
        return self._start_and_await(list(self._brokers.values()))

    def _start_and_await(self, processes: list[_Process]) -> bool:
        for process in processes:
            self._start(process)
        while not all(process.is_ready for process in processes):
            self._turn()
            if self._asked or any(not process.pid for process in self._all if process.started_s):
                return False
        return True

    def _start(self, process: _Process) -> None:
        descriptors = [other.out for other in self._all if other.out >= 0]
        process.written, process.is_ready = b"", False
        process.pid, process.out = fork(
            f"tidelog-{process.name.split()[-1]}",
            process.run,
            [*descriptors, self._wakes, self._wake],
            # The store outlives the brokers, which write into it that they end.
            signal.SIGHUP if process is self._store else signal.SIGTERM,
        )
        os.set_blocking(process.out, False)
        process.started_s = time.monotonic()

    def _addresses(self) -> Ready:
        told = [process.told() for process in self._brokers.values()]
        for node, addresses in zip(self._settings, told, strict=True):
            self._settings[node] = with_known_ports(
                self._settings[node], addresses["kafka"], addresses["http"]
            )
        return Ready(
            ",".join(addresses["kafka"] for addresses in told),
            told[0]["http"],
            ",".join(addresses["id"] for addresses in told),
        )

    # Looking after

    def _look_after(self) -> None:
        while not self._asked:
            self._turn()
            now_s = time.monotonic()
            for process in self._all:
                if not process.pid and now_s >= process.next_start_s:
                    log.warning("%s is started again", process.name)
                    self._start(process)

    def _turn(self) -> None:
        """Waits a little for what processes write, for their end, and for signals."""
        open_ones = {process.out: process for process in self._all if process.out >= 0}
        readable, _, _ = select.select([self._wakes, *open_ones], [], [], LOOK_S)
        for descriptor in readable:
            if descriptor == self._wakes:
                os.read(self._wakes, 4096)
            else:
                self._read(open_ones[descriptor])
        self._reap()

    def _read(self, process: _Process) -> None:
        piece = os.read(process.out, 4096)
        if not piece:
            self._close(process)
            return
        process.written = (process.written + piece)[:LINE_BYTES_MAX]
        if not process.is_ready and process.told():
            process.is_ready = True

    @staticmethod
    def _close(process: _Process) -> None:
        os.close(process.out)
        process.out = -1

    def _reap(self) -> None:
        for process in self._all:
            if not process.pid:
                continue
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                self._ended(process, os.waitstatus_to_exitcode(status))

    def _ended(self, process: _Process, code: int) -> None:
        process.pid = 0
        if process.out >= 0:
            self._close(process)  # a worker of it may have the other end for a moment longer
        if self._asked:
            return
        now_s = time.monotonic()
        if now_s - process.started_s >= STABLE_S:
            process.wait_s = RESTART_S_MIN
        process.next_start_s = now_s + process.wait_s
        process.wait_s = min(2 * process.wait_s, RESTART_S_MAX)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        log.error("%s %s", process.name, how)

    # Stopping

    def _stop_all(self) -> None:
        """A second signal kills: what is acknowledged is on disk, or with the operating system."""
        self._asked = max(self._asked, 1)
        self._end(list(self._brokers.values()))
        if self._store is not None:
            self._end([self._store])

    def _end(self, processes: list[_Process]) -> None:
        for process in processes:
            if process.pid:
                os.kill(process.pid, signal.SIGTERM)
                os.kill(process.pid, signal.SIGCONT)  # one that is frozen cannot end
        deadline = time.monotonic() + END_S_MAX
        while any(process.pid for process in processes):
            if self._asked > 1 or time.monotonic() > deadline:
                for process in processes:
                    if process.pid:
                        os.kill(process.pid, signal.SIGKILL)
            self._turn()


def say_ready(addresses: Ready) -> None:
    print(f"ready kafka={addresses.kafka} http={addresses.http} id={addresses.ids}", flush=True)
