"""The environment of a broker, passed in: clock, random numbers, sockets, disks, metadata store, compaction processes.

`system` is the machine this process runs on; the simulator in `tidelog.testing` has another."""

from __future__ import annotations

import resource
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random, SystemRandom

from tidelog.app.stores import open_store
from tidelog.clock import Clock, SystemClock
from tidelog.config import BrokerConfig
from tidelog.metadata.store import MetadataStore
from tidelog.net.network import Network, SystemNetwork
from tidelog.storage.compaction.runner import ProcessRunner, Runner
from tidelog.storage.disk import Disk, SystemDisk


@dataclass(frozen=True, slots=True)
class BrokerEnvironment:
    clock: Clock
    network: Network
    random: Random
    disk: Callable[[str], Disk]
    """One for each log directory, so that a slow one holds up nobody else."""
    store: Callable[[str], Awaitable[MetadataStore]]
    """Given the first log directory."""
    runner: Callable[[Disk], Runner]
    host_name: Callable[[], str]
    """What to tell clients when a listener is bound to every address and nothing is advertised."""
    http: bool
    descriptors_max: int
    """How many files and sockets may be open at a time."""


def system(config: BrokerConfig) -> BrokerEnvironment:
    clock, random = SystemClock(), SystemRandom()
    return BrokerEnvironment(
        clock=clock,
        network=SystemNetwork(),
        random=random,
        disk=lambda path: SystemDisk(),
        store=lambda folder: open_store(config, folder, clock, random),
        runner=lambda disk: ProcessRunner(),
        host_name=socket.gethostname,
        http=True,
        descriptors_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )
