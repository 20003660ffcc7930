"""A real broker for tests: inside this process, on its own loop and thread, or as a child process.

The broker listens on a port of the loopback interface that is claimed for it, and keeps its data in a folder that is removed
with it.  It can be stopped, started again on the same port and data, and killed (as a child process only).
"""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Any

from tidelog.testing.claimed_port import ClaimedPort

READY = b"ready kafka="
READY_S_MAX = 30.0
STOP_S_MAX = 30.0
# Small topics, and no delays that only real clusters need.
SETTINGS = {
    "num.partitions": "1",
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class LocalBroker(ABC):
    """`bootstrap_servers`: the address for clients; it stays the same through `stop` and `start`."""

    host = "127.0.0.1"

    def __init__(self, settings: Mapping[str, str], folder: str, port: int) -> None:
        self.folder = folder
        self.port = port
        self._given = dict(settings)

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    @abstractmethod
    def running(self) -> bool: ...

    @abstractmethod
    def start(self) -> None:
        """Starts the broker; returns when it answers clients."""

    @abstractmethod
    def stop(self) -> None:
        """Stops the broker cleanly; does nothing if it does not run."""

    def restart(self) -> None:
        self.stop()
        self.start()

    def _settings(self) -> dict[str, str]:
        from tidelog.config import BROKER_SETTINGS

        defaults = {name: value for name, value in SETTINGS.items() if name in BROKER_SETTINGS}
        listening = {"listeners": f"PLAINTEXT://{self.bootstrap_servers}", "log.dirs": self.folder}
        return {**defaults, **self._given, **listening}


class InnerBroker(LocalBroker):
    """A broker on a thread of this process, ready in milliseconds."""

    def __init__(self, settings: Mapping[str, str], folder: str, port: int) -> None:
        super().__init__(settings, folder, port)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: asyncio.Event | None = None
        self._problem: BaseException | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        if self.running:
            return
        ready = threading.Event()
        self._problem = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name="tidelog-broker", daemon=True
        )
        self._thread.start()
        ready.wait()
        if self._problem is not None:
            self._thread.join()
            raise self._problem

    def stop(self) -> None:
        if self._thread is None:
            return
        if self._loop is not None and self._asked is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._asked.set)
        self._thread.join()
        self._thread = None
        if self._problem is not None:
            raise self._problem

    def _ended(self, ended: asyncio.Future[None]) -> None:
        assert self._asked is not None
        self._asked.set()

    async def _serve(self, ready: threading.Event) -> None:
        # A broker in its own process ends with that process; this one must end its thread itself.
        metadata = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tidelog-broker-metadata")
        try:
            await self._serve_until_asked(ready, metadata)
        except BaseException as problem:
            self._problem = problem
        finally:
            metadata.shutdown()
            ready.set()

    async def _serve_until_asked(self, ready: threading.Event, metadata: ThreadPoolExecutor) -> None:
        from tidelog.app.lifecycle import Broker
        from tidelog.app.stores import METADATA_FILE
        from tidelog.app.surroundings import system
        from tidelog.config import BrokerConfig
        from tidelog.errors import InvalidConfig
        from tidelog.metadata.sqlite.store import SqliteStore

        self._loop, self._asked = asyncio.get_running_loop(), asyncio.Event()
        config = BrokerConfig.of(self._settings())
        for is_warning, line in config.without_effect:
            if is_warning:  # a broker goes on; a test with a mistake must not
                raise InvalidConfig(line)
        around = system(config)

        async def store(folder: str) -> SqliteStore:
            os.makedirs(folder, exist_ok=True)
            return await SqliteStore.open(os.path.join(folder, METADATA_FILE), metadata, around.clock)

        broker = Broker(config, replace(around, http=False, store=store))
        await broker.start()
        broker.ended.add_done_callback(self._ended)
        ready.set()
        await self._asked.wait()
        await broker.stop()
        if broker.ended.done():
            broker.ended.result()


class ChildBroker(LocalBroker):
    """A broker in its own process (`tidelog serve`), with its log in `folder`, for tests that kill or pause it."""

    def __init__(self, settings: Mapping[str, str], folder: str, port: int) -> None:
        super().__init__(settings, os.path.join(folder, "data"), port)
        self._home = folder
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        assert self._child is not None, "start the broker first"
        return self._child.pid

    def start(self) -> None:
        if self.running:
            return
        command = [sys.executable, "-c", "from tidelog.cli import main; main()", "serve"]
        for name, value in {**self._settings(), "tidelog.http.listen": "127.0.0.1:0"}.items():
            command += ["--set", f"{name}={value}"]
        os.makedirs(self._home, exist_ok=True)
        with open(os.path.join(self._home, "broker.log"), "ab") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        first_line = _first_line(self._child.stdout, time.monotonic() + READY_S_MAX)
        if not first_line.startswith(READY):
            self.kill()
            raise RuntimeError(f"The broker did not start: {self.log()[-2000:]}")

    def stop(self) -> None:
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"The broker did not stop: {self.log()[-2000:]}") from None
        self._forget()

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._forget()

    def pause(self) -> None:
        """Pauses the process with SIGSTOP: connections stay open, and the broker does not answer."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def log(self) -> str:
        with open(os.path.join(self._home, "broker.log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def _forget(self) -> None:
        if self._child is not None and self._child.stdout is not None:
            self._child.stdout.close()
        self._child = None


def _first_line(out: IO[bytes] | None, deadline: float) -> bytes:
    assert out is not None
    readable, _, _ = select.select([out], [], [], max(0.0, deadline - time.monotonic()))
    return out.readline() if readable else b""


@contextmanager
def broker(
    settings: Mapping[str, str] | None = None, *, folder: str | os.PathLike[str] | None = None
) -> Iterator[InnerBroker]:
    """A broker inside this process, for the length of a `with` block.

        with tidelog.testing.broker() as broker:
            producer = Producer(bootstrap_servers=broker.bootstrap_servers)

    `settings` have Kafka's names (`{"num.partitions": "6"}`).  `folder`: the folder for the data, which is not removed.
    """
    with ClaimedPort() as claim, _home(folder) as home:
        inner = InnerBroker(settings or {}, home, claim.number)
        inner.start()
        try:
            yield inner
        finally:
            inner.stop()


@contextmanager
def child_broker(
    settings: Mapping[str, str] | None = None, *, folder: str | os.PathLike[str] | None = None
) -> Iterator[ChildBroker]:
    """A broker in its own process, which can be killed and paused."""
    with ClaimedPort() as claim, _home(folder) as home:
        child = ChildBroker(settings or {}, home, claim.number)
        child.start()
        try:
            yield child
        finally:
            child.kill()


@contextmanager
def _home(folder: str | os.PathLike[str] | None) -> Iterator[str]:
    if folder is not None:
        yield os.fspath(folder)
        return
    made: Any = tempfile.mkdtemp(prefix="tidelog-")
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
