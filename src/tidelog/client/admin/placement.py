"""Where replicas should go: plans for moving partitions, as `tidelog partitions reassign` shows them before it acts.

Pure.  Bytes on the wire are what a move costs.  `remove_broker` moves what the broker has and nothing else; `balance`
and `spread` move a replica only where the counts of two brokers differ by two or more, or two replicas share a rack,
and the smallest partitions first.  The first replica of a partition is the one that leads when all is well, so
leaders are balanced by order, which costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Name = tuple[str, int]
Replicas = tuple[int, ...]


class PlacedPartition(NamedTuple):
    """A partition with its current replicas and its size in bytes, None when the size is unknown."""

    topic: str
    partition: int
    replicas: Replicas
    size: int | None = 0


class ReplicaMove(NamedTuple):
    topic: str
    partition: int
    before: Replicas
    after: Replicas
    size: int | None

    @property
    def copied_bytes(self) -> int | None:
        """The bytes to copy; None when the size is unknown."""
        new = len(set(self.after) - set(self.before))
        if not new:
            return 0
        return None if self.size is None else self.size * new


class PlacementImpossible(ValueError):
    """No plan is possible; the message says why."""


def remove_broker(
    places: Iterable[PlacedPartition], leaving: int, racks: Mapping[int, str | None]
) -> list[ReplicaMove]:
    """Each replica on `leaving` goes to the best of the other running brokers, which `racks` has.  Every other
    replica stays, even on a broker that is down, and only counts as load of its broker."""
    partitions = list(places)
    if leaving not in racks and not any(leaving in partition.replicas for partition in partitions):
        running = ", ".join(map(str, sorted(racks)))
        raise PlacementImpossible(
            f"broker {leaving} is not running and holds no replica: there are {running}"
        )
    loads = _Loads(partitions)
    moves = []
    # The largest first, while there is most choice; the rest evens out what they made uneven.
    for partition in sorted(partitions, key=lambda place: (-(place.size or 0), place.topic, place.partition)):
        if leaving in partition.replicas:
            moves.append(_without(partition, leaving, racks, loads))
    return sorted(moves, key=lambda move: (move.topic, move.partition))


class _Loads:
    """What each broker holds and leads: replicas, bytes, leaders."""

    def __init__(self, places: Iterable[PlacedPartition]) -> None:
        self.replicas: Counter[int] = Counter()
        self.bytes: Counter[int] = Counter()
        self.leads: Counter[int] = Counter()
        for partition in places:
            self.leads[partition.replicas[0]] += 1
            for node in partition.replicas:
                self.replicas[node] += 1
                self.bytes[node] += partition.size or 0


def _without(
    place: PlacedPartition, leaving: int, racks: Mapping[int, str | None], loads: _Loads
) -> ReplicaMove:
    stay = [node for node in place.replicas if node != leaving]
    free = [node for node in racks if node != leaving and node not in stay]
    if not free:
        left = sum(node != leaving for node in racks)
        raise PlacementImpossible(
            f"{place.topic}-{place.partition} has {len(place.replicas)} replicas, and {left} brokers would be left"
        )
    used = {racks[node] for node in stay if racks.get(node) is not None}
    new = min(free, key=lambda node: (racks[node] in used, loads.replicas[node], loads.bytes[node], node))
    loads.replicas[new] += 1
    loads.bytes[new] += place.size or 0
    after = [new if node == leaving else node for node in place.replicas]
    if place.replicas[0] == leaving:
        # One that has the records already may lead as well as the new one.
        first = min(after, key=lambda node: (node not in racks, loads.leads[node], node))
        after = [first, *(node for node in after if node != first)]
        loads.leads[first] += 1
    return ReplicaMove(place.topic, place.partition, place.replicas, tuple(after), place.size)


def balance(places: Iterable[PlacedPartition], racks: Mapping[int, str | None]) -> list[ReplicaMove]:
    """Spreads replicas and leaders evenly over the brokers in `racks`; replicas elsewhere move to them."""
    if not racks:
        raise PlacementImpossible("no broker would be left")
    partitions = sorted(places, key=lambda place: (place.topic, place.partition))
    smallest = sorted(partitions, key=lambda place: place.size or 0)
    placed = {(partition.topic, partition.partition): _kept(partition, racks) for partition in smallest}
    _level(placed, racks)
    _lead(placed)
    moves = []
    for partition in partitions:
        after = placed[partition.topic, partition.partition]
        if after != partition.replicas:
            moves.append(
                ReplicaMove(partition.topic, partition.partition, partition.replicas, after, partition.size)
            )
    return moves


def spread(
    places: Iterable[PlacedPartition], brokers: Sequence[int], racks: Mapping[int, str | None]
) -> list[ReplicaMove]:
    """Onto exactly these brokers."""
    missing = [node for node in brokers if node not in racks]
    if missing:
        raise PlacementImpossible(f"broker {missing[0]} is not running")
    return balance(places, {node: racks[node] for node in brokers})


def _kept(place: PlacedPartition, racks: Mapping[int, str | None]) -> Replicas:
    """The partition's replicas; each replica that must leave is replaced by the first free broker, for now."""
    if len(place.replicas) > len(racks):
        raise PlacementImpossible(
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
        improved = improved or _shift(placed, counts, racks)


def _shift(placed: dict[Name, Replicas], counts: Counter[int], racks: Mapping[int, str | None]) -> bool:
    """Where racks forbid a move from a full broker to an empty one, a third takes one from the first and gives one to
    the second.  True if that was possible."""
    for old in sorted(racks, key=lambda node: (-counts[node], node)):
        for new in sorted(racks, key=lambda node: (counts[node], node)):
            if counts[new] + 1 >= counts[old]:
                break
            for between in racks:
                first = _movable(placed, old, between, racks)
                taken = _movable(placed, between, new, racks)
                if first is not None and taken is not None and first != taken:
                    _replace(placed, first, old, between, counts)
                    _replace(placed, taken, between, new, counts)
                    return True
    return False


def _movable(
    placed: dict[Name, Replicas], old: int, new: int, racks: Mapping[int, str | None]
) -> Name | None:
    """The first partition of which a replica may go from one to the other."""
    for name, replicas in placed.items():
        if old in replicas and new not in replicas and _apart(replicas, old, new, racks):
            return name
    return None


def _apart(replicas: Replicas, old: int, new: int, racks: Mapping[int, str | None]) -> bool:
    """Moving `old` to `new` does not put two into one rack that were not."""
    used = {racks[node] for node in replicas if node != old and racks[node] is not None}
    return racks[new] not in used or racks[old] in used


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
    for node in sorted(racks, key=lambda node: (counts[node], node)):
        if counts[node] + 1 >= counts[old]:
            return None
        if node not in replicas and _apart(replicas, old, node, racks):
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
