"""Machines of our own: network and mount namespaces joined by a bridge, whose links can be cut while processes run.

A namespace lives as long as a process that holds it, and the holder ends with the test run however that ends: there are
no names that could clash and nothing is left behind.  The bridge lies in a namespace of its own, and so do the clients.

A cut needs neither nft nor iptables nor modules for tc.  Both ways: the link goes down, as when a cable is pulled.  One
way: the sender is given a hardware address for the receiver that nobody has, so what it sends is lost without a word,
while what comes the other way arrives."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.disks import Namespace

NETWORK = "10.77.0"
HUB_ADDRESS = f"{NETWORK}.100"
BRIDGE = "hub0"
NOBODY = "02:00:00:00:00:01"
NEEDED = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux"}
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def broker_address(machine: int) -> str:
    return f"{NETWORK}.{machine}"


def etcd_address(machine: int) -> str:
    return f"{NETWORK}.{machine + 10}"


class Machine(Namespace):
    """A network and a mount namespace."""

    def __init__(self) -> None:
        # It ends when its standard input does, that is, with the test run.
        command = ["unshare", "--net", "--mount", "sh", "-c", "echo ready; exec cat"]
        self._holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"
        self.ip("link", "set", "lo", "up")

    @property
    def prefix(self) -> list[str]:
        """What runs behind it ends with the test run too."""
        inside = ["nsenter", "--target", str(self._holder.pid), "--net", "--mount", "--"]
        return ["setpriv", "--pdeathsig", "KILL", *inside]

    def ip(self, *words: str) -> None:
        done = subprocess.run([*self.prefix, "ip", *words], capture_output=True, text=True)
        assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread makes its sockets and threads inside; a client made here stays inside for good."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{self._holder.pid}/ns/net", os.O_RDONLY)
        try:
            _enter(there)
            try:
                yield
            finally:
                _enter(home)
        finally:
            os.close(there)
            os.close(home)

    def end(self) -> None:
        super().end()
        for pipe in (self._holder.stdin, self._holder.stdout):
            assert pipe is not None
            pipe.close()


class Network:
    """Machines 1 to `size`, each with an address for a broker and one for a member of etcd, and `hub` for clients."""

    def __init__(self, size: int) -> None:
        check_possible()
        self.hub = Machine()
        self.machines: dict[int, Machine] = {}
        # How many faults at the same time want each link to be down, and each address to be out of reach.
        self._unplugged: Counter[int] = Counter()
        self._lost: Counter[tuple[int | None, str]] = Counter()
        self._changing = threading.Lock()
        try:
            self.hub.ip("link", "add", BRIDGE, "type", "bridge")
            self.hub.ip("addr", "add", f"{HUB_ADDRESS}/24", "dev", BRIDGE)
            self.hub.ip("link", "set", BRIDGE, "up")
            for number in range(1, size + 1):
                self._add(number)
        except BaseException:
            self.end()
            raise

    def _add(self, number: int) -> None:
        machine = self.machines[number] = Machine()
        link = f"to-{number}"
        target = str(machine._holder.pid)
        self.hub.ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", target)
        self.hub.ip("link", "set", link, "master", BRIDGE, "up")
        machine.ip("addr", "add", f"{broker_address(number)}/24", "dev", "eth0")
        machine.ip("addr", "add", f"{etcd_address(number)}/24", "dev", "eth0")
        machine.ip("link", "set", "eth0", "up")

    @contextmanager
    def unplugged(self, machine: int) -> Iterator[None]:
        """Both ways, from everybody."""
        with self._changing:
            self._unplugged[machine] += 1
            self.hub.ip("link", "set", f"to-{machine}", "down")
        yield
        with self._changing:
            self._unplugged[machine] -= 1
            if not self._unplugged[machine]:
                self.hub.ip("link", "set", f"to-{machine}", "up")

    @contextmanager
    def losing(self, *ways: tuple[int | None, Iterable[str]]) -> Iterator[None]:
        """What each sender (None: the hub) sends to these addresses never arrives; what comes from there does."""
        lost = [(sender, address) for sender, addresses in ways for address in addresses]
        with self._changing:
            for sender, address in lost:
                self._lost[sender, address] += 1
                machine, device = self._sender(sender)
                machine.ip("neigh", "replace", address, "lladdr", NOBODY, "dev", device, "nud", "permanent")
        yield
        with self._changing:
            for sender, address in lost:
                self._lost[sender, address] -= 1
                if not self._lost[sender, address]:
                    machine, device = self._sender(sender)
                    machine.ip("neigh", "del", address, "dev", device)

    def _sender(self, number: int | None) -> tuple[Machine, str]:
        return (self.hub, BRIDGE) if number is None else (self.machines[number], "eth0")

    def end(self) -> None:
        for machine in (*self.machines.values(), self.hub):
            machine.end()


def check_possible() -> None:
    """Fails, and does not skip, where there can be no namespaces: a proof that did not run is none."""
    packages = sorted({package for tool, package in NEEDED.items() if shutil.which(tool) is None})
    if packages:
        pytest.fail(f"these tests need: apt-get install {' '.join(packages)}")
    probe = "ip link add one type veth peer name other && ip link add hub0 type bridge && mount -t tmpfs tmpfs /tmp"
    done = subprocess.run(["unshare", "--net", "--mount", "sh", "-c", probe], capture_output=True, text=True)
    if done.returncode != 0 or not Path("/proc/thread-self/ns/net").exists():
        pytest.fail(
            "these tests make network and mount namespaces with a bridge, which this machine does not let them "
            f"({done.stderr.strip()}): run them as root, in a container with CAP_NET_ADMIN and CAP_SYS_ADMIN "
            "(docker run --privileged), on a kernel with veth and bridge"
        )


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
