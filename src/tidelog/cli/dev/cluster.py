"""A cluster on this machine in one folder: which processes it has, and how they are started and stopped.

`dev.json` tells everybody what runs.  `dev.lock` is held by the command that looks after the cluster.  The metadata are in
a store of one process, which needs nothing but Tidelog, or in etcd; `etcd.json` keeps the ports of etcd, which its members
remember and must get again."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any

from tidelog.cli.dev import processes
from tidelog.cli.dev.processes import Gone
from tidelog.cli.output import counted

HOST = "127.0.0.1"
HTTP_ABOVE = 1_000
PORTS = (22_000, 32_000)
READY_SECONDS_MAX = 60
ETCD_END_SECONDS_MAX = 1.0
ETCD_MISSING = (
    "etcd is not on the PATH: leave --etcd out, and the brokers share a metadata store of Tidelog; or install etcd 3.4 or "
    "newer (`apt-get install etcd-server`)"
)
STORE = "metadata store"
STORE_FOLDER = "metadata"


class DevRefused(Exception):
    """The cluster cannot be started or changed as asked; the text says why."""


class DevCluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._state = self.folder / "dev.json"

    # What runs

    def state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads(self._state.read_text())
        except FileNotFoundError:
            return {"brokers": [], "etcd": [], "store": []}
        except ValueError:
            raise DevRefused(
                f"{self._state} is damaged: end the processes that it lists (see ps), then remove the file"
            ) from None
        state.setdefault("store", [])
        return state

    @contextmanager
    def _changed_state(self) -> Iterator[dict[str, Any]]:
        """Several commands may change it at the same time."""
        with _locked(self.folder / "dev.json.lock", wait=True):
            state = self.state()
            yield state
            new = self._state.with_suffix(".new")
            new.touch(mode=0o600)  # the commands may have passwords in them
            new.write_text(json.dumps(state, indent=2) + "\n")
            new.replace(self._state)

    @contextmanager
    def looked_after(self) -> Iterator[None]:
        """By this command, and no other."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise DevRefused(f"the folder {self.folder} cannot be created: {_words(problem)}") from None
        with _locked(self.folder / "dev.lock", wait=False) as free:
            if not free:
                raise DevRefused(
                    f"another `tidelog dev` runs in {self.folder}: stop it, or use another folder"
                )
            yield

    def check_looked_after(self) -> None:
        if self.folder.is_dir():
            with _locked(self.folder / "dev.lock", wait=False) as free:
                if not free:
                    return
        raise DevRefused(f"no `tidelog dev` runs in {self.folder}: start it first")

    # Starting

    def start(
        self,
        brokers: int,
        port: int,
        etcd: int,
        settings: Mapping[str, str],
        add_scram: Sequence[str],
        wanted: Callable[[], bool],
    ) -> list[str]:
        """The brokers' addresses, once all are ready.  Gives up when `wanted` is not true any more."""
        self._check_same_metadata(etcd)
        program = shutil.which("etcd")
        if etcd and program is None:
            raise DevRefused(ETCD_MISSING)
        self.stop()  # what a killed command has left behind
        if program is not None and etcd:
            metadata = self._start_etcd(program, self._etcd_ports(etcd, range(port, port + brokers)), wanted)
        else:
            metadata = self._start_store(wanted)
        for number in range(1, brokers + 1):
            self._add_broker(number, port + number - 1, metadata, settings, add_scram)
        state = self.state()
        for broker in state["brokers"]:
            self._await_broker(broker, wanted)
        return [broker["kafka"] for broker in state["brokers"]]

    def _check_same_metadata(self, etcd: int) -> None:
        """The metadata of a cluster stay where its first start put them."""
        kept = self.folder / "etcd.json"
        before = len(json.loads(kept.read_text())) if kept.exists() else 0
        if before and before != etcd:
            raise DevRefused(
                f"the cluster in {self.folder} has {counted(before, 'etcd member')}: start it with --etcd {before}"
            )
        if etcd and (self.folder / STORE_FOLDER).exists():
            raise DevRefused(
                f"the cluster in {self.folder} has a metadata store of Tidelog: start it without --etcd, or use "
                "another folder"
            )

    def _start_store(self, wanted: Callable[[], bool]) -> str:
        command = [sys.executable, "-m", "tidelog", "metadata", "serve"]
        command += ["--data", str(self.folder / STORE_FOLDER)]
        log = self._log(STORE_FOLDER)
        out = log.with_suffix(".out")
        store = {"pid": processes.spawn(command, out, log), "command": command}
        with self._changed_state() as state:
            state["store"] = [store]
        self._await(STORE, store, lambda: _content(out).endswith("\n"), STORE_FOLDER, wanted)
        return _content(out).strip().removeprefix("ready metadata=")

    def restart_store(self, wanted: Callable[[], bool]) -> None:
        """Starts the metadata store that has ended; brokers connect to it again by themselves."""
        self._start_store(wanted)

    def _start_etcd(self, program: str, ports: list[list[int]], wanted: Callable[[], bool]) -> str:
        peers = [f"http://{HOST}:{peer}" for _, peer in ports]
        cluster = ",".join(f"etcd-{number}={peer}" for number, peer in enumerate(peers, 1))
        for number, (client, _) in enumerate(ports, 1):
            options = {
                "name": f"etcd-{number}",
                "data-dir": str(self.folder / f"etcd-{number}"),
                "listen-client-urls": f"http://{HOST}:{client}",
                "advertise-client-urls": f"http://{HOST}:{client}",
                "listen-peer-urls": peers[number - 1],
                "initial-advertise-peer-urls": peers[number - 1],
                "initial-cluster": cluster,
                # The shortest lease is 1.5 times the election timeout, in whole seconds: one here.
                "heartbeat-interval": "100",
                "election-timeout": "500",
                "auto-compaction-mode": "periodic",
                "auto-compaction-retention": "1h",
                "log-level": "warn",
                "logger": "zap",
            }
            command = [program, *(f"--{name}={value}" for name, value in options.items())]
            log = self._log(f"etcd-{number}")
            pid = processes.spawn(command, log.with_suffix(".out"), log)
            with self._changed_state() as state:
                state["etcd"].append({"pid": pid, "client": f"{HOST}:{client}", "command": command})
        for number, member in enumerate(self.state()["etcd"], 1):
            listening = partial(_listens, member["client"])
            self._await(f"etcd {number}", member, listening, f"etcd-{number}", wanted)
        return "etcd://" + ",".join(f"{HOST}:{client}" for client, _ in ports)

    def _etcd_ports(self, size: int, brokers: range) -> list[list[int]]:
        """[client's, peers'] of each member; the same as before, for they know each other by them."""
        kept = self.folder / "etcd.json"
        if kept.exists():
            ports: list[list[int]] = json.loads(kept.read_text())
            return ports
        free = _free_ports(2 * size, brokers)
        ports = [[client, peer] for client, peer in zip(free[::2], free[1::2], strict=True)]
        kept.write_text(json.dumps(ports))
        return ports

    def _add_broker(
        self, number: int, port: int, metadata: str, settings: Mapping[str, str], add_scram: Sequence[str]
    ) -> None:
        command = [sys.executable, "-m", "tidelog", "serve", "--id", str(number)]
        command += ["--listen", f"{HOST}:{port}", "--http", f"{HOST}:{port + HTTP_ABOVE}"]
        command += ["--data", str(self.folder / f"broker-{number}"), "--metadata", metadata]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        for entry in add_scram:
            command += ["--add-scram", entry]
        broker = {
            "id": number,
            "pid": self._spawn_broker(number, command),
            "kafka": f"{HOST}:{port}",
            "http": f"{HOST}:{port + HTTP_ABOVE}",
            "command": command,
        }
        with self._changed_state() as state:
            state["brokers"].append(broker)

    def _spawn_broker(self, number: int, command: list[str]) -> int:
        log = self._log(f"broker-{number}")
        return processes.spawn(command, log.with_suffix(".out"), log)

    def _await_broker(self, broker: Mapping[str, Any], wanted: Callable[[], bool]) -> str:
        """The line in which it says that it is ready."""
        name = f"broker-{broker['id']}"
        out = self._log(name).with_suffix(".out")
        self._await(f"broker {broker['id']}", broker, lambda: _content(out).endswith("\n"), name, wanted)
        return _content(out).strip()

    def _await(
        self,
        name: str,
        process: Mapping[str, Any],
        ready: Callable[[], bool],
        log: str,
        wanted: Callable[[], bool],
    ) -> None:
        def done() -> bool:
            if not wanted():
                raise DevRefused("stopped before it was ready")
            return ready()

        try:
            processes.await_ready(process["pid"], process["command"], done, self._log(log), READY_SECONDS_MAX)
        except Gone as problem:
            raise DevRefused(f"{name} did not start: {problem}") from None

    # Changing and stopping

    def restart(self, number: int) -> str:
        """Ends the broker if it runs, starts it, and returns what it says when it is ready."""
        self.check_looked_after()
        broker = next((one for one in self.state()["brokers"] if one["id"] == number), None)
        if broker is None:
            known = ", ".join(str(one["id"]) for one in self.state()["brokers"])
            raise DevRefused(f"broker {number} does not exist in {self.folder}: use one of {known}")
        processes.end([(broker["pid"], broker["command"])])
        broker["pid"] = self._spawn_broker(number, broker["command"])
        with self._changed_state() as state:
            for one in state["brokers"]:
                if one["id"] == number:
                    one["pid"] = broker["pid"]
        return self._await_broker(broker, lambda: True)

    def ended(self) -> dict[str, tuple[int, str]]:
        """(number of the process, what to do about it) of everything that should run and does not."""
        found = {}
        state = self.state()
        for store in state["store"]:
            found[STORE] = (store, "it is started again")
        for broker in state["brokers"]:
            hint = f"`tidelog dev restart {broker['id']} --data {self.folder}` starts it again"
            found[f"broker {broker['id']}"] = (broker, hint)
        for number, member in enumerate(state["etcd"], 1):
            found[f"etcd {number}"] = (member, f"its log is {self._log(f'etcd-{number}')}")
        for one, _ in found.values():
            processes.reap(one["pid"])
        return {
            name: (one["pid"], hint)
            for name, (one, hint) in found.items()
            if not processes.is_alive(one["pid"], one["command"])
        }

    def stop(self, patient: Callable[[], bool] = lambda: True) -> None:
        """Brokers first, so that they can end their registrations."""
        state = self.state()
        processes.end([(one["pid"], one["command"]) for one in state["brokers"]], patient)
        # A leader that is told to go looks for another one for seconds; all it knows is on disk already.
        members = [(one["pid"], one["command"]) for one in state["etcd"]]
        processes.end(members, patient, ETCD_END_SECONDS_MAX)
        processes.end([(store["pid"], store["command"]) for store in state["store"]], patient)
        self._state.unlink(missing_ok=True)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


@contextmanager
def _locked(path: Path, wait: bool) -> Iterator[bool]:
    """Whether it could be locked."""
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as problem:
        raise DevRefused(f"{path} cannot be opened: {_words(problem)}") from None
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            free = False
        else:
            free = True
        yield free
    finally:
        os.close(number)


def _words(problem: OSError) -> str:
    return os.strerror(problem.errno).lower() if problem.errno else str(problem)


def _content(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def _free_ports(count: int, taken: range) -> list[int]:
    """Below those that outgoing connections get, so that they are free at the next start too."""
    found: list[int] = []
    while len(found) < count:
        port = SystemRandom().randrange(*PORTS)
        if port in taken or port in found or port - HTTP_ABOVE in taken:
            continue
        try:
            socket.create_server((HOST, port)).close()
        except OSError:
            continue
        found.append(port)
    return found
