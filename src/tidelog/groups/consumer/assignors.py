"""The server-side assignors of consumer groups, `uniform` and `range`: which member reads which partition.

Both assign every subscribed partition to exactly one of its subscribers.  `uniform` balances the number of partitions of
each member, and moves as few as possible; `range` gives each member a run of neighbouring partitions of every topic, the
same run for topics of equal size, so that equal keys of these topics meet.  The order of the input does not matter.
Racks are not considered, as in Kafka 4.3.  Pure.  `target_assignment` calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]

ROUNDS_MAX = 16


class MemberSubscription(NamedTuple):
    """A member: the topics it subscribes to (all exist), and the partitions of its last assignment."""

    id: str
    instance_id: str | None
    topics: frozenset[UUID]
    held: Partitions


Assignor = Callable[[Sequence[MemberSubscription], Mapping[UUID, int]], dict[str, Partitions]]


def assign_range(members: Sequence[MemberSubscription], counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    """`counts`: how many partitions each subscribed topic has."""
    # Static members come first, by instance id: a restart changes the member id, and must not move partitions.
    ordered = sorted(
        members,
        key=lambda member: (0, member.instance_id) if member.instance_id is not None else (1, member.id),
    )
    given: dict[str, dict[UUID, frozenset[int]]] = {member.id: {} for member in members}
    subscribers: dict[UUID, list[str]] = {}
    for subscriber in ordered:
        for topic in subscriber.topics:
            subscribers.setdefault(topic, []).append(subscriber.id)
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
    ordered = sorted(members, key=lambda member: member.id)
    if not ordered:
        return {}
    if all(member.topics == ordered[0].topics for member in ordered):
        return _assign_alike(ordered, counts)
    return _assign_unlike(ordered, counts)


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _assign_alike(members: Sequence[MemberSubscription], counts: Mapping[UUID, int]) -> dict[str, Partitions]:
    """All members subscribe to the same topics: their numbers of partitions differ by one at most."""
    topics = sorted(members[0].topics)
    free = {topic: set(range(counts[topic])) for topic in topics}
    held: dict[str, list[tuple[UUID, int]]] = {}
    for member in members:
        held[member.id] = _still_free(member, free)
    share, extra = divmod(sum(counts[topic] for topic in topics), len(members))
    # Members that hold more than the share get the larger quotas, so that fewer partitions move.
    larger = [member.id for member in members if len(held[member.id]) > share]
    smaller = [member.id for member in members if len(held[member.id]) <= share]
    quotas = {member: share + (at < extra) for at, member in enumerate([*larger, *smaller])}
    given: dict[str, dict[UUID, set[int]]] = {}
    members_by_count: list[list[str]] = []
    for member in members:
        kept, quota = held[member.id][: quotas[member.id]], quotas[member.id]
        for topic, partition in held[member.id][quota:]:
            free[topic].add(partition)
        given[member.id] = _by_topic(kept)
        for empty in range(quota - len(kept)):
            if empty == len(members_by_count):
                members_by_count.append([])
            members_by_count[empty].append(member.id)
    # Round-robin, so that the partitions of a busy topic do not all go to one member.
    turns = (member for row in members_by_count for member in row)
    for topic in topics:
        for partition in sorted(free[topic]):
            given[next(turns)].setdefault(topic, set()).add(partition)
    return _frozen(given)


def _assign_unlike(
    members: Sequence[MemberSubscription], counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    """Subscriptions differ: a partition goes to its least loaded subscriber, then partitions move while that balances."""
    subscribers: dict[UUID, list[str]] = {}
    for subscriber in members:
        for topic in subscriber.topics:
            subscribers.setdefault(topic, []).append(subscriber.id)
    free = {topic: set(range(counts[topic])) for topic in subscribers}
    given = {subscriber.id: _by_topic(_still_free(subscriber, free)) for subscriber in members}
    load = {member: sum(map(len, topics.values())) for member, topics in given.items()}
    # Topics with the most partitions per subscriber come first; the remaining topics then balance the load.
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
    """Moves partitions of this topic from the most to the least loaded subscriber; true if any moved."""
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


def _still_free(subscriber: MemberSubscription, free: Mapping[UUID, set[int]]) -> list[tuple[UUID, int]]:
    """Takes the partitions that the subscriber holds, still subscribes to, and that no one before has taken."""
    kept = []
    for topic in sorted(subscriber.held):
        if topic in subscriber.topics:
            for partition in sorted(subscriber.held[topic] & free[topic]):
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
