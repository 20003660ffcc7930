"""Who of a classic group reads which partition, worked out by the member that leads it.  Pure.

`range`, `roundrobin`, `sticky` and `cooperative-sticky` by the names and meaning of Kafka's own, and with
their user data, so that a group may mix clients.  An assignor of one's own is an object with these three
members (`Assignor`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tidelog.client.groups.assignor_data import (
    pack_cooperative,
    pack_sticky,
    unpack_cooperative,
    unpack_sticky,
)
from tidelog.client.groups.sticky_assignor import stick
from tidelog.types import TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as its leader sees it."""

    member_id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    user_data: bytes | None = None
    instance_id: str | None = None
    rack: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """Static members first and by their own names, so that a restart of one moves nothing."""
        return (self.instance_id is None, self.instance_id or self.member_id)


Assignment = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """Deals out partitions in a classic group: `Consumer(..., partition_assignment_strategy=MyAssignor())`."""

    @property
    def name(self) -> str: ...

    @property
    def cooperative(self) -> bool:
        """Members keep reading through a rebalance what they do not have to give up."""
        ...

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        """What a member tells the leader of itself."""
        ...

    def assign(self, partitions: Mapping[str, int], members: Iterable[Subscriber]) -> Assignment:
        """`partitions`: how many each topic has."""
        ...


class RangeAssignor:
    """Each topic's partitions in one run per member, so that topics with equal numbers are read together."""

    name = "range"
    cooperative = False

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, partitions: Mapping[str, int], members: Iterable[Subscriber]) -> Assignment:
        ordered = sorted(members, key=lambda one: one.order)
        out: Assignment = {one.member_id: [] for one in ordered}
        for topic, count in sorted(partitions.items()):
            readers = [one.member_id for one in ordered if topic in one.topics]
            each, more = divmod(count, len(readers)) if readers else (0, 0)
            at = 0
            for number, reader in enumerate(readers):
                size = each + (number < more)
                out[reader] += [TopicPartition(topic, index) for index in range(at, at + size)]
                at += size
        return out


class RoundRobinAssignor:
    """All partitions of all topics dealt out in turn."""

    name = "roundrobin"
    cooperative = False

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, partitions: Mapping[str, int], members: Iterable[Subscriber]) -> Assignment:
        ordered = sorted(members, key=lambda one: one.order)
        out: Assignment = {one.member_id: [] for one in ordered}
        turn = 0
        for topic, count in sorted(partitions.items()):
            if not any(topic in one.topics for one in ordered):
                continue
            for index in range(count):
                while topic not in ordered[turn % len(ordered)].topics:
                    turn += 1
                out[ordered[turn % len(ordered)].member_id].append(TopicPartition(topic, index))
                turn += 1
        return out


class StickyAssignor:
    """As even as it can be, and as much as possible stays where it was."""

    name = "sticky"
    cooperative = False

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        partitions = list(owned)
        return pack_sticky(partitions, generation) if partitions else None

    def assign(self, partitions: Mapping[str, int], members: Iterable[Subscriber]) -> Assignment:
        known = list(members)
        owned = {one.member_id: unpack_sticky(one.user_data) for one in known}
        return stick(partitions, {one.member_id: one.topics for one in known}, owned)


class CooperativeStickyAssignor:
    """Sticky; what must move is first taken away, and given to its new reader in the rebalance after."""

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        return pack_cooperative(generation)

    def assign(self, partitions: Mapping[str, int], members: Iterable[Subscriber]) -> Assignment:
        known = list(members)
        owned = {}
        for one in known:
            generation = (
                one.generation if one.generation != NO_GENERATION else unpack_cooperative(one.user_data)
            )
            owned[one.member_id] = (list(one.owned), generation)
        out = stick(partitions, {one.member_id: one.topics for one in known}, owned)
        # Every claim counts here, also one that lost: its reader has not let go yet.
        claims: dict[TopicPartition, set[str]] = {}
        for one in known:
            for partition in one.owned:
                claims.setdefault(partition, set()).add(one.member_id)
        for member, assigned in out.items():
            out[member] = [one for one in assigned if not claims.get(one, set()) - {member}]
        return out


ASSIGNORS: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def assignors_of(strategies: str | Assignor | Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    """By name, or objects of one's own; `ValueError` when there is no such thing."""
    listed = (
        [strategies] if isinstance(strategies, str) or not isinstance(strategies, Iterable) else strategies
    )
    found: list[Assignor] = []
    for one in listed:
        if isinstance(one, str):
            if one not in ASSIGNORS:
                raise ValueError(
                    f"partition_assignment_strategy cannot be {one!r}: use {', '.join(ASSIGNORS)}, or an assignor "
                    "of your own"
                )
            found.append(ASSIGNORS[one]())
        else:
            found.append(one)
    if not found:
        raise ValueError("partition_assignment_strategy is empty: name at least one")
    return tuple(found)


def is_cooperative(assignors: Iterable[Assignor]) -> bool:
    """Only when all can: else a member would keep what another protocol takes from it."""
    return all(one.cooperative for one in assignors)
