"""The sticky assignment: as even as subscriptions allow, with as few moves as possible.  Pure.

Claims on partitions count by generation: of two members that say they own one, the later generation is right;
with equal generations neither is.  Then every free partition goes to its subscriber with the fewest partitions; and
while a member has two more than another subscriber, one partition moves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tidelog.types import TopicPartition


def stick(
    partitions: Mapping[str, int],
    topics: Mapping[str, Collection[str]],
    owned: Mapping[str, tuple[Sequence[TopicPartition], int]],
) -> dict[str, list[TopicPartition]]:
    """`partitions`: the count of each topic; `topics`: by member; `owned`: what each has, since when."""
    members = sorted(topics)
    subscribed = {member: set(topics[member]) for member in members}
    readers = {topic: [m for m in members if topic in subscribed[m]] for topic in partitions}
    out: dict[str, list[TopicPartition]] = {member: [] for member in members}
    owners = _owners(partitions, owned)
    for partition, member in owners.items():
        if member in subscribed and partition.topic in subscribed[member]:
            out[member].append(partition)
    taken = {partition for have in out.values() for partition in have}
    free = [
        TopicPartition(topic, index)
        for topic in sorted(partitions, key=lambda topic: (len(readers[topic]), topic))
        for index in range(partitions[topic])
        if readers[topic] and TopicPartition(topic, index) not in taken
    ]
    load = {member: len(have) for member, have in out.items()}
    for partition in free:
        member = min(readers[partition.topic], key=lambda member: load[member])
        out[member].append(partition)
        load[member] += 1
    _even_out(out, load, readers)
    return {member: sorted(have) for member, have in out.items()}


def _owners(
    partitions: Mapping[str, int], owned: Mapping[str, tuple[Sequence[TopicPartition], int]]
) -> dict[TopicPartition, str]:
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted(owned):
        claimed, generation = owned[member]
        for partition in dict.fromkeys(claimed):
            if not 0 <= partition.partition < partitions.get(partition.topic, 0):
                continue
            rival = claims.get(partition)
            if rival is None or generation > rival[0]:
                claims[partition] = (generation, member)
            elif generation == rival[0]:
                claims[partition] = (generation, None)
    return {partition: member for partition, (_, member) in claims.items() if member is not None}


def _even_out(
    out: dict[str, list[TopicPartition]], load: dict[str, int], readers: Mapping[str, Sequence[str]]
) -> None:
    """Every move takes from one that has at least two more, so the sum of squares falls and it ends."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(load, key=lambda member: -load[member]):
            moved = _give(giver, out, load, readers) or moved


def _give(
    giver: str,
    out: dict[str, list[TopicPartition]],
    load: dict[str, int],
    readers: Mapping[str, Sequence[str]],
) -> bool:
    gave = False
    for partition in reversed(list(out[giver])):
        takers = readers[partition.topic]
        taker = min(takers, key=lambda member: load[member])
        if load[giver] - load[taker] >= 2:
            out[giver].remove(partition)
            out[taker].append(partition)
            load[giver] -= 1
            load[taker] += 1
            gave = True
    return gave
