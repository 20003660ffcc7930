"""Which member of a consumer group reads which partition: the assignors that brokers bring, `uniform` and `range`.

Both give every partition that somebody subscribes to to exactly one of its subscribers.  `uniform` evens out how many
partitions members have and moves as few as that takes; `range` gives each member a run of neighbouring partitions of
every topic, the same run for topics of one size, so that keys meet across topics.  The same members, subscriptions and
partitions give the same assignment, in whatever order they come.  Racks play no part, as in Kafka 4.3.
Pure.  `target_assignment` calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]

ROUNDS_MAX = 16


class MemberSubscription(NamedTuple):
    """A member: the topics it wants (all exist), and the partitions it was assigned last."""

    id: str
    instance_id: str | None
    topics: frozenset[UUID]
    held: Partitions


Assignor = Callable[[Sequence[MemberSubscription], Mapping[UUID, int]], dict[str, Partitions]]


def assign_range(members: Sequence[MemberSubscription], counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    """`counts`: how many partitions each subscribed topic has."""
    # Static members come first, by their instance id: a restart, which changes the member id, moves nothing.
    ordered = sorted(
        members, key=lambda one: (0, one.instance_id) if one.instance_id is not None else (1, one.id)
    )
    given: dict[str, dict[UUID, frozenset[int]]] = {one.id: {} for one in members}
    subscribers: dict[UUID, list[str]] = {}
    for one in ordered:
        for topic in one.topics:
            subscribers.setdefault(topic, []).append(one.id)
    for topic, ids in subscribers.items():
        share, extra = divmod(counts[topic], len(ids))
        start = 0
        for at, member in enumerate(ids):
            end = start + share + (at < extra)
            if start < end:
                given[member][topic] = frozenset(range(start, end))
            start = end
    return dict(given)


def assign_uniform(
    members: Sequence[MemberSubscription], counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """`counts`: how many partitions each subscribed topic has."""
    ordered = sorted(members, key=lambda one: one.id)
    if not ordered:
        return {}
    if all(one.topics == ordered[0].topics for one in ordered):
        return _assign_alike(ordered, counts)
    return _assign_unlike(ordered, counts)


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _assign_alike(members: Sequence[MemberSubscription], counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    """All subscribe to the same: nobody gets more than one partition more than anybody else."""
    topics = sorted(members[0].topics)
    free = {topic: set(range(counts[topic])) for topic in topics}
    held: dict[str, list[tuple[UUID, int]]] = {}
    for one in members:
        held[one.id] = _still_free(one, free)
    share, extra = divmod(sum(counts[topic] for topic in topics), len(members))
    # Who has more than the share already keeps it, as far as that goes: so fewer partitions move.
    larger = [one.id for one in members if len(held[one.id]) > share]
    smaller = [one.id for one in members if len(held[one.id]) <= share]
    quotas = {member: share + (at < extra) for at, member in enumerate([*larger, *smaller])}
    given: dict[str, dict[UUID, set[int]]] = {}
    room: list[list[str]] = []
    for one in members:
        kept, quota = held[one.id][: quotas[one.id]], quotas[one.id]
        for topic, partition in held[one.id][quota:]:
            free[topic].add(partition)
        given[one.id] = _by_topic(kept)
        for empty in range(quota - len(kept)):
            if empty == len(room):
                room.append([])
            room[empty].append(one.id)
    # In turns, so that the partitions of a busy topic do not all go to one member.
    turns = (member for row in room for member in row)
    for topic in topics:
        for partition in sorted(free[topic]):
            given[next(turns)].setdefault(topic, set()).add(partition)
    return _frozen(given)


def _assign_unlike(
    members: Sequence[MemberSubscription], counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """Subscriptions differ: a partition goes to the subscriber with the least, and then moves while that evens out."""
    subscribers: dict[UUID, list[str]] = {}
    for one in members:
        for topic in one.topics:
            subscribers.setdefault(topic, []).append(one.id)
    free = {topic: set(range(counts[topic])) for topic in subscribers}
    given = {one.id: _by_topic(_still_free(one, free)) for one in members}
    load = {member: sum(map(len, topics.values())) for member, topics in given.items()}
    # The topics that weigh most on their subscribers come first; what is left then evens out what they did.
    topics = sorted(
        subscribers,
        key=lambda topic: (-counts[topic] / len(subscribers[topic]), len(subscribers[topic]), topic),
    )
    for topic in topics:
        queue = [(load[member], member) for member in subscribers[topic]]
        heapify(queue)
        for partition in sorted(free[topic]):
            member = queue[0][1]
            given[member].setdefault(topic, set()).add(partition)
            load[member] += 1
            heapreplace(queue, (load[member], member))
    for _ in range(ROUNDS_MAX):
        moved = [_even_out(topic, subscribers[topic], given, load) for topic in topics]
        if not any(moved):
            break
    return _frozen(given)


def _even_out(
    topic: UUID, subscribers: Sequence[str], given: dict[str, dict[UUID, set[int]]], load: dict[str, int]
) -> bool:
    """Moves partitions of this topic from who has most to who has least; true if any moved."""
    if len(subscribers) < 2:
        return False
    moved = False
    while True:
        least = min(subscribers, key=lambda member: (load[member], member))
        most = max(
            (member for member in subscribers if given[member].get(topic)),
            key=lambda member: (load[member], member),
            default=least,
        )
        if load[most] - load[least] <= 1:
            return moved
        partition = max(given[most][topic])
        given[most][topic].discard(partition)
        given[least].setdefault(topic, set()).add(partition)
        load[most] -= 1
        load[least] += 1
        moved = True


def _still_free(one: MemberSubscription, free: Mapping[UUID, set[int]]) -> list[tuple[UUID, int]]:
    """What it holds, still wants, and nobody before it has taken; it is taken now."""
    kept = []
    for topic in sorted(one.held):
        if topic in one.topics:
            for partition in sorted(one.held[topic] & free[topic]):
                free[topic].discard(partition)
                kept.append((topic, partition))
    return kept


def _by_topic(places: Iterable[tuple[UUID, int]]) -> dict[UUID, set[int]]:
    topics: dict[UUID, set[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, set()).add(partition)
    return topics


def _frozen(given: Mapping[str, Mapping[UUID, set[int]]]) -> dict[str, Partitions]:
    return {
        member: {topic: frozenset(partitions) for topic, partitions in topics.items() if partitions}
        for member, topics in given.items()
    }
