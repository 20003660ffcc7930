"""Two or three faults at the same time, on machines and with offsets that a seed decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random

from tests.faults.networked_cluster import MACHINES, SIZE
from tests.faults.operated_cluster import OperatedCluster

PROCESS, DISK, ETCD = "process", "disk", "etcd"


@dataclass(frozen=True)
class Kind:
    strike: Callable[[OperatedCluster, int], AbstractContextManager[None]]
    parts: frozenset[str] = frozenset()
    """Of the machine.  Two faults at the same time do not share one."""
    everywhere: bool = False
    """The parts of all machines."""


def _kind(
    strike: Callable[[OperatedCluster, int], AbstractContextManager[None]],
    *parts: str,
    everywhere: bool = False,
) -> Kind:
    return Kind(strike, frozenset(parts), everywhere)


KINDS = {
    "killed": _kind(OperatedCluster.killed, PROCESS),
    "stopped": _kind(OperatedCluster.stopped, PROCESS),
    "frozen": _kind(OperatedCluster.frozen, PROCESS),
    "replaced": _kind(OperatedCluster.replaced, PROCESS, DISK),
    "killed and rotten": _kind(OperatedCluster.killed_and_rotten, PROCESS, DISK),
    "rotten": _kind(OperatedCluster.rotten, DISK),
    "disk full": _kind(OperatedCluster.disk_full, DISK),
    "unplugged": _kind(OperatedCluster.unplugged),
    "deaf": _kind(OperatedCluster.deaf),
    "mute": _kind(OperatedCluster.mute),
    "apart from one": _kind(OperatedCluster.apart),
    "half apart from one": _kind(OperatedCluster.half_apart),
    "without etcd": _kind(OperatedCluster.without_etcd, ETCD),
    "etcd killed": _kind(OperatedCluster.etcd_killed, ETCD),
    "etcd restored": _kind(OperatedCluster.etcd_restored, ETCD, everywhere=True),
    "moved": _kind(OperatedCluster.moved),
}
LOSING = ("replaced", "killed and rotten", "rotten")
"""Something of one replica is lost: others have to be whole."""

LEADER, CONTROLLER, ETCD_LEADER = "the leader", "the controller", "the leader of etcd"
SAME, ANOTHER = "the same machine", "another machine"


@dataclass(frozen=True)
class Fault:
    kind: str
    target: str
    after: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.target} {self.kind} after {self.after} s for {self.seconds} s"


@dataclass(frozen=True)
class Strike:
    """Faults that overlap."""

    faults: tuple[Fault, ...]
    heals: bool
    """Whether the next one waits until all replicas are in sync."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults)) + (", healed" if self.heals else "")

    @property
    def loses(self) -> bool:
        return any(fault.kind in LOSING for fault in self.faults)


def plan(seed: int, count: int) -> list[Strike]:
    """Every kind as often as any other, in pairs and sometimes three at a time."""
    random = Random(seed)
    deck = _deck(random)
    waiting: list[str] = []
    strikes: list[Strike] = []
    while len(strikes) < count:
        wanted = 3 if random.random() < 0.3 else 2
        kinds: list[str] = []
        while len(kinds) < wanted:
            kind = next((kind for kind in waiting if _together([*kinds, kind])), None)
            if kind is not None:
                waiting.remove(kind)
                kinds.append(kind)
            elif _together([*kinds, drawn := next(deck)]):
                kinds.append(drawn)
            else:
                waiting.append(drawn)
        strikes.append(_strike(random, kinds))
    return strikes


def _deck(random: Random) -> Iterator[str]:
    while True:
        yield from random.sample(list(KINDS), len(KINDS))


def _together(kinds: list[str]) -> bool:
    """Whether a whole replica is left of everything, and whether there are machines enough."""
    if len(set(kinds)) < len(kinds) or {"etcd restored", "without etcd"} <= set(kinds):
        return False
    if {"etcd restored", "etcd killed"} <= set(kinds):
        return False
    losing = sum(kind in LOSING for kind in kinds)
    return losing <= (1 if "moved" in kinds else 2)


def _strike(random: Random, kinds: list[str]) -> Strike:
    faults = []
    for number, kind in enumerate(kinds):
        target = random.choice((LEADER, CONTROLLER, *map(str, MACHINES)))
        if kind == "etcd killed":
            target = ETCD_LEADER
        elif number:
            target = SAME if random.random() < 0.35 else ANOTHER
        after = 0.0 if number == 0 else round(random.uniform(0, 2), 1)
        faults.append(Fault(kind, target, after, random.choice((0.3, 2.0, 3.5))))
    return Strike(tuple(faults), random.random() < 0.5)


def machines_of(strike: Strike, roles: dict[str, int]) -> list[int]:
    """The machine of each fault, where no two faults have the same part."""
    taken: set[tuple[int, str]] = set()
    machines: list[int] = []
    for fault in strike.faults:
        kind = KINDS[fault.kind]
        first = machines[0] if machines else 1
        wish = {SAME: first, ANOTHER: first % SIZE + 1, **roles}.get(fault.target) or int(fault.target)
        order = [(wish - 1 + step) % SIZE + 1 for step in range(SIZE)]
        free = (number for number in order if not any((number, part) in taken for part in kind.parts))
        machine = wish if kind.everywhere else next(free)
        taken.update((machine, part) for part in kind.parts)
        machines.append(machine)
    return machines


def strike_all(cluster: OperatedCluster, strikes: list[Strike], healed: Callable[[], None]) -> None:
    """Calls `healed` whenever all replicas are in sync after a strike."""
    for number, strike in enumerate(strikes, 1):
        if strike.loses:
            cluster.settle()
        roles = {
            LEADER: cluster.leader(),
            CONTROLLER: cluster.controller(),
            ETCD_LEADER: cluster.etcd_leader(),
        }
        machines, began = machines_of(strike, roles), time.monotonic()
        print(f"{number} at {time.strftime('%H:%M:%S')}: {strike} (machines {machines})")
        striking = [
            cluster.threads.submit(_strike_one, cluster, fault, machine)
            for fault, machine in zip(strike.faults, machines, strict=True)
        ]
        for each in striking:
            each.result()
        if strike.heals or strike.loses:
            cluster.wait_until_in_sync()
            cluster.wait_until_whole()
            healed()
        cluster.check_etcd()
        print(f"   over after {time.monotonic() - began:.1f} s")


def _strike_one(cluster: OperatedCluster, fault: Fault, machine: int) -> None:
    time.sleep(fault.after)
    with KINDS[fault.kind].strike(cluster, machine):
        time.sleep(fault.seconds)
