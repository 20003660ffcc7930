"""Which members of a share group read which partitions.

Every partition has a member, every member has a partition, loads differ by one at most, and members keep their
partitions where that allows it.  With more members than partitions, several members read the same partition: that is
what share groups are for.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

TopicPartition = tuple[UUID, int]
Assignment = dict[UUID, list[int]]


def assign(
    wanted: Mapping[str, frozenset[UUID]],
    partitions: Mapping[UUID, frozenset[int]],
    current: Mapping[str, frozenset[TopicPartition]],
    whole: frozenset[UUID] = frozenset(),
) -> dict[str, Assignment]:
    """`wanted` has the topics that each member subscribes to, `current` the partitions that each member has now.  Every
    member reads all partitions of topics that are `whole`."""
    if whole:
        rest = {member: topics - whole for member, topics in wanted.items()}
        assignment = assign(rest, {id: has for id, has in partitions.items() if id not in whole}, current)
        for member, topics in wanted.items():
            assignment[member] |= {id: sorted(partitions[id]) for id in topics & whole if id in partitions}
        return assignment
    members = sorted(wanted)
    every = [(topic, index) for topic in sorted(partitions, key=str) for index in sorted(partitions[topic])]
    readers = {
        partition: {member for member in members if partition[0] in wanted[member]} for partition in every
    }
    every = [partition for partition in every if readers[partition]]
    has: dict[str, set[TopicPartition]] = {member: set() for member in members}
    shared = dict.fromkeys(every, 0)
    _keep(has, shared, every, readers, current)
    for partition in every:
        if shared[partition] == 0:
            _give(
                has, shared, partition, min(sorted(readers[partition]), key=lambda member: len(has[member]))
            )
    for member in members:
        if not has[member]:
            own = [partition for partition in every if member in readers[partition]]
            if own:
                _give(has, shared, min(own, key=lambda partition: shared[partition]), member)
    return {member: _by_topic(has[member]) for member in members}


def _keep(
    has: dict[str, set[TopicPartition]],
    shared: dict[TopicPartition, int],
    every: list[TopicPartition],
    readers: Mapping[TopicPartition, set[str]],
    current: Mapping[str, frozenset[TopicPartition]],
) -> None:
    """Lets members keep what they have, up to a fair share: partitions for each member, or readers for each partition if
    there are more members; as many as the remainder get one more."""
    if not every or not has:
        return
    enough = len(every) >= len(has)
    fair, rest = divmod(len(every), len(has)) if enough else divmod(len(has), len(every))
    for member in has:
        for partition in sorted(current.get(member, ()), key=str):
            if partition not in shared or member not in readers[partition]:
                continue
            load, single = (
                (len(has[member]), shared[partition]) if enough else (shared[partition], len(has[member]))
            )
            if single or load > fair or (load == fair and rest == 0):
                continue
            rest -= load == fair
            _give(has, shared, partition, member)


def _give(
    has: dict[str, set[TopicPartition]],
    shared: dict[TopicPartition, int],
    partition: TopicPartition,
    member: str,
) -> None:
    has[member].add(partition)
    shared[partition] += 1


def _by_topic(partitions: set[TopicPartition]) -> Assignment:
    assignment: Assignment = {}
    for topic, index in sorted(partitions, key=lambda partition: (str(partition[0]), partition[1])):
        assignment.setdefault(topic, []).append(index)
    return assignment
