"""Where replicas should go: plans for moving partitions, as `tidelog partitions reassign` shows them before it acts.

Pure.  Every plan moves as little as it can: bytes on the wire are what a move costs.  The first replica of a partition
is the one that leads when all is well, so leaders are balanced by order, which costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Name = tuple[str, int]
Replicas = tuple[int, ...]


class Place(NamedTuple):
    """A partition as it is: who holds it, and how many bytes that are."""

    topic: str
    partition: int
    replicas: Replicas
    size: int = 0


class Move(NamedTuple):
    topic: str
    partition: int
    before: Replicas
    after: Replicas
    size: int

    @property
    def copied_bytes(self) -> int:
        """What has to be sent."""
        return self.size * len(set(self.after) - set(self.before))


class Impossible(ValueError):
    """No plan can do what was asked; the message says why."""


def remove_broker(places: Iterable[Place], leaving: int, racks: Mapping[int, str | None]) -> list[Move]:
    """`racks` are the brokers that stay or go, with their racks: every replica on `leaving` goes to the best other."""
    others = {node: rack for node, rack in racks.items() if node != leaving}
    return balance(places, others)


def balance(places: Iterable[Place], racks: Mapping[int, str | None]) -> list[Move]:
    """Spreads replicas and leaders evenly over the brokers in `racks`; replicas elsewhere move to them."""
    if not racks:
        raise Impossible("no broker would be left")
    known = sorted(places, key=lambda place: (place.topic, place.partition))
    placed = {(one.topic, one.partition): _kept(one, racks) for one in known}
    _level(placed, racks)
    _lead(placed)
    moves = []
    for one in known:
        after = placed[one.topic, one.partition]
        if after != one.replicas:
            moves.append(Move(one.topic, one.partition, one.replicas, after, one.size))
    return moves


def spread(places: Iterable[Place], brokers: Sequence[int], racks: Mapping[int, str | None]) -> list[Move]:
    """Onto exactly these brokers."""
    missing = [node for node in brokers if node not in racks]
    if missing:
        raise Impossible(f"broker {missing[0]} is not running")
    return balance(places, {node: racks[node] for node in brokers})


def _kept(place: Place, racks: Mapping[int, str | None]) -> Replicas:
    """Its replicas with those that must go replaced, for now by whoever comes first."""
    if len(place.replicas) > len(racks):
        raise Impossible(
            f"{place.topic}-{place.partition} has {len(place.replicas)} replicas, and {len(racks)} brokers would be left"
        )
    chosen = [node for node in place.replicas if node in racks]
    for node in sorted(racks):
        if len(chosen) == len(place.replicas):
            break
        if node not in chosen:
            chosen.append(node)
    return tuple(chosen)


def _level(placed: dict[Name, Replicas], racks: Mapping[int, str | None]) -> None:
    """Moves replicas one by one from the fullest brokers to the emptiest, and out of racks that a partition is in
    twice, until no move makes it better."""
    counts = Counter(dict.fromkeys(racks, 0))
    for replicas in placed.values():
        counts.update(replicas)
    for name in placed:
        _leave_shared_racks(placed, name, counts, racks)
    improved = True
    while improved:
        improved = False
        for name, replicas in placed.items():
            for old in replicas:
                new = _better(replicas, old, counts, racks)
                if new is not None:
                    _replace(placed, name, old, new, counts)
                    improved = True
                    break


def _leave_shared_racks(
    placed: dict[Name, Replicas], name: Name, counts: Counter[int], racks: Mapping[int, str | None]
) -> None:
    for old in placed[name][1:]:
        replicas = placed[name]
        shared = [node for node in replicas if node != old and racks[node] == racks[old]]
        if racks[old] is None or not shared:
            continue
        used = {racks[node] for node in replicas}
        free = [node for node in racks if node not in replicas and racks[node] not in used]
        if free:
            _replace(placed, name, old, min(free, key=lambda node: (counts[node], node)), counts)


def _better(
    replicas: Replicas, old: int, counts: Counter[int], racks: Mapping[int, str | None]
) -> int | None:
    """A broker with at least two fewer replicas that does not put two into one rack."""
    used = {racks[node] for node in replicas if node != old and racks[node] is not None}
    for node in sorted(racks, key=lambda node: (counts[node], node)):
        if counts[node] + 1 >= counts[old]:
            return None
        if node not in replicas and (racks[node] not in used or racks[old] in used):
            return node
    return None


def _replace(placed: dict[Name, Replicas], name: Name, old: int, new: int, counts: Counter[int]) -> None:
    placed[name] = tuple(new if node == old else node for node in placed[name])
    counts[old] -= 1
    counts[new] += 1


def _lead(placed: dict[Name, Replicas]) -> None:
    """Reorders replicas until leaders are spread evenly; nothing is copied for that."""
    leads = Counter(node for replicas in placed.values() for node in replicas)
    leads = Counter(dict.fromkeys(leads, 0))
    leads.update(replicas[0] for replicas in placed.values())
    improved = True
    while improved:
        improved = False
        for name, replicas in placed.items():
            first = replicas[0]
            best = min(replicas, key=lambda node: (leads[node], node))
            if leads[best] + 1 < leads[first]:
                placed[name] = (best, *(node for node in replicas if node != best))
                leads[first] -= 1
                leads[best] += 1
                improved = True
