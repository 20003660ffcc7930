"""Partition assignors of classic groups: the leader among the members computes which member reads which partition.
Pure.

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
        """Members read on during a rebalance, except from the partitions that they must revoke."""
        ...

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        """The user data that a member sends to the leader."""
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
        ordered = sorted(members, key=lambda member: member.order)
        out: Assignment = {member.member_id: [] for member in ordered}
        for topic, count in sorted(partitions.items()):
            readers = [member.member_id for member in ordered if topic in member.topics]
            share, more = divmod(count, len(readers)) if readers else (0, 0)
            at = 0
            for number, reader in enumerate(readers):
                size = share + (number < more)
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
        ordered = sorted(members, key=lambda member: member.order)
        out: Assignment = {member.member_id: [] for member in ordered}
        turn = 0
        for topic, count in sorted(partitions.items()):
            if not any(topic in member.topics for member in ordered):
                continue
            for index in range(count):
                while topic not in ordered[turn % len(ordered)].topics:
                    turn += 1
                out[ordered[turn % len(ordered)].member_id].append(TopicPartition(topic, index))
                turn += 1
        return out


class StickyAssignor:
    """As even as possible, while as many partitions as possible stay with their owner."""

    name = "sticky"
    cooperative = False

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        partitions = list(owned)
        return pack_sticky(partitions, generation) if partitions else None

    def assign(self, partitions: Mapping[str, int], members: Iterable[Subscriber]) -> Assignment:
        subscribers = list(members)
        owned = {member.member_id: unpack_sticky(member.user_data) for member in subscribers}
        return stick(partitions, {member.member_id: member.topics for member in subscribers}, owned)


class CooperativeStickyAssignor:
    """Sticky; a partition that must move is first revoked, and assigned to its new owner in the next rebalance."""

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes | None:
        return pack_cooperative(generation)

    def assign(self, partitions: Mapping[str, int], members: Iterable[Subscriber]) -> Assignment:
        subscribers = list(members)
        owned = {}
        for member in subscribers:
            generation = (
                member.generation
                if member.generation != NO_GENERATION
                else unpack_cooperative(member.user_data)
            )
            owned[member.member_id] = (list(member.owned), generation)
        out = stick(partitions, {member.member_id: member.topics for member in subscribers}, owned)
        # Every claim counts here, also one that lost: its reader has not let go yet.
        claims: dict[TopicPartition, set[str]] = {}
        for member in subscribers:
            for partition in member.owned:
                claims.setdefault(partition, set()).add(member.member_id)
        for member_id, assigned in out.items():
            out[member_id] = [
                partition for partition in assigned if not claims.get(partition, set()) - {member_id}
            ]
        return out


ASSIGNORS: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def assignors_of(strategies: str | Assignor | Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    """Assignors by name, or objects of the application; `ValueError` for an unknown name."""
    listed = (
        [strategies] if isinstance(strategies, str) or not isinstance(strategies, Iterable) else strategies
    )
    assignors: list[Assignor] = []
    for strategy in listed:
        if isinstance(strategy, str):
            if strategy not in ASSIGNORS:
                raise ValueError(
                    f"partition_assignment_strategy cannot be {strategy!r}: use {', '.join(ASSIGNORS)}, or an assignor "
                    "of your own"
                )
            assignors.append(ASSIGNORS[strategy]())
        else:
            assignors.append(strategy)
    if not assignors:
        raise ValueError("partition_assignment_strategy is empty: name at least one")
    return tuple(assignors)


def is_cooperative(assignors: Iterable[Assignor]) -> bool:
    """True only if all are: otherwise a member would keep partitions that an eager assignor gives to others."""
    return all(assignor.cooperative for assignor in assignors)
