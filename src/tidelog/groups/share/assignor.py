"""Which members of a share group read which partitions.

Every partition has somebody, every member has something, loads differ by one at most, and whoever has a partition
keeps it where that allows.  With more members than partitions, several read the same one: that is what share groups
are for.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

TopicPartition = tuple[UUID, int]
Assignment = dict[UUID, list[int]]


def assign(
    wanted: Mapping[str, frozenset[UUID]],
    partitions: Mapping[UUID, frozenset[int]],
    current: Mapping[str, frozenset[TopicPartition]],
) -> dict[str, Assignment]:
    """`wanted` has the topics that each member subscribes to, `current` what it has now."""
    members = sorted(wanted)
    every = [(topic, index) for topic in sorted(partitions, key=str) for index in sorted(partitions[topic])]
    readers = {one: {member for member in members if one[0] in wanted[member]} for one in every}
    every = [one for one in every if readers[one]]
    has: dict[str, set[TopicPartition]] = {member: set() for member in members}
    shared = dict.fromkeys(every, 0)
    _keep(has, shared, every, readers, current)
    for one in every:
        if shared[one] == 0:
            _give(has, shared, one, min(sorted(readers[one]), key=lambda member: len(has[member])))
    for member in members:
        if not has[member]:
            own = [one for one in every if member in readers[one]]
            if own:
                _give(has, shared, min(own, key=lambda one: shared[one]), member)
    return {member: _by_topic(has[member]) for member in members}


def _keep(
    has: dict[str, set[TopicPartition]],
    shared: dict[TopicPartition, int],
    every: list[TopicPartition],
    readers: Mapping[TopicPartition, set[str]],
    current: Mapping[str, frozenset[TopicPartition]],
) -> None:
    """What members have already, up to what is fair: partitions for each, or readers of each when those are more, and
    one more for as many as there is a rest."""
    if not every or not has:
        return
    enough = len(every) >= len(has)
    fair, rest = divmod(len(every), len(has)) if enough else divmod(len(has), len(every))
    for member in has:
        for one in sorted(current.get(member, ()), key=str):
            if one not in shared or member not in readers[one]:
                continue
            load, single = (len(has[member]), shared[one]) if enough else (shared[one], len(has[member]))
            if single or load > fair or (load == fair and rest == 0):
                continue
            rest -= load == fair
            _give(has, shared, one, member)


def _give(
    has: dict[str, set[TopicPartition]], shared: dict[TopicPartition, int], one: TopicPartition, member: str
) -> None:
    has[member].add(one)
    shared[one] += 1


def _by_topic(partitions: set[TopicPartition]) -> Assignment:
    found: Assignment = {}
    for topic, index in sorted(partitions, key=lambda one: (str(one[0]), one[1])):
        found.setdefault(topic, []).append(index)
    return found
